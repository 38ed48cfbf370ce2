"""Missing values: no extension, no wider range, and the way of the larger child."""

import pickle

import numpy as np
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._forest.core_handle import Fitted, handle_of
from amforest._forest.encoder import Encoder
from amforest._forest.inputs import Schema
from helpers import (
    SWITCHES,
    assert_equal_predictions,
    assert_equal_tables,
    reference_table,
    reference_trees,
    tables,
)


def stream_with_gaps(seed, n_rows=120, n_features=5, share=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, n_features)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 1).astype(int) + (X[:, 2] > 0.7)
    X[rng.uniform(size=X.shape) < share] = np.nan
    X[:20, 3] = np.nan  # a column that comes late
    if seed % 2:
        X[:, 4] = np.nan  # and one that never comes
    return X, y, rng


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("seed", range(32))
def test_the_core_equals_the_reference_with_gaps(seed, regression):
    X, y, rng = stream_with_gaps(seed)
    params = {name: bool(seed >> bit & 1) for bit, name in enumerate(SWITCHES)}
    if regression:
        model = AMFRegressor(2, step=1.0, random_state=seed, **params)
        y = y + rng.normal(size=len(y)).round()
    else:
        model = AMFClassifier(2, classes=range(3), random_state=seed, **params)
    trees = reference_trees(model)
    for start in range(0, len(y), 40):
        model.partial_fit(X[start : start + 40], y[start : start + 40])
    for tree in trees:
        for x, label in zip(X, y, strict=True):
            tree.learn(x, label)
    queries = np.concatenate([X, 1.5 * X[::-1], np.full((1, 5), np.nan, np.float32)])
    predict = model.predict_by_tree if regression else model.predict_proba_by_tree
    predictions = predict(queries).reshape(len(queries), 2, -1)
    for i, tree in enumerate(trees):
        table = model.tree_table(i)
        assert_equal_tables(table, reference_table(tree, table.dtype))
        assert_equal_predictions(predictions[:, i], [tree.predict(x) for x in queries])


@pytest.mark.parametrize(
    "cls", [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
)
def test_gaps_do_not_depend_on_batches_or_threads(cls):
    X, y, _ = stream_with_gaps(1, n_rows=2_000)
    how = {"n_estimators": 2, "random_state": 0}
    expected = tables(cls(**how).fit(X, y))
    for n_jobs, size in [(2, 2_000), (7, 300), (1, 1)]:
        model = cls(**how, n_jobs=n_jobs)
        if cls is not AMFRegressor:
            model.classes = np.unique(y)
        for start in range(0, len(y), size):
            model.partial_fit(X[start : start + size], y[start : start + size])
        assert tables(model) == expected
    for row, label in zip(X, y.tolist(), strict=True):
        model.learn_one(row, label)
    assert model.n_samples_seen_ == 4_000


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_a_column_that_was_always_missing_changes_nothing(cls):
    X, y, _ = stream_with_gaps(0)
    wide = np.insert(X, [0, 3, 5, 5, 5, 5] if cls is AMFClassifier else [5] * 6, np.nan, axis=1)
    narrow = cls(random_state=0).fit(X, y)
    model = cls(random_state=0).fit(wide, y)
    np.testing.assert_array_equal(model.predict_proba(wide), narrow.predict_proba(X))


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_growing_in_features_equals_having_had_them_all_the_time(cls):
    X, y, _ = stream_with_gaps(1, n_features=13)
    X[:60, 4:] = np.nan
    whole = cls(classes=range(3), random_state=0).fit(X, y)
    model = cls(classes=range(3), random_state=0).fit(X[:60, :4], y[:60])
    handle = handle_of(model)
    core = handle.fitted.core.reserve(n_numbers=13)
    schema = Schema(np.zeros(13, dtype=bool))
    handle.fitted = Fitted(Encoder(schema), handle.fitted.labels, core)
    assert tables(model.partial_fit(X[60:], y[60:])) == tables(whole)


def test_a_missing_value_follows_the_larger_child_and_ties_go_left():
    X = np.array([[0], [0], [0], [1], [1], [1]], dtype=np.float32)
    y = np.array([0, 0, 0, 1, 1, 1])
    missing = np.full((1, 1), np.nan, np.float32)
    for rows, side in [([0, 3], "left"), ([0, 3, 4], "right"), ([0, 1, 3], "left")]:
        model = AMFClassifier(20, split_pure=True, random_state=0).fit(X[rows], y[rows])
        leaves = model.apply(missing)[0]
        for i, leaf in enumerate(leaves):
            assert leaf == model.tree_table(i)[side][0]
        before = [model.tree_table(i)["n_samples"][leaf] for i, leaf in enumerate(leaves)]
        model.partial_fit(missing, [0])
        after = [model.tree_table(i)["n_samples"][leaf] for i, leaf in enumerate(leaves)]
        assert after == [n + 1 for n in before]


def test_a_missing_value_neither_splits_nor_widens():
    X = np.random.default_rng(0).uniform(size=(50, 2))
    model = AMFRegressor(5, random_state=0).fit(X, X[:, 0])
    before = [model.tree_table(i) for i in range(5)]
    model.partial_fit(np.full((10, 2), np.nan), np.full(10, 3.0))
    for i, old in enumerate(before):
        new = model.tree_table(i)
        for name in ("feature", "threshold", "lower", "upper"):
            np.testing.assert_array_equal(new[name], old[name])
        assert new["n_samples"][0] == 60


def test_none_in_a_row_is_missing():
    model = AMFRegressor(random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0])
    assert model.predict_one([0.5, None]) == model.predict_one([0.5, np.nan])


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_saving_keeps_the_gaps(cls):
    X, y, _ = stream_with_gaps(1)
    model = cls(random_state=0).fit(X[:60], y[:60])
    copy = pickle.loads(pickle.dumps(model))
    assert tables(copy.partial_fit(X[60:], y[60:])) == tables(model.partial_fit(X[60:], y[60:]))
