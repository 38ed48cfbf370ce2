"""Frozen copies: the same predictions, bit for bit, in less memory, and nothing can change them."""

from __future__ import annotations

import copy
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import amforest
from amforest import AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.baselines import MondrianForestClassifier
from amforest.frozen import FrozenClassifier
from exported_models import CASES, MODELS, REGRESSORS, fitted, labels, predict, stream


def rows_of(X):
    return [row.to_dict() for _, row in X.iterrows()] if isinstance(X, pd.DataFrame) else list(X)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_predictions_of_batches_and_of_rows_are_those_of_the_live_model(name, kind):
    model, X = fitted(name, kind)
    frozen = model.freeze()
    np.testing.assert_array_equal(predict(frozen, X), predict(model, X))
    np.testing.assert_array_equal(frozen.predict(X), model.predict(X))
    for x in rows_of(X)[-8:]:
        assert frozen.predict_one(x) == model.predict_one(x)
        if is_classifier(model):
            expected = model.predict_proba_one(x)
            np.testing.assert_array_equal(frozen.predict_proba_one(x), expected)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_predictions_do_not_depend_on_the_number_of_rows(name, kind):
    """Rows go down together, some levels in a round: groups may be full, or not."""
    model, X = fitted(name, kind)
    frozen, expected = model.freeze(), predict(model, X)
    for n_rows in (1, 2, 11, 12, 13, 23, 24, 25, 67):
        np.testing.assert_array_equal(predict(frozen, X[:n_rows]), expected[:n_rows])


def test_codes_without_gaps_are_compared_as_by_the_live_model():
    rng = np.random.default_rng(0)
    X = rng.integers(5, size=(1_500, 4)).astype(float)
    X[:, 3] += rng.normal(size=1_500)
    model = AMFClassifier(categorical_features=[0, 1], random_state=0)
    y = (X[:, 0] == 2) ^ (X[:, 1] > 2) ^ (X[:, 3] > 3)
    model.fit(X[:900], y[:900])
    X[-9:, 1] = 7  # unknown
    np.testing.assert_array_equal(predict(model.freeze(), X), predict(model, X))


def test_paths_that_are_longer_than_a_round_end_in_their_leaves():
    X = 2.0 ** (99 - np.arange(220)[:, None])  # most nodes are on one path
    model = AMFClassifier(2, split_pure=True, random_state=0).fit(X, np.arange(220) % 3 // 2)
    assert model.stats()["depth"] > 64
    np.testing.assert_array_equal(predict(model.freeze(), X), predict(model, X))


@pytest.mark.parametrize("name", MODELS)
def test_every_way_of_saving_keeps_the_predictions(name, tmp_path):
    model, X = fitted(name, "categories")
    frozen = model.freeze()
    joblib.dump(frozen, tmp_path / "frozen.joblib")
    amforest.save(frozen, tmp_path / "frozen.amf")
    for again in (
        pickle.loads(pickle.dumps(frozen)),
        joblib.load(tmp_path / "frozen.joblib"),
        amforest.load(tmp_path / "frozen.amf"),
    ):
        assert type(again) is type(frozen)
        assert again.to_bytes() == frozen.to_bytes()
        np.testing.assert_array_equal(predict(again, X), predict(model, X))


@pytest.mark.parametrize("name", MODELS)
def test_a_copy_is_smaller_and_does_not_follow_the_live_model(name):
    X, y = stream("numbers")
    model = clone(fitted(name, "numbers")[0]).fit(X[:300], labels(name, y)[:300])
    frozen = model.freeze()
    before = predict(frozen, X)
    assert frozen.stats()["bytes"] < model.stats()["bytes"]
    assert frozen.stats()["samples"] == 300
    new = y[300:] if name in REGRESSORS else np.full(len(y) - 300, "new class")
    model.partial_fit(X[300:], new)
    np.testing.assert_array_equal(predict(frozen, X), before)
    assert predict(model, X).shape != before.shape or (predict(model, X) != before).any()


@pytest.mark.parametrize("options", [{"use_aggregation": False}, {"split_pure": True}])
@pytest.mark.parametrize("name", MODELS)
def test_options_of_the_trees_change_nothing(name, options):
    X, y = stream("gaps")
    weights = np.random.default_rng(1).exponential(size=len(y))
    model = MODELS[name](n_estimators=2, random_state=0, **options)
    model.fit(X[:200], labels(name, y)[:200], sample_weight=weights[:200])
    np.testing.assert_array_equal(predict(model.freeze(), X), predict(model, X))


def test_any_number_of_threads_gives_the_same_bits():
    X, y = stream("numbers")
    many = np.tile(X, (10, 1))
    alone, together = (
        AMFClassifier(n_jobs=n, random_state=0).fit(X, labels("AMFClassifier", y)).freeze()
        for n in (1, 4)
    )
    np.testing.assert_array_equal(together.predict_proba(many), alone.predict_proba(many))


def test_an_adaptive_regressor_keeps_its_distributions():
    model, X = fitted("AdaptiveAMFRegressor", "gaps")
    frozen = model.freeze()
    np.testing.assert_array_equal(frozen.predict_interval(X, 0.8), model.predict_interval(X, 0.8))
    np.testing.assert_array_equal(
        frozen.predict_quantiles(X, [0.1, 0.5]), model.predict_quantiles(X, [0.1, 0.5])
    )
    np.testing.assert_array_equal(frozen.predict(X, return_std=True), model.predict(X, True))
    np.testing.assert_array_equal(frozen.predict_dist(X).pdf(0.0), model.predict_dist(X).pdf(0.0))


def test_dates_and_columns_by_name_are_encoded_as_by_the_live_model():
    rng = np.random.default_rng(0)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(10**6, size=300), "min")
    X = pd.DataFrame({"when": when, "x": rng.normal(size=300)})
    model = AMFClassifier(strict=False, random_state=0).fit(X, X["when"].dt.hour > 12)
    frozen, swapped = model.freeze(), X[["x", "when"]]
    assert frozen.feature_names_in_.tolist() == ["when", "x"]
    assert frozen.feature_names_.tolist() == model.feature_names_.tolist()
    np.testing.assert_array_equal(frozen.predict_proba(swapped), model.predict_proba(X))


