"""A server under hostile requests: nothing but refusals, and no more memory."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import pyarrow as pa
from result import Report, Result
from server_rows import ARROW, MODEL, SEED, as_arrow, batch

from running_server import RunningServer

TITLE = "attacked servers"
MOST_BYTES = 200_000  # of a body
PATHS = ("/predict", "/learn", "/label", "/learn?wait=false", "/explain")
PAGES = ("/", "/model", "/metrics", "/snapshot", "/readyz", "/openapi.json", "/page/style.css")
KINDS = ("application/json", "application/x-ndjson", ARROW)
ODD_VALUES = (
    *(None, True, "", "x" * 2000, -1, 2**63, 1e308, [], {}, [[[]]], {"a": {"b": 1}}),
    *("NaN", "1e999", "\x00", "\ud7ff", "2026-02-30", "ü" * 50),
)
ODD_BYTES = (b"NaN", b"1e999", b"-", b'"', b"\\ud800", b"[" * 3000, b"\x00", b"\xff", b"{" * 50)
ODD_HEADERS = (
    ("Content-Type", "text/plain"),
    ("Content-Type", "application/json; charset=\xff"),
    ("Content-Length", "-1"),
    ("Content-Length", "99999999999999999999"),
    ("Transfer-Encoding", "chunked, chunked"),
    ("Transfer-Encoding", "gzip"),
    ("Authorization", "Bearer \xff\xfe"),
    ("Host", "evil.example"),
    ("Host", ""),
    ("Expect", "100-continue"),
    ("Upgrade", "websocket"),
    ("Range", "bytes=0-"),
    ("X-Long", "y" * 60_000),
)


def good_bodies() -> list[tuple[str, bytes]]:
    """Return bodies of all formats that the server takes."""
    rows, labels = batch(3)
    table = pa.Table.from_pylist([r | {"y": y} for r, y in zip(rows, labels, strict=True)])
    encoded = table.set_column(2, "page", table.column("page").combine_chunks().dictionary_encode())
    streams = [as_arrow(content) for content in (table, encoded)]
    lines = "\n".join(map(json.dumps, table.to_pylist())).encode()
    return [
        (KINDS[0], json.dumps({"rows": rows, "labels": labels}).encode()),
        (KINDS[0], json.dumps({"rows": rows}).encode()),
        (KINDS[0], json.dumps({"row": rows[0], "label": "yes"}).encode()),
        (KINDS[0], json.dumps({"ids": ["a", "b"], "labels": labels[:2]}).encode()),
        (KINDS[1], lines),
        *((ARROW, stream) for stream in streams),
    ]


def mutate(draw: random.Random, body: bytes) -> bytes:
    """Change some bytes of a body."""
    data = bytearray(body)
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        if not data:
            break
        at = draw.randrange(len(data))
        change = draw.randrange(5)
        if change == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif change == 1:
            del data[at : at + draw.choice([1, 4, 50])]
        elif change == 2:
            data[at:at] = draw.choice(ODD_BYTES)
        elif change == 3:
            data[at : at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"])
        else:
            data[at:at] = data[at : at + draw.choice([8, 64])]
    return bytes(data)


def odd_json(draw: random.Random) -> bytes:
    """Return valid JSON with values of wrong types anywhere."""
    rows, labels = batch(draw.randrange(50))
    value: Any = {"rows": rows, "labels": list(labels)}
    for _ in range(draw.choice([1, 2, 4])):
        odd = draw.choice(ODD_VALUES)
        where = draw.randrange(5)
        if where == 0:
            rows[0][draw.choice(["x", "z", "page", "y", "new", ""])] = odd
        elif where == 1:
            value[draw.choice(["rows", "labels", "row", "label", "more"])] = odd
        elif where == 2 and isinstance(value.get("labels"), list):
            value["labels"].append(odd)
        elif where == 3 and isinstance(value.get("rows"), list):
            value["rows"].append(odd)
        else:
            value = {"id": odd, "label": draw.choice(ODD_VALUES)}
            break
    return json.dumps(value).encode()


class Attacker:
    """Sends hostile requests over a connection that it opens again when the server closes it."""

    def __init__(self, url: str, seed: int) -> None:
        self._address = url.removeprefix("http://")
        self._draw, self._good = random.Random(seed), good_bodies()
        self._connection = http.client.HTTPConnection(self._address, timeout=60)
        self.statuses: Counter[int] = Counter()

    def attack(self) -> None:
        draw = self._draw
        kind, body = draw.choice(self._good)
        path, method, headers = draw.choice(PATHS), "POST", dict[str, str]()
        what = draw.randrange(20)
        if what < 9:
            body = mutate(draw, body)
        elif what < 14:
            kind, body = KINDS[0], odd_json(draw)
        elif what < 15:
            kind = draw.choice((*KINDS, "", "a/b", "application/json;" * 9))
        elif what < 16:
            path = draw.choice(["/" + "a" * 5000, "/..%2f", "/predict/", "//predict", "/%ff"])
        elif what < 17:
            path = draw.choice(PATHS + PAGES)
            method = draw.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
        elif what < 18:
            headers = dict([draw.choice(ODD_HEADERS)])
        elif what < 19:
            body = bytes(draw.choice([MOST_BYTES // 3, 2 * MOST_BYTES]))
        else:
            self._send_garbage(draw.randbytes(draw.choice([10, 1000])))
            return
        self._send(method, path, body, {"Content-Type": kind} | headers)

    def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
            if answer.will_close:
                self._connection.close()
        except (OSError, http.client.HTTPException):
            self.statuses[0] += 1  # closed by the server, because the request was no HTTP
            self._connection.close()

    def _send_garbage(self, data: bytes) -> None:
        self._connection.close()
        with suppress(OSError):
            self._connection.connect()
            self._connection.sock.sendall(data + b"\r\n\r\n")
        self._connection.close()
        self.statuses[0] += 1


class SlowAttacker:
    """Holds many connections at once, each of which sends a large body but for its last byte."""

    def __init__(self, url: str, n_connections: int) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._address, self._n_connections = (host, int(port)), n_connections
        self.statuses: Counter[int] = Counter()

    def attack_until(self, is_over: threading.Event) -> None:
        head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {KINDS[0]}\r\n"
        body = f"Content-Length: {MOST_BYTES}\r\n\r\n".encode() + bytes(MOST_BYTES - 1)
        while not is_over.is_set():
            sockets = [socket.create_connection(self._address) for _ in range(self._n_connections)]
            for connection in sockets:
                connection.settimeout(60)
                with suppress(OSError):
                    connection.sendall(head.encode() + body)
            for connection in sockets:
                self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        with connection:
            try:
                answer = connection.recv(100)
                self.statuses[int(answer.split()[1]) if answer else 0] += 1
            except OSError:
                self.statuses[0] += 1


def attack_all(attackers: list[Attacker], n_requests: int) -> None:
    def attack(attacker: Attacker) -> None:
        for _ in range(n_requests):
            attacker.attack()

    threads = [threading.Thread(target=attack, args=(a,)) for a in attackers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(report: Report, quick: bool) -> list[Result]:
    count = 2_000 if quick else 100_000
    options = ("--most-bytes", MOST_BYTES, "--most-classes", 20, "--pending", 1000)
    options = (*MODEL, *options, "--most-rows", 1000, "--max-bytes", 4_000_000)
    with RunningServer(*options, "--body-seconds", 1) as server:
        server.client.learn(*batch(3))
        attackers = [Attacker(server.url, SEED + k) for k in range(2)]
        slow, is_over = SlowAttacker(server.url, 100), threading.Event()
        thread = threading.Thread(target=slow.attack_until, args=(is_over,))
        thread.start()
        part, done, memories = max(count // 40, 1), 0, []
        try:
            while done < count:
                attack_all(attackers, part)
                done += 2 * part
                memories.append(server.memory())
                report("requests", done, count)
        finally:
            is_over.set()
            thread.join()
        is_alive = server.http.get("/readyz").status_code == 200
        errors = server.errors().replace("WARNING: Invalid HTTP request received. ", "")
    statuses = sum((a.statuses for a in (*attackers, slow)), Counter[int]())
    # The first fifth is for what is loaded late, and for the model to reach its size.
    growth = max(memories) - memories[len(memories) // 5]
    n_errors = sum(n for status, n in statuses.items() if status >= 500)
    passed = n_errors == 0 and is_alive and growth < 30e6 and "Traceback" not in errors
    fault, bar = "hostile requests", "no 5xx, no traceback, bounded memory"
    details = (
        f"{dict(sorted(statuses.items()))}; 0 is a closed connection; memory "
        f"{growth / 1e6:+.1f} MB after the first fifth, {max(memories) / 1e6:.0f} MB at most"
    )
    if not passed:
        details += errors[-2000:]
    return [Result(fault, statuses.total(), bar, passed, details)]
