"""A gigabyte of CSV through ``amforest run``: memory, and where the time goes.

Run it with ``make bench-csv``. The file is written to a temporary folder and removed afterwards.
Reading alone, the whole command, and the core alone on rows in memory are timed in one run.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from amforest import AMFClassifier

GIGABYTE = 10**9
N_FEATURES, ROWS_AT_ONCE, MAX_NODES = 20, 4_000, 1_000_000
READ = "from amforest.reading import open_stream; [0 for _ in open_stream('{path}', target='y')]"


def main(n_bytes: int = GIGABYTE) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        n_rows, block = _write(path, n_bytes)
        reading, _ = _timed([sys.executable, "-c", READ.format(path=path)])
        command = [
            sys.executable,
            "-m",
            "amforest",
            "run",
            str(path),
            "-t",
            "y",
            "--model",
            "amf",
            "--quiet",
            "--json",
        ]
        whole, result = _timed([*command, "--max-nodes", str(MAX_NODES)])
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    summary = json.loads(result)
    core = _core_alone(*block, n_rows)
    print(f"{n_bytes / 1e9:.2f} GB, {n_rows:,} rows of {N_FEATURES} numbers, {MAX_NODES:,} nodes")
    print(f"whole command   {whole:7.1f} s  {n_rows / whole:9,.0f} rows/s")
    print(f"reading alone   {reading:7.1f} s  {reading / whole:9.0%} of the whole")
    print(f"core alone      {core:7.1f} s  {n_rows / core:9,.0f} rows/s, test-then-train")
    print(
        f"peak memory     {peak / 1e6:7.0f} MB, of which the model {summary['bytes'] / 1e6:.0f} MB"
    )


def _write(path: Path, n_bytes: int) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
    """Write blocks of rows until there are enough bytes; return the number of rows, and a block."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, N_FEATURES)).round(5)
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=len(X)) > 1).astype(int)
    names = ",".join(f"x{j}" for j in range(N_FEATURES))
    lines = "".join(
        ",".join(map(str, row)) + f",{label}\n" for row, label in zip(X.tolist(), y, strict=True)
    ).encode()
    n_blocks = max(n_bytes // len(lines), 1)
    with path.open("wb") as file:
        file.write(f"{names},y\n".encode())
        for _ in range(n_blocks):
            file.write(lines)
    return n_blocks * len(X), (X.astype(np.float32), y)


def _timed(command: list[str]) -> tuple[float, str]:
    start = time.perf_counter()
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, run.stdout


def _core_alone(X: np.ndarray, y: np.ndarray, n_rows: int) -> float:
    model = AMFClassifier(max_nodes=MAX_NODES, random_state=0)
    seconds = 0.0
    for first in range(0, n_rows, ROWS_AT_ONCE):
        part = slice(first % len(X), first % len(X) + ROWS_AT_ONCE)
        start = time.perf_counter()
        model.partial_fit_predict_proba(X[part], y[part])
        seconds += time.perf_counter() - start
    return seconds


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
