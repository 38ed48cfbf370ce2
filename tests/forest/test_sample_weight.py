"""A row of weight w counts as w rows: at the same point, one after the other."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import polygamma

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._core import WeightedClassifierForest
from amforest._forest.core_handle import count_exactly, handle_of
from helpers import SWITCHES, tables

CLASSES = range(3)


def new(cls, **params):
    if hasattr(cls, "predict_proba"):
        params = {"classes": CLASSES} | params
    return cls(2, random_state=0, **params)


def stream(cls, n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 3)).astype(np.float32)
    y = (
        rng.integers(0, 3, size=n_rows)
        if hasattr(cls, "predict_proba")
        else X[:, 0] + rng.normal(size=n_rows)
    )
    return X, y, rng.integers(1, 5, size=n_rows).astype(float)


def assert_equal_up_to_rounding(model, other):
    """The partition bit for bit and the counts exactly; means and odds up to rounding."""
    for i in range(2):
        table, expected = model.tree_table(i), other.tree_table(i)
        for name in table.dtype.names:
            exact = name not in {"mean", "share", "odds"}
            tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-9, "atol": 1e-12}
            np.testing.assert_allclose(table[name], expected[name], err_msg=name, **tolerance)


@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor])
@pytest.mark.parametrize("switches", range(16))
def test_a_whole_weight_equals_as_many_rows(cls, switches):
    X, y, weights = stream(cls)
    step = 0.3 if switches.bit_count() % 2 else 1.0
    params = {name: bool(switches >> bit & 1) for bit, name in enumerate(SWITCHES)}
    model = new(cls, step=step, **params).fit(X, y, sample_weight=weights)
    times = weights.astype(int)
    repeated = new(cls, step=step, **params).fit(X.repeat(times, axis=0), y.repeat(times))
    assert_equal_up_to_rounding(model, repeated)
    assert model.n_samples_seen_ == len(y)
    assert model.tree_table(0)["n_samples"][0] == weights.sum()


@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor])
def test_weights_at_one_point_add_up(cls):
    """Also where they are not whole numbers; a node's first label is one unit of weight."""
    X, y, weights = stream(cls)
    weights = 1 + weights / 7
    parts = np.repeat(weights, 2)
    parts[1::2] *= 0.3
    parts[::2] -= parts[1::2]
    keep = parts[::2] >= 1  # the first part holds all of the first unit
    parts[::2][~keep], parts[1::2][~keep] = weights[~keep], 0
    # Given, because step="auto" counts rows.
    model = new(cls, step=1.0).fit(X, y, sample_weight=weights)
    split = new(cls, step=1.0).fit(X.repeat(2, axis=0), y.repeat(2), sample_weight=parts)
    for i in range(2):
        table, expected = model.tree_table(i), split.tree_table(i)
        for name in table.dtype.names:
            np.testing.assert_allclose(table[name], expected[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "cls", [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
)
def test_weights_of_one_change_no_bit(cls):
    X, y, _ = stream(cls)
    model = new(cls).fit(X, y)
    assert tables(new(cls).fit(X, y, sample_weight=np.ones(len(y)))) == tables(model)
    # Real counts give the same predictions as whole ones.
    real = new(cls).fit(X[:1], y[:1], sample_weight=[1.0])
    if cls is AMFClassifier:
        handle = handle_of(real)
        core = count_exactly(handle.fitted.core, np.array([0.5]))
        assert isinstance(core, WeightedClassifierForest)
        handle.fitted = replace(handle.fitted, core=core)
    real.partial_fit(X[1:], y[1:])
    np.testing.assert_array_equal(real.predict(X), model.predict(X))
    for name in ("odds", "counts" if hasattr(cls, "predict_proba") else "mean"):
        np.testing.assert_array_equal(real.tree_table(1)[name], model.tree_table(1)[name])


@pytest.mark.parametrize(
    "cls", [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
)
def test_weight_zero_is_not_learned(cls):
    """Neither the labels nor the weights nor the partition change."""
    X, y, weights = stream(cls)
    weights[::3] = 0
    kept = weights > 0
    model = new(cls).fit(X, y, sample_weight=weights)
    assert tables(model) == tables(new(cls).fit(X[kept], y[kept], sample_weight=weights[kept]))
    before = tables(model)
    model.learn_one(X[0], y[0], sample_weight=0.0)
    model.partial_fit(X, y, sample_weight=np.zeros(len(y)))
    assert tables(model) == before
    assert model.n_samples_seen_ == kept.sum()
    with pytest.raises(ValueError, match="sample_weight is zero for all rows"):
        new(cls).fit(X, y, sample_weight=np.zeros(len(y)))


def test_a_row_of_weight_zero_brings_no_new_class():
    model = AMFClassifier(random_state=0)
    predictions = model.partial_fit_predict_proba(
        [[0.0], [1.0], [2.0]], [0, 5, 1], sample_weight=[1, 0, 1]
    )
    assert model.classes_.tolist() == [0, 1]
    assert predictions.shape == (3, 2)
    model = AMFClassifier(random_state=0)
    model.partial_fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], sample_weight=[0, 1, 1, 1])
    assert model.n_samples_seen_ == 3


@pytest.mark.parametrize("weight", [0.3, 2.0, 7.25, 1e5])
def test_a_weighted_label_has_the_dirichlet_multinomial_likelihood(weight):
    """One leaf {x} above which there is nothing: its parent's odds show the likelihoods."""
    alpha, K = 0.5, 2
    model = AMFClassifier(
        1, classes=[0, 1], charge_first=True, split_pure=True, random_state=0
    ).fit([[0.0], [1.0]], [0, 1])
    before = model.tree_table(0)
    model.learn_one([1.0], 1, sample_weight=weight)
    after = model.tree_table(0)

    def log_likelihood(count, n):
        rising = lambda a: math.lgamma(a + weight) - math.lgamma(a)  # noqa: E731
        return rising(count + alpha) - rising(n + alpha * K)

    expected = log_likelihood(1, 2) - log_likelihood(1, 1)
    gained = math.log(after["odds"][0] / before["odds"][0])
    assert gained == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("weight", [0.3, 2.0, 7.25, 1e5])
def test_a_weighted_target_has_the_loss_of_a_run(weight):
    model = AMFRegressor(1, charge_first=True, split_pure=True, random_state=0)
    model.fit([[0.0], [1.0]], [0.0, 1.0])
    before = model.tree_table(0)
    model.learn_one([1.0], 0.5, sample_weight=weight)
    after = model.tree_table(0)

    def loss(mean, n):
        return (mean - 0.5) ** 2 * n**2 * (polygamma(1, n) - polygamma(1, n + weight))

    gained = math.log(after["odds"][0] / before["odds"][0])
    assert gained == pytest.approx(loss(1.0, 1) - loss(0.5, 2), rel=1e-9)


@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor])
@pytest.mark.parametrize(
    "weights", [[-1.0] * 200, [np.nan] * 200, [np.inf] * 200, [1.0] * 199, ["heavy"] * 200]
)
def test_bad_weights_are_named_and_change_nothing(cls, weights):
    X, y, _ = stream(cls)
    model = new(cls).fit(X, y)
    before = tables(model)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises((ValueError, TypeError), match=r"sample_weight|weights"):
            learn(X, y, sample_weight=weights)
    assert tables(model) == before


