"""`feature_importances_` of all estimators, and what `amforest.inspection.importances` tells."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    load,
    river,
    save,
)
from amforest.baselines import MondrianForestClassifier
from amforest.inspection import importances

SMALL = {"n_estimators": 2, "memories": (None, 60), "random_state": 0}
MODELS = [
    AMFClassifier(random_state=0),
    AMFClassifier(partition="unrestricted", bounds=(-9, 9), random_state=0),
    AMFRegressor(random_state=0),
    AdaptiveAMFClassifier(**SMALL),
    AdaptiveAMFRegressor(**SMALL),
    MondrianForestClassifier(random_state=0),
]
IDS = [f"{type(model).__name__} {i}" for i, model in enumerate(MODELS)]


def stream(n_rows=600, seed=0):
    """Return three features, of which only the second matters."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 3))
    return X, (X[:, 1] > 0).astype(int)


def bits(model):
    found = importances(model)
    return [found.names, found.total.tobytes(), found.by_memory.tobytes(), found.weights.tobytes()]


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_the_feature_that_matters_is_the_most_important(model):
    model = clone(model).fit(*stream())
    assert model.feature_importances_[1] > 0.7
    assert (model.feature_importances_ >= 0).all()
    assert model.feature_importances_.sum() == pytest.approx(1)


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_importances_are_zero_while_nothing_is_known(model):
    X, y = stream(1)
    model = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(3))


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_there_are_none_before_fitting(model):
    assert not hasattr(clone(model), "feature_importances_")
    with pytest.raises(NotFittedError):
        importances(clone(model))


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_files_and_pickles_keep_them_and_go_on(model, tmp_path):
    X, y = stream()
    model = clone(model).fit(X[:300], y[:300])
    save(model, tmp_path / "model")
    copies = [load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    model.partial_fit(X[300:], y[300:])
    for copy in copies:
        assert bits(copy.partial_fit(X[300:], y[300:])) == bits(model)


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_batches_rows_and_threads_change_no_bit(model):
    X, y = stream(300)
    whole = clone(model).set_params(n_jobs=2).partial_fit(X, y)
    parts = clone(model).partial_fit(X[:1], y[:1])
    parts.partial_fit(X[1:150], y[1:150])
    for x, label in zip(X[150:], y[150:], strict=True):
        parts.learn_one(x, label)
    assert bits(parts) == bits(whole)


def test_a_pickle_of_an_earlier_version_knows_nothing_yet():
    model = AMFClassifier(random_state=0).fit(*stream())
    state = model.__getstate__()
    trees = state["model"]["fitted"][2]["trees"]
    for name in ("importance", "importance_weight", "importance_turn"):
        del trees[name]
    old = AMFClassifier.__new__(AMFClassifier)
    old.__setstate__(state)
    assert not old.feature_importances_.any()
    assert old.partial_fit(*stream(600, 1)).feature_importances_[1] > 0.7


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_categories_add_up_to_one_value_for_their_column(cls):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"noise": rng.normal(size=900)})
    X["word"] = pd.Categorical(rng.choice(list("uvwxyz"), 900))
    X["late"] = rng.normal(size=900)
    y = np.isin(X["word"], list("uvw"))
    params = {"n_estimators": 3} if cls is AdaptiveAMFClassifier else {}
    model = cls(random_state=0, **params).fit(X, y)
    found = importances(model)
    assert found.names == model.feature_names_.tolist() == ["noise", "word", "late"]
    assert model.feature_importances_[1] > 0.8
    np.testing.assert_array_equal(found.normalised(), model.feature_importances_)


def test_river_models_name_their_features():
    X, y = stream(500)
    model = river.AMFClassifier(seed=0)
    assert model.feature_importances_ == {}
    for (a, b, c), label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one({"a": a, "b": b, "c": c, "d": "uv"[a > 1]}, label)
    assert sorted(model.feature_importances_) == ["a", "b", "c", "d"]
    assert max(model.feature_importances_, key=model.feature_importances_.get) == "b"
    assert sum(model.feature_importances_.values()) == pytest.approx(1)
    plain = model.to_sklearn()
    named = dict(zip(plain.feature_names_.tolist(), plain.feature_importances_, strict=True))
    assert named == model.feature_importances_


def test_river_models_gain_features_and_keep_what_they_know():
    X, y = stream(400)
    model = river.AdaptiveAMFClassifier(2, memories=(None, 60), seed=0)
    for x, label in zip(X[:, 1].tolist(), y.tolist(), strict=True):
        model.learn_one({"b": x}, label)
    before = importances(model)
    model.learn_one({"b": 1.0, "new": "u", "c": 2.0}, 1)
    after = importances(model)
    assert after.names == ["new", "b", "c"]
    np.testing.assert_allclose(after.by_memory[:, 1], before.by_memory[:, 0], rtol=0.05)
    assert (after.by_memory[:, [0, 2]] == 0).all()


def test_short_memories_tell_what_matters_now():
    X, _ = stream(3000)
    y = np.where(np.arange(3000) < 2000, X[:, 0], X[:, 1]) > 0
    model = AdaptiveAMFClassifier(3, memories=(None, 250), honest_memories=(), random_state=0)
    found = importances(model.fit(X, y))
    assert found.memories == model.memory_names_ == ["all", "250", "plain"]
    assert found.by_memory.shape == (3, 3)
    assert found.by_memory[:2].argmax(axis=1).tolist() == [0, 1]
    np.testing.assert_allclose(found.weights @ found.by_memory, found.total)
    assert found.weights.sum() == pytest.approx(1)
    assert found.unit == "nats"


def test_linear_bases_credit_the_features_that_they_use():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = 5 * X[:, 2] + 0.1 * rng.normal(size=1500)
    found = importances(AdaptiveAMFRegressor(**SMALL).fit(X, y))
    assert found.unit == "squared error"
    assert found.memories == ["all", "60", "all, linear", "60, linear"]
    # Each group predicts nearly all of the variance, 25, from the one feature.
    np.testing.assert_allclose(found.by_memory[2:, 2], 25, rtol=0.2)
    assert (np.abs(found.by_memory[2:, [0, 1, 3]]) < 0.5).all()


def test_weights_count_as_so_many_rows():
    X, y = stream(400)
    once = AMFRegressor(step=1.0, random_state=0).fit(X, y)
    many = AMFRegressor(step=1.0, random_state=0).fit(X, y, np.full(400, 3.0))
    assert importances(once).total[1] == pytest.approx(importances(many).total[1], rel=0.2)


def test_late_classes_keep_what_is_known():
    X, y = stream(600)
    y = y + (np.arange(600) >= 400)
    whole = AdaptiveAMFClassifier(**SMALL).partial_fit(X, y)
    parts = AdaptiveAMFClassifier(**SMALL).partial_fit(X[:400], y[:400])
    parts.partial_fit(X[400:], y[400:])
    assert parts.classes_.tolist() == [0, 1, 2]
    assert bits(parts) == bits(whole)
