"""The server, killed (SIGKILL) under load, and under hostile requests; a soak."""

from __future__ import annotations

import http.client
import io
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from result import Report, Result

from amforest import AdaptiveAMFClassifier
from amforest.model_io import from_bytes
from running_server import FORKS, RunningServer, run_command

TITLE = "server"
SEED = int(os.environ.get("TORTURE_SEED", "0"))
KILLS_PER_FOLDER = 10  # then another model begins, because models grow
ARROW = "application/vnd.apache.arrow.stream"
MODEL = ("--target", "y", "--task", "classification", "--trees", 1, "--seed", 1)
Body = tuple[list[dict[str, Any]], list[str]]


# Kills


def batch(k: int) -> Body:
    """Return the k-th request of a stream without end."""
    draw = random.Random(k)
    rows = []
    for _ in range(draw.choice([1, 1, 3, 20])):
        page = draw.choice("abcd") + str(k // 200)
        rows.append({"x": draw.random(), "z": draw.gauss(0, 9), "page": page})
    return rows, ["yes" if row["x"] > 0.5 else "no" for row in rows]


class Twin:
    """The model that learns the same requests, and is never killed."""

    def __init__(self) -> None:
        self.model = AdaptiveAMFClassifier(
            1, categorical_features=["page"], n_jobs=1, random_state=1
        )
        self.n_samples = self.n_batches = 0

    def learn_until(self, n_samples: int) -> None:
        """Learn whole requests; AssertionError if they do not add up to so many rows."""
        while self.n_samples < n_samples:
            rows, labels = batch(self.n_batches)
            X = pa.table({name: [row[name] for row in rows] for name in ("x", "z", "page")})
            if self.n_samples == 0:  # its prediction has no loss
                self.model.partial_fit(X[:1], labels[:1])
                X, labels = X[1:], labels[1:]
            if labels:
                self.model.partial_fit_predict_proba(X, labels)
            self.n_batches += 1
            self.n_samples += len(rows)
        assert self.n_samples == n_samples, f"{n_samples} rows: a request was cut"


def send_until_killed(server: RunningServer, first: int, acknowledged: list[int]) -> None:
    """Send requests in their order; some of them wait for the model, others for the disk."""
    with suppress(Exception):
        for k in itertools.count(first):
            server.client.learn(*batch(k), wait=k % 3 == 0)
            acknowledged.append(k)
            if k % 2:
                server.client.predict(batch(k)[0][:1])


def kill_while_starting(options: list[str], seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = str(Path(folder) / "output"), str(Path(folder) / "errors")
        process = FORKS.Process(target=run_command, args=(options, {}, *files))
        process.start()
        time.sleep(seconds)
        process.kill()
        process.join()


def kill_many(count: int, report: Report) -> tuple[int, int]:
    """Kill servers; return how many rows were acknowledged, and how many kills were in starts."""
    draw, n_acknowledged, n_in_starts = random.Random(SEED), 0, 0
    for first in range(0, count, KILLS_PER_FOLDER):
        twin, acknowledged = Twin(), list[int]()
        with tempfile.TemporaryDirectory() as folder:
            options = [*MODEL, "--checkpoint", folder, "--durable", "--every", 150]
            for number in range(first, min(first + KILLS_PER_FOLDER, count)):
                if number > first and draw.random() < 0.3:
                    kill_while_starting(list(map(str, options)), draw.uniform(0, 0.4))
                    n_in_starts += 1
                    report("kills", number + 1, count)
                    continue
                with RunningServer(*options) as server:
                    check(server, twin, acknowledged)
                    arguments = server, twin.n_batches, acknowledged
                    thread = threading.Thread(target=send_until_killed, args=arguments)
                    thread.start()
                    time.sleep(draw.uniform(0, 0.8))
                    server.process.kill()
                    thread.join()
                report("kills", number + 1, count)
            with RunningServer(*options) as server:
                check(server, twin, acknowledged)
        n_acknowledged += sum(len(batch(k)[0]) for k in acknowledged)
    return n_acknowledged, n_in_starts


def check(server: RunningServer, twin: Twin, acknowledged: list[int]) -> None:
    """Check that nothing acknowledged is lost, and that the model is that of the requests."""
    described = server.client.model()
    n_samples = described["stats"]["samples"] if described["model"] else 0
    twin.learn_until(n_samples)
    n_known = acknowledged[-1] + 1 if acknowledged else 0
    assert twin.n_batches >= n_known, f"lost {n_known - twin.n_batches} acknowledged requests"
    if n_samples:
        data = from_bytes(server.client.snapshot()).to_bytes()
        assert data == twin.model.to_bytes(), "another model than the replay's"


# Hostile requests

PATHS = ("/predict", "/learn", "/label", "/learn?wait=false")
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
    streams = []
    for content in (table, encoded):
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, content.schema) as writer:
            writer.write_table(content)
        streams.append(sink.getvalue())
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
            method = draw.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
        elif what < 18:
            headers = dict([draw.choice(ODD_HEADERS)])
        elif what < 19:
            body = bytes(draw.choice([70_000, 300_000]))
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


def hostile(count: int, report: Report) -> Result:
    options = ("--most-bytes", 200_000, "--most-classes", 20, "--pending", 1000)
    options = (*MODEL, *options, "--most-rows", 1000, "--max-bytes", 4_000_000)
    with RunningServer(*options, "--body-seconds", 2) as server:
        server.client.learn(*batch(3))
        attackers = [Attacker(server.url, SEED + k) for k in range(2)]

        def attack(attacker: Attacker, n_requests: int) -> None:
            for _ in range(n_requests):
                attacker.attack()

        def attack_all(n_requests: int) -> None:
            threads = [threading.Thread(target=attack, args=(a, n_requests)) for a in attackers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        part = max(count // 40, 1)
        for k in range(4):  # until everything that is loaded late is there
            attack_all(part)
            report("hostile requests", 2 * part * (k + 1), count)
        before = server.memory()
        done = 8 * part
        while done < count:
            attack_all(part)
            done += 2 * part
            report("hostile requests", done, count)
        growth = server.memory() - before
        statuses = sum((a.statuses for a in attackers), Counter[int]())
        is_alive = server.http.get("/readyz").status_code == 200
        errors = server.errors()
    n_errors = sum(n for status, n in statuses.items() if status >= 500)
    passed = n_errors == 0 and is_alive and growth < 60e6 and "Traceback" not in errors
    details = f"{dict(sorted(statuses.items()))}; memory grew by {growth / 1e6:.1f} MB"
    bar = "no 5xx, no traceback, bounded memory"
    return Result("hostile requests", done, bar, passed, details + errors[-2000:] * (not passed))


# A soak


def soak(n_rows: int, report: Report) -> Result:
    """Learn and predict many rows with a bounded model; memory must not grow."""
    rng = np.random.default_rng(SEED)
    bodies = []
    for k in range(20):
        X = rng.normal(size=(2000, 6))
        table = pa.table({f"f{j}": X[:, j] for j in range(6)})
        labels = np.where(X[:, 0] + (k % 2) * X[:, 1] > 0, "yes", "no").tolist()
        sink = io.BytesIO()
        whole = table.append_column("y", pa.array(labels))
        with pa.ipc.new_stream(sink, whole.schema) as writer:
            writer.write_table(whole)
        bodies.append((sink.getvalue(), table.slice(0, 500).to_pylist()))
    with tempfile.TemporaryDirectory() as folder:
        options = ("--max-bytes", 3_000_000, "--pending", 5_000, "--checkpoint", folder)
        with RunningServer(*MODEL, *options, "--durable", "--every", 50_000) as server:
            memories = []
            for k in range(n_rows // 2000):
                content, rows = bodies[k % len(bodies)]
                headers = {"content-type": ARROW}
                server.http.post("/learn", content=content, headers=headers).raise_for_status()
                server.client.predict(rows)
                memories.append(server.memory())
                report("rows of the soak", 2000 * (k + 1), n_rows)
            n_open = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            status = server.terminate()
    half = len(memories) // 2
    growth = max(memories[half:]) - max(memories[half // 2 : half])
    passed = growth < 20e6 and n_open < 40 and status == 0
    details = f"memory {growth / 1e6:+.1f} MB in the second half, {n_open} open files"
    return Result("a soak", len(memories) * 2000, "no leak", passed, details)


# The server's own OpenAPI


def schemathesis(quick: bool) -> list[Result]:
    """Run all checks; but no schema says that there are as many labels as rows or ids."""
    found = shutil.which("schemathesis", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        text = "schemathesis is missing: pip install schemathesis"
        return [Result("schemathesis", 0, "no failure", False, text)]
    labelled = "^/(learn|label)$"
    return [
        run_schemathesis(found, quick, "all but /learn, /label", "--exclude-path-regex", labelled),
        run_schemathesis(
            *(found, quick, "/learn, /label: all but positive_data_acceptance"),
            *("--include-path-regex", labelled),
            *("--exclude-checks", "positive_data_acceptance"),
        ),
    ]


def run_schemathesis(found: str, quick: bool, what: str, *options: str) -> Result:
    with RunningServer(*MODEL, "--most-bytes", 200_000) as server:
        server.client.learn(*batch(3))
        command = [found, "run", f"{server.url}/openapi.json", "--seed", str(SEED + 1), *options]
        done = subprocess.run(
            [*command, "--max-examples", "20" if quick else "200", "--no-color"],
            capture_output=True,
            text=True,
            check=False,
        )
        errors = server.errors()
    passed = done.returncode == 0 and "Traceback" not in errors
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    count = re.search(r"([\d,]+) generated", done.stdout)
    n_cases = int(count[1].replace(",", "")) if count else 0
    details = lines[-2:] if passed else lines[-200:]
    return Result(f"schemathesis, {what}", n_cases, "no failure", passed, "\n".join(details))


def guarded(fault: str, bar: str, work: Callable[[], Result]) -> Result:
    try:
        return work()
    except AssertionError as error:
        return Result(fault, 0, bar, False, str(error))


def run(report: Report, quick: bool) -> list[Result]:
    n_kills = 12 if quick else 300
    kill_bar = "0 acknowledged rows lost; bit for bit a replay"

    def kills() -> Result:
        n_rows, n_in_starts = kill_many(n_kills, report)
        details = f"{n_rows:,} rows acknowledged; {n_in_starts} kills of servers that started"
        return Result("kill -9 of a durable server", n_kills, kill_bar, n_rows > 0, details)

    return [
        guarded("kill -9 of a durable server", kill_bar, kills),
        hostile(2_000 if quick else 100_000, report),
        soak(100_000 if quick else 10_000_000, report),
        *schemathesis(quick),
    ]
