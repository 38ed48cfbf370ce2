"""The compiled core equals the plain-Python reference: bit for bit but for rounding in weights."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amforest import AMFClassifier, AMFRegressor
from helpers import (
    SWITCHES,
    assert_equal_predictions,
    assert_equal_tables,
    learn_all,
    preorder,
    reference_table,
    reference_trees,
)

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
    """A stream with weights, its model and a generator for what else is random."""
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
        model = AMFRegressor(**{"step": 1.0} | params)
    weights = np.ones(n_rows)
    if draw(st.booleans()):
        weights = rng.choice([0.3, 1.0, 2.0, 2.5], size=n_rows)
    return X, y, weights, model, rng


def move_onto_a_threshold(x, tree, rng):
    """Put x on the boundary between two cells of the tree, if it has any."""
    inner = [v for v, _ in preorder(tree) if v.children()]
    if inner:
        v = inner[rng.integers(len(inner))]
        x[v.feature] = v.threshold


def predictions_by_tree(model, X):
    """Of shape (tree, row, class)."""
    classifies = isinstance(model, AMFClassifier)
    by_tree = (model.predict_proba_by_tree if classifies else model.predict_by_tree)(X)
    return by_tree.reshape(len(X), model.n_estimators, -1).swapaxes(0, 1)


def assert_equal_forests(model, trees, queries, tolerance=1e-10):
    predictions, depths = predictions_by_tree(model, queries), model.weighted_depth(queries)
    for i, tree in enumerate(trees):
        table = model.tree_table(i)
        assert_equal_tables(table, reference_table(tree, table.dtype), tolerance)
        assert_equal_predictions(predictions[i], [tree.predict(x) for x in queries])
        # The core rounds 1 - share, so that small depths have no relative precision.
        expected = [tree.weighted_depth(x) for x in queries]
        np.testing.assert_allclose(depths[:, i], expected, rtol=1e-10, atol=1e-12)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_tables_and_predictions_equal_the_reference(stream):
    X, y, weights, model, rng = stream
    trees = reference_trees(model)
    for i, (x, label, weight) in enumerate(zip(X, y, weights, strict=True)):
        if i % 5 == 4:
            move_onto_a_threshold(x, trees[0], rng)
        model.learn_one(x, label, sample_weight=weight)
        for tree in trees:
            tree.learn(x, label, weight)
    outside = X + rng.normal(size=X.shape).astype(np.float32) * np.ptp(X, axis=0)
    assert_equal_forests(model, trees, np.concatenate([X, outside]))


@pytest.mark.parametrize("switches", range(16))
@pytest.mark.parametrize("regression", [False, True])
def test_every_combination_of_switches_equals_the_reference(switches, regression):
    rng = np.random.default_rng(switches)
    X = rng.uniform(size=(150, 3)).astype(np.float32)
    params = {name: bool(switches >> bit & 1) for bit, name in enumerate(SWITCHES)}
    params["split_prior"] = (0.5, 0.0) if switches % 3 else (0.3, 0.0)
    if regression:
        model = AMFRegressor(n_estimators=1, step=1.0, random_state=7, **params)
        y = np.round(4 * X[:, 0]) + (X[:, 1] > 0.7) * rng.normal(size=150)
    else:
        model = AMFClassifier(n_estimators=1, classes=range(3), random_state=7, **params)
        y = (X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=150) > 1) * (1 + (X[:, 2] > 0.5))
    trees = learn_all(reference_trees(model), X, y)
    model.partial_fit(X, y)
    assert len(model.tree_table(0)) > 20
    assert_equal_forests(model, trees, rng.uniform(-0.2, 1.2, size=(50, 3)).astype(np.float32))


@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (AMFClassifier(1, classes=[0, 1], split_pure=True, random_state=0), 1),
        (AMFClassifier(1, classes=[0, 1], dirichlet=1e-100, step=7, random_state=0), 1),
        (AMFRegressor(1, step=1.0, random_state=0), 50),
        (AMFRegressor(1, step=1e100, random_state=0), 1e75),
    ],
)
def test_weights_beyond_doubles_equal_the_reference(model, scale):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2_000, 2)).astype(np.float32)
    y = scale * np.round(X[:, 0]).astype(np.float64)
    trees = learn_all(reference_trees(model), X, y)
    model.partial_fit(X, y)
    assert (model.tree_table(0)["odds_scale"] != 0).any()
    assert_equal_forests(model, trees, X[:100])


@pytest.mark.parametrize("charge_first", [False, True])
def test_losses_of_thousands_equal_the_reference(charge_first):
    """Likelihoods of exp(-2500) move odds far beyond 2^±128 and back."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, size=(60, 2)).astype(np.float32)
    y = rng.choice([0.0, 10.0, 30.0, 50.0], size=60)
    model = AMFRegressor(5, step=1.0, charge_first=charge_first, random_state=0)
    trees = learn_all(reference_trees(model), X, y)
    model.partial_fit(X, y)
    assert_equal_forests(model, trees, X)


@pytest.mark.parametrize("n_classes", [2, 11])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_shares_that_are_lost_and_regained_equal_the_reference(n_classes, one_by_one):
    rng = np.random.default_rng(n_classes)
    X = rng.integers(0, 2, size=(600, 2)).astype(np.float32)  # four points
    y = np.concatenate([X[:250, 0], 1 - X[250:500, 0], rng.integers(0, n_classes, size=100)])
    model = AMFClassifier(1, classes=range(n_classes), split_pure=True, random_state=0)
    trees = reference_trees(model)
    is_lost = []
    for part in np.array_split(np.arange(600), 12):
        learn_all(trees, X[part], y[part])
        if one_by_one:
            for i in part:
                model.learn_one(X[i], y[i])
        else:
            model.partial_fit(X[part], y[part])
        assert_equal_forests(model, trees, X[:50])
        is_lost.append(model.tree_table(0)["share"][0] == 0)
    assert is_lost[4]
    assert not is_lost[-1]


def test_paths_on_which_many_nodes_have_shares_equal_the_reference():
    X = 2.0 ** (99 - np.arange(220, dtype=np.float32)[:, None])  # most nodes are on one path
    y = np.zeros(len(X), dtype=int)
    model = AMFClassifier(1, classes=range(3), split_pure=True, random_state=0).partial_fit(X, y)
    assert_equal_forests(model, learn_all(reference_trees(model), X, y), X)
    assert (model.tree_table(0)["share"] > 0).all()
    assert model.stats()["depth"] > 64
