"""The server against what it is made of: a bare route of FastAPI, and `partial_fit`.

``python -m benchmarks.serving`` prints ratios. It needs wrk, and 5 minutes; ``--quick`` takes one.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import uvicorn
from fastapi import FastAPI
from rich.console import Console
from rich.table import Table
from tests.running_server import RunningServer

from amforest import AdaptiveAMFClassifier
from amforest.serving.server import configure

N_FEATURES, CONNECTIONS, ROWS_PER_BODY = 10, 8, 1_000
ARROW = "application/vnd.apache.arrow.stream"
SPAWN = multiprocessing.get_context("spawn")
SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '%s'
"""


def stream(n_rows: int) -> tuple[pa.Table, list[str]]:
    """Return rows of numbers and their classes, which depend on two of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES))
    labels = np.where(X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n_rows) / 3 > 1, "yes", "no")
    return pa.table({f"f{j}": X[:, j] for j in range(N_FEATURES)}), labels.tolist()


def serve_bare(port: Any) -> None:
    """Serve a route of FastAPI that returns a constant, as `amforest serve` serves its own."""
    app = FastAPI()

    @app.post("/predict")
    async def predict() -> dict[str, list[str]]:
        return {"predictions": ["yes"]}

    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        port.value = listener.getsockname()[1]
        uvicorn.Server(configure(app)).run(sockets=[listener])


@contextmanager
def bare_server() -> Iterator[str]:
    port = SPAWN.Value("i", 0)
    process = SPAWN.Process(target=serve_bare, args=(port,))
    process.start()
    try:
        url = ""
        while not url:
            time.sleep(0.1)
            if port.value:
                url = f"http://127.0.0.1:{port.value}"
        httpx.post(f"{url}/predict", timeout=60)
        yield url
    finally:
        process.kill()
        process.join()


def requests_per_second(url: str, body: str, seconds: float) -> float:
    """Measure with wrk."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        script.write_text(SCRIPT % body, encoding="utf-8")
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "-s", str(script)]
        done = subprocess.run(
            [*command, f"{url}/predict"], capture_output=True, text=True, check=True
        )
    assert "Non-2xx" not in done.stdout, done.stdout
    found = re.search(r"Requests/sec:\s*([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    return float(found[1])


def measure_throughput(seconds: float, repeats: int) -> tuple[float, float, float]:
    """Return requests per second of the server and of a bare route, and the median ratio."""
    table, labels = stream(5_000)
    body = json.dumps({"row": table.slice(0, 1).to_pylist()[0]})
    ours, bare = [], []
    with RunningServer("--target", "label") as server, bare_server() as url:
        server.client.learn(table.to_pylist(), labels)
        for _ in range(repeats):
            ours.append(requests_per_second(server.url, body, seconds))
            bare.append(requests_per_second(url, body, seconds))
    ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
    return statistics.median(ours), statistics.median(bare), ratio


def bodies(table: pa.Table, labels: list[str]) -> tuple[list[bytes], list[bytes]]:
    """Return the bodies of a stream, in NDJSON and in Arrow."""
    whole = table.append_column("label", pa.array(labels))
    as_lines, as_arrow = [], []
    for start in range(0, len(whole), ROWS_PER_BODY):
        part = whole.slice(start, ROWS_PER_BODY)
        as_lines.append("\n".join(map(json.dumps, part.to_pylist())).encode())
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        as_arrow.append(sink.getvalue())
    return as_lines, as_arrow


def learn_alone(table: pa.Table, labels: list[str]) -> float:
    """Return the rows per second of `partial_fit`, in the same batches."""
    model = AdaptiveAMFClassifier(random_state=0)
    y = np.array(labels)
    start = time.perf_counter()
    for k in range(0, len(table), ROWS_PER_BODY):
        model.partial_fit(table.slice(k, ROWS_PER_BODY), y[k : k + ROWS_PER_BODY])
    return len(table) / (time.perf_counter() - start)


def learn_served(contents: list[bytes], kind: str) -> float:
    """Return the rows per second of `/learn`, two requests at a time."""
    with RunningServer("--target", "label", "--trees", 5) as server:
        rest = iter(contents)
        lock = threading.Lock()

        def send() -> None:
            with httpx.Client(base_url=server.url, timeout=300) as http:
                while True:
                    with lock:
                        body = next(rest, None)
                    if body is None:
                        return
                    answer = http.post("/learn", content=body, headers={"content-type": kind})
                    answer.raise_for_status()

        threads = [threading.Thread(target=send) for _ in range(2)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(contents) * ROWS_PER_BODY / (time.perf_counter() - start)


def measure_learning(n_rows: int, repeats: int) -> dict[str, float]:
    """Return the median ratios of `/learn` to `partial_fit`."""
    table, labels = stream(n_rows)
    as_lines, as_arrow = bodies(table, labels)
    ratios: dict[str, list[float]] = {"NDJSON": [], "Arrow": []}
    for _ in range(repeats):
        alone = learn_alone(table, labels)
        ratios["NDJSON"].append(learn_served(as_lines, "application/x-ndjson") / alone)
        ratios["Arrow"].append(learn_served(as_arrow, ARROW) / alone)
    return {name: statistics.median(values) for name, values in ratios.items()}


def latencies(url: str, body: bytes, is_over: Callable[[], bool]) -> list[float]:
    """Return the seconds of predictions of one row, a hundred in each second."""
    seconds = []
    headers = {"content-type": "application/json"}
    with httpx.Client(base_url=url, timeout=60) as http:
        next_at = time.perf_counter()
        while not is_over():
            next_at += 0.01
            start = time.perf_counter()
            http.post("/predict", content=body, headers=headers).raise_for_status()
            seconds.append(time.perf_counter() - start)
            time.sleep(max(next_at - time.perf_counter(), 0.0))
    return seconds


def feed(url: str, contents: list[bytes], is_over: Any) -> None:
    """Learn without a pause, in a process of its own."""
    with httpx.Client(base_url=url, timeout=300) as http:
        k = 0
        while not is_over.value:
            body = contents[k % len(contents)]
            http.post("/learn", content=body, headers={"content-type": ARROW}).raise_for_status()
            k += 1


@contextmanager
def feeding(url: str, contents: list[bytes]) -> Iterator[None]:
    """Let another process send rows to learn."""
    is_over = SPAWN.Value("b", False)
    process = SPAWN.Process(target=feed, args=(url, contents, is_over))
    process.start()
    time.sleep(3)
    try:
        yield
    finally:
        is_over.value = True
        process.join()


def measure_latency(seconds: float, repeats: int) -> tuple[float, float, float]:
    """Return the 99th percentile of `/predict` when idle and while rows are learned, and the ratio.

    Each is the median of some repeats.
    """
    table, labels = stream(20_000)
    _, as_arrow = bodies(table, labels)
    body = json.dumps({"row": table.slice(0, 1).to_pylist()[0]}).encode()
    idle, busy = [], []
    with RunningServer("--target", "label") as server:
        for content in as_arrow[:5]:
            server.http.post("/learn", content=content, headers={"content-type": ARROW})

        def measure() -> float:
            end = time.perf_counter() + seconds
            taken = latencies(server.url, body, lambda: time.perf_counter() > end)
            return float(np.quantile(taken, 0.99))

        for _ in range(repeats):
            idle.append(measure())
            with feeding(server.url, as_arrow):
                busy.append(measure())
    ratio = statistics.median(b / a for a, b in zip(idle, busy, strict=True))
    return statistics.median(idle), statistics.median(busy), ratio


def show_throughput(table: Table, *, quick: bool) -> None:
    ours, bare, ratio = measure_throughput(3 if quick else 10, 3 if quick else 5)
    details = f"{ours:,.0f} and {bare:,.0f} requests/s"
    table.add_row("/predict over a bare route of FastAPI", f"{ratio:.2f}", "≥ 0.6", details)


def show_learning(table: Table, *, quick: bool) -> None:
    ratios = measure_learning(6_000 if quick else 30_000, 1 if quick else 3)
    for name, target in (("NDJSON", "≥ 0.5"), ("Arrow", "≥ 0.8")):
        table.add_row(f"/learn of {name} over partial_fit", f"{ratios[name]:.2f}", target, "")


def show_latency(table: Table, *, quick: bool) -> None:
    idle, busy, ratio = measure_latency(8 if quick else 15, 1 if quick else 5)
    details = f"{1e3 * busy:.1f} ms and {1e3 * idle:.1f} ms"
    table.add_row("p99 of /predict, learning over idle", f"{ratio:.2f}", "≤ 3", details)


PARTS = {"throughput": show_throughput, "learning": show_learning, "latency": show_latency}


def main() -> None:
    """Measure all, and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the short form")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; can be repeated")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is missing: apt-get install wrk")
    table = Table(title="serving")
    for column in ("figure", "value", "target", "details"):
        table.add_column(column)
    for name in options.only or PARTS:
        PARTS[name](table, quick=options.quick)
    Console().print(table)


if __name__ == "__main__":
    main()
