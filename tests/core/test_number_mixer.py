"""The parts of the mixer of numbers by their definitions; the core equals this reference."""

import numpy as np
import pytest
from adaptive_forests import NUMBER_GROUPS, adaptive_regressor
from scipy import stats

from amforest import _core
from amforest.reference.adaptive_numbers import (
    LeastSquaresMixer,
    NumberMixer,
    PredictiveScale,
    SharedMean,
    gain,
)

RNG = np.random.default_rng(0)
N, G = 300, 5
Y = RNG.normal(size=N)
MEANS = Y[:, None] * [1.0, 0.5, 0.0, -0.5, 0.2] + 0.5 * RNG.normal(size=(N, G))
WEIGHTS = RNG.choice([0.5, 1.0, 3.0], size=N)


def learned(mixer):
    for means, y, weight in zip(MEANS, Y.tolist(), WEIGHTS.tolist(), strict=True):
        mixer.learn(means, y, weight)
    return mixer


# Least squares


def test_the_weights_are_those_of_the_ridge_regression_on_rows_that_fade():
    """y - m̄ ≈ Σ_g u_g (m_g - m̄), weights 0.998^age, ridge 5 v̂, v̂ the mean of (y - m̄)²."""
    fading = WEIGHTS * 0.998 ** np.arange(N)[::-1]
    center = MEANS.mean(axis=1)
    design, target = MEANS - center[:, None], Y - center
    ridge = 5 * np.average(target**2, weights=fading)
    gram = design.T @ (fading[:, None] * design) + ridge * np.eye(G)
    expected = np.linalg.solve(gram, design.T @ (fading * target))
    mixer = learned(LeastSquaresMixer(G))
    np.testing.assert_allclose(mixer.weights, expected, rtol=1e-9)
    assert mixer.mix(MEANS[7]) == pytest.approx(center[7] + design[7] @ expected)


def test_a_row_far_off_counts_as_one_of_thirty_standard_deviations():
    rows = [(MEANS[7], 1e5), (MEANS[7] + [1e5, 0.0, 0.0, 0.0, 0.0], 0.0)]  # a label, an expert
    for means, y in rows:
        mixer = learned(LeastSquaresMixer(G))
        before, variance = mixer.products.copy(), mixer.squares / mixer.total
        mixer.learn(means, y, 1.0)
        distances, error = means - means.mean(), y - means.mean()
        weight = 900 * variance / max(error**2, (distances**2).max())
        assert weight < 1e-3
        expected = 0.998 * before + weight * np.outer(distances, distances)
        np.testing.assert_allclose(mixer.products, expected, rtol=1e-9)


def test_a_mix_is_clipped_to_the_hull_of_the_experts_widened_by_half_its_width():
    mixer = LeastSquaresMixer(2)
    mixer.weights = np.array([9.0, -9.0])
    assert mixer.mix(np.array([4.0, 0.0])) == 6.0
    assert mixer.mix(np.array([0.0, 4.0])) == -2.0
    mixer.weights = np.array([0.7, -0.7])
    assert mixer.mix(np.array([4.0, 0.0])) == pytest.approx(4.8)


