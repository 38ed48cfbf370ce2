"""The compiled core equals the plain-Python reference, bit for bit."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amforest import AMFClassifier, AMFRegressor, reference
from amforest._core import Rng
from amforest._forest.core_options import tree_seeds
from helpers import SWITCHES, preorder, reference_table, reference_trees

# What a column of a stream may look like.
COLUMNS = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "grid": lambda rng, n: rng.integers(-2, 3, size=n) / 4,  # duplicates and ties; -0.0 too
    "constant": lambda rng, n: np.full(n, rng.normal()),
    "neighbours": lambda rng, n: np.float32(1) + rng.integers(0, 3, size=n) * np.float32(2**-23),
    "denormal": lambda rng, n: rng.integers(-3, 4, size=n) * 1e-45,
    "huge": lambda rng, n: rng.normal(size=n) * 1e28,
}


@st.composite
def streams(draw):
    """A stream, its model and a generator for what else is random."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_features = draw(st.sampled_from([1, 1, 2, 3, 8, 9, 30]))
    n_rows = draw(st.integers(1, 40))
    kinds = draw(
        st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=n_features, unique=False)
    )
    kinds = (kinds * n_features)[:n_features]
    X = np.stack([COLUMNS[kind](rng, n_rows) for kind in kinds], axis=1).astype(np.float32)
    X = X[np.sort(rng.integers(0, n_rows, size=n_rows))] if draw(st.booleans()) else X
    params = {name: draw(st.booleans()) for name in SWITCHES}
    params |= {
        "step": draw(st.sampled_from([1.0, 0.3, 20.0])),
        "n_estimators": 2,
        "random_state": draw(st.integers(0, 1000)),
    }
    if draw(st.booleans()):
        n_classes = draw(st.integers(2, 7))
        y = rng.integers(0, n_classes, size=n_rows)
        dirichlet = draw(st.sampled_from([None, 0.5, 1.7]))
        model = AMFClassifier(classes=range(n_classes), dirichlet=dirichlet, **params)
    else:
        y = rng.normal(size=n_rows) if draw(st.booleans()) else rng.integers(0, 3, size=n_rows) / 3
        model = AMFRegressor(**params)
    return X, y, model, rng


def move_onto_a_threshold(x, tree, rng):
    """Put x on the boundary between two cells of the tree, if it has any."""
    inner = [v for v, _ in preorder(tree) if v.children()]
    if inner:
        v = inner[rng.integers(len(inner))]
        x[v.feature] = v.threshold


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_tables_and_forecasts_equal_the_reference(stream):
    X, y, model, rng = stream
    trees = reference_trees(model)
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        if i % 5 == 4:
            move_onto_a_threshold(x, trees[0], rng)
        model.learn_one(x, label)
        for tree in trees:
            tree.learn(x, label)

    outside = X + rng.normal(size=X.shape).astype(np.float32) * np.ptp(X, axis=0)
    queries = np.concatenate([X, outside])
    by_tree = "predict_proba_by_tree" if isinstance(model, AMFClassifier) else "predict_by_tree"
    forecasts = getattr(model, by_tree)(queries).reshape(len(queries), len(trees), -1)
    depths = model.weighted_depth(queries)
    for i, tree in enumerate(trees):
        table = model.tree_table(i)
        np.testing.assert_array_equal(table, reference_table(tree, table.dtype))
        np.testing.assert_array_equal(forecasts[:, i], [tree.predict(x) for x in queries])
        np.testing.assert_array_equal(depths[:, i], [tree.weighted_depth(x) for x in queries])


