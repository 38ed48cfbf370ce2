"""PredictiveDistribution is vectorised over rows, and names arguments that it cannot use."""

import numpy as np
import pytest
from test_predicted_quantiles import outputs

from amforest.distribution import PredictiveDistribution

N = 40
DIST = PredictiveDistribution(outputs(N))
LABELS = DIST.mean() + DIST.std() * np.random.default_rng(1).normal(size=N)
Q = np.random.default_rng(2).uniform(size=N)
METHODS = {"pdf": LABELS, "logpdf": LABELS, "cdf": LABELS, "ppf": Q}


@pytest.mark.parametrize("name", METHODS)
def test_an_argument_for_each_row_gives_what_each_row_gives_alone(name):
    whole = getattr(DIST, name)(METHODS[name])
    assert whole.shape == (N,)
    alone = [getattr(DIST[i], name)(METHODS[name][i]) for i in range(N)]
    np.testing.assert_array_equal(whole, np.concatenate(alone))


@pytest.mark.parametrize("name", METHODS)
def test_one_number_is_the_argument_of_all_rows(name):
    for one in (0.25, [0.25], np.float32(0.25)):
        result = getattr(DIST, name)(one)
        np.testing.assert_array_equal(result, getattr(DIST, name)(np.full(N, 0.25)))


@pytest.mark.parametrize("name", ["mean", "median", "var", "std", "rvs"])
def test_moments_and_draws_have_a_number_for_each_row(name):
    assert getattr(DIST, name)().shape == (N,)
    assert getattr(DIST[3], name)().shape == (1,)


def test_the_moments_are_those_of_many_draws():
    rows = PredictiveDistribution(outputs(3))
    drawn = rows.rvs(200_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), rows.mean(), atol=0.02 * rows.std().max())
    np.testing.assert_allclose(drawn.std(axis=0), rows.std(), rtol=0.1)  # tails are heavy


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.full(N - 1, 0.5), r"{} has shape \(39,\); .* shape \(40,\): a number for each row"),
        (np.full((N, 1), 0.5), r"{} has shape \(40, 1\); it must be one number"),
        ("many", "{} must be a number, or a number for each row: could not convert"),
        ([None, {}], "{} must be a number, or a number for each row: "),
    ],
)
def test_an_argument_of_another_shape_or_type_is_named(name, value, message):
    with pytest.raises(ValueError, match=message.format("q" if name == "ppf" else "y")):
        getattr(DIST, name)(value)


@pytest.mark.parametrize("q", [[], "many", [[0.5]], [0.5, None], 0.5])
def test_quantiles_need_levels(q):
    with pytest.raises(ValueError, match=r"q is .*; it must be a number or a list of numbers"):
        DIST.quantiles(q)


@pytest.mark.parametrize("size", [2.5, -1, "3", (2, 3), True])
def test_a_bad_number_of_draws_is_named(size):
    with pytest.raises(ValueError, match=r"size is .*; it must be None or a whole number"):
        DIST.rvs(size)


def test_all_labels_are_within_infinite_ends():
    np.testing.assert_array_equal(DIST.cdf(-np.inf), np.zeros(N))
    np.testing.assert_array_equal(DIST.cdf(np.inf), np.ones(N))
