"""Trees that are regrown from rows: single trees, exactly."""

from fractions import Fraction

import numpy as np
import pytest
from adaptive_forests import LONGEST, PLAIN, adaptive, assert_same_state, resumed
from scipy import stats
from test_exactness import class_weight, exact_tree, mixture, prediction_of
from test_laws import LEVEL, members, partition_law

from amforest.reference import ClassCounts, Generator
from amforest.reference.adaptive_classes import gain

ONE = {"n_estimators": 1, "row_limit": 400}


def stream(n, d, seed=0, *, n_codes=0, gaps=0.0, weighted=False):
    """Return rows with categories first, labels that depend on the last feature, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_codes + d)).astype(np.float32)
    X[:, :n_codes] = rng.integers(0, 5, size=(n, n_codes))
    y = ((X[:, -1] > 0) ^ (rng.random(n) < 0.2)).astype(np.uint32)
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y, rng.choice([0.0, 0.5, 1.0, 3.0], size=n) if weighted else np.ones(n)


def as_rows(table):
    """Return a table of the core as an array of nodes."""
    names = ("parent", "left", "right", "feature", "threshold", "birth_time", "lower", "upper")
    rows = np.empty(len(table["left"]), [(n, table[n].dtype, table[n].shape[1:]) for n in names])
    for name in names:
        rows[name] = table[name]
    return rows


def nodes_with_rows(table, X):
    """Yield (node, rows of X in it); a missing value follows the child with more samples."""
    inside = {0: np.arange(len(X))}
    for v in range(len(table["left"])):
        yield v, inside[v]
        left, right = int(table["left"][v]), int(table["right"][v])
        if left >= 0:
            values = X[inside[v], table["feature"][v]]
            follows = table["n_samples"][right] <= table["n_samples"][left]
            goes_left = np.where(np.isnan(values), follows, values <= table["threshold"][v])
            inside[left], inside[right] = inside[v][goes_left], inside[v][~goes_left]


def assert_charged(table, X, y, weights, is_charged):
    """Compare all odds with those of charging each row in each node of its path."""
    log_w = []
    for v, rows in nodes_with_rows(table, X):
        labels, total = ClassCounts(2, 0.5), 0.0
        for i in rows:
            weight = float(weights[i])
            if is_charged[i]:  # the first sample of a node is free
                charged = weight if labels.n > 0 else max(weight - 1, 0.0)
                after_first = labels if labels.n > 0 else ClassCounts(2, 0.5)
                if labels.n == 0:
                    after_first.update(int(y[i]), 1.0)
                total -= after_first.loss(int(y[i]), charged)
            labels.update(int(y[i]), weight)
        log_w.append(total)
        np.testing.assert_allclose(table["counts"][v], labels.counts)
    log_w_bar = np.array(log_w)
    for v in reversed(range(len(log_w))):
        if (left := table["left"][v]) >= 0:
            below = log_w_bar[left] + log_w_bar[table["right"][v]]
            log_w_bar[v] = np.logaddexp(log_w[v], below) - np.log(2)
            odds = table["odds"][v] * 2.0 ** (256 * table["odds_scale"][v])
            np.testing.assert_allclose(np.log(odds), log_w[v] - below, rtol=1e-9, atol=1e-9)


# What a regrown tree is


@pytest.mark.parametrize("seed", range(12))
def test_a_regrown_tree_predicts_the_mixture_over_all_prunings(seed):
    """At most six points, so that there are not too many prunings."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 65, size=(6, 2)).astype(np.float32)[rng.integers(0, 6, size=19)] / 64
    y = rng.integers(0, 2, size=19).astype(np.uint32)
    group = [PLAIN, LONGEST, (16, False, False)][seed % 3]
    forest = adaptive(2, groups=[group], **ONE, split_pure=bool(seed % 2))
    forest.learn(X, y, 1)
    assert forest.n_regrows[0] == 1
    rows = int(forest.state()["trees"]["n_rows"][0])
    labels = y[-rows:].tolist()
    weigh = lambda labels: class_weight(labels, 2, Fraction(1, 2), charge_first=False)  # noqa: E731
    root = exact_tree(as_rows(forest.tree_table(0)), X[-rows:], labels, weigh)
    for x, prediction in zip(X, forest.predict_by_tree(X, 1)[:, 0], strict=True):
        expected = mixture(root, x, prediction_of, (0.5, 0))
        np.testing.assert_allclose(prediction, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("group", [PLAIN, LONGEST, (40, False, False)])
@pytest.mark.parametrize("weighted", [False, True])
def test_replayed_rows_are_charged_as_online_rows_are(group, weighted):
    X, y, weights = stream(150, 3, weighted=weighted)
    X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    forest = adaptive(3, groups=[group], **ONE)
    for i in range(len(X)):
        forest.learn(X[i : i + 1], y[i : i + 1], 1, weights=weights[i : i + 1])
        n = int(forest.state()["trees"]["n_rows"][0])
        if i % 9 == 0:
            known = slice(i + 1 - n, i + 1)
            table = forest.tree_table(0)
            assert_charged(table, X[known], y[known], weights[known], np.ones(n, dtype=bool))
    assert forest.n_regrows[0] > 2


def test_rows_with_missing_values_are_replayed_where_the_tree_sends_them():
    """Also where most rows and most of the weight are on different sides."""
    rng = np.random.default_rng(1)
    for seed in range(10):
        X, y, _ = stream(16, 2, seed, gaps=0.3)
        weights = rng.choice([0.1, 5.0], size=16)
        forest = adaptive(2, groups=[(16, False, False)], **ONE)
        forest.learn(X, y, 1, weights=weights)
        assert forest.n_regrows[0] == 1  # with row 16, so that no row came after the replay
        assert_charged(forest.tree_table(0), X, y, weights, np.ones(16, dtype=bool))


def test_honest_rows_that_choose_splits_are_counted_without_charge():
    X, y, weights = stream(40, 3)
    forest = adaptive(3, groups=[(None, True, False)], **ONE, n_candidates=600)
    forest.learn(X[:32], y[:32], 1)
    arrays = forest.state()["trees"]  # the regrowth of row 32 is under way
    assert arrays["is_regrown"][0] == 1
    rng = Generator(arrays["regrowth_seeds"][0].tolist())
    chooses = np.array([rng.uniform() < 0.7 for _ in range(32)] + [False] * 8)
    while forest.n_regrows[0] == 1:
        n = forest.n_samples
        forest.learn(X[n : n + 1], y[n : n + 1], 1)
    n = forest.n_samples
    assert_charged(forest.tree_table(0), X[:n], y[:n], weights[:n], ~chooses[:n])


def test_every_split_is_the_best_of_all_cuts_if_enough_candidates_are_drawn():
    rng = np.random.default_rng(0)
    X = rng.permuted(np.tile(np.arange(16, dtype=np.float32), (2, 1)), axis=1).T.copy()
    y = rng.integers(0, 3, size=16).astype(np.uint32)
    groups = [(16, False, False)]
    forest = adaptive(2, groups=groups, **ONE, n_candidates=2_000, n_classes=3)
    forest.learn(X, y, 1)
    while forest.n_regrows[0] == 0:  # more of the same rows change no split
        forest.learn(X[:1], y[:1], 1)
    table = forest.tree_table(0)
    for v, rows in nodes_with_rows(table, X):
        if (j := table["feature"][v]) >= 0:
            labels, ones = y[rows].astype(np.intp), np.ones(len(rows))
            gains = [gain(X[rows, k], c, labels, ones) for k in (0, 1) for c in X[rows, k]]
            chosen = gain(X[rows, j], float(table["threshold"][v]), labels, ones)
            assert chosen == pytest.approx(max(gains), abs=1e-9)
    assert len(table["left"]) > 5


@pytest.mark.parametrize("seed", range(10))
def test_a_unique_id_is_never_split_where_a_number_tells_anything(seed):
    X, y, _ = stream(16, 1, seed)
    X = np.column_stack([np.arange(16), X]).astype(np.float32)
    groups = [(16, False, False)]
    forest = adaptive(1, groups=groups, **ONE, categories=[300], n_candidates=20, seed=seed)
    forest.learn(X, y, 1)
    assert forest.n_regrows[0] == 1  # with row 16: all splits were chosen at the regrow
    used = forest.tree_table(0)["feature"]
    assert 1 in used
    assert 0 not in used


def test_splits_that_tell_nothing_are_taken_whatever_the_weights():
    """Rounding makes the gain of this split -16: it is the best there is."""
    x, y = np.tile([[1.0], [1.0], [2.0], [2.0]], (4, 1)), np.tile([0, 1], 8)
    weights = np.full(16, 207914685505548.12)
    assert gain(x[:, 0], 1.5, y, weights) < -1
    forest = adaptive(1, groups=[(16, False, False)], **ONE)
    forest.learn(x.astype(np.float32), y.astype(np.uint32), 1, weights=weights)
    assert forest.n_regrows[0] == 1
    assert len(forest.tree_table(0)["left"]) == 3


def test_times_are_finite_where_no_pair_of_rows_differs():
    """λ is 0 there; a forest with infinite times could not be restored."""
    X = np.zeros((400, 2), dtype=np.float32)
    X[::40, 0] = X[::57, 1] = 1
    y = np.random.default_rng(0).integers(0, 2, size=400).astype(np.uint32)
    forest = adaptive(2, n_estimators=4)
    for first in range(0, 400, 4):
        forest.learn(X[first : first + 4], y[first : first + 4], 1)
        assert_same_state(resumed(forest), forest)


# The law of n_candidates=1


@pytest.mark.parametrize(("group", "n_candidates"), [(PLAIN, 30), (LONGEST, 1)])
def test_one_candidate_gives_the_law_of_the_restricted_partition(group, n_candidates):
    """Four points on a diagonal, so that both features have the same λ: 40 outcomes."""
    x = np.array([3, 0, 12, 7], dtype=np.float32)
    points = np.stack([x, 12 - x], axis=1)
    how = {"groups": [group], "n_candidates": n_candidates, "split_pure": True}
    forest = adaptive(2, n_estimators=10_000, **how)
    forest.learn(np.tile(points, (8, 1)), np.zeros(32, dtype=np.uint32), 1)
    assert (forest.n_regrows > 0).all()
    trees = np.stack([as_rows(forest.tree_table(t)) for t in range(10_000)])
    inside = members(points, trees) @ (1 << np.arange(4))
    outcomes = np.stack([trees["feature"], inside], axis=2).tolist()
    law = partition_law(points, list(range(4)))
    counts = dict.fromkeys(law, 0)
    for tree in outcomes:
        counts[tuple(map(tuple, tree))] += 1
    expected = [10_000 * float(p) for p in law.values()]
    assert len(law) == 40
    assert stats.chisquare(list(counts.values()), expected).pvalue > LEVEL

    weights = forest.state()["trees"]["feature_weights"]
    sides = weights[:, None] * (trees["upper"].astype(np.float64) - trees["lower"])
    times = np.take_along_axis(trees["birth_time"], trees["left"], axis=1)
    waits = ((times - trees["birth_time"]) * sides.sum(axis=2))[trees["left"] >= 0]
    assert stats.kstest(waits, "expon").pvalue > LEVEL


# Work that is spread over rows

MIXED = {"n_codes": 1, "gaps": 0.1, "weighted": True}
SLOW = {"categories": [5], "n_candidates": 60, "row_limit": 60}


def test_a_forest_is_saved_and_resumed_bit_for_bit_at_every_row():
    X, y, weights = stream(110, 3, **MIXED)
    forest, n_active = adaptive(3, **SLOW), 0
    expected = adaptive(3, **SLOW)
    expected.learn(X, y, 1, weights=weights)
    for i in range(110):
        forest.learn(X[i : i + 1], y[i : i + 1], 1, weights=weights[i : i + 1])
        n_active += forest.state()["trees"]["is_regrown"].any()
        other = resumed(forest)
        assert_same_state(other, forest)
        other.learn(X[i + 1 :], y[i + 1 :], 1, weights=weights[i + 1 :])
        assert_same_state(other, expected)
    assert 20 < n_active < 110


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("size", [1, 3, 64, 300, 700])
def test_batches_and_threads_change_no_bit(n_threads, size):
    X, y, weights = stream(700, 3, **MIXED)
    expected, forest = adaptive(3, **SLOW), adaptive(3, **SLOW)
    expected.learn(X, y, 1, weights=weights)
    for first in range(0, 700, size):
        rows = slice(first, first + size)
        forest.learn(X[rows], y[rows], n_threads, weights=weights[rows])
    assert_same_state(forest, expected)


@pytest.mark.parametrize(("n_candidates", "n_rows"), [(6, 700), (10_000, 350)])
def test_work_per_row_is_bounded_and_ends_while_the_rows_are_stored(n_candidates, n_rows):
    """The work done ahead is less than one step: that of the root of all rows at most."""
    X, y, _ = stream(n_rows, 3)
    forest = adaptive(3, n_candidates=n_candidates, row_limit=100)
    largest_step = 32 + 12 * 100 + n_candidates * (100 + 16) + 128 * 128
    for i in range(n_rows):
        forest.learn(X[i : i + 1], y[i : i + 1], 1)
        arrays = forest.state()["trees"]
        assert (arrays["regrowth_credit"] <= 0).all()
        assert (arrays["regrowth_credit"] > -largest_step).all()
        started = arrays["regrowths"][arrays["is_regrown"] == 1, 1].astype(int)
        assert (i + 1 - started <= 25).all()
    assert_same_state(resumed(forest), forest)
    assert (forest.n_regrows > 1).all()