def test_splits_whose_sides_predict_the_same_are_merged():
    model = AMFClassifier(1, use_aggregation=False, split_pure=True, random_state=0)
    model.fit([[0.0], [1.0]], ["a", "a"])
    assert model.stats()["nodes"] == 3
    assert model.freeze().stats()["nodes"] == 1


@pytest.mark.parametrize("name", MODELS)
def test_scikit_learn_takes_a_copy_as_a_fitted_estimator(name):
    model, X = fitted(name, "numbers")
    frozen = model.freeze()
    assert (is_classifier(frozen), is_regressor(frozen)) == (
        is_classifier(model),
        is_regressor(model),
    )
    assert clone(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert frozen.fit(X, None) is frozen
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(X), frozen)
    np.testing.assert_array_equal(pipeline.predict(X), model.predict(X))
    y = model.predict(X)
    assert frozen.score(X, y) == 1
    assert repr(frozen) == f"{model!r}.freeze()"


def test_nothing_of_a_copy_can_be_set():
    frozen = fitted("AMFClassifier", "numbers")[0].freeze()
    with pytest.raises(AttributeError, match="threshold cannot be set: a FrozenClassifier never"):
        frozen.threshold = 0.5
    with pytest.raises(TypeError, match="is the result of an estimator's method freeze"):
        FrozenClassifier()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (AMFClassifier(predict_extends=True), "fit a forest with predict_extends=False"),
        (AMFRegressor(partition="unrestricted"), "partition is 'unrestricted'"),
        (MondrianForestClassifier(), "MondrianForestClassifier smooths its predictions"),
    ],
)
def test_a_forest_whose_predictions_differ_within_leaves_is_refused(model, message):
    model.fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=message):
        model.freeze()


def test_what_counts_is_the_parameter_that_the_forest_was_built_with():
    model = AMFClassifier(predict_extends=True).fit([[0.0], [1.0]], [0, 1])
    model.predict_extends = False
    with pytest.raises(ValueError, match="predict_extends is True"):
        model.freeze()


def test_a_forest_that_has_learned_nothing_is_refused():
    with pytest.raises(NotFittedError, match="call fit, partial_fit or learn_one first"):
        AdaptiveAMFRegressor().freeze()


def test_rows_are_validated_as_by_the_live_model():
    model, X = fitted("AMFClassifier", "numbers")
    frozen = model.freeze()
    for bad in (X[:, :2], np.full((1, 4), 1e35), np.full((1, 4), np.inf)):
        with pytest.raises(ValueError, match=r"features|infinity") as expected:
            model.predict_proba(bad)
        with pytest.raises(ValueError, match=r"features|infinity") as error:
            frozen.predict_proba(bad)
        assert str(error.value).replace("Frozen", "") == str(expected.value)
