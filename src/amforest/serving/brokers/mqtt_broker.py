"""MQTT 5: messages of a topic with quality of service 1; predictions and rejects on other topics.

MQTT brokers keep messages only until they are acknowledged, send few that are not (mosquitto: 20),
and number them for one connection only. So each message is written to a journal and synced to the
disk, then acknowledged; the journal gives it a number, and is cleared once a checkpoint has its
messages. A message that the broker sends again, because the process was killed between the two, has
the flag DUP, and the packet id, topic and payload of one of the last messages: it is dropped.
"""

from __future__ import annotations

import json
import queue
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from amforest.serving.brokers.messages import (
    BrokerError,
    Message,
    RejectedMessage,
    read_payload,
)
from amforest.serving.journal import Journal

JOURNAL = "messages.journal"
MOST_IN_FLIGHT = 1_000  # messages that the broker sends before the first is acknowledged
FLUSH_SECONDS = 5.0
_FOR_EVER = 0xFFFFFFFF  # seconds for which a broker keeps the session
_PORTS = {"mqtt": 1883, "mqtts": 8883}
# Reason codes that the user must do something about.
_REFUSED = {132, 133, 134, 135, 138, 140}
_TAKEN_OVER = 142


class _Received(NamedTuple):
    connection: int  # the number of the connection it came on
    message: mqtt.MQTTMessage


