"""Debian's Redis and mosquitto on free ports, consumers in processes, and the rows they learn."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from amforest import AdaptiveAMFClassifier
from amforest.cli.consume import Places, consume
from amforest.cli.settings import Settings
from amforest.serving.brokers.consumer import ConsumerOptions
from running_server import FORKS

SECONDS = 120.0  # to wait for servers and messages on a busy machine
OUTPUT = {"redis": "predictions", "mqtt": "predictions"}
REJECTS = {"redis": "predictions-rejects", "mqtt": "predictions/rejects"}


def find(program: str) -> str | None:
    """Return the path of a server; daemons may be beside the path."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_for(is_true: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    end = time.monotonic() + seconds
    while not (value := is_true()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.01)
    return value


class Server:
    """A server on a loopback port, with its own folder; it can be stopped and started again."""

    program = scheme = ""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [find(self.program) or self.program, *self.command()]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        wait_for(self.answers, f"a start of {self.program}")

    def answers(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(SECONDS)
            self._process = None


class RedisServer(Server):
    """Redis that keeps its streams on the disk, and a client for tests."""

    program, scheme = "redis-server", "redis"

    def start(self) -> None:
        super().start()
        import redis

        self.client: Any = redis.Redis(port=self.port, protocol=2)
        wait_for(self._is_ready, "an answer of redis-server")

    def _is_ready(self) -> bool:
        import redis

        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def command(self) -> list[str]:
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        return [*where, "--appendonly", "yes", "--save", ""]

    def stop(self) -> None:
        self.client.close()
        super().stop()

    def send(self, messages: Iterable[Any]) -> None:
        """Add entries: rows as fields; other messages in the field ``row``, as they are."""
        pipeline = self.client.pipeline(transaction=False)
        for message in messages:
            fields = message
            if isinstance(message, dict):
                fields = {k: v for k, v in message.items() if v is not None}
            pipeline.xadd("rows", fields if isinstance(fields, dict) else {"row": fields})
        pipeline.execute()

    def received(self, stream: str) -> list[dict[str, Any]]:
        """Return all entries of a stream; probabilities are parsed."""
        entries = self.client.xrange(stream)
        rows = [{k.decode(): v.decode() for k, v in fields.items()} for _, fields in entries]
        for row in rows:
            if "probabilities" in row:
                row["probabilities"] = json.loads(row["probabilities"])
        return rows

    def count(self, stream: str) -> int:
        """Return the number of entries of a stream."""
        return int(self.client.xlen(stream))

    def places(self, **options: Any) -> Places:
        return Places(self.url, **{"stream": "rows", "output": OUTPUT["redis"]} | options)


class MqttServer(Server):
    """Mosquitto that keeps sessions on the disk; a client sends rows and collects predictions."""

    program, scheme = "mosquitto", "mqtt"

    def start(self) -> None:
        super().start()
        from paho.mqtt import client as mqtt

        self._lock = threading.Lock()
        self._messages: list[tuple[str, dict[str, Any]]] = getattr(self, "_messages", [])
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "test", protocol=mqtt.MQTTv5)
        self._client.max_queued_messages_set(0)
        subscribed = threading.Event()
        self._client.on_message = self._collect
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", self.port)
        self._client.loop_start()
        self._client.subscribe("predictions/#", qos=1)
        assert subscribed.wait(SECONDS)

    def command(self) -> list[str]:
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {self.folder}/",
            "max_queued_messages 0",
        ]
        if os.getuid() == 0:
            lines.append("user root")  # who may write to the folder
        path = self.folder / "mosquitto.conf"
        path.write_text("\n".join(lines) + "\n")
        return ["-c", str(path)]

    def _collect(self, client: Any, data: Any, message: Any) -> None:
        with self._lock:
            self._messages.append((message.topic, json.loads(message.payload)))

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        super().stop()

    def send(self, messages: Iterable[Any]) -> None:
        """Publish rows as JSON, and other messages as they are."""
        sent = []
        for k, message in enumerate(messages):
            payload = json.dumps(message) if isinstance(message, dict) else message
            sent.append(self._client.publish(f"rows/{k % 3}", payload, qos=1))
        for info in sent:
            info.wait_for_publish(SECONDS)

    def received(self, topic: str) -> list[dict[str, Any]]:
        with self._lock:
            return [row for where, row in self._messages if where == topic]

    def count(self, topic: str) -> int:
        """Return the number of messages of a topic."""
        return len(self.received(topic))

    def places(self, **options: Any) -> Places:
        return Places(self.url, **{"topic": "rows/#", "output": OUTPUT["mqtt"]} | options)


