"""AdaptiveAMFRegressor has no unit, follows changes, and knows how wrong it is."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import kstest
from sklearn.multioutput import MultiOutputRegressor

from amforest import AdaptiveAMFRegressor
from amforest._core import DEGREES, LEVELS, WIDTHS
from amforest.distribution import PredictiveDistribution
from amforest.river import AdaptiveAMFRegressor as RiverRegressor

SMALL = {"n_estimators": 2, "memories": (None, 200, 30), "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(1500, 5))
SIGNAL = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 5 * X[:, 3]
Y = SIGNAL + RNG.normal(size=1500)


def progressive(y, X=X, **params):
    return AdaptiveAMFRegressor(**SMALL | params).partial_fit_predict_dist(X, y)


@pytest.fixture(scope="module")
def dist():
    return progressive(Y)


# Units


@pytest.mark.parametrize(
    ("factor", "shift"), [(1e6, 0), (1e-6, 0), (1, 1e6), (-1, 0), (3e-9, 5e-9), (7e9, -1e12)]
)
def test_labels_in_another_unit_give_predictions_in_that_unit(factor, shift, dist):
    sd = Y.std()
    other = progressive(factor * Y + shift * (sd if factor == 1 else 1))
    origin = shift * (sd if factor == 1 else 1)
    mean = (other.mean() - origin) / factor
    assert np.abs(mean - dist.mean())[1:].max() < 1e-6 * sd  # before the first row it is 0
    # The scale of the first two rows is 0.
    assert np.abs(other.std() / abs(factor) - dist.std())[2:].max() < 1e-6 * sd


def test_features_may_have_any_scale():
    scales = 10.0 ** np.array([-6, 9, 0, 4, -3])
    errors = [progressive(Y, X * scale).mean() - Y for scale in (1, scales)]
    alone, scaled = (np.sqrt(np.mean(error[100:] ** 2)) for error in errors)
    assert scaled < 1.05 * alone


def test_constant_labels_are_predicted_exactly_with_a_point_as_interval():
    model = AdaptiveAMFRegressor(**SMALL)
    predictions = model.partial_fit_predict(X[:300], np.full(300, 7.25))
    assert (predictions[1:] == 7.25).all()
    np.testing.assert_allclose(model.predict_interval(X[:3]), 7.25, rtol=1e-10)


# Quality


def test_it_finds_the_signal(dist):
    error = dist.mean() - SIGNAL
    assert np.sqrt(np.mean(error[500:] ** 2)) < 0.6 * Y[500:].std() / np.sqrt(2)
    assert np.sqrt(np.mean(error[1000:] ** 2)) < 1.2


def test_noise_is_predicted_by_its_mean():
    y = np.random.default_rng(1).permutation(Y)
    error = progressive(y).mean() - y
    assert np.sqrt(np.mean(error[1:] ** 2)) < 1.06 * y.std()


def test_it_follows_a_change():
    y = np.where(np.arange(1500) < 750, Y, 40 - Y)
    error = np.abs(progressive(y).mean() - y)
    assert error[750:760].mean() > 5
    assert error[1000:].mean() < 2 * error[500:750].mean()


def test_intervals_hold_as_many_labels_as_they_should():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(6000, 3))
    y = 4 * X[:, 0] + (0.1 + X[:, 1]) * rng.standard_t(4, size=6000)  # the spread depends on x
    model = AdaptiveAMFRegressor(**SMALL)
    outputs = model.partial_fit_predict_dist(X, y)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        low, high = outputs.quantiles([(1 - coverage) / 2, (1 + coverage) / 2]).T
        is_inside = ((low <= y) & (y <= high))[500:]
        # Five standard deviations of independent rows; the tracked levels err by less.
        tolerance = 5 * np.sqrt(coverage * (1 - coverage) / len(is_inside))
        assert abs(is_inside.mean() - coverage) < tolerance
    width = np.ptp(model.predict_interval([[0.5, 0.05, 0.5], [0.5, 0.95, 0.5]]), axis=1)
    assert width[1] > 1.5 * width[0]


def test_the_density_is_better_than_a_running_normal(dist):
    n = np.arange(1, len(Y) + 1)
    mean = np.cumsum(Y) / n
    variance = np.cumsum(Y**2) / n - mean**2
    mean, variance = mean[99:-1], variance[99:-1]
    normal = -0.5 * np.log(2 * np.pi * variance) - (Y[100:] - mean) ** 2 / variance / 2
    assert dist.logpdf(Y)[100:].mean() > normal.mean() + 0.5


# The distribution


@pytest.fixture(scope="module")
def fitted():
    return AdaptiveAMFRegressor(**SMALL).fit(X, Y)


def test_the_methods_of_the_distribution_agree(fitted):
    dist = fitted.predict_dist(X[:1])
    mean, std = dist.mean()[0], dist.std()[0]
    ends = mean - 60 * std, mean + 60 * std
    assert quad(lambda t: dist.pdf(t)[0], *ends, points=[mean])[0] == pytest.approx(1, abs=1e-4)
    second = quad(lambda t: (t - mean) ** 2 * dist.pdf(t)[0], *ends, points=[mean], limit=200)[0]
    assert second == pytest.approx(std**2, rel=0.05)  # its tails are heavy
    below = quad(lambda t: dist.pdf(t)[0], ends[0], mean + std / 2, points=[mean])[0]
    assert below == pytest.approx(dist.cdf(mean + std / 2)[0], abs=1e-4)
    np.testing.assert_allclose(np.log(dist.pdf(mean + 1)), dist.logpdf(mean + 1))
    assert dist.median() == dist.mean()


@pytest.mark.parametrize("q", [1e-9, 0.001, 0.05, 0.3, 0.5, 0.9, 0.9999])
def test_quantiles_invert_the_distribution_function(q, fitted, dist):
    of_one_moment = fitted.predict_dist(X)
    for each in (of_one_moment, dist[5:]):  # the scale of the first rows is 0
        np.testing.assert_allclose(each.cdf(each.ppf(q)), q, rtol=1e-8)
    assert (of_one_moment.ppf([0.0] * 1500) == -np.inf).all()
    assert (of_one_moment.ppf(1.0) == np.inf).all()


def test_draws_follow_the_distribution(fitted):
    dist = fitted.predict_dist(X[:2])
    drawn = dist.rvs(20_000, random_state=0)
    grid = dist.mean()[1] + dist.std()[1] * np.linspace(-40, 40, 20_001)
    levels = [dist[1:].cdf(value)[0] for value in grid]
    assert drawn.shape == (20_000, 2)
    assert kstest(drawn[:, 1], lambda t: np.interp(t, grid, levels)).pvalue > 1e-6
    assert dist.rvs(random_state=1).shape == (2,)


def test_tracked_levels_are_those_of_intervals():
    levels = np.array(LEVELS) ** 1.1
    n_components = len(WIDTHS) * len(DEGREES)
    weights = np.full(n_components, 1 / n_components)
    dist = PredictiveDistribution(np.concatenate([[3.0, 2.0], weights, levels])[None])
    for q, level in zip(LEVELS, levels, strict=True):
        assert dist.quantiles([q])[0, 0] == dist.ppf(level)[0]
    assert (np.diff(dist.quantiles(np.linspace(0.001, 0.999, 99))[0]) > 0).all()


def test_predictions_agree_with_each_other(fitted):
    mean, std = fitted.predict(X[:20], return_std=True)
    dist = fitted.predict_dist(X[:20])
    assert (mean == fitted.predict(X[:20])).all()
    assert (mean == dist.mean()).all()
    assert (std == dist.std()).all()
    interval = fitted.predict_interval(X[:20], coverage=0.8)
    np.testing.assert_allclose(interval, fitted.predict_quantiles(X[:20], [0.1, 0.9]), rtol=1e-9)
    np.testing.assert_allclose(interval[:, 0], fitted.predict_quantiles(X[:20], 0.1), rtol=1e-9)
    assert fitted.predict_one(X[3]) == mean[3]
    by_memory, weights = fitted.predict_by_memory(X[:20]), fitted.memory_weights_
    np.testing.assert_allclose(mean, by_memory @ weights, rtol=1e-9)
    np.testing.assert_allclose(weights.sum(), 1)
    of_first_group = fitted.predict_by_tree(X[:20])[:, :2].mean(axis=1)
    np.testing.assert_allclose(of_first_group, by_memory[:, 0], rtol=1e-12)


def test_test_then_train_predicts_what_was_known_before():
    model, other = (AdaptiveAMFRegressor(**SMALL).fit(X[:700], Y[:700]) for _ in range(2))
    before = model.predict_interval(X[700:701], coverage=0.6)
    intervals = model.partial_fit_predict_interval(X[700:], Y[700:], coverage=0.6)
    np.testing.assert_allclose(intervals[:1], before, rtol=1e-9)
    other.partial_fit_predict(X[700:], Y[700:])
    assert model.to_bytes() == other.to_bytes()


def test_all_predictions_have_a_version_that_then_learns():
    model, other = (AdaptiveAMFRegressor(**SMALL).fit(X[:300], Y[:300]) for _ in range(2))
    dist = other.partial_fit_predict_dist(X[300:400], Y[300:400])
    mean, std = model.partial_fit_predict(X[300:400], Y[300:400], return_std=True)
    assert (mean == dist.mean()).all()
    assert (std == dist.std()).all()
    for q in ([0.1, 0.9], 0.25):
        before = model.predict_quantiles(X[400:401], q)
        quantiles = model.partial_fit_predict_quantiles(X[400:450], Y[400:450], q)
        np.testing.assert_array_equal(quantiles[:1], before)
        assert quantiles.shape == (50, *np.shape(q))
        other.partial_fit(X[400:450], Y[400:450])
    assert model.predict(X).tolist() == other.predict(X).tolist()


def test_by_default_each_memory_has_a_group_of_labels_and_one_on_a_linear_regression():
    model = AdaptiveAMFRegressor(random_state=0).fit(X[:50], Y[:50])
    memories = ["all", "4000", "1000", "250", "60", "15"]
    on_a_base = [f"{memory}, linear" for memory in memories]
    experts = ["linear", "linear, 0.999", "linear, 0.98", "mean"]
    assert model.memory_names_ == memories + on_a_base + experts
    assert model.n_candidates == 30


def test_trees_on_a_linear_regression_err_less_where_the_relation_is_nearly_linear():
    y = X @ [3.0, -2.0, 1.0, 4.0, 0.5] + np.sin(9 * X[:, 0]) + 0.1 * RNG.normal(size=1500)
    model = AdaptiveAMFRegressor(**SMALL).fit(X[:1200], y[:1200])
    errors = (model.predict_by_memory(X[1200:]) - y[1200:, None]) ** 2
    by_name = dict(zip(model.memory_names_, errors.mean(axis=0), strict=True))
    assert by_name["all, linear"] < 0.5 * min(by_name["all"], by_name["linear"])


def test_river_has_the_same_intervals(fitted):
    names = [f"x{j}" for j in range(5)]
    model = RiverRegressor(**{k: v for k, v in SMALL.items() if k != "random_state"}, seed=0)
    assert model.predict_interval_one({"x0": 1.0}) is None
    assert model.predict_dist_one({"x0": 1.0}) is None
    model.learn_many(pd.DataFrame(X, columns=names), pd.Series(Y))
    x = dict(zip(names, X[0].tolist(), strict=True))
    assert model.predict_interval_one(x, 0.8) == tuple(fitted.predict_interval(X[:1], 0.8)[0])
    assert model.predict_dist_one(x).std() == fitted.predict_dist(X[:1]).std()


# Errors


@pytest.mark.parametrize("coverage", [0, 1, 90, -0.1, None, "0.9", np.nan])
def test_a_bad_coverage_is_named_before_anything_is_learned(coverage, fitted):
    before = fitted.n_samples_seen_
    with pytest.raises(ValueError, match=r"coverage is .*; it must be a number within \(0, 1\)"):
        fitted.predict_interval(X, coverage)
    with pytest.raises(ValueError, match="coverage"):
        fitted.partial_fit_predict_interval(X, Y, coverage=coverage)
    assert fitted.n_samples_seen_ == before


@pytest.mark.parametrize("q", [0, [0.5, 1], [[0.5]], np.nan])
def test_a_bad_quantile_is_named(q, fitted):
    with pytest.raises(ValueError, match=r"q is .*; it must be .* within \(0, 1\)"):
        fitted.predict_quantiles(X[:1], q)
    with pytest.raises(ValueError, match=r"q is .*; it must lie in \[0, 1\]"):
        fitted.predict_dist(X[:1]).ppf(1.5)
    before = fitted.n_samples_seen_
    with pytest.raises(ValueError, match=r"q is .*; it must be .* within \(0, 1\)"):
        fitted.partial_fit_predict_quantiles(X, Y, q)
    assert fitted.n_samples_seen_ == before


def test_several_labels_per_row_are_learned_by_a_forest_for_each():
    labels = np.stack([Y, -2 * Y], axis=1)
    with pytest.raises(ValueError, match=r"y has shape .*MultiOutputRegressor"):
        AdaptiveAMFRegressor(**SMALL).fit(X, labels)
    model = MultiOutputRegressor(AdaptiveAMFRegressor(**SMALL)).fit(X, labels)
    first, second = model.predict(X[:5]).T
    np.testing.assert_allclose(second, -2 * first, rtol=1e-6)


# Wrong labels and other far ones


def median_errors(y, expected, rows, X=X):
    predictions = AdaptiveAMFRegressor(random_state=0).partial_fit_predict(X, y)
    return [float(np.median(np.abs(predictions - expected)[part])) for part in rows]


def test_a_wrong_label_does_not_spoil_the_predictions_of_other_rows():
    """The median error is 0.8 without it; before labels were limited, it was 758 with it."""
    y = Y.copy()
    y[500] = 1e6
    (error,) = median_errors(y, Y, [slice(520, None)])
    assert error < 5


def test_a_shift_of_all_labels_is_followed_within_some_dozen_rows():
    y = Y + 1e4 * (np.arange(1500) >= 800)
    assert median_errors(y, y, [slice(900, 1000)])[0] < 30


def test_far_labels_that_features_predict_are_predicted():
    rng = np.random.default_rng(1)
    is_far = rng.uniform(size=1500) < 0.05
    y = Y + 1e4 * is_far
    columns = np.column_stack([X, is_far])
    near, far = np.flatnonzero(~is_far[1000:]), np.flatnonzero(is_far[1000:])
    errors = median_errors(y, y, [1000 + near, 1000 + far], columns)
    assert errors[0] < 5
    assert errors[1] < 100