class MqttBroker:
    """A topic of MQTT, read by one client with a session that outlives it.

    The position is the number of a message in the journal.

    Parameters
    ----------
    url : str
        ``mqtt://`` or ``mqtts://``, with a user and a password where needed.
    topic : str
        The filter of topics to read, such as ``sensors/#``.
    client_id : str
    output, rejects : str or None
        The topics for predictions and for rejected messages; None writes none.
    folder : Path
        Of the journal.
    """

    def __init__(
        self,
        url: str,
        *,
        topic: str,
        client_id: str,
        output: str | None,
        rejects: str | None,
        folder: Path,
    ) -> None:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"the broker is {url!r}; expected such as mqtt://127.0.0.1:1883")
        self._host, self._port = parts.hostname, parts.port or _PORTS[parts.scheme]
        self.name = f"{parts.scheme}://{self._host}:{self._port}"
        self.source = {"--topic": topic, "--name": client_id}
        self._topic, self._output, self._rejects = topic, output, rejects
        self._path = folder / JOURNAL
        self._journal: Journal | None = None
        self._number = 0  # of the newest message in the journal
        self._backlog: deque[Message] = deque()  # of the journal, from before
        self._recent: deque[tuple[int, str]] = deque(maxlen=MOST_IN_FLIGHT)
        self._received: queue.SimpleQueue[_Received] = queue.SimpleQueue()
        self._changed = threading.Condition()  # guards what follows, which the network thread sets
        self._connection = 0
        self._away: str | None = "not connected yet"
        self._refusal: str | None = None
        self._n_published = self._n_confirmed = 0
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=mqtt.MQTTv5,
            manual_ack=True,
        )
        if parts.username:
            self._client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        if parts.scheme == "mqtts":
            self._client.tls_set_context(ssl.create_default_context())
        self._client.reconnect_delay_set(min_delay=1, max_delay=30)
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.on_publish = self._on_publish

    # The network thread

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        with self._changed:
            if reason.is_failure:
                self._away = str(reason)
                if reason.value in _REFUSED:
                    self._refusal = f"refuses the connection: {reason}"
                return
            self._connection += 1
            self._away = None
            self._changed.notify_all()
        # Neither messages that the broker retains, which may be old, nor our own ones.
        options = SubscribeOptions(qos=1, noLocal=True, retainHandling=2)
        self._client.subscribe(self._topic, options=options)

    def _on_connect_fail(self, client: Any, data: Any) -> None:
        with self._changed:
            self._away = "the connection fails"

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        with self._changed:
            self._away = f"the connection ended: {reason}"
            if reason.value == _TAKEN_OVER:
                name = self.source["--name"]
                self._refusal = f"has another client {name!r}: give this one another --name"

    def _on_subscribe(self, client: Any, data: Any, mid: int, reasons: Any, more: Any) -> None:
        failed = [reason for reason in reasons if reason.is_failure]
        if failed:
            with self._changed:
                self._refusal = f"refuses to send {self._topic!r}: {failed[0]}"

    def _on_message(self, client: Any, data: Any, message: mqtt.MQTTMessage) -> None:
        self._received.put(_Received(self._connection, message))

    def _on_publish(self, client: Any, data: Any, mid: int, reason: Any, more: Any) -> None:
        with self._changed:
            if reason.is_failure:
                self._refusal = f"refuses a prediction: {reason}"
            self._n_confirmed += 1
            self._changed.notify_all()

    # Messages

    def open(self, position: Any, state: Any) -> None:
        """Read the journal, and connect; the client connects again by itself."""
        if self._journal is None:
            self._number = position or 0
            self._recent.extend((mid, digest) for mid, digest in state or ())
            self._journal = Journal(self._path)
            for number, data in self._journal.entries():
                if number <= self._number:  # the checkpoint has it
                    continue
                mid, topic, payload = _decode(data)
                self._number = number
                if mid:
                    self._recent.append((mid, _digest(topic, payload)))
                self._backlog.append(read_payload(number, str(number), payload))
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = _FOR_EVER
            properties.ReceiveMaximum = MOST_IN_FLIGHT
            self._client.connect_async(
                self._host, self._port, clean_start=False, properties=properties
            )
            self._client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._away is None, FLUSH_SECONDS)
        self._check()

    def _check(self) -> None:
        if self._refusal is not None:
            raise ValueError(f"{self.name} {self._refusal}")
        if self._away is not None:
            raise BrokerError(self._away)

    def fetch(self, n_messages: int, seconds: float) -> list[Message]:
        """Return the next messages, which are in the journal by then."""
        if self._backlog:
            return [self._backlog.popleft() for _ in range(min(n_messages, len(self._backlog)))]
        received = self._wait(n_messages, seconds)
        if not received:
            self._check()
        messages: list[Message] = []
        entries: list[tuple[int, bytes]] = []
        for _, message in received:
            payload = bytes(message.payload)
            key = message.mid, _digest(message.topic, payload)
            if message.qos and message.dup and key in self._recent:
                continue  # sent again
            if message.qos:
                self._recent.append(key)
            self._number += 1
            entries.append((self._number, _encode(message)))
            messages.append(read_payload(self._number, str(self._number), payload))
        assert self._journal is not None
        if entries:
            self._journal.append(entries)
        for connection, message in received:
            # Packet ids of another connection may be those of other messages.
            if message.qos and connection == self._connection:
                self._client.ack(message.mid, message.qos)
        return messages

    def _wait(self, n_messages: int, seconds: float) -> list[_Received]:
        received: list[_Received] = []
        try:
            received.append(self._received.get(timeout=seconds))
            while len(received) < n_messages:
                received.append(self._received.get_nowait())
        except queue.Empty:
            pass
        return received

    def publish(
        self, predictions: Sequence[dict[str, Any]], rejects: Sequence[RejectedMessage]
    ) -> None:
        """Send predictions and rejected messages; `flush` waits until they have arrived."""
        if self._output is not None:
            for values in predictions:
                self._send(self._output, values)
        if self._rejects is not None:
            for r in rejects:
                values = {"id": r.message.id, "reason": r.reason, "message": r.message.text}
                self._send(self._rejects, values)

    def _send(self, topic: str, values: dict[str, Any]) -> None:
        self._n_published += 1
        self._client.publish(topic, json.dumps(values, ensure_ascii=False), qos=1)

    def flush(self) -> None:
        """Wait until the broker has confirmed all that was sent."""
        with self._changed:
            is_done = self._changed.wait_for(
                lambda: self._n_confirmed >= self._n_published, FLUSH_SECONDS
            )
        if self._refusal is not None or not is_done:
            self._check()
            raise BrokerError("predictions are not confirmed")

    def state(self) -> list[list[Any]]:
        """Return by which the last messages are recognised."""
        return [list(key) for key in self._recent]

    def acknowledge(self) -> None:
        """Clear the journal."""
        if self._journal is not None and not self._backlog:
            self._journal.clear()

    def close(self) -> None:
        """Close the connection, and let the broker keep the session."""
        if self._away is None:
            end = time.monotonic() + FLUSH_SECONDS
            while self._client.want_write() and time.monotonic() < end:
                time.sleep(0.01)  # acknowledgements are on their way
        self._client.disconnect()
        self._client.loop_stop()
        if self._journal is not None:
            self._journal.close()


def _digest(topic: str, payload: bytes) -> str:
    return sha256(topic.encode() + b"\0" + payload).hexdigest()[:32]


def _encode(message: mqtt.MQTTMessage) -> bytes:
    """Return an entry of the journal."""
    mid = message.mid if message.qos else 0
    return json.dumps([mid, message.topic]).encode() + b"\n" + message.payload


def _decode(data: bytes) -> tuple[int, str, bytes]:
    """Undo `_encode`."""
    head, _, payload = data.partition(b"\n")
    mid, topic = json.loads(head)
    return mid, topic, payload