SERVERS: dict[str, type[Server]] = {"redis": RedisServer, "mqtt": MqttServer}


# Rows, and the model that learns them directly


def row(i: int) -> dict[str, Any]:
    """Return the i-th row, whose id is its number; every seventh has no label."""
    a, b = i * 0.618 % 1, i * 0.414 % 1
    label = None if i % 7 == 3 else "yes" if a > b else "no"
    return {"id": f"r{i}", "a": round(a, 6), "b": round(b, 6), "kind": f"k{i % 3}", "y": label}


def as_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return the features of rows."""
    rows = list(rows)
    kinds = pa.array([r["kind"] for r in rows]).dictionary_encode()
    return pa.table({"a": [r["a"] for r in rows], "b": [r["b"] for r in rows], "kind": kinds})


def learn_directly(rows: Iterable[dict[str, Any]], **params: Any) -> AdaptiveAMFClassifier:
    """Return the model that predicts and learns the rows with labels in one call."""
    labelled = [r for r in rows if r["y"] is not None]
    X = as_table(labelled)
    model = AdaptiveAMFClassifier(
        categorical_features=["kind"], random_state=0, n_jobs=1, **{"n_estimators": 1} | params
    )
    y = np.array([r["y"] for r in labelled])
    model.partial_fit(X[:1], y[:1])  # nothing can be predicted before
    model.partial_fit_predict_proba(X[1:], y[1:])
    return model


# Consumers


def run_consumer(
    places: Places,
    folder: Path,
    *,
    idle: float | None = 1.0,
    every: int = 20,
    seconds: float = 60.0,
    block: int = 1_000,
    id_field: str | None = "id",
    target: str = "y",
    model: str | None = None,
    **more: Any,
) -> int:
    """Run a consumer in this process until no message comes."""
    return consume(
        places,
        ConsumerOptions(
            str(folder),
            every=every,
            seconds=seconds,
            idle=idle,
            block=block,
            same={"--target": target},
        ),
        Settings(target=target, trees=1, model=model, quiet=True),
        id_field=id_field,
        console=Console(stderr=True),
        **{"first": 20, "pending": 1_000, "remember": 1_000} | more,
    )


def consume_the_rest(server: Any, kind: str, folder: Path, ids: set[str], **options: Any) -> None:
    """Consume, in several runs on a busy machine, until all is predicted and nothing is left."""
    earlier, now = None, _newest_name(folder)
    while now != earlier or not {p["id"] for p in server.received(OUTPUT[kind])} >= ids:
        assert run_consumer(server.places(), folder, **{"idle": 0.5} | options) == 0
        earlier, now = now, _newest_name(folder)


def _newest_name(folder: Path) -> str | None:
    """Return the name of the newest checkpoint, which has the number of messages."""
    return max((path.name for path in folder.glob("*.amf")), default=None)


def start_consumer(
    places: Places, folder: Path, *, kill: tuple[str, str, str, int] | None = None, **options: Any
) -> Any:
    """Start a consumer in a process of its own; see `kill_at`."""
    process = FORKS.Process(target=_consume_in_process, args=(places, folder, kill, options))
    process.start()
    return process


def _consume_in_process(
    places: Places, folder: Path, kill: tuple[str, str, str, int] | None, options: dict[str, Any]
) -> None:
    if kill is not None:
        kill_at(*kill)
    raise SystemExit(run_consumer(places, folder, **options))


def kill_at(owner: str, method: str, when: str, count: int) -> None:
    """Let this process kill itself before or after the count-th call of a method."""
    from amforest.model_io import Checkpoint
    from amforest.serving.brokers.mqtt_broker import MqttBroker
    from amforest.serving.brokers.redis_broker import RedisBroker
    from amforest.serving.journal import Journal

    classes: dict[str, Any] = {
        "redis": RedisBroker,
        "mqtt": MqttBroker,
        "Journal": Journal,
        "Checkpoint": Checkpoint,
    }
    original, calls = getattr(classes[owner], method), iter(range(1, 1_000_000))

    def killing(self: Any, *args: Any, **options: Any) -> Any:
        is_last = next(calls) == count
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        value = original(self, *args, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    setattr(classes[owner], method, killing)