@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 1, 7]])
def test_a_weight_that_is_too_small_in_any_part_changes_nothing(labels):
    model = AMFClassifier(2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    before = model.to_bytes()
    with pytest.raises(ValueError, match=r"weights must be 0, or at least 2\*\*-100"):
        model.partial_fit([[0.1], [0.2], [0.3]], labels, sample_weight=[1.0, 0.5, 1e-31])
    assert model.to_bytes() == before


def test_more_than_whole_numbers_can_count_is_counted():
    model = AMFClassifier(1, classes=[0, 1], random_state=0)
    model.fit([[0.0], [1.0]], [0, 1], sample_weight=[2**31 - 10, 5])
    model.partial_fit(np.array([[0.0]] * 10), np.array([0] * 10))
    assert model.tree_table(0)["n_samples"][0] == 2**31 + 5


@pytest.mark.parametrize("row", [[0.0], np.zeros(1)])
def test_single_rows_are_counted_beyond_whole_numbers_too(row):
    model = AMFClassifier(1, classes=[0, 1], random_state=0)
    model.fit([[0.0], [1.0]], [0, 1], sample_weight=[2**31 - 10, 5])
    for _ in range(10):
        model.learn_one(row, 0)
    assert model.tree_table(0)["n_samples"][0] == 2**31 + 5
    assert model.stats()["rejected_rows"] == 0


def test_before_the_first_row_that_is_learned_no_class_is_known():
    X, y = np.zeros((4, 1)), [5, 0, 1, 1]
    predictions = AMFClassifier(2).partial_fit_predict_proba(X, y, sample_weight=[0, 1, 1, 1])
    assert predictions[:2].tolist() == [[0, 0], [0, 0]]
    assert predictions[2].tolist() == [1, 0]


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"predict_extends": True},
        {"categorical_features": [2]},
        {"partition": "unrestricted", "bounds": (0.0, 5.0)},
        {"partition": "unrestricted", "bounds": (0.0, 5.0), "predict_extends": True},
    ],
)
@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor])
def test_fractions_are_learned_alike_by_all_ways_and_threads(cls, how, n_jobs):
    X, y, weights = stream(cls, 600)
    X[:, 2] = np.floor(5 * X[:, 2])
    weights /= 3
    is_class = cls is AMFClassifier
    at_once, by_row = (new(cls, n_jobs=jobs, **how) for jobs in (n_jobs, 1))
    method = "partial_fit_predict_proba" if is_class else "partial_fit_predict"
    predictions = getattr(at_once, method)(X, y, sample_weight=weights)
    for i, (x, label, weight) in enumerate(zip(X, y, weights, strict=True)):
        if i in (1, 300, 599):
            one = by_row.predict_proba_one(x) if is_class else by_row.predict_one(x)
            np.testing.assert_array_equal(one, predictions[i])
        by_row.learn_one(x, label, weight)
    fitted = new(cls, n_jobs=n_jobs, **how).partial_fit(X, y, sample_weight=weights)
    assert tables(at_once) == tables(by_row) == tables(fitted)
    by_tree, whole = "predict_proba_by_tree", "predict_proba"
    if not is_class:
        by_tree, whole = "predict_by_tree", "predict"
    for name in (whole, by_tree, "weighted_depth", "apply"):
        np.testing.assert_array_equal(getattr(at_once, name)(X), getattr(by_row, name)(X))


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_too_much_weight_of_a_later_part_is_refused_before_the_first_is_learned(cls):
    model = cls(2, random_state=0).fit([[0.0], [1.0]], [0, 1])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="add up to too much"):
        model.partial_fit([[0.5], [1.5]], [0, 7], sample_weight=[1, 1e300])
    assert model.to_bytes() == before


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_named_with_its_row(value):
    model = AMFClassifier(2, random_state=0)
    with pytest.raises(ValueError, match=rf"sample_weight\[1\] is {value}; weights must be finite"):
        model.fit([[0.0], [1.0]], [0, 1], sample_weight=[1.0, value])
    with pytest.raises(ValueError, match=rf"sample_weight.* is {value}; .* must be finite"):
        model.fit([[0.0], [1.0]], [0, 1]).learn_one([0.0], 1, value)


@pytest.mark.parametrize(
    "cls", [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
)
def test_a_weight_of_none_is_1_for_one_row_too(cls):
    one, two = (cls(2, random_state=0) for _ in range(2))
    for x, y in ([0.0], 0), ([1.0], 1), ([0.5], 1):
        one.learn_one(x, y, sample_weight=None)
        two.learn_one(x, y)
    assert one.to_bytes() == two.to_bytes()


@pytest.mark.parametrize("how", [{}, {"class_weight": "balanced"}, {"class_weight": {0: 1e10}}])
@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_weights_whose_sum_overflows_are_refused_without_a_warning(cls, how):
    model = cls(2, random_state=0, **how)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="add up to too much"):
            learn([[0.0], [1.0]], [0, 1], sample_weight=[1e308, 1e308])
