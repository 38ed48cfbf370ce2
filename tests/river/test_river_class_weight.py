"""`class_weight` and `threshold` of river's models: those of the scikit-learn estimators."""

import pickle
from itertools import islice

import numpy as np
import pandas as pd
import pytest

import amforest
from amforest.model_io import from_bytes
from amforest.river import AdaptiveAMFClassifier, AMFClassifier, forest_of
from helpers import tables
from river import datasets

MODELS = [AMFClassifier, AdaptiveAMFClassifier]


@pytest.fixture(scope="module")
def rows():
    return list(islice(datasets.Phishing(), 200))


def learn(model, rows):
    for x, y in rows:
        model.learn_one(x, y)
    return model


def bits(model):
    return tables(forest_of(model))


@pytest.mark.parametrize("class_weight", ["balanced", {True: 5}])
@pytest.mark.parametrize("Model", MODELS)
def test_one_row_at_a_time_is_learned_as_many_and_as_in_scikit_learn(Model, class_weight, rows):
    X, y = pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])
    one, many = (Model(2, class_weight=class_weight, seed=0) for _ in range(2))
    learn(one, rows)
    many.learn_many(X[:70], y[:70])
    many.learn_many(X[70:], y[70:])
    twin = getattr(amforest, Model.__name__)(2, class_weight=class_weight, random_state=0)
    twin.partial_fit(X[sorted(X.columns)], y)
    assert bits(one) == bits(many)
    assert np.array_equal(
        one.to_sklearn().predict_proba(X[sorted(X.columns)]),
        twin.predict_proba(X[sorted(X.columns)]),
    )


@pytest.mark.parametrize("Model", MODELS)
def test_a_loaded_or_converted_model_goes_on_with_its_counts(Model, rows):
    model = learn(Model(2, class_weight="balanced", threshold=0.2, seed=0), rows[:100])
    loaded, pickled = from_bytes(model.to_bytes()), pickle.loads(pickle.dumps(model))
    converted = Model.from_sklearn(model.to_sklearn())
    expected = bits(learn(model, rows[100:]))
    for other in (loaded, pickled, converted):
        assert (other.class_weight, other.threshold) == ("balanced", 0.2)
        assert bits(learn(other, rows[100:])) == expected


@pytest.mark.parametrize("Model", MODELS)
def test_the_threshold_decides_between_two_labels(Model, rows):
    model = learn(Model(2, threshold=0.2, seed=0), rows)
    X = pd.DataFrame([x for x, _ in rows])
    expected = [model.predict_proba_one(x)[True] >= 0.2 for x, _ in rows]
    assert [model.predict_one(x) for x, _ in rows] == expected
    assert model.predict_many(X).tolist() == expected
    assert expected != [model.predict_proba_one(x)[True] >= 0.5 for x, _ in rows]


def test_before_any_data_the_label_is_none():
    assert AMFClassifier(threshold=0.2).predict_one({"a": 1.0}) is None
