"""What fuzzing found, and must not come back."""

import numpy as np
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._forest.core_handle import restore_core
from amforest.baselines import MondrianForestClassifier
from amforest.model_io import from_bytes
from amforest.river import AMFClassifier as RiverClassifier


def test_weights_too_small_to_be_counted_are_refused():
    for model in (AMFRegressor(1), MondrianForestClassifier(1, classes=[1, 2])):
        model.partial_fit([[0.0], [1.0]], [1, 2])
        before = model.to_bytes()
        with pytest.raises(ValueError, match=r"weights must be 0, or at least 2\*\*-100"):
            model.partial_fit([[0.0], [1.0]], [1, 2], sample_weight=[1e-160, 1e-160])
        assert model.to_bytes() == before
        model.partial_fit([[0.0], [1.0]], [1, 2], sample_weight=[2.0**-100, 2.0**-100])
        model.partial_fit([[0.0], [1.0]], [1, 2], sample_weight=[2.0, 1.5])


def test_weights_that_round_to_too_much_are_refused():
    model = AMFRegressor(1).partial_fit([[0.0]], [1.0], sample_weight=[2.0**53 - 1])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="add up to too much"):  # 2**53, then 2**53 + 2
        model.partial_fit([[0.0], [0.0]], [1.0, 1.0], sample_weight=[0.6, 1.2])
    assert model.to_bytes() == before


def test_forgetting_in_a_box_is_refused():
    model = MondrianForestClassifier(1, classes=[1, 2]).partial_fit([[0.0]], [1])
    state = model._core.state()
    state["bounds"] = np.array([[-1], [1]], dtype=np.float32)
    with pytest.raises(ValueError, match="no lifetime and no discount"):
        restore_core(state)


@pytest.mark.parametrize("requested", [b"ab", bytearray(b"ab"), "ab", 3])
def test_bytes_name_no_features(requested):
    with pytest.raises(ValueError, match=r"it must be 'auto', 'from_dtype', None"):
        RiverClassifier(categorical_features=requested)


def test_points_equal_in_one_feature_and_close_in_another_are_parted():
    model = AMFClassifier(2, partition="unrestricted", bounds=(-2.0, 3.0), classes=[0, 1])
    model.partial_fit([[0, 0.5], [1e-38, 0.5]], [0, 1])
    leaves = model.apply([[0, 0.5], [1e-38, 0.5]])
    assert (leaves[0] != leaves[1]).all()


@pytest.mark.parametrize("alpha", [1e-30, 1e-100, 0.5])
def test_predictions_are_finite_with_any_prior(alpha):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(100, 2)), rng.integers(2, size=100)
    model = AMFClassifier(3, predict_extends=True, split_prior=(alpha, 0), random_state=0)
    predictions = model.fit(X, y).predict_proba(rng.uniform(-1, 2, size=(200, 2)))
    np.testing.assert_allclose(predictions.sum(axis=1), 1)


@pytest.mark.parametrize("beta", [-1.0, -0.5, 2000.0])
def test_priors_that_vanish_are_refused(beta):
    model = AMFRegressor(2, partition="unrestricted", split_prior=(0.5, beta))
    with pytest.raises(ValueError, match="beta in"):
        model.fit([[0.1], [0.2]], [0.0, 1.0])


@pytest.mark.parametrize("a", [0.5, 1e-8, 1e-14, 1e-20])
def test_predictions_of_an_extended_partition_sum_to_1_for_any_prior(a):
    rng = np.random.default_rng(0)
    X, queries = rng.uniform(size=(500, 2)), rng.uniform(-0.5, 1.5, size=(100, 2))
    y = (X > 0.5) @ [1, 2]
    model = AMFClassifier(
        1,
        classes=range(4),
        predict_extends=True,
        split_pure=True,
        split_prior=(a, 0),
        random_state=0,
    )
    for part in np.array_split(np.arange(500), 100):
        model.partial_fit(X[part], y[part])
        np.testing.assert_allclose(model.predict_proba(queries).sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("column", ["number_values", "number_priors"])
def test_categories_are_no_numbers_that_a_feature_cannot_be(column):
    # Trees split between such numbers, at thresholds that their own file must not have.
    model = AdaptiveAMFClassifier(1, memories=(20,), categorical_features=[0], random_state=0)
    model.fit(np.arange(60).reshape(-1, 1) % 5, np.arange(60) % 2)
    state = model._core.state()
    assert state["trees"]["has_numbers"].any()
    restore_core(state)
    state["trees"][column] = np.full_like(state["trees"][column], 2.0**101)
    with pytest.raises(ValueError, match=f"{column} must be at most"):
        restore_core(state)


def test_rows_from_which_a_tree_would_count_too_much_are_refused():
    model = AdaptiveAMFClassifier(1, memories=(20,), random_state=0)
    X, y = np.arange(30.0).reshape(-1, 1), np.arange(30) % 2
    state = model.fit(X, y)._core.state()
    state["trees"]["row_weights"] = np.full_like(state["trees"]["row_weights"], 2.0**53)
    with pytest.raises(ValueError, match="row_weights must not add up to too much"):
        restore_core(state)
    for weights in (np.full(30, 2.0**48), np.full(30, 2.0**48 - 0.5)):
        before = model.fit(X, y, sample_weight=weights).to_bytes()
        with pytest.raises(ValueError, match="add up to too much"):  # with those of the store
            model.partial_fit(X[:3], [0, 1, 7], sample_weight=weights[:3])
        assert model.to_bytes() == before


def test_a_regrowth_that_would_outlast_its_rows_is_refused():
    model = AdaptiveAMFClassifier(1, memories=(60,), n_candidates=5_000, random_state=0)
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(60, 3)), rng.integers(2, size=60))
    while not (state := model._core.state())["trees"]["is_regrown"].any():
        model.learn_one(rng.normal(size=3), int(rng.integers(2)))
    restore_core(state)
    trees = state["trees"]
    trees["regrowth_credit"] = np.where(trees["is_regrown"] == 1, -(10**9), 0)
    with pytest.raises(ValueError, match="regrowth_credit must be in its range"):
        restore_core(state)


