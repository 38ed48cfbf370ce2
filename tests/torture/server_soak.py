"""A server that learns and predicts ten million rows with a bounded model: memory must not grow.

What is measured goes to `build/soak.csv` as it comes. With `TORTURE_FOLDER` set, a soak that was
interrupted continues there, with the model and all rows that it has learned.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from result import Report, Result
from server_rows import ARROW, MODEL, SEED, as_arrow

from running_server import RunningServer

TITLE = "soaked servers"
BLOCK = 2_000  # rows of a request
N_PREDICTED = 500  # rows predicted after each request
N_LABELLED = 50  # whose labels come by their ids
FIGURES = Path(__file__).parents[2] / "build" / "soak.csv"
Body = tuple[bytes, list[dict[str, Any]], list[str]]


def bodies() -> list[Body]:
    """Return streams of Arrow whose concept changes, and rows to predict with their labels."""
    rng = np.random.default_rng(SEED)
    made = []
    for k in range(20):
        X = rng.normal(size=(BLOCK, 6))
        table = pa.table({f"f{j}": X[:, j] for j in range(6)})
        labels = np.where(X[:, 0] + (k % 2) * X[:, 1] > 0, "yes", "no").tolist()
        content = as_arrow(table.append_column("y", pa.array(labels)))
        made.append((content, table.slice(0, N_PREDICTED).to_pylist(), labels[:N_LABELLED]))
    return made


def n_open(server: RunningServer) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def soak(server: RunningServer, n_rows: int, report: Report) -> list[int]:
    """Send rows; return the memory after each part of a hundredth."""
    contents, memories, start = bodies(), list[int](), time.monotonic()
    described = server.client.model()
    n_learned = described["stats"]["samples"] if described["model"] else 0
    due = n_learned
    FIGURES.parent.mkdir(exist_ok=True)
    with FIGURES.open("a", encoding="utf-8") as figures:
        if figures.tell() == 0:
            figures.write("seconds,rows,bytes,model_bytes,open_files\n")
        while n_learned < n_rows:
            content, rows, labels = contents[n_learned // BLOCK % len(contents)]
            answer = server.http.post("/learn", content=content, headers={"content-type": ARROW})
            answer.raise_for_status()
            ids = server.client.predict(rows)["ids"]
            n_learned = server.client.label(ids[:N_LABELLED], labels)["samples"]
            if n_learned >= due:
                due += n_rows // 100
                memories.append(server.memory())
                size = server.client.model()["stats"]["bytes"]
                line = time.monotonic() - start, n_learned, memories[-1], size, n_open(server)
                figures.write(",".join(f"{value:.0f}" for value in line) + "\n")
                figures.flush()
            report("rows", n_learned, n_rows)
    return memories


def run(report: Report, quick: bool) -> list[Result]:
    n_rows = 100_000 if quick else 10_000_000
    with ExitStack() as stack:
        folder = os.environ.get("TORTURE_FOLDER") or stack.enter_context(
            tempfile.TemporaryDirectory()
        )
        options = ("--max-bytes", 3_000_000, "--pending", 5_000, "--checkpoint", folder)
        server = RunningServer(*MODEL, *options, "--durable", "--every", 50_000)
        with server:
            memories = soak(server, n_rows, report)
            n_files = n_open(server)
            status = server.terminate()
    half = len(memories) // 2
    growth = max(memories[half:]) - max(memories[half // 2 : half])
    passed = growth < 20e6 and n_files < 40 and status == 0
    details = (
        f"memory {growth / 1e6:+.1f} MB from the second quarter to the second half, "
        f"{max(memories) / 1e6:.0f} MB at most; {n_files} open files"
    )
    return [Result("a soak", n_rows, "no leak", passed, details)]
