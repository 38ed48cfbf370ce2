"""The adaptive regressor of the core equals the reference: trees to the bit, all else to rounding.

Labels of trees on a linear base are rounded, but their splits are the same.
"""

from itertools import pairwise

import numpy as np
import pytest
from adaptive_forests import (
    NUMBER_GROUPS,
    adaptive_regressor,
    assert_same_trees,
    reference_of,
)
from hypothesis import given
from hypothesis import strategies as st

from helpers import TOLERANCE

N_CATEGORIES = 6
N_COMPONENTS = 21  # of the distribution
LABELS = ("numbers", "few values", "constant", "constant at first")
RAW, BASED = NUMBER_GROUPS[:2]  # of the longest memory


def stream(rng, n_rows, *, n_codes=0, n_numbers=3, gaps=0.0, scale=1.0, labels="numbers"):
    """Return codes beside numbers, and labels that depend on both, with noise."""
    X = scale * rng.normal(size=(n_rows, n_codes + n_numbers)).astype(np.float32)
    X[:, n_codes] = np.round(2 * X[:, n_codes] / scale) / 2 * scale  # ties
    X[:, :n_codes] = rng.integers(0, N_CATEGORIES, size=(n_rows, n_codes))
    y = X[:, -1] / scale + 2.0 * (X[:, 0] > 0) + 0.5 * rng.normal(size=n_rows)
    if labels == "constant":
        y[:] = 3.7
    elif labels == "few values":  # many splits have equal gains, or none
        y = np.round(y)
    elif labels == "constant at first":
        y[: n_rows // 2] = 3.7
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y


def learn_row_by_row(reference, X, y, weights):
    for x, label, weight in zip(X, y.tolist(), weights.tolist(), strict=True):
        reference.learn(x, label, weight)


def assert_close(actual, expected, unit, unit_of_scales=None):
    """Compare means in the unit of labels, and squared scales in the square of another."""
    units = np.array([unit, unit**2 if unit_of_scales is None else unit_of_scales])
    difference = np.abs(actual[..., :2] - np.array(expected)[..., :2]) / units
    assert difference.max() <= TOLERANCE
    np.testing.assert_allclose(
        actual[..., 2:], np.array(expected)[..., 2:], rtol=TOLERANCE, atol=TOLERANCE
    )


def assert_equals_reference(forest, reference, queries, unit):
    assert_same_trees(forest, reference)
    by_expert = [reference.predict_by_expert(x) for x in queries]
    assert_close(forest.predict_by_expert(queries, 1), by_expert, unit)
    np.testing.assert_allclose(
        forest.mixer_weights, reference.mixer.weights, rtol=TOLERANCE, atol=TOLERANCE
    )
    assert_close(forest.predict(queries, 1), [reference.predict(x) for x in queries], unit, unit)


def assert_equal_on_stream(rng, X, y, weights, *, n_parts=4, **parameters):
    """Learn both forests, the core in batches cut anywhere, and compare them after each."""
    n_codes = parameters.pop("n_codes", 0)
    categories = [N_CATEGORIES] * n_codes
    forest = adaptive_regressor(X.shape[1] - n_codes, categories=categories, **parameters)
    reference = reference_of(forest)
    cuts = np.sort(rng.integers(0, len(X) + 1, size=n_parts - 1))
    unit = float(y.std()) or 1.0
    for first, last in pairwise([0, *cuts.tolist(), len(X)]):
        part = slice(first, last)
        forest.learn(X[part], y[part], int(rng.choice([1, 2, 7])), weights=weights[part])
        learn_row_by_row(reference, X[part], y[part], weights[part])
        assert_equals_reference(forest, reference, X[:3], unit)
    return forest


@st.composite
def parameters(draw):
    groups = draw(st.lists(st.sampled_from(NUMBER_GROUPS), min_size=1, max_size=2, unique=True))
    return {
        "groups": groups,
        "n_candidates": draw(st.sampled_from([1, 2, 6, 30])),
        "row_limit": draw(st.sampled_from([16, 30, 200])),
        "seed": draw(st.integers(0, 1000)),
        "split_pure": draw(st.booleans()),
        "use_aggregation": draw(st.booleans()),
        "split_prior": draw(st.sampled_from([(0.8, 0.0), (0.5, 0.0)])),
        "n_codes": draw(st.sampled_from([0, 0, 1, 2])),
    }


@given(st.integers(0, 2**32 - 1), st.integers(1, 50), parameters(), st.data())
def test_forests_equal_the_reference(seed, n_rows, parameters, data):
    rng = np.random.default_rng(seed)
    how = {
        "n_codes": parameters["n_codes"],
        "n_numbers": data.draw(st.sampled_from([1, 2, 3, 9])),
        "gaps": data.draw(st.sampled_from([0.0, 0.0, 0.2])),
        "scale": data.draw(st.sampled_from([1.0, 1e-15, 1e25])),
        "labels": data.draw(st.sampled_from(LABELS)),
    }
    X, y = stream(rng, n_rows, **how)
    weights = np.ones(n_rows)
    if data.draw(st.booleans()):
        weights = rng.choice([0.0, 0.3, 1.0, 2.5], size=n_rows)
    assert_equal_on_stream(rng, X, y, weights, n_parts=2, **parameters)


FIXED = {
    "raw and on a base": {},
    "weights": {"weighted": True, "groups": NUMBER_GROUPS[:4]},
    "categories": {"n_codes": 2, "groups": [*NUMBER_GROUPS[:2], *NUMBER_GROUPS[6:]]},
    "weighted categories": {"n_codes": 1, "weighted": True, "groups": NUMBER_GROUPS[2:4]},
    "categories and gaps": {"n_codes": 2, "gaps": 0.2, "groups": NUMBER_GROUPS[2:6]},
    "weighted gaps": {"gaps": 0.3, "weighted": True, "groups": NUMBER_GROUPS[4:]},
    "one candidate": {"n_candidates": 1, "groups": NUMBER_GROUPS[:4]},
    "thirty candidates": {"n_candidates": 30, "groups": NUMBER_GROUPS[2:4]},
    "leaves only": {"use_aggregation": False, "groups": NUMBER_GROUPS[2:6]},
    "full trees": {"groups": [RAW, BASED], "max_nodes": 240},
    "slow regrows": {"groups": [(30, False, False, True)], "n_candidates": 150, "row_limit": 30},
    "memories of 8 and 60": {"groups": [(8, False, False, True), (60, True, False, False)]},
    "constant labels at first": {"labels": "constant at first", "groups": NUMBER_GROUPS[:4]},
    "labels of few values": {"labels": "few values", "binary": True},
    "labels that are always equal": {"labels": "constant", "groups": NUMBER_GROUPS[:4]},
    "many features": {"n_numbers": 20, "groups": NUMBER_GROUPS[1:4:2]},
    "constant features": {"fixed": 1.3, "groups": NUMBER_GROUPS[:4]},
    "features without values": {"fixed": np.nan, "groups": NUMBER_GROUPS[:4]},
}


@pytest.mark.parametrize("kind", FIXED)
def test_forests_that_were_regrown_many_times_equal_the_reference(kind):
    rng = np.random.default_rng(list(FIXED).index(kind))
    how = dict(FIXED[kind])
    given = {name: how.pop(name) for name in ("gaps", "labels", "n_numbers") if name in how}
    X, y = stream(rng, 100, n_codes=how.get("n_codes", 0), **given)
    if how.pop("binary", False):
        X = (X > 0).astype(np.float32)
    if "fixed" in how:
        X[:80, :2] = how.pop("fixed")  # and values later
    weights = np.ones(100)
    if how.pop("weighted", False):
        weights = rng.choice([0.0, 0.3, 1.0, 7.5, 30.0], size=100)
    forest = assert_equal_on_stream(rng, X, y, weights, **how)
    assert (forest.n_regrows > 1).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_labels_of_any_unit_equal_the_reference(scale):
    rng = np.random.default_rng(3)
    X, y = stream(rng, 100)
    assert_equal_on_stream(rng, X, scale * y, np.ones(100), groups=NUMBER_GROUPS[:4])


def test_a_stream_with_wrong_labels_and_a_shift_equals_the_reference():
    rng = np.random.default_rng(4)
    X, y = stream(rng, 100)
    y[[55, 70]] += 1e4
    y[80:] += 300
    assert_equal_on_stream(rng, X, y, np.ones(100), groups=NUMBER_GROUPS[:4])


def test_nodes_of_more_than_a_thousand_labels_equal_the_reference():
    rng = np.random.default_rng(0)
    X, y = stream(rng, 1_200, n_numbers=2)
    how = {"groups": [BASED], "n_estimators": 1, "n_candidates": 2, "row_limit": 2_000}
    forest = assert_equal_on_stream(rng, X, y, np.ones(1_200), n_parts=1, **how)
    assert forest.n_regrows[0] == 7


def test_more_than_a_hundred_features_equal_the_reference():
    rng = np.random.default_rng(0)
    X, y = stream(rng, 50, n_numbers=110)
    forest = assert_equal_on_stream(rng, X, y, np.ones(50), n_parts=1, groups=[BASED])
    assert (forest.state()["trees"]["base_sizes"] == 100).all()


def test_each_prediction_of_a_stream_equals_the_reference():
    rng = np.random.default_rng(3)
    X, y = stream(rng, 60, n_codes=1)
    forest = adaptive_regressor(3, categories=[N_CATEGORIES])
    reference = reference_of(forest)
    predictions = forest.predict_then_learn(X, y, 2)
    assert predictions.shape == (60, 2 + N_COMPONENTS + 11)
    for x, label, prediction in zip(X, y.tolist(), predictions, strict=True):
        assert_close(prediction, reference.predict(x), y.std(), y.std())
        reference.learn(x, label)
    X[:, 0] = -1  # a category that was never seen
    by_tree = [[slot.predict(x) for slot in reference.slots] for x in X[:5]]
    assert_close(forest.predict_by_tree(X[:5], 1), by_tree, y.std())
