"""Categorical features compared with explicit one-hot columns: seconds and bytes per row."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from amforest import AMFClassifier, datasets
from benchmarks.data import are_real
from benchmarks.memory import is_possible, peak_growth
from benchmarks.peers import N_TREES, warmed_up
from benchmarks.timing import Medians, Table, seconds

DATA = ("adult", "bank")
ONE_HOT = "one-hot"
LEARNING = "learning with categories"
MEMORY = "memory of the forest with categories"
PEAK = "memory growth with categories"


def measure(names: Iterable[str], max_rows: int | None, repetitions: int) -> dict[str, Table]:
    """Learn the same rows in the same order in both ways, alternately."""
    learning, memory, peak = Medians(), Medians(), Medians()
    for name in names if are_real() else ():
        explicit, coded = datasets.load(name), datasets.load(name, one_hot=False)
        order = np.random.default_rng(0).permutation(len(coded.y))[:max_rows]
        ways = {"amforest": (coded, coded.categorical_features), ONE_HOT: (explicit, None)}
        for seed in range(repetitions):
            for way, (data, columns) in ways.items():
                model = AMFClassifier(
                    N_TREES, classes=[0, 1], categorical_features=columns, random_state=seed
                )
                learn = partial(model.partial_fit, data.X[order], data.y[order])
                if seed == 0 and is_possible():
                    grown = peak_growth(learn, partial(warmed_up, "amforest"))
                    peak.add(name, way, grown / len(order))
                learning.add(name, way, seconds(learn) / len(order))
                memory.add(name, way, model.stats()["bytes"] / len(order))
    return {LEARNING: learning.table(), MEMORY: memory.table(), PEAK: peak.table()}
