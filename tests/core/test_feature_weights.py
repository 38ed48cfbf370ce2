"""Feature weights λ of the trees: each feature counts λ_j in extensions."""

import itertools

import numpy as np
import pytest
from core_forests import (
    RANGES,
    STRUCTURE,
    assert_same_forest,
    classifier,
    restored,
    rows,
    seeds,
    tables,
)
from scipy.stats import chi2

from amforest import reference
from helpers import assert_equal_predictions, learn_all, preorder

POWERS = np.array([2.0**3, 2.0**-5, 1.0, 2.0**10, 2.0**-1], dtype=np.float32)


def weights_of(values, n_trees=3):
    return np.tile(np.asarray(values, dtype=np.float32), (n_trees, 1))


def test_weights_of_one_change_no_bit():
    X, y = rows(400, 7)
    plain, weighted = classifier(7), classifier(7, feature_weights=weights_of(np.ones(7)))
    for forest in (plain, weighted):
        forest.learn(X, y, 1)
    assert_same_forest(weighted, plain)


@pytest.mark.parametrize("missing", [False, True])
def test_weights_are_scales_of_the_features(missing):
    """Powers of two scale floats exactly: the two forests are one, but for the unit of features."""
    X, y = rows(500, 5)
    if missing:
        X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    weighted, scaled = classifier(5, feature_weights=weights_of(POWERS)), classifier(5)
    weighted.learn(X, y, 1)
    scaled.learn(X * POWERS, y, 1)
    for table, other in zip(tables(weighted), tables(scaled), strict=True):
        for name in (*STRUCTURE, "odds", "share"):
            np.testing.assert_array_equal(table[name], other[name], err_msg=name)
        inner = table["feature"] >= 0
        units = POWERS[table["feature"][inner]]
        np.testing.assert_array_equal(table["threshold"][inner] * units, other["threshold"][inner])
        for side in RANGES[1:]:
            np.testing.assert_array_equal(table[side] * POWERS, other[side])
    np.testing.assert_array_equal(weighted.predict(X, 1), scaled.predict(X * POWERS, 1))


@pytest.mark.parametrize("predict_extends", [False, True])
def test_weights_are_scales_in_the_unrestricted_partition(predict_extends):
    X, y = rows(60, 3)
    powers = POWERS[:3]
    box = np.array([[-8.0] * 3, [8.0] * 3], dtype=np.float32)
    how = {"predict_extends": predict_extends}
    weighted = classifier(3, bounds=box, feature_weights=weights_of(powers), **how)
    scaled = classifier(3, bounds=box * powers, **how)
    weighted.learn(X, y, 1)
    scaled.learn(X * powers, y, 1)
    for table, other in zip(tables(weighted), tables(scaled), strict=True):
        for name in STRUCTURE:
            np.testing.assert_array_equal(table[name], other[name], err_msg=name)
    points, _ = rows(20, 3, seed=5)
    expected = scaled.predict(points * powers, 1)
    np.testing.assert_allclose(weighted.predict(points, 1), expected, rtol=1e-12)


def test_a_feature_of_weight_zero_is_never_split():
    X, y = rows(400, 4)
    forest = classifier(4, feature_weights=weights_of([0, 1, 0, 1]))
    forest.learn(X, y, 1)
    for table in tables(forest):
        assert set(table["feature"]) == {-1, 1, 3}
        # Its range is kept all the same.
        np.testing.assert_array_equal(table["lower"][0], X.min(axis=0))
        np.testing.assert_array_equal(table["upper"][0], X.max(axis=0))


def test_the_first_split_follows_the_weighted_extensions():
    """Two points that differ by Δ: the feature is drawn with probability λ_j Δ_j / Σ λΔ."""
    lam, delta = np.array([3.0, 0.5, 2.0]), np.array([1.0, 4.0, 0.5])
    X = np.array([[0, 0, 0], delta], dtype=np.float32)
    n_trees = 6_000
    forest = classifier(3, n_trees=n_trees, feature_weights=weights_of(lam, n_trees))
    forest.learn(X, np.array([0, 1], dtype=np.uint32), 1)
    first = [table["feature"][0] for table in tables(forest)]
    times = np.array([table["birth_time"][1] for table in tables(forest)])
    expected = n_trees * lam * delta / (lam @ delta)
    statistic = ((np.bincount(first, minlength=3) - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-7, 2)
    # The mean of Exp(Σ λΔ), within 5.5 standard errors.
    assert abs(times.mean() * (lam @ delta) - 1) < 5.5 / np.sqrt(n_trees)


def test_a_category_counts_the_weight_of_its_feature_in_each_changed_column():
    """x changes two one-hot columns of weight λ_f, and a number by Δ of weight 1."""
    lam, delta, n_trees = 2.0, 3.0, 6_000
    X = np.array([[0, 0], [1, delta]], dtype=np.float32)  # a code, then a number
    weights = weights_of([lam, 1.0], n_trees)
    forest = classifier(1, n_trees=n_trees, categories=[2], feature_weights=weights)
    forest.learn(X, np.array([0, 1], dtype=np.uint32), 1)
    n_number = sum(table["feature"][0] == 1 for table in tables(forest))
    p = delta / (2 * lam + delta)
    assert abs(n_number - n_trees * p) < 5.5 * np.sqrt(n_trees * p * (1 - p))


def test_weights_survive_saving_and_growth():
    X, y = rows(200, 4)
    forest = classifier(4, feature_weights=weights_of(POWERS[:4]))
    forest.learn(X[:100], y[:100], 1)
    same = restored(forest.state())
    wide = forest.reserve(n_numbers=6)
    weights = wide.state()["trees"]["feature_weights"]
    np.testing.assert_array_equal(weights, weights_of([*POWERS[:4], 1, 1]))
    for grown, rest in itertools.product([forest, same], [slice(100, 200)]):
        grown.learn(X[rest], y[rest], 1)
    assert_same_forest(same, forest)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_weights_that_are_no_weights_are_refused(bad):
    with pytest.raises(ValueError, match=r"feature_weights must lie in \[0, 2\*\*100\]"):
        classifier(2, feature_weights=weights_of([1, bad]))


@pytest.mark.parametrize("missing", [False, True])
def test_the_core_equals_the_reference_with_any_weights(missing):
    X, y = rows(150, 5)
    lam = np.array([0.3, 7.1, 0, 1.9, 1e-3], dtype=np.float32)
    if missing:
        X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    forest = classifier(5, n_trees=3, feature_weights=weights_of(lam))
    forest.learn(X, y, 1)
    for t, seed in enumerate(seeds(3).tolist()):
        tree = reference.Tree(
            lambda: reference.ClassCounts(2, 0.5), reference.Generator(seed), feature_weights=lam
        )
        learn_all([tree], X, y)
        table = forest.tree_table(t)
        nodes = [v for v, _ in preorder(tree)]
        for name in ("feature", "threshold", "lower", "upper"):
            expected = np.array([getattr(v, name) for v in nodes], dtype=table[name].dtype)
            np.testing.assert_array_equal(table[name], expected, err_msg=name)
        np.testing.assert_array_equal(table["birth_time"], [v.tau for v in nodes])
        expected = [tree.predict(x) for x in X]
        assert_equal_predictions(forest.predict_by_tree(X, 1)[:, t], expected)