def test_no_prediction_of_the_core_is_far_from_all_experts():
    """Labels change their sign with each row, so that least squares want to extrapolate."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    y = 1e3 * X[:, 0] * (-1) ** (np.arange(300) // 5)
    forest = adaptive_regressor(2, groups=NUMBER_GROUPS[:4])
    n_clipped = 0
    for x, label in zip(X[:, None], y, strict=True):
        by_expert = forest.predict_by_expert(x, 1)[0, :, 0]
        mixed, half = forest.predict(x, 1)[0, 0], np.ptp(by_expert) / 2
        rounding = 1e-9 * np.abs(by_expert).max()
        outside = max(by_expert.min() - mixed, mixed - by_expert.max())
        n_clipped += outside > 0
        # The second level goes on by half of the width of its candidates: 3/4 of this one's.
        assert outside <= 2.5 * half + rounding
        forest.learn(x, np.array([label]), 1)
    assert n_clipped > 0


# Fixed share


def test_the_shared_mean_follows_the_expert_that_is_right_after_a_change():
    mixer = SharedMean(3)
    for t in range(200):
        mixer.learn(np.array([0.0, 1.0, 2.0]), 0.0 if t < 100 else 2.0, 1.0)
        if t == 99:
            assert mixer.weights[0] > 0.98
    assert mixer.weights[2] > 0.98


def test_the_second_level_finds_that_features_tell_nothing_before_the_first_one():
    rng = np.random.default_rng(2)
    mixer, alone, errors = NumberMixer(12), LeastSquaresMixer(12), np.zeros(2)
    for _ in range(500):
        means, y = rng.normal(size=12), float(rng.normal())
        means[-1] = 0.0  # the mean of all labels
        by_expert = np.column_stack([means, np.ones(12)])
        errors += (mixer.mix(by_expert)[0] - y) ** 2, (alone.mix(means) - y) ** 2
        mixer.learn(by_expert, y)
        alone.learn(means, y, 1.0)
    assert errors[0] < errors[1]


# The distribution


def test_the_grid_has_factors_from_a_quarter_to_two_and_3_6_and_30_degrees_of_freedom():
    assert list(_core.DEGREES) == [3, 6, 30]
    assert min(_core.WIDTHS) == 0.25
    assert max(_core.WIDTHS) == 2
    np.testing.assert_array_equal(PredictiveScale.WIDTHS[0], _core.WIDTHS)
    np.testing.assert_array_equal(PredictiveScale.DEGREES[:, 0], _core.DEGREES)
    np.testing.assert_array_equal(PredictiveScale.LEVELS, _core.LEVELS)


@pytest.mark.parametrize(("width", "degree"), [(0.35, 3), (1.4, 30)])
def test_the_scale_is_the_one_of_the_grid_that_errors_have(width, degree):
    scale, rng = PredictiveScale(1), np.random.default_rng(3)
    for error in (width * stats.t.rvs(degree, size=2_000, random_state=rng)).tolist():
        scale.learn(np.array([[0.0, 1.0]]), 0.0, error, 1.0)
    near = np.abs(np.log(scale.WIDTHS / width)) < 0.5
    assert scale.components[near].sum() > 0.9
    heavy = scale.components[0].sum() > scale.components[2].sum()
    assert heavy == (degree == 3)


@pytest.mark.parametrize("y", [-50.0, 50.0])
def test_a_level_moves_by_0_005_times_its_miss(y):
    """a += 0.005 (0.05 - [u < a]), u being the probability of labels up to y."""
    scale = PredictiveScale(1)
    before = scale.levels.copy()
    scale.learn(np.array([[0.0, 1.0]]), 0.0, y, 1.0)
    for q in (0.05, 0.95):
        k = scale.LEVELS.tolist().index(q)
        step = 0.005 * (q - (y < 0))
        assert scale.levels[k] - before[k] == pytest.approx(step, rel=1e-9)


# Splits


def test_the_gain_is_the_reduction_of_the_sum_of_squares():
    rng = np.random.default_rng(4)
    x, y, weight = rng.normal(size=50), rng.normal(size=50), rng.choice([0.5, 1.0, 2.0], 50)

    def squares(rows):
        mean = np.average(y[rows], weights=weight[rows])
        return weight[rows] @ (y[rows] - mean) ** 2

    for threshold in (-1.0, 0.0, 0.7):
        expected = squares(x < 9) - squares(x <= threshold) - squares(x > threshold)
        assert gain(x.astype(np.float32), threshold, y, weight) == pytest.approx(expected)


def roots(X, y, n_candidates=30):
    """Return the feature and the threshold of the roots of 20 trees, regrown from 16 rows."""
    forest = adaptive_regressor(
        X.shape[1], groups=NUMBER_GROUPS[:1], n_estimators=20, n_candidates=n_candidates
    )
    rows = np.arange(60) % 16  # until the last tree of the group is regrown
    forest.learn(X[rows].astype(np.float32), y[rows], 1)
    assert (forest.n_regrows > 0).all()
    tables = [forest.tree_table(i) for i in range(20)]
    return [(int(t["feature"][0]), float(t["threshold"][0])) for t in tables]


def test_of_thirty_splits_the_one_that_reduces_the_variance_most_is_taken():
    rng = np.random.default_rng(5)
    X, ones = rng.normal(size=(16, 4)), np.ones(16)
    y = np.where(X[:, 2] > 0, 3.0, 0.0) + 0.1 * rng.normal(size=16)
    every = [gain(X[:, j], c, y, ones) for j in range(4) for c in X[:, j]]
    of_thirty, of_one = (
        [gain(X[:, j], c, y, ones) for j, c in roots(X, y, n_candidates)]
        for n_candidates in (30, 1)
    )
    assert np.median(of_thirty) > 0.7 * max(every)
    assert min(of_thirty) > np.quantile(every, 0.8)
    assert np.median(of_one) < 0.3 * max(every)


def test_a_threshold_lies_between_two_random_rows_so_that_far_rows_do_not_hide_the_others():
    """Of thresholds drawn from the whole range, one of 10⁵ would be below 10¹⁰."""
    x = 10.0 ** np.arange(16)
    found = [threshold for _, threshold in roots(x[:, None], np.where(x < 1e8, 0.0, 1.0))]
    assert np.median(found) < 1e10


# Wrong labels


def test_what_is_learned_of_a_label_is_within_twenty_scales_of_an_expert():
    mixer = NumberMixer(2)
    experts = np.array([[1.0, 4.0], [5.0, 0.25]])  # means and squared scales
    for _ in range(50):
        assert mixer.limit(experts, 1e9) == 1e9
        mixer.learn(experts, 1.0)
    assert mixer.limit(experts, 1e9) == 1 + 20 * 2  # the larger one of 1 + 40 and 5 + 10
    assert mixer.limit(experts, -1e9) == 1 - 20 * 2
    assert mixer.limit(experts, 40.0) == 40.0
    assert mixer.limit(np.array([[3.0, 0.0], [3.0, 0.0]]), 1e9) == 1e9  # all labels were equal
