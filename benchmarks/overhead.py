"""Overhead of a call: microseconds on a tree of one node, 20 features.

These are differences of times, not ratios: learning itself takes almost no time here.
"""

from collections.abc import Callable
from statistics import median

import numpy as np

from benchmarks.importing import import_library
from benchmarks.timing import Table, seconds

N_FEATURES = 20
CALLS, REPETITIONS = 2_000, 15
DICTIONARY = "learn_one of a dictionary, µs above a row"
PARTIAL_FIT = "partial_fit of one row, µs above the core"
TARGETS = {DICTIONARY: 3.0, PARTIAL_FIT: 15.0}


def measure() -> Table:
    """Return the microseconds by figure."""
    X, y = np.zeros((1, N_FEATURES), dtype=np.float32), np.array([1])
    model = import_library("amforest").AMFClassifier(1, classes=[0, 1], random_state=0).fit(X, y)
    row, core = X[0], model._core
    costs = {
        "core": lambda: core.learn_row(row, 1),
        "row": lambda: model.learn_one(row, 1),
        PARTIAL_FIT: lambda: model.partial_fit(X, y),
    }
    try:
        twin = import_library("amforest.river").AMFClassifier(n_estimators=1, seed=0)
    except ImportError:
        pass
    else:
        x = dict.fromkeys([f"feature {j}" for j in range(N_FEATURES)], 0.0)
        twin.learn_one(x, 1)
        costs[DICTIONARY] = lambda: twin.learn_one(x, 1)
    times = _microseconds(costs)
    above = {PARTIAL_FIT: "core", DICTIONARY: "row"}
    return {
        name: {"amforest": times[name] - times[base]}
        for name, base in above.items()
        if name in times
    }


def _microseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median microseconds of each call; the calls take turns."""
    measured: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPETITIONS):
        for name, call in calls.items():
            measured[name].append(seconds(_repeat, call) / CALLS * 1e6)
    return {name: median(times) for name, times in measured.items()}


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(CALLS):
        call()
