"""The compiled core by itself: its generator, and what it refuses."""

import copy

import numpy as np
import pytest

from amforest import AMFClassifier, AMFRegressor
from amforest._base import tree_seeds
from amforest._core import Rng

# The first outputs of xoshiro256++ from the state (1, 2, 3, 4), as its authors publish them.
XOSHIRO = (41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205)


def test_the_generator_is_xoshiro256_plus_plus():
    rng = Rng([1, 2, 3, 4])
    assert [rng.uniform() for _ in XOSHIRO] == [(word >> 11) * 2.0**-53 for word in XOSHIRO]


def test_an_exponential_draw_inverts_a_uniform_one():
    uniform, exponential = Rng([5, 6, 7, 8]), Rng([5, 6, 7, 8])
    for rate in (1e-45, 0.5, 1e30):
        u = uniform.uniform()
        assert exponential.exponential(rate) == pytest.approx(-np.log1p(-u) / rate, rel=1e-15)


def test_a_discrete_draw_never_takes_what_has_no_weight():
    rng = Rng(tree_seeds(0, 1)[0].tolist())
    weights = np.array([0, 3, 0, 1e-45, 0], dtype=np.float32)
    draws = {rng.discrete(weights) for _ in range(1000)}
    assert draws == {1}
    assert rng.discrete(np.array([0, 0, 1e-45, 0], dtype=np.float32)) == 2


def test_trees_have_seeds_of_their_own():
    assert len({tuple(seed) for seed in tree_seeds(0, 1000).tolist()}) == 1000


@pytest.fixture
def classifier():
    X = np.random.default_rng(0).uniform(size=(50, 3))
    return AMFClassifier(2, random_state=0).fit(X, np.arange(50) % 3)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((2, 3)), np.zeros(2, np.uint32)),  # float64
        (np.zeros((2, 3), np.float32), np.zeros(2, np.int64)),
        (np.zeros((3, 2), np.float32).T, np.zeros(2, np.uint32)),  # not contiguous
        (np.zeros((2, 3), np.float32), np.zeros(1, np.uint32)),
        (np.zeros((2, 4), np.float32), np.zeros(2, np.uint32)),
        (np.full((2, 3), np.inf, np.float32), np.zeros(2, np.uint32)),
        (np.zeros((2, 3), np.float32), np.full(2, 3, np.uint32)),  # class 3 of 0, 1, 2
    ],
)
def test_the_core_converts_nothing_and_refuses_what_it_cannot_learn(classifier, X, y):
    with pytest.raises((TypeError, ValueError)):
        classifier._core.learn(X, y, 1)
    assert classifier.n_samples_seen_ == 50


def cut_a_row(columns):
    return {name: column[:-1].copy() for name, column in columns.items()}


def add_a_row(columns):
    return {name: np.concatenate([column, column[-1:]]) for name, column in columns.items()}


def change(name, value):
    def broken(columns):
        columns[name].flat[0] = value
        return columns

    return broken


@pytest.mark.parametrize(
    "break_it",
    [
        cut_a_row,
        add_a_row,
        change("feature", 3),
        change("n_samples", 0),
        change("counts", -1),
        change("counts", 49),
        change("odds", 0.0),
        change("odds", np.nan),
        change("odds", 1e300),
        change("odds_scale", 0.5),
        change("odds_scale", np.inf),
        lambda columns: columns | {"lower": columns["lower"][:, :2].copy()},
        lambda columns: columns | {"odds": columns["odds"][1:].copy()},
    ],
)
def test_a_broken_tree_is_not_restored(classifier, break_it):
    state = classifier.__getstate__()
    state["_core"]["trees"][0] = break_it(state["_core"]["trees"][0])
    with pytest.raises(ValueError, match=r"must|rows"):
        AMFClassifier().__setstate__(state)


@pytest.fixture
def with_categories():
    X = np.random.default_rng(0).integers(6, size=(50, 2))
    return AMFClassifier(2, categorical_features=[0], random_state=0).fit(X, np.arange(50) % 3)


@pytest.mark.parametrize("code", [-1, 0.5, 7, 1e30, -np.inf])
def test_the_core_learns_known_categories_only(with_categories, code):
    row, y = np.array([[code, 0]], np.float32), np.zeros(1, np.uint32)
    with pytest.raises(ValueError, match=r"X\[0\] is .*; a category must be one that is known"):
        with_categories._core.learn(row, y, 1)
    with pytest.raises(ValueError, match="a category must be"):
        with_categories._core.learn_row(row[0].copy(), 0)
    assert with_categories.n_samples_seen_ == 50
    if code != -1:  # which stands for those that are not known
        with pytest.raises(ValueError, match="a category must be"):
            with_categories._core.predict(row, 1)


@pytest.mark.parametrize(
    "break_it",
    [
        change("category", 7),
        change("category", -1),
        change("seen", 2**32 - 1),
        change("seen", 1),  # the category that is not known
        lambda columns: columns | {"seen": columns["seen"][:, :0].copy()},
        lambda columns: columns | {"category": columns["category"][1:].copy()},
    ],
)
def test_a_tree_with_broken_categories_is_not_restored(with_categories, break_it):
    state = with_categories.__getstate__()
    table = state["_core"]["trees"][0]
    table["feature"][0] = 0  # so that the root splits off a category
    table["category"][0] = 0
    AMFClassifier().__setstate__(copy.deepcopy(state))
    state["_core"]["trees"][0] = break_it(table)
    with pytest.raises(ValueError, match="must"):
        AMFClassifier().__setstate__(state)


def test_a_regressor_refuses_labels_whose_squares_overflow():
    model = AMFRegressor(1).fit([[0.0]], [1.0])
    with pytest.raises(ValueError, match="1e75"):
        model.learn_one([0.0], 1e80)
    assert model.n_samples_seen_ == 1
