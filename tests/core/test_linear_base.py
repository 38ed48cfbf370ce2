"""Linear bases of trees and linear experts: batch solutions, leave-one-out, units of features."""

import numpy as np
import pytest
from adaptive_forests import NUMBER_GROUPS, adaptive_regressor

from amforest.reference.linear_models import LinearExperts, fit_base

RAW, BASED = NUMBER_GROUPS[:2]  # of the longest memory


def rows(n, d, seed=0, *, gaps=0.0, weighted=False):
    """Return rows, labels that depend on all features, and weights."""
    rng = np.random.default_rng(seed)
    X = (5 * rng.normal(size=(n, d)) + np.arange(d)).astype(np.float32)
    y = 40 + X @ rng.normal(size=d) + rng.normal(size=n)
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y, rng.choice([0.5, 1.0, 3.0], size=n) if weighted else np.ones(n)


def ridge(Z, y, weight, penalty):
    """Return slopes and intercept of the ridge regression, of which the intercept is free."""
    design = np.column_stack([Z, np.ones(len(Z))])
    gram = design.T @ (weight[:, None] * design) + np.diag([penalty] * Z.shape[1] + [0.0])
    return np.linalg.solve(gram, design.T @ (weight * y))


def standardised(X, weight):
    """Return features of mean 0 and variance 1; missing values are 0."""
    values = X.astype(float)
    seen = np.where(np.isnan(values), 0.0, weight[:, None])
    center = np.nansum(seen * values, axis=0) / seen.sum(axis=0)
    spread = np.sqrt(np.nansum(seen * (values - center) ** 2, axis=0) / seen.sum(axis=0))
    return np.nan_to_num((values - center) / spread)


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_left_over_is_the_error_of_the_regression_without_the_row(gaps, weighted):
    X, y, weight = rows(60, 4, gaps=gaps, weighted=weighted)
    _, left_over = fit_base(X, y, weight, np.ones(60, dtype=bool))
    Z = standardised(X, weight)
    for i in range(60):
        others = np.arange(60) != i
        *slopes, intercept = ridge(Z[others], y[others], weight[others], 5)
        assert left_over[i] == pytest.approx(y[i] - Z[i] @ slopes - intercept, abs=1e-10)


def test_a_row_with_all_the_leverage_leaves_over_twenty_times_its_error_at_most():
    X, y, weight = rows(40, 1)
    X[0], weight[0] = 1000.0, 1e6  # its regression goes through it
    base, left_over = fit_base(X, y, weight, np.ones(40, dtype=bool))
    assert left_over[0] == pytest.approx((y[0] - base.of(X[0])) / 0.05)


def test_rows_that_are_not_fitted_only_widen_the_ranges():
    X, y, weight = rows(60, 2)
    is_fitted = np.arange(60) % 2 == 0
    base, left_over = fit_base(X, y, weight, is_fitted)
    alone, left_over_alone = fit_base(X[::2], y[::2], weight[::2], np.ones(30, dtype=bool))
    np.testing.assert_allclose(base.slopes, alone.slopes)
    np.testing.assert_allclose(left_over[::2], left_over_alone)
    np.testing.assert_array_equal(base.upper, X.max(axis=0))
    assert left_over[1] == pytest.approx(y[1] - base.of(X[1]))


# In the core

N_ROWS = 16  # a tree with an unlimited memory is regrown from these at once


def regrown(X, y, weight):
    forest = adaptive_regressor(X.shape[1], groups=[BASED], n_estimators=1)
    forest.learn(X, y, 1, weights=weight)
    arrays = forest.state()["trees"]
    assert forest.n_regrows[0] == 1
    assert arrays["has_base"][0]
    return forest, arrays


