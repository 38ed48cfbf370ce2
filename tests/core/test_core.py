"""The compiled core by itself: its generator, and what it refuses."""

import numpy as np
import pytest

from amforest import AMFClassifier, AMFRegressor
from amforest._core import Rng
from amforest._forest.core_handle import restore_core
from amforest._forest.core_options import tree_seeds

COLUMNS = (
    *("seeds", "n_nodes", "feature", "threshold", "split_time", "odds", "odds_scale", "kind"),
    *("lower", "upper", "n_samples", "counts", "label"),
)

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


def test_a_row_has_as_many_probabilities_as_there_are_classes(classifier):
    assert classifier._core.predict_row(np.zeros(3)).shape == (3,)


def test_whole_weights_add_up_to_what_32_bits_hold(classifier):
    x = np.zeros(3)
    assert not classifier._core.learn_row(x, 0, 2.0**31 - 50)
    with pytest.raises(ValueError, match="add up to too much"):
        classifier._core.learn(x[None].astype("f"), np.zeros(1, "u4"), 1, np.array([2.0**31 - 50]))
    assert classifier._core.total_weight == 50
    assert classifier._core.learn_row(x, 0, 2.0**31 - 51)
    assert classifier._core.total_weight == 2.0**31 - 1


def test_a_forest_learns_as_many_rows_as_it_can_number(classifier):
    state = classifier._core.state() | {"n_samples": 2**31 - 2}
    state["trees"]["n_rows"][:] = 2**31 - 2
    core = restore_core(state)
    core.learn_row(np.zeros(3), 0)
    with pytest.raises(ValueError, match="at most"):
        core.learn_row(np.zeros(3), 0)
    assert core.n_samples == 2**31 - 1


def restored(model, **changes):
    """A core built from the arrays of another, some of which are changed."""
    state = model._core.state()
    for name, change in changes.items():
        state["trees"][name] = change(state["trees"][name].copy())
    return restore_core(state)


def put(value, at=0):
    def changed(column):
        column.flat[at] = value
        return column

    return changed


def cut(column):
    return column[:-1].copy()


def add(column):
    return np.concatenate([column, column[-1:]])


@pytest.mark.parametrize(
    "changes",
    [
        *({name: change} for name in COLUMNS for change in (cut, add)),
        {"feature": put(3)},
        {"feature": put(-2, -1)},
        {"feature": put(-1)},  # the root becomes a leaf: nodes are left over
        {"n_nodes": put(0)},
        {"n_nodes": put(2**63)},
        {"seeds": lambda seeds: 0 * seeds},
        {"seeds": lambda seeds: seeds[:, :3].copy()},
        {"n_samples": put(0)},
        {"n_samples": put(2**32 - 1)},
        {"n_samples": put(51)},
        {"counts": put(49)},
        {"label": put(3)},
        {"label": put(65535)},  # there are no counts for it
        {"odds": put(0.0)},
        {"odds": put(np.nan)},
        {"odds": put(1e300)},
        {"odds_scale": put(0.5)},
        {"odds_scale": put(np.inf)},
        {"threshold": put(np.nan)},
        {"threshold": put(1e3)},  # ranges lie on the wrong side
        {"split_time": put(-1.0)},
        {"split_time": put(np.inf)},
        {"split_time": put(1e9)},  # children would be split before
        {"kind": put(2)},
        {"kind": put(7)},
        {"upper": put(np.nan)},
        {"lower": put(-0.0)},
        {"lower": put(np.inf)},
        {"lower": put(2.0**101)},
        {"lower": lambda lower: lower[:, :2].copy()},
        {"lower": lambda lower: lower.astype(np.float64)},
        {"feature": lambda feature: feature.astype(np.int64)},
    ],
    ids="-".join,
)
def test_broken_arrays_are_not_restored(classifier, changes):
    restored(classifier)
    with pytest.raises(ValueError, match=r"must|nodes"):
        restored(classifier, **changes)


def test_missing_arrays_are_noticed(classifier):
    state = classifier._core.state()
    del state["trees"]["odds"]
    with pytest.raises(ValueError, match="columns are missing"):
        restore_core(state)


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": put(np.nan)},
        {"mean": put(1e76)},
        {"constant": put(2)},
        {"n_samples": put(np.nan)},
        {"n_samples": put(1e17)},
        {"n_samples": put(50.1)},
        {"kind": put(1)},  # an unrestricted leaf is a point, or empty
        {"lower": put(2.0)},
        {"lower": lambda lower: lower + np.float32(0.3)},  # in other cells
        {"threshold": put(1.0)},  # not within the cell
    ],
    ids="-".join,
)
def test_broken_cells_are_not_restored(changes):
    X = np.random.default_rng(0).uniform(0.4, 0.6, size=(50, 3))
    model = AMFRegressor(2, partition="unrestricted", random_state=0).fit(X, X[:, 0])
    restored(model)
    with pytest.raises(ValueError, match="must"):
        restored(model, **changes)


@pytest.fixture
def with_categories():
    X = np.random.default_rng(0).integers(6, size=(50, 2))
    return AMFClassifier(2, categorical_features=[0], random_state=0).fit(X, np.arange(50) % 3)


@pytest.mark.parametrize("code", [-1, 0.5, 7, 1e30, -np.inf])
def test_the_core_learns_known_categories_only(with_categories, code):
    row, y = np.array([[code, 0]], np.float32), np.zeros(1, np.uint32)
    with pytest.raises(ValueError, match=r"X\[0\] is .*; a category must be a known one"):
        with_categories._core.learn(row, y, 1)
    with pytest.raises(ValueError, match="a category must be"):
        with_categories._core.learn_row(row[0].copy(), 0)
    assert with_categories.n_samples_seen_ == 50
    if code != -1:  # which stands for those that are not known
        with pytest.raises(ValueError, match="a category must be"):
            with_categories._core.predict(row, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": put(7)},
        {"threshold": put(-1)},
        {"threshold": put(0.5)},
        {"threshold": put(np.nan)},
        {"seen": put(2**32 - 1)},
        {"seen": put(1)},  # the category that is not known
        {"seen": lambda seen: seen[::-1].copy()},  # on the wrong sides of the splits
        {"seen": lambda seen: seen[:, :0].copy()},
    ],
    ids="-".join,
)
def test_broken_categories_are_not_restored(changes):
    X = np.repeat(np.arange(6), 10)[:, None]
    model = AMFClassifier(1, categorical_features=[0], random_state=0).fit(X, np.arange(60) % 3)
    restored(model)
    with pytest.raises(ValueError, match="must"):
        restored(model, **changes)


def test_a_regressor_refuses_labels_whose_squares_overflow():
    model = AMFRegressor(1).fit([[0.0]], [1.0])
    with pytest.raises(ValueError, match="1e75"):
        model.learn_one([0.0], 1e80)
    assert model.n_samples_seen_ == 1
