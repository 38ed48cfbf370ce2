"""The unrestricted partition: equal to its reference, with the law of the Mondrian process."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from amforest import AMFClassifier, AMFRegressor, reference
from amforest.river import AMFClassifier as RiverClassifier
from helpers import (
    SWITCHES,
    assert_equal_predictions,
    assert_equal_tables,
    learn_all,
    reference_table,
    reference_trees,
    tables,
)


@st.composite
def streams(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_features = draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 3, 9]))
    X = rng.uniform(-1, 3, size=(n_rows, n_features))
    if draw(st.booleans()):
        X = np.round(X, 1)  # ties and duplicates
    params = {name: draw(st.booleans()) for name in SWITCHES[:3]} | {
        "n_estimators": 2,
        "random_state": draw(st.integers(0, 1000)),
        "partition": "unrestricted",
        "bounds": (-1, 3),
        "split_prior": draw(st.sampled_from([(0.5, 0.0), (0.2, 0.0), (0.95, 2.0)])),
    }
    if draw(st.booleans()):
        return X, rng.integers(3, size=n_rows), AMFClassifier(classes=range(3), **params)
    return X, rng.normal(size=n_rows), AMFRegressor(step=1.0, **params)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_trees_and_predictions_equal_the_reference(stream):
    X, y, model = stream
    X = X.astype(np.float32)
    model.partial_fit(X[:1], y[:1])
    trees = learn_all(reference_trees(model, reference.UnrestrictedTree), X, y)
    for x, label in zip(X[1:], y[1:], strict=True):
        model.learn_one(x, label)
    queries = np.concatenate([X, np.clip(X + 0.1, -1, 3)])
    classifies = isinstance(model, AMFClassifier)
    by_tree = model.predict_proba_by_tree if classifies else model.predict_by_tree
    predictions = by_tree(queries).reshape(len(queries), 2, -1)
    for i, tree in enumerate(trees):
        table = model.tree_table(i)
        others = [name for name in table.dtype.names if name not in ("lower", "upper")]
        expected = reference_table(tree, table.dtype)
        assert_equal_tables(table[others], expected[others])
        points = model._core.tree_table(i)
        np.testing.assert_array_equal(points["lower"], expected["lower"])
        np.testing.assert_array_equal(points["upper"], expected["upper"])
        assert_equal_predictions(predictions[:, i], [tree.predict(x) for x in queries])


def new(cls=AMFClassifier, **params):
    return cls(3, partition="unrestricted", random_state=0, **params)


RNG = np.random.default_rng(0)
X = RNG.uniform(size=(300, 2)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(int) ^ (RNG.random(300) < 0.1)


def test_each_leaf_holds_one_point_at_the_most_and_each_cell_its_points():
    model = new().fit(X, Y)
    for i in range(3):
        table = model.tree_table(i)
        leaves = model.apply(X)[:, i]
        assert len(set(leaves)) == len(X)
        assert (table["lower"][leaves] <= X).all()
        assert (table["upper"][leaves] >= X).all()
        sizes = (table["upper"] - table["lower"]).astype(np.float64).prod(axis=1)
        assert sizes[table["left"] < 0].sum() == pytest.approx(1)
        inner = np.flatnonzero(table["left"] >= 0)
        children = sizes[table["left"][inner]] + sizes[table["right"][inner]]
        np.testing.assert_allclose(children, sizes[inner], rtol=1e-3)


def test_a_point_that_comes_again_splits_nothing():
    once, twice = new().fit(X, Y), new().fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2))
    for i in range(3):
        a, b = once.tree_table(i), twice.tree_table(i)
        for name in ("feature", "threshold", "birth_time", "lower", "upper"):
            np.testing.assert_array_equal(a[name], b[name])


def test_two_points_are_separated_as_the_mondrian_process_would():
    """In 6,000 trees: the first split is uniform in place and exponential in time."""
    n_trees, points = 6_000, np.array([[0.2, 0.5], [0.6, 0.7]])
    model = AMFRegressor(n_trees, partition="unrestricted", random_state=1).fit(points, [0.0, 1.0])
    tables_ = [model._core.tree_table(i) for i in range(n_trees)]
    times = np.array([table["birth_time"][1] for table in tables_])
    places = np.array([table["threshold"][0] for table in tables_])
    features = np.array([table["feature"][0] for table in tables_])
    assert stats.kstest(times, stats.expon(scale=1 / 2).cdf).pvalue > 1e-6  # rate |C| = 2
    for feature in (0, 1):
        assert stats.kstest(places[features == feature], "uniform").pvalue > 1e-6
    assert stats.binomtest(int(features.sum()), n_trees).pvalue > 1e-6
    at_once = np.array([len(table["feature"]) == 3 for table in tables_])  # (0.4 + 0.2) / 2
    assert stats.binomtest(int(at_once.sum()), n_trees, 0.3).pvalue > 1e-6


@pytest.mark.parametrize(("n_features", "alpha"), [(1, 0.5), (3, 0.2), (3, 0.9)])
def test_predictions_that_extend_the_partition_are_means_over_the_new_splits(n_features, alpha):
    """Against the reference, and there against 300 extensions that are drawn."""
    rng = np.random.default_rng(n_features)
    X = rng.uniform(size=(6, n_features)).astype(np.float32)
    params = {"split_prior": (alpha, 0.0), "predict_extends": True, "charge_first": True}
    params["step"] = 1.0
    model = new(AMFRegressor, **params).fit(X, X[:, 0])
    trees = reference_trees(model, reference.UnrestrictedTree)
    queries = [*rng.uniform(size=(4, n_features)).astype(np.float32), X[0], X[1] + np.float32(1e-4)]
    queries = np.clip(queries, 0, 1)
    for i, tree in enumerate(learn_all(trees, X, X[:, 0].tolist())):
        expected = [tree.predict(x)[0] for x in queries]
        np.testing.assert_allclose(model.predict_by_tree(queries)[:, i], expected, atol=1e-12)
    tree.predict_extends = False
    for x, mean in zip(queries[:2], expected[:2], strict=True):
        drawn = []
        for _ in range(300):
            extended = copy.copy(tree)
            extended.root = copy.deepcopy(tree.root)
            extended.extend(x, 0.0)
            drawn.append(extended.predict(x)[0])
        assert abs(np.mean(drawn) - mean) <= 5 * np.std(drawn) / np.sqrt(300) + 1e-12


@pytest.mark.parametrize("cuts", [[1, 2, 100], range(1, 300, 17)])
def test_however_the_stream_is_cut_the_forest_is_the_same(cuts):
    whole, model = new(classes=[0, 1]).partial_fit(X, Y), new(classes=[0, 1], n_jobs=2)
    for part in np.split(np.arange(300), cuts):
        model.partial_fit(X[part], Y[part])
    assert tables(model) == tables(whole)
    assert tables(new(classes=[0, 1]).fit(sp.csr_array(X), Y)) == tables(whole)


def test_copies_go_on_as_the_model_does():
    model = new().fit(X[:150], Y[:150])
    whole = tables(new().fit(X, Y))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert tables(other.partial_fit(X[150:], Y[150:])) == whole


def test_the_box_may_be_given_for_each_feature():
    scale, shift = np.array([2.0, 8.0]), np.array([-1.0, 4.0])
    wide = new(bounds=np.stack([shift, shift + scale], axis=1)).fit(X * scale + shift, Y)
    assert wide.score(X * scale + shift, Y) > 0.9
    assert (wide.tree_table(0)["upper"][0] == shift + scale).all()


def test_neighbouring_floats_are_separated():
    a = np.float32(0.3)
    rows = np.array([[a, 0.5], [np.nextafter(a, np.float32(1)), 0.5]], dtype=np.float32)
    leaves = new().fit(rows, [0, 1]).apply(rows)
    assert (leaves[0] != leaves[1]).all()


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict"])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value", [1.5, -0.1, np.nan])
def test_features_outside_of_the_box_are_refused_and_change_nothing(method, convert, value):
    model, rows = new().fit(X, Y), X.copy()
    rows[7, 1] = value
    before = tables(model)
    with pytest.raises(ValueError, match=r"must lie (in \[0, 1\]|within bounds)"):
        getattr(model, method)(convert(rows), *([] if method == "predict" else [Y]))
    with pytest.raises(ValueError, match="must lie within bounds"):
        model.learn_one(rows[7], 1)
    assert tables(model) == before


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bounds": (1, 0)}, "low must be below high"),
        ({"bounds": (0, np.inf)}, "both finite"),
        ({"bounds": [[0, 1]] * 3}, "one for each of 2 features"),
        ({"predict_extends": True, "split_prior": (0.5, 1.0)}, "beta must be 0 with predict_ext"),
        ({"partition": "restricted", "bounds": (0, 1)}, "bounds needs partition='unrestricted'"),
        ({"partition": "both"}, "partition"),
        ({"split_prior": (1.0, 0.0)}, "alpha must lie between 0 and 1"),
        ({"split_prior": (0.5,)}, "a pair"),
        ({"split_prior": (0.5, 1.0), "partition": "restricted"}, "beta must be 0"),
        ({"categorical_features": [0]}, "use partition='restricted'"),
    ],
)
def test_what_makes_no_sense_is_explained(params, message):
    model = new().set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "n_features_in_")


def test_river_twins_are_restricted():
    with pytest.raises(ValueError, match="features come and go in river"):
        RiverClassifier.from_sklearn(new().fit(X, Y))


def test_a_bound_on_the_labels_gives_the_papers_step():
    rows, labels = X, X[:, 0] * 4 - 2
    by_bound = AMFRegressor(3, step=None, bound=2, random_state=0).fit(rows, labels)
    assert tables(by_bound) == tables(
        AMFRegressor(3, step=1 / 32, random_state=0).fit(rows, labels)
    )
    with pytest.raises(ValueError, match="step is None, which needs bound"):
        AMFRegressor(step=None).fit(rows, labels)
