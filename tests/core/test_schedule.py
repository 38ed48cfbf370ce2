"""When trees are regrown: staggered, at doublings, then each memory, or each half of it."""

import itertools
import math

import numpy as np
import pytest
from adaptive_forests import LONGEST, PLAIN, adaptive, adaptive_regressor

from amforest._core import AdaptiveClassifierForest
from amforest.reference.adaptive import next_regrow


def observed_starts(forest, n_rows):
    """Return the rows at which each tree of a forest is regrown: its next row is set then."""
    is_classifier = isinstance(forest, AdaptiveClassifierForest)
    X = np.zeros((n_rows, 1), dtype=np.float32)
    y = np.zeros(n_rows, dtype=np.uint32 if is_classifier else np.float64)
    starts = [[] for _ in range(forest.n_trees)]
    due = forest.state()["trees"]["due"]
    for i in range(n_rows):
        forest.learn(X[i : i + 1], y[i : i + 1], 1)
        before, due = due, forest.state()["trees"]["due"]
        for t in np.flatnonzero(due != before):
            starts[t].append(i + 1)
    return starts


def expected_starts(n_rows, phase, memory, regrows_per_memory=2, last=math.inf):
    starts, now = [], 0
    while (now := next_regrow(now, phase, memory, regrows_per_memory, last)) <= n_rows:
        starts.append(now)
    return starts


@pytest.mark.parametrize(("n_groups", "regrows_per_memory"), [(1, 2), (9, 2), (1, 1), (12, 1)])
@pytest.mark.parametrize("n_estimators", [1, 2, 3, 5, 7, 10])
def test_trees_of_a_group_are_never_regrown_at_the_same_row(
    n_estimators, n_groups, regrows_per_memory
):
    least = max(8, 2 * n_estimators)
    for memory in [None, *range(least, 40), 60, 64, 65, 127, 129, 250, 1000, 4000]:
        for g in range(n_groups):
            phases = [(k + g / n_groups) / n_estimators for k in range(n_estimators)]
            n_rows = 900 if memory in range(100) else 9_000
            rows = [
                expected_starts(n_rows, phase, memory, regrows_per_memory, n_rows)
                for phase in phases
            ]
            rows = list(itertools.chain(*rows))
            assert len(set(rows)) == len(rows), memory


def test_trees_with_a_memory_are_regrown_at_doublings_then_each_half_memory():
    forest = adaptive(1, groups=[(100, False, False)], n_estimators=4)
    for starts, phase in zip(observed_starts(forest, 380), [0, 0.25, 0.5, 0.75], strict=True):
        doublings = [int(16 * 2.0 ** (k + phase)) for k in range(2)]  # before row 64
        halves = [int(64 + 50 * (c + phase)) for c in range(7)]
        assert starts == [row for row in doublings + halves if row <= 380]
        assert starts == expected_starts(380, phase, 100)


def test_trees_of_numbers_are_regrown_at_doublings_then_each_memory():
    groups = [(100, False, False, False)]
    forest = adaptive_regressor(1, groups=groups)
    for starts, phase in zip(observed_starts(forest, 500), [0, 0.5], strict=True):
        doublings = [int(16 * 2.0 ** (k + phase)) for k in range(3)]  # before row 128
        later = [int(128 + 100 * (c + phase)) for c in range(5)]
        assert starts == [row for row in doublings + later if row <= 500]
        assert starts == expected_starts(500, phase, 100, 1)


def test_trees_with_a_short_memory_are_regrown_each_half_memory_from_row_16_on():
    forest = adaptive(1, groups=[(15, False, False)], n_estimators=2)
    starts = observed_starts(forest, 120)
    assert starts[0] == [int(16 + 7.5 * c) for c in range(14)]
    assert starts[1] == [int(16 + 7.5 * (c + 0.5)) for c in range(14)]


def test_trees_without_a_memory_are_regrown_at_doublings_up_to_the_row_limit():
    forest = adaptive(1, groups=[LONGEST], n_estimators=2, row_limit=150)
    assert observed_starts(forest, 700) == [[16, 32, 64, 128], [22, 45, 90]]


def test_plain_trees_are_regrown_up_to_row_1024():
    forest = adaptive(1, groups=[PLAIN], n_estimators=1, row_limit=5_000)
    assert observed_starts(forest, 2_100)[0] == [16 * 2**k for k in range(7)]


def test_a_regrow_that_lasts_longer_than_the_next_row_is_followed_by_a_later_one():
    """The schedule stays staggered, and the forest can be saved."""
    forest = adaptive(2, groups=[(16, False, False)], n_candidates=10_000, row_limit=400)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    y = rng.integers(0, 2, size=300).astype(np.uint32)
    for i in range(300):
        forest.learn(X[i : i + 1], y[i : i + 1], 1)
        trees = forest.state()["trees"]
        assert ((trees["due"] > i + 1) | (trees["is_regrown"] == 1)).all()
    assert (forest.n_regrows > 1).all()
    assert (forest.n_regrows < 20).all()
