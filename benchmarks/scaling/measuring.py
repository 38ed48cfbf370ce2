"""Measurements of forests on Ray beside forests in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from amforest import AdaptiveAMFClassifier, AMFClassifier
from amforest._forest.core_handle import handle_of
from amforest.distributed.ray_shards import RayShards
from amforest.distributed.sharded_core import ShardedCore
from benchmarks.scaling.cost_model import Case

N_FEATURES, N_GROUPS = 20, 9
AMF, ADAPTIVE = "AMF", "adaptive"
N_WARM = 10_000  # rows that are learned before the clock starts
MAX_PENDING = 4


@dataclass(frozen=True)
class Measured:
    """What one batch took, in seconds."""

    case: Case
    batch: float
    driver: float  # its CPU time
    shard: float  # CPU time of the slowest
    node_bytes: float
    nodes_per_row: float  # and tree


def new_model(family: str, n_trees: int, n_jobs: int = 1) -> Any:
    """Return a classifier with so many trees."""
    if family == AMF:
        return AMFClassifier(n_trees, n_jobs=n_jobs, random_state=0)
    return AdaptiveAMFClassifier(n_trees // N_GROUPS, n_jobs=n_jobs, random_state=0)


def rows(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Return rows of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n) > 0).astype(np.int64)
    return X, y


def place_in(shards: RayShards, model: Any) -> Any:
    """Let the trees of a new model live in actors that several models share."""
    handle_of(model).place = lambda core: ShardedCore.place(core, shards, MAX_PENDING)  # type: ignore[assignment,return-value]
    return model


def measure(case: Case, shards: RayShards, n_batches: int) -> Measured:
    """Learn batches, several of which are under way."""
    model = place_in(shards, new_model(case.family, case.n_trees))
    model.partial_fit(*rows(N_WARM), classes=[0, 1])
    core: Any = handle_of(model).fitted.core  # type: ignore[union-attr]
    core.finish()
    before = shards.stats()
    X, y = rows(case.n_rows * n_batches, seed=1)
    start, cpu_start = time.perf_counter(), time.process_time()
    for i in range(0, len(X), case.n_rows):
        model.partial_fit(X[i : i + case.n_rows], y[i : i + case.n_rows])
    core.finish()
    elapsed, driver = time.perf_counter() - start, time.process_time() - cpu_start
    spans = zip(before, shards.stats(), strict=True)
    shard = max(b["cpu_seconds"] - a["cpu_seconds"] for a, b in spans)
    n_nodes = core.n_nodes
    return Measured(
        case,
        elapsed / n_batches,
        driver / n_batches,
        shard / n_batches,
        core.n_bytes / n_nodes,
        n_nodes / core.n_samples / case.n_trees,
    )


def overhead(family: str, n_trees: int, shards: RayShards, n_batches: int) -> float:
    """Return the median of the seconds of a batch of 1,000 rows beyond the slowest shard's own.

    One batch after the other is predicted and learned.
    """
    model = place_in(shards, new_model(family, n_trees))
    model.partial_fit(*rows(N_WARM), classes=[0, 1])
    X, y = rows(1000 * n_batches, seed=2)
    spans: list[float] = []
    for i in range(0, len(X), 1000):
        before = shards.stats()
        start = time.perf_counter()
        model.partial_fit_predict_proba(X[i : i + 1000], y[i : i + 1000])
        elapsed = time.perf_counter() - start
        own = [b["seconds"] - a["seconds"] for a, b in zip(before, shards.stats(), strict=True)]
        spans.append(elapsed - max(own))
    return median(spans)


def speed_beside_threads(
    family: str, n_trees: int, shards: RayShards, n_batches: int, n_repeats: int
) -> float:
    """Return the rows per second of actors over those of as many threads in one process.

    The median of alternating repeats, with batches of 5,000 rows.
    """
    X, y = rows(5000 * n_batches, seed=3)
    ratios = []
    for _ in range(n_repeats):
        by_place = []
        for model in (
            new_model(family, n_trees, n_jobs=len(shards)),
            place_in(shards, new_model(family, n_trees)),
        ):
            model.partial_fit(*rows(N_WARM), classes=[0, 1])
            _finish(model)
            start = time.perf_counter()
            for i in range(0, len(X), 5000):
                model.partial_fit(X[i : i + 5000], y[i : i + 5000])
            _finish(model)
            by_place.append(time.perf_counter() - start)
        ratios.append(by_place[0] / by_place[1])
    return median(ratios)


def _finish(model: Any) -> None:
    core: Any = handle_of(model).fitted.core  # type: ignore[union-attr]
    if isinstance(core, ShardedCore):
        core.finish()


def driver_memory(
    family: str, n_trees: int, shards: RayShards, n_batches: int, show: Callable[[int], None]
) -> tuple[float, float]:
    """Return the resident megabytes of this process after a third of the batches, and after all."""
    model = new_model(family, n_trees).set_params(max_nodes=n_trees * 4000)
    place_in(shards, model)
    X, y = rows(1000, seed=4)
    third = 0.0
    for i in range(n_batches):
        model.partial_fit(X, y, classes=[0, 1])
        show(i + 1)
        if i + 1 == n_batches // 3:
            third = _resident_megabytes()
    return third, _resident_megabytes()


def _resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
