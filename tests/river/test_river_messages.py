"""Errors of the models for river name the feature and the value."""

import numpy as np
import pandas as pd
import pytest

from amforest.river import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor

MODELS = [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]


def new(cls):
    return cls(n_estimators=1, seed=0)


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("more", [{}, {"town": "Rome"}])
def test_an_infinite_feature_is_named_first_and_later(cls, more):
    model = new(cls)
    bad, good = {"b": 1.0, "speed": np.inf} | more, {"b": 1.0, "speed": 2.0} | more
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^[xX]\[.*'speed'\] is inf"):
            model.learn_one(bad, 1)
        with pytest.raises(ValueError, match=r"^X\[1, 'speed'\] is inf"):
            model.learn_many(pd.DataFrame([good, bad]), pd.Series([0, 1]))
        model.learn_one(good, 1)
    with pytest.raises(ValueError, match=r"^x\['speed'\] is inf"):
        model.predict_one(bad)
    with pytest.raises(ValueError, match=r"^X\[1, 'speed'\] is inf"):
        model.predict_many(pd.DataFrame([good, bad]))
    with pytest.raises(ValueError, match=r"^X\['speed'\] is inf"):
        model.explain_one(bad)


@pytest.mark.parametrize("cls", MODELS)
def test_an_integer_that_is_too_large_is_named_first_and_later(cls):
    model = new(cls)
    for _ in range(2):
        with pytest.raises(ValueError, match="feature 'a' holds an integer that is too large"):
            model.learn_one({"a": 10**400, "b": 1.0}, 1)
        model.learn_one({"a": 1.0, "b": 1.0}, 1)


@pytest.mark.parametrize("cls", MODELS)
def test_a_weight_of_none_is_1(cls):
    one, two = new(cls), new(cls)
    for x, y in ({"a": 1.0}, 0), ({"a": 2.0}, 1), ({"a": 2.0, "b": 1.0}, 1):
        one.learn_one(x, y, None)
        two.learn_one(x, y)
    assert one.to_bytes() == two.to_bytes()


def test_classes_are_the_labels_of_a_nullable_series():
    model = new(AMFClassifier)
    y = pd.Series([2**60, 2**60 + 1], dtype="Int64")
    model.learn_many(pd.DataFrame({"a": [0.0, 1.0]}), y)
    assert list(model.predict_proba_one({"a": 0.0})) == y.tolist()