@pytest.mark.parametrize("gaps", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_tree_of_the_core_learns_leave_one_out_errors(gaps, weighted):
    X, y, weight = rows(N_ROWS, 3, gaps=gaps, weighted=weighted)
    forest, arrays = regrown(X, y, weight)
    Z = standardised(X, weight)
    *slopes, intercept = ridge(Z, y, weight, 5)
    assert arrays["base_intercepts"][0] == pytest.approx(intercept)
    fitted = Z @ slopes + intercept
    design = np.column_stack([Z, np.ones(N_ROWS)])
    gram = design.T @ (weight[:, None] * design) + np.diag([5.0] * 3 + [0.0])
    leverage = weight * np.einsum("ij,jk,ik->i", design, np.linalg.inv(gram), design)
    left_over = (y - fitted) / np.maximum(1 - leverage, 0.05)
    table = forest.tree_table(0)
    mean = np.average(left_over, weights=weight)
    assert table["mean"][0] == pytest.approx(mean, abs=1e-10 * y.std())
    assert table["variance"][0] == pytest.approx(
        np.average((left_over - mean) ** 2, weights=weight)
    )


def test_features_are_clipped_to_the_remembered_range():
    X, y, weight = rows(N_ROWS, 2)
    forest, _ = regrown(X, y, weight)
    far = np.array([X.min(axis=0) - 1000, X.max(axis=0) + 1000], dtype=np.float32)
    ends = np.array([X.min(axis=0), X.max(axis=0)])
    # The groups, and the linear experts, which are clipped as well.
    np.testing.assert_array_equal(
        forest.predict_by_expert(far, 1)[:, :, 0], forest.predict_by_expert(ends, 1)[:, :, 0]
    )


def test_a_base_is_frozen_until_the_next_regrow():
    X, y, _ = rows(100, 2)
    forest = adaptive_regressor(2, groups=[BASED], n_estimators=1)
    seen: dict[int, set[bytes]] = {}  # all bases after so many regrows
    for i in range(100):
        forest.learn(X[i : i + 1], y[i : i + 1], 1)
        arrays = forest.state()["trees"]
        names = [name for name in arrays if name.startswith("base_")]
        base = b"".join(arrays[name].tobytes() for name in names)
        seen.setdefault(int(forest.n_regrows[0]), set()).add(base)
    assert [*seen] == [0, 1, 2, 3]  # at rows 16, 32 and 64
    assert all(len(bases) == 1 for bases in seen.values())
    assert len(set.union(*seen.values())) == 4


def test_constant_features_and_features_without_values_have_no_slope():
    X, y, weight = rows(N_ROWS, 4)
    X[:, 1], X[:, 2] = 3.3, np.nan
    _, arrays = regrown(X, y, weight)
    np.testing.assert_array_equal(arrays["base_columns"], [0, 3])


# Linear experts

N_EXPERTS = 4


def experts_of(X, y, weight=None, n_codes=0):
    """Return the forest of the core; its experts come last."""
    forest = adaptive_regressor(X.shape[1] - n_codes, groups=[RAW], n_estimators=1)
    forest.learn(X, y, 1, weights=np.ones(len(y)) if weight is None else weight)
    return forest


def predictions_of(forest, X):
    return forest.predict_by_expert(X, 1)[:, -N_EXPERTS:]


@pytest.mark.parametrize("weighted", [False, True])
def test_without_forgetting_an_expert_is_the_batch_solution_up_to_its_prior(weighted):
    """In 4,000 rows the prior, which is worth one row, is a part of about 1e-3 or less."""
    X, y, weight = rows(4_000, 3, weighted=weighted)
    *slopes, intercept = ridge(X.astype(float), y, weight, 0.0)
    actual = predictions_of(experts_of(X, y, weight), X[:50])[:, 0, 0]
    np.testing.assert_allclose(actual, X[:50] @ slopes + intercept, atol=3e-3 * y.std())


@pytest.mark.parametrize("weighted", [False, True])
def test_with_its_prior_an_expert_is_exactly_a_batch_solution(weighted):
    """The prior is a penalty of 1 on slopes of features as they were first standardised.

    That was by the first two rows.
    """
    X, y, weight = rows(100, 3, weighted=weighted)
    first = X[:2].astype(float)
    center, spread = first.mean(axis=0), first.std(axis=0)
    Z = np.column_stack([(X.astype(float) - center) / spread, np.ones(100)])
    Z[0, :3] = 0.0  # no scale was known
    gram = Z.T @ (weight[:, None] * Z) + np.diag([1.0, 1.0, 1.0, 0.01])
    coefficients = np.linalg.solve(gram, Z.T @ (weight * (y - y[0])))
    actual = predictions_of(experts_of(X, y, weight), X[1:])[:, 0, 0]
    np.testing.assert_allclose(actual, y[0] + Z[1:] @ coefficients, rtol=1e-10)


@pytest.mark.parametrize("factor", [2.0**-20, -1.0, 3.0, 1000.0])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_the_unit_and_the_origin_of_a_feature_change_predictions_of_experts_by_rounding(
    factor, shift
):
    rng = np.random.default_rng(0)
    X = rng.integers(-50, 50, size=(300, 3)).astype(np.float32)  # exact in all units
    y = X[:, 0] - 2 * X[:, 1] + 10 * rng.normal(size=300)
    other = X.copy()
    other[:, 1] = factor * (X[:, 1] + shift)
    expected, actual = (predictions_of(experts_of(V, y), V[:50]) for V in (X, other))
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9 * y.std())


def test_scales_are_converted_without_changing_predictions():
    """At doublings of the number of rows all slopes are converted."""
    X, y, _ = rows(64, 3)
    experts = LinearExperts(0)
    for x, label in zip(X[:63], y[:63].tolist(), strict=True):
        experts.learn(x, label, 1.0)
    expected = [experts.predict(x) for x in X]
    experts.set_scales()
    np.testing.assert_allclose([experts.predict(x) for x in X], expected, rtol=1e-9)


def test_forgetting_follows_a_change():
    X, y, _ = rows(2_000, 2)
    y[1_500:] = 40 - X[1_500:].sum(axis=1)
    errors = np.abs(predictions_of(experts_of(X, y), X[1_500:])[..., 0] - y[1_500:, None])
    slow, middle, fast, _ = errors.mean(axis=0)
    assert fast < middle < slow
    assert fast < 0.05 * y.std()  # the prior is worth a row of the last 50


def test_the_last_expert_is_the_mean_of_all_labels():
    X, y, weight = rows(100, 2, weighted=True)
    mean, squares = predictions_of(experts_of(X, y, weight), X[:1])[0, -1]
    assert mean == pytest.approx(np.average(y, weights=weight), rel=1e-12)
    variance = np.average((y - mean) ** 2, weights=weight)
    assert squares == pytest.approx(variance * (1 + 1 / weight.sum()), rel=1e-12)


def test_a_feature_that_is_constant_for_long_does_not_let_variances_grow():
    X, y, _ = rows(3_000, 2)
    X[10:, 1] = X[9, 1]
    squares = predictions_of(experts_of(X, y), X[:10])[..., 1]
    assert (squares < 1e3 * y.var()).all()
