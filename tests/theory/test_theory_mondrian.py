"""Partitions have the laws of the Mondrian process, and their cells fill the box.

Statistical tests have fixed seeds; each comparison (five standard errors, or a p-value of 1e-6)
raises a false alarm with probability of about 1e-6 at most.
"""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from theory_helpers import SQUARE

from amforest.theory import sample_mondrian, sample_mondrians, time_pruning

LEVEL = 1e-6
N = 20_000


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("lifetime", [0.5, 1.0, 2.0])
def test_the_mean_number_of_leaves_is_one_plus_lambda_to_the_power_d(d, lifetime):
    partitions = sample_mondrians([[0, 1]] * d, lifetime, N, random_state=d)
    n_leaves = np.array([partition.n_leaves for partition in partitions])
    assert abs(n_leaves.mean() - (1 + lifetime) ** d) < 5 * n_leaves.std() / math.sqrt(N)


def test_the_sides_of_the_box_stretch_time():
    partitions = sample_mondrians([[2, 5], [-1, -0.5], [7, 7]], 0.8, N, random_state=0)
    n_leaves = np.array([partition.n_leaves for partition in partitions])
    mean = (1 + 0.8 * 3) * (1 + 0.8 * 0.5)
    assert abs(n_leaves.mean() - mean) < 5 * n_leaves.std() / math.sqrt(N)


def test_in_one_dimension_the_splits_are_a_poisson_process():
    partitions = sample_mondrians([[2, 5]], 0.7, N, random_state=0)
    splits = [p.table["threshold"][p.table["left"] >= 0] for p in partitions]
    counts = np.array([len(s) for s in splits])
    mu = 0.7 * 3
    assert abs(counts.mean() - mu) < 5 * math.sqrt(mu / N)
    assert abs(counts.var() - mu) < 5 * math.sqrt((mu + 2 * mu**2) / N)
    assert stats.kstest(np.concatenate(splits), stats.uniform(2, 3).cdf).pvalue > LEVEL
    left, right = (np.array([np.sum((s > 3.2) == side) for s in splits]) for side in (False, True))
    assert abs(np.corrcoef(left, right)[0, 1]) < 5 / math.sqrt(N)


def test_a_time_pruning_has_the_law_of_the_process_at_that_time():
    coarse = [p.time_pruning(0.8) for p in sample_mondrians(SQUARE, 2.0, N, random_state=0)]
    fresh = sample_mondrians(SQUARE, 0.8, N, random_state=1)
    counts = np.array([[Counter(min(p.n_leaves, 11) for p in sample)[k] for k in range(1, 12)]
                       for sample in (coarse, fresh)])  # fmt: skip
    assert counts.min() >= 5
    assert stats.chi2_contingency(counts).pvalue > LEVEL


def test_a_time_pruning_is_a_coarsening():
    for fine in sample_mondrians(SQUARE, 3.0, 50, random_state=2):
        coarse = fine.time_pruning(1.0)
        assert coarse.table["birth_time"].max() <= 1.0
        lower, upper = fine.cells
        around = coarse.table[coarse.locate((lower + upper) / 2)]
        assert np.all((around["lower"] <= lower) & (upper <= around["upper"]))
        leaves = time_pruning(fine.table, 1.0)
        np.testing.assert_array_equal(coarse.cells[0], fine.table["lower"][leaves])
        np.testing.assert_array_equal(coarse.cells[1], fine.table["upper"][leaves])


def test_pruning_at_the_lifetime_changes_nothing_and_at_zero_leaves_the_root():
    partition = sample_mondrian(SQUARE, 3.0, random_state=0)
    assert partition.time_pruning(3.0).table.tobytes() == partition.table.tobytes()
    assert partition.time_pruning(0.0).n_leaves == 1


def test_locate_agrees_with_the_cells():
    rng = np.random.default_rng(0)
    for partition in sample_mondrians(SQUARE, 3.0, 20, random_state=3):
        X = np.concatenate([rng.uniform(size=(100, 2)), [[0, 0], [1, 1], [0, 1]]])
        lower, upper = partition.cells
        left_open = (X[:, None] > lower) | ((X[:, None] == 0) & (lower == 0))
        inside = np.all(left_open & (X[:, None] <= upper), axis=2)
        assert np.all(inside.sum(axis=1) == 1)
        np.testing.assert_array_equal(partition.locate(X), partition.leaves[inside.argmax(axis=1)])
        np.testing.assert_array_equal(partition.locate(upper), partition.leaves)


def test_the_cells_fill_the_box_and_links_fit():
    partition = sample_mondrian(SQUARE, 30.0, random_state=0)
    table, (lower, upper) = partition.table, partition.cells
    assert len(partition.leaves) == partition.n_leaves > 100
    np.testing.assert_allclose(np.prod(upper - lower, axis=1).sum(), 1.0)
    inner = np.flatnonzero(table["left"] >= 0)
    for name in ("left", "right"):
        np.testing.assert_array_equal(table["parent"][table[name][inner]], inner)
        assert np.all(table["birth_time"][table[name][inner]] > table["birth_time"][inner])
    assert np.all(table["parent"] < np.arange(len(table)))


def test_the_same_seed_gives_the_same_partition():
    first, second, other = (sample_mondrian(SQUARE, 3.0, random_state=seed) for seed in (1, 1, 2))
    assert first.table.tobytes() == second.table.tobytes() != other.table.tobytes()


def test_a_box_without_extent_is_never_split():
    assert sample_mondrian([[1, 1], [2, 2]], 1e6, random_state=0).n_leaves == 1


@pytest.mark.parametrize("d", [1, 2])
def test_all_cells_are_drawn(d):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    partition = sample_mondrian([[0, 1]] * d, 3.0, random_state=0)
    figure, ax = pyplot.subplots()
    assert partition.draw(ax) is partition.draw() is ax
    assert len(ax.collections[0].get_paths()) == partition.n_leaves
    pyplot.close(figure)
    with pytest.raises(ValueError, match="1 or 2"):
        sample_mondrian([[0, 1]] * 3, 1.0).draw()


@pytest.mark.parametrize(
    ("box", "lifetime", "message"),
    [
        ([0, 1], 1.0, "Expected 2D array"),
        ([[0, 1, 2]], 1.0, r"box is of shape \(1, 3\)"),
        ([[1, 0]], 1.0, "box is .* not below"),
        ([[0, np.nan]], 1.0, "box contains NaN"),
        ([[0, np.inf]], 1.0, "box contains infinity"),
        ([[0, 1]], -1.0, "lifetime is -1"),
        ([[0, 1]], np.nan, "lifetime is nan"),
        ([[0, 1]], np.inf, "lifetime is inf"),
    ],
)
def test_bad_boxes_and_lifetimes_are_refused(box, lifetime, message):
    with pytest.raises(ValueError, match=message):
        sample_mondrian(box, lifetime)


def test_points_that_are_not_in_the_box_are_refused():
    partition = sample_mondrian(SQUARE, 1.0, random_state=0)
    with pytest.raises(ValueError, match="X has rows outside of the box; the first is row 1"):
        partition.locate([[0.5, 0.5], [0.5, 1.1]])
    with pytest.raises(ValueError, match="X is 3 columns wide; it must be 2"):
        partition.locate([[0.5, 0.5, 0.5]])
    with pytest.raises(ValueError, match="X contains NaN"):
        partition.locate([[0.5, np.nan]])
    with pytest.raises(ValueError, match="lifetime is 2"):
        partition.time_pruning(2.0)
