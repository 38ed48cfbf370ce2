"""The time of single calls of `learn_one`: regrowing must not stop the stream.

The same stream is learned twice with the same seed, and of both times of a row the lower one
counts. Both forests are the same bit for bit, so what a row needs is in both times. Other
processes, whose interruptions decide the maximum of a single run, rarely delay the same row twice.
"""

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.quality.contenders import ADAPTIVE, ADAPTIVE_CLASS, AMF, new_model
from benchmarks.quality.kept import kept
from benchmarks.quality.regression_contenders import ADAPTIVE_REG, ADAPTIVE_REG_CLASS, AMF_REG
from benchmarks.quality.streams import Floats

N_FEATURES = 20
_BINARY = {"classes": np.arange(2)}
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    ADAPTIVE: (ADAPTIVE_CLASS, _BINARY),
    AMF: ("AMFClassifier", _BINARY),
    ADAPTIVE_REG: (ADAPTIVE_REG_CLASS, {}),
    AMF_REG: ("AMFRegressor", {}),
}
_PIECE = 10_000  # rows that are generated at a time
_N_RUNS = 2
CPU, WALL, ONE_RUN = "cpu", "wall", "cpu, one run"


def measure(contender: str, n_rows: int) -> dict[str, float]:
    """Return quantiles of the time of a call, in µs: CPU time, and time on the wall.

    The lower time of two runs counts, row by row. CPU time is also given for the first run alone.
    """
    result: dict[str, float] = kept(
        "latency",
        contender,
        (n_rows, f"{_N_RUNS} runs"),
        lambda: summarize([_run(*_MODELS[contender], n_rows) for _ in range(_N_RUNS)]),
    )
    return result


def summarize(runs: Sequence[tuple[Floats, Floats]]) -> dict[str, float]:
    """Return the quantiles, from the CPU times and the times on the wall of each run."""
    cpu, wall = (np.minimum.reduce(times) for times in zip(*runs, strict=True))
    return {**_quantiles(CPU, cpu), **_quantiles(WALL, wall), **_quantiles(ONE_RUN, runs[0][0])}


def _run(class_name: str, options: dict[str, Any], n_rows: int) -> tuple[Floats, Floats]:
    """Return the CPU time of each call, and its time on the wall, in ns."""
    model = new_model(class_name, 0, **options)
    cpu, wall = np.empty(n_rows), np.empty(n_rows)
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(N_FEATURES)
    gc.disable()
    for start in range(0, n_rows, _PIECE):
        n = min(_PIECE, n_rows - start)
        X = rng.standard_normal((n, N_FEATURES))
        numbers = X @ direction + rng.standard_normal(n)
        y = (numbers > 0).astype(np.int64) if "classes" in options else numbers
        part = slice(start, start + n)
        _time_calls(model.learn_one, list(X), y.tolist(), cpu[part], wall[part])
    gc.enable()
    return cpu, wall


def _time_calls(
    learn_one: Callable[[Any, Any], Any],
    rows: list[Any],
    labels: list[Any],
    cpu: Floats,
    wall: Floats,
) -> None:
    cpu_clock, wall_clock = time.thread_time_ns, time.perf_counter_ns
    for i, (x, y) in enumerate(zip(rows, labels, strict=True)):
        wall_start, cpu_start = wall_clock(), cpu_clock()
        learn_one(x, y)
        cpu[i] = cpu_clock() - cpu_start
        wall[i] = wall_clock() - wall_start


def _quantiles(clock: str, times: Floats) -> dict[str, float]:
    us = times / 1e3
    levels = {"median": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999, "max": 1.0}
    return {f"{clock} {name}": float(np.quantile(us, q)) for name, q in levels.items()}