@pytest.mark.parametrize("switches", range(16))
@pytest.mark.parametrize("regression", [False, True])
def test_every_combination_of_switches_equals_the_reference(switches, regression):
    rng = np.random.default_rng(switches)
    X = rng.uniform(size=(150, 3)).astype(np.float32)
    params = {name: bool(switches >> bit & 1) for bit, name in enumerate(SWITCHES)}
    if regression:
        model = AMFRegressor(n_estimators=1, random_state=7, **params)
        y = np.round(4 * X[:, 0]) + (X[:, 1] > 0.7) * rng.normal(size=150)
    else:
        model = AMFClassifier(n_estimators=1, classes=range(3), random_state=7, **params)
        y = (X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=150) > 1) * (1 + (X[:, 2] > 0.5))
    (tree,) = reference_trees(model)
    model.partial_fit(X, y)
    for x, label in zip(X, y, strict=True):
        tree.learn(x, label)
    table = model.tree_table(0)
    assert len(table) > 20
    np.testing.assert_array_equal(table, reference_table(tree, table.dtype))
    queries = rng.uniform(-0.2, 1.2, size=(50, 3)).astype(np.float32)
    forecasts = (model.predict if regression else model.predict_proba)(queries)
    expected = np.array([tree.predict(x) for x in queries]).reshape(forecasts.shape)
    np.testing.assert_array_equal(forecasts, expected)


@pytest.mark.skipif("AMFOREST_SIMD" in os.environ, reason="this is the run with the plain loops")
def test_the_plain_loops_equal_the_reference_too():
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", __file__],
        env={**os.environ, "AMFOREST_SIMD": "plain"},
        check=True,
    )


@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (AMFClassifier(1, classes=[0, 1], split_pure=True, random_state=0), 1),
        (AMFClassifier(1, classes=[0, 1], dirichlet=1e-100, step=7, random_state=0), 1),
        (AMFRegressor(1, random_state=0), 50),
        (AMFRegressor(1, step=1e100, random_state=0), 1e75),
    ],
)
def test_weights_beyond_doubles_equal_the_reference(model, scale):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2_000, 2)).astype(np.float32)
    y = scale * np.round(X[:, 0]).astype(np.float64)
    (tree,) = reference_trees(model)
    model.partial_fit(X, y)
    for x, label in zip(X, y, strict=True):
        tree.learn(x, label)
    table = model.tree_table(0)
    assert (table["odds_scale"] != 0).any()
    np.testing.assert_array_equal(table, reference_table(tree, table.dtype))


def equals_the_reference(model, tree, X):
    table = model.tree_table(0)
    np.testing.assert_array_equal(table, reference_table(tree, table.dtype))
    np.testing.assert_array_equal(model.predict_proba(X), [tree.predict(x) for x in X])
    return table


@pytest.mark.parametrize("n_classes", [2, 3, 6, 11])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_shares_that_are_lost_and_won_again_equal_the_reference(n_classes, one_by_one):
    rng = np.random.default_rng(n_classes)
    X = rng.integers(0, 2, size=(600, 2)).astype(np.float32)  # four points
    y = np.concatenate([X[:250, 0], 1 - X[250:500, 0], rng.integers(0, n_classes, size=100)])
    model = AMFClassifier(1, classes=range(n_classes), split_pure=True, random_state=0)
    (tree,) = reference_trees(model)
    lost = []
    for part in np.array_split(np.arange(600), 12):
        for i in part:
            tree.learn(X[i], y[i])
            if one_by_one:
                model.learn_one(X[i], y[i])
        if not one_by_one:
            model.partial_fit(X[part], y[part])
        lost.append(equals_the_reference(model, tree, X[:50])["share"] == 0)
    assert lost[4][0], "the root has no share left"
    assert not lost[-1][0], "it has one again"


def test_walks_that_take_many_shares_equal_the_reference():
    X = 2.0 ** (99 - np.arange(220, dtype=np.float32)[:, None])  # most nodes are on one path
    y = np.zeros(len(X), dtype=int)
    model = AMFClassifier(1, classes=range(3), split_pure=True, random_state=0).partial_fit(X, y)
    (tree,) = reference_trees(model)
    for x, label in zip(X, y, strict=True):
        tree.learn(x, label)
    table = equals_the_reference(model, tree, X)
    assert (table["share"] > 0).all()
    assert model.stats()["depth"] > 64


def test_an_empty_tree_forecasts_the_default():
    for new_labels, expected in [
        (lambda: reference.ClassCounts(4, 0.5), [0.25] * 4),
        (reference.RunningMean, [0.0]),
    ]:
        tree = reference.Tree(new_labels, Rng(tree_seeds(0, 1)[0].tolist()))
        np.testing.assert_array_equal(tree.predict(np.zeros(2, np.float32)), expected)