def test_all_missing_values_have_the_same_bits():
    """np.fmin of a signalling NaN and a number is NaN."""
    model = AMFClassifier(1, classes=[0, 1], random_state=0)
    model.partial_fit([[1.0, np.nan], [2.0, 3.0], [np.nan, 4.0]], [0, 1, 0])
    state = model._core.state()
    before = state["trees"]["lower"].tobytes()
    signalling = np.frombuffer(np.uint32(0x7FA00001).tobytes(), np.float32)
    lower = state["trees"]["lower"] = state["trees"]["lower"].copy()
    lower.view(np.uint32)[np.isnan(lower)] = signalling.view(np.uint32)[0]
    assert lower.tobytes() != before
    assert restore_core(state).state()["trees"]["lower"].tobytes() == before


def test_squares_that_no_labels_have_are_refused():
    model = AdaptiveAMFRegressor(1, memories=(20,), random_state=0)
    state = model.fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])._core.state()
    state["trees"]["m2"] = np.full_like(state["trees"]["m2"], 1e170)
    with pytest.raises(ValueError, match="m2 must not be negative, and not too large"):
        restore_core(state)


@pytest.mark.parametrize("Model", [AMFClassifier, AdaptiveAMFClassifier, AdaptiveAMFRegressor])
def test_the_sign_of_a_missing_value_is_not_saved(Model):
    """0 * inf is -NaN on most machines, np.nan is NaN."""
    X = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, 4.0]] * 8, dtype=np.float32)
    y = [0, 1, 1] * 8
    saved = [
        Model(1, random_state=0).partial_fit(some, y).to_bytes()
        for some in (X, np.where(np.isnan(X), -X, X))
    ]
    assert saved[0] == saved[1]


@pytest.mark.parametrize(
    ("y", "weights"), [([1.0, 0.1], [1e-20, 1.0]), ([0.0, 1.0, 0.1], [1e-30, 1e-13, 1e4])]
)
def test_a_large_weight_after_a_tiny_one_gives_no_negative_variance(y, weights):
    """The mean of 1 and 0.1 is rounded to less than 0.1."""
    model = AdaptiveAMFRegressor(1, memories=(20,), random_state=0)
    model.partial_fit([[0.0]] * len(y), y, sample_weight=weights)
    assert (model._core.state()["trees"]["m2"] >= 0).all()
    assert from_bytes(model.to_bytes()).predict([[0.0]]) == model.predict([[0.0]])


def test_weights_of_forgotten_rows_may_add_up_to_much():
    model = AdaptiveAMFRegressor(1, memories=(8,), row_limit=16, random_state=0)
    X, y, weights = np.arange(1000)[:, None] % 7, np.arange(1000) % 3, np.full(1000, 2.0**42)
    for _ in range(5):
        model.partial_fit(X, y, sample_weight=weights)
    assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_a_row_far_away_that_counts_little_leaves_a_model_that_can_be_loaded():
    """The line through the other rows is far from its label."""
    model = AdaptiveAMFRegressor(1, memories=(8,), random_state=0)
    X, y, weights = np.zeros((20, 1)), np.zeros(20), np.ones(20)
    weights[12] = weights[16] = 2.0**40
    X[16], y[16] = 1, -1e75
    X[19], weights[19] = 1e30, 2.0**-100
    model.partial_fit(X, y, sample_weight=weights)
    assert np.isfinite(model.predict(X)).all()
    assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
