"""Redis Streams: entries of a consumer group; predictions and rejected entries in other streams."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis

from amforest.reading.ndjson_parser import JsonObject, Literal
from amforest.serving.brokers.messages import (
    BrokerError,
    Message,
    RejectedMessage,
    read_payload,
)

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 30.0
# Errors of a server that will work again without help from the user of this command.
_PASSING = (
    "LOADING", "BUSY", "OOM", "READONLY", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
    "UNBLOCKED",
)  # fmt: skip
_AT_ONCE = 1_000  # commands in a pipeline


class RedisBroker:
    """A stream of Redis, read by one consumer of a group.

    The position is the id of an entry. Redis keeps what it has delivered to this consumer until it
    is acknowledged; after a restart, or an error, these entries are read again first.

    Parameters
    ----------
    url : str
        ``redis://``, ``rediss://`` or ``unix://``, as redis-py takes it.
    stream, group, consumer : str
    output, rejects : str or None
        The streams for predictions and for rejected entries; None writes none.
    json_field : str or None
        The field of an entry that holds the row as a JSON object. None: its fields are the row.
    """

    def __init__(
        self,
        url: str,
        *,
        stream: str,
        group: str,
        consumer: str,
        output: str | None,
        rejects: str | None,
        json_field: str | None = None,
    ) -> None:
        if stream in (output, rejects):
            raise ValueError(
                f"--output and --rejects must differ from --stream, which is {stream!r}"
            )
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.source = {"--stream": stream, "--group": group, "--name": consumer}
        self._stream, self._group, self._consumer = stream, group, consumer
        self._output, self._rejects, self._json_field = output, rejects, json_field
        self._redis: Any = redis.Redis.from_url(
            url,
            protocol=2,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            socket_keepalive=True,
        )
        self._last = (0, 0)  # the newest id that was fetched
        self._reads_again = True  # what was delivered before, but not acknowledged
        self._fetched: list[bytes] = []  # ids to acknowledge

    def open(self, position: Any, state: Any) -> None:
        """Create the group if needed, and acknowledge what the checkpoint has."""
        self._last, self._reads_again = _parse_id(position or "0-0"), True
        self._create_group()
        while done := self._delivered(after="0"):
            ids = [id_ for id_, _ in done if _parse_id(id_) <= self._last]
            with self._errors():
                if ids:
                    self._redis.xack(self._stream, self._group, *ids)
            if len(ids) < len(done):
                return

    def _create_group(self) -> None:
        try:
            with self._errors():
                self._redis.xgroup_create(self._stream, self._group, id="0", mkstream=True)
        except ValueError as error:
            if "BUSYGROUP" not in str(error):  # it exists
                raise

    def fetch(self, n_messages: int, seconds: float) -> list[Message]:
        """Return the next entries; those first that were delivered before."""
        try:
            entries = self._read(n_messages, seconds)
        except BrokerError:
            self._reads_again = True  # the answer may be lost
            raise
        messages = []
        for id_, fields in entries:
            self._fetched.append(id_)
            if _parse_id(id_) > self._last:  # not learned before; a group may start again
                self._last = _parse_id(id_)
                messages.append(self._message(id_.decode(), fields))
        return messages

    def _read(self, n_messages: int, seconds: float) -> list[Any]:
        if self._reads_again:
            entries = self._delivered(after="{}-{}".format(*self._last), n_most=n_messages)
            if entries:
                return entries
            self._reads_again = False
        return self._call_read(">", n_messages, max(int(seconds * 1_000), 1))

    def _delivered(self, after: str, n_most: int = _AT_ONCE) -> list[Any]:
        """Return entries that were delivered to this consumer and not acknowledged."""
        return self._call_read(after, n_most, None)

    def _call_read(self, after: str, n_most: int, block: int | None) -> list[Any]:
        try:
            with self._errors():
                answer = self._redis.xreadgroup(
                    self._group, self._consumer, {self._stream: after}, count=n_most, block=block
                )
        except ValueError as error:
            if "NOGROUP" not in str(error):
                raise
            self._create_group()  # the stream was deleted, or Redis has lost it
            return []
        entries: list[Any] = answer[0][1] if answer else []
        return entries

    def _message(self, id_: str, fields: dict[bytes, bytes] | None) -> Message:
        if not fields:
            return Message(id_, id_, None, "the entry was deleted before it was read")
        if self._json_field is not None:
            payload = fields.get(self._json_field.encode())
            if payload is None:
                reason = f"the entry has no field {self._json_field!r}, which holds the row"
                return Message(id_, id_, None, reason, _show(fields))
            return read_payload(id_, id_, payload)
        row: JsonObject = {}
        for name, value in fields.items():
            try:
                row[name.decode()] = Literal(value.decode())
            except UnicodeDecodeError:
                reason = f"the field {name.decode(errors='backslashreplace')!r} is not UTF-8"
                return Message(id_, id_, None, reason, _show(fields))
        return Message(id_, id_, row, text=_show(fields))

    def publish(
        self, predictions: Sequence[dict[str, Any]], rejects: Sequence[RejectedMessage]
    ) -> None:
        """Add entries to the streams of predictions and of rejected entries."""
        entries: list[tuple[str, dict[str, str]]] = []
        if self._output is not None:
            entries += [(self._output, _as_fields(values)) for values in predictions]
        if self._rejects is not None:
            entries += [
                (self._rejects, {"id": r.message.id, "reason": r.reason, "message": r.message.text})
                for r in rejects
            ]
        for start in range(0, len(entries), _AT_ONCE):
            with self._errors():
                pipeline = self._redis.pipeline(transaction=False)
                for stream, fields in entries[start : start + _AT_ONCE]:
                    pipeline.xadd(stream, fields)
                pipeline.execute()

    def flush(self) -> None:
        """Do nothing: `publish` waits for the answer."""

    def state(self) -> None:
        """Return nothing: the position is enough."""

    def acknowledge(self) -> None:
        """Acknowledge all entries that were fetched."""
        for start in range(0, len(self._fetched), _AT_ONCE):
            with self._errors():
                ids = self._fetched[start : start + _AT_ONCE]
                self._redis.xack(self._stream, self._group, *ids)
        self._fetched = []

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
            raise ValueError(f"{self.name} refuses the command: {error}") from error
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise BrokerError(str(error)) from error
        except redis.RedisError as error:
            text = str(error)
            is_passing = text.startswith(_PASSING) and not text.startswith("BUSYGROUP")
            if is_passing or isinstance(error, redis.exceptions.OutOfMemoryError):
                raise BrokerError(text) from error
            raise ValueError(f"{self.name}: {text}") from error


def _parse_id(text: str | bytes) -> tuple[int, int]:
    time, _, number = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(time), int(number or 0)


def _as_fields(values: dict[str, Any]) -> dict[str, str]:
    """Return a prediction as fields; what is not text is JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }


def _show(fields: dict[bytes, bytes]) -> str:
    """Return the fields of an entry as a JSON object."""
    texts = {
        name.decode(errors="backslashreplace"): value.decode(errors="backslashreplace")
        for name, value in fields.items()
    }
    return json.dumps(texts, ensure_ascii=False)
