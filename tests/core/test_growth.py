"""A forest that gets room for more classes, categories or numbers, and trees that differ."""

import numpy as np
import pytest
from core_forests import assert_same_forest, classifier, restored, rows

from amforest import _core

NAN = np.float32(np.nan)


def test_reserve_leaves_the_forest_as_it_was():
    X, y = rows(200, 4)
    forest = classifier(4)
    forest.learn(X, y, 1)
    before = forest.state()
    forest.reserve(n_numbers=9, categories=[3], capacity=5)
    after = forest.state()
    for name, column in before["trees"].items():
        np.testing.assert_array_equal(column, after["trees"][name])


def test_more_room_changes_no_prediction_and_no_later_split():
    X, y = rows(300, 4)
    forest = classifier(4)
    forest.learn(X[:150], y[:150], 1)
    wide = forest.reserve(n_numbers=9, categories=[40, 3], capacity=7)
    codes, late = np.full((300, 2), NAN), np.full((300, 5), NAN)
    wide_X = np.hstack([codes, X, late])
    np.testing.assert_array_equal(wide.predict(wide_X, 1), forest.predict(X, 1))
    for grown, data in ((forest, X), (wide, wide_X)):
        grown.learn(data[150:], y[150:], 1)
    np.testing.assert_array_equal(wide.predict(wide_X, 1), forest.predict(X, 1))
    for t in range(3):
        table, other = wide.tree_table(t), forest.tree_table(t)
        is_inner = other["feature"] >= 0
        np.testing.assert_array_equal(table["feature"][is_inner], other["feature"][is_inner] + 2)
        for name in ("threshold", "birth_time", "counts", "odds"):
            np.testing.assert_array_equal(table[name], other[name], err_msg=name)


def test_a_grown_forest_is_the_one_that_had_room_from_the_start():
    X, y = rows(400, 3)
    codes = np.random.default_rng(3).integers(0, 2, 400).astype(np.float32)[:, None]
    small, large = classifier(3, categories=[2]), classifier(3, categories=[70])
    for forest in (small, large):
        forest.learn(np.hstack([codes, X])[:200], y[:200], 1)
    grown = small.reserve(categories=[70])
    more = np.random.default_rng(4).integers(0, 70, 200).astype(np.float32)[:, None]
    for forest in (grown, large):
        forest.learn(np.hstack([more, X[200:]]), y[200:], 1)
    assert_same_forest(grown, large)
    assert_same_forest(restored(grown.state()), large)


def test_counts_become_real_without_changing_a_tree():
    X, y = rows(300, 4)
    forest = classifier(4)
    forest.learn(X, y, 1)
    real = forest.with_real_counts()
    assert isinstance(real, _core.WeightedClassifierForest)
    assert_same_forest(real, forest)
    np.testing.assert_array_equal(real.predict(X, 1), forest.predict(X, 1))
    real.learn(X, y, 1, np.full(len(y), 0.5))
    assert real.total_weight == 450


@pytest.mark.parametrize(
    "fewer", [{"n_numbers": 3}, {"categories": []}, {"categories": [4, 1]}, {"capacity": 1}]
)
def test_room_never_becomes_less(fewer):
    with pytest.raises(ValueError, match=r"must not become fewer|must lie in"):
        classifier(4, categories=[4, 2]).reserve(**fewer)


def test_parameters_that_the_label_model_does_not_have_are_refused():
    with pytest.raises(ValueError, match="parameters that the label model does not have"):
        classifier(4).reserve(n_labels=3)


# Trees of one forest that have learned different rows


def combined(forests):
    """The trees of several forests as those of one."""
    states = [forest.state() for forest in forests]
    trees = {
        name: np.concatenate([state["trees"][name] for state in states])
        for name in states[0]["trees"]
    }
    return states[0] | {"trees": trees, "n_samples": max(s["n_samples"] for s in states)}


def test_each_tree_has_its_own_count_of_rows():
    X, y = rows(500, 4)
    forests = [classifier(4, n_trees=2, seed=seed) for seed in range(3)]
    ends = [500, 60, 0]  # the last has learned nothing yet
    for forest, end in zip(forests, ends, strict=True):
        if end:
            forest.learn(X[:end], y[:end], 1)
    mixed = restored(combined(forests))
    np.testing.assert_array_equal(mixed.state()["trees"]["n_rows"], np.repeat(ends, 2))
    assert (mixed.n_samples, mixed.total_weight) == (500, 500)
    expected = np.mean([forest.predict(X, 1) for forest in forests], axis=0)
    np.testing.assert_allclose(mixed.predict(X, 1), expected, rtol=1e-15)
    for forest in (*forests, mixed):
        forest.learn(X, y, 1)
    expected = np.mean([forest.predict(X, 1) for forest in forests], axis=0)
    np.testing.assert_allclose(mixed.predict(X, 1), expected, rtol=1e-15)


@pytest.mark.parametrize("how", [{"predict_extends": True}, {"charge_first": True}])
def test_an_empty_tree_among_others_predicts_the_prior(how):
    X, y = rows(100, 3)
    grown, empty = classifier(3, n_trees=1, **how), classifier(3, n_trees=1, seed=1, **how)
    grown.learn(X, y, 1)
    mixed = restored(combined([grown, empty]))
    expected = (grown.predict(X, 1) + 0.5) / 2
    np.testing.assert_allclose(mixed.predict(X, 1), expected, rtol=1e-14)
    np.testing.assert_allclose(mixed.predict_by_tree(X, 1)[:, 1], 0.5)


def test_rows_of_a_tree_beyond_those_of_the_forest_are_refused():
    forest = classifier(3)
    forest.learn(*rows(20, 3), 1)
    state = forest.state()
    state["trees"]["n_rows"][1] = 21
    with pytest.raises(ValueError, match="n_rows must be 0 where a tree is empty"):
        restored(state)


def test_a_wide_forest_of_many_trees_is_built():
    forest = classifier(50_000, n_trees=100)
    assert forest.n_trees == 100


def test_many_empty_trees_of_many_features_are_refused():
    """Their memory would be out of proportion to the file's."""
    grown = classifier(5_000, n_trees=1)
    grown.learn(np.zeros((1, 5_000), np.float32), np.zeros(1, np.uint32), 1)
    empty = classifier(5_000, n_trees=100, seed=1)
    with pytest.raises(ValueError, match="too many empty trees"):
        restored(combined([grown, empty]))
