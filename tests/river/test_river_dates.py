"""Dates in river's dicts and frames become the numbers that the estimators make of them."""

import datetime

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river")

import amforest
from amforest.model_io import from_bytes
from amforest.river import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
)
from helpers import tables

MODELS = [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
TIMES = pd.Series(pd.date_range("2024-01-01", periods=80, freq="7h"))
X = pd.DataFrame({"when": TIMES, "size": np.random.default_rng(0).normal(size=80)})
X.loc[[0, 7], "when"] = pd.NaT
Y = pd.Series((X["when"].dt.hour > 11).astype(int))
COLUMNS = {
    "times": X["when"],
    "times of a zone": X["when"].dt.tz_localize("Asia/Tokyo"),
    "times of pyarrow": X["when"].astype("timestamp[us][pyarrow]"),
    "objects": X["when"].astype(object).where(X["when"].notna(), None),
    "days": pd.Series([t.date() for t in TIMES], dtype=object),
    "days and times": pd.Series(
        [t if i % 2 else t.date() for i, t in enumerate(TIMES)], dtype=object
    ),
}


def learn_each(model, frame):
    for x, y in zip(frame.to_dict("records"), Y, strict=True):
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("column", COLUMNS)
def test_learn_many_is_learn_one_for_each_row(column, cls):
    frame = X.assign(when=COLUMNS[column])
    one, many = learn_each(cls(2, seed=1), frame), cls(2, seed=1)
    for part in (slice(0, 1), slice(1, 50), slice(50, None)):
        many.learn_many(frame[part], Y[part])
    assert tables(many.to_sklearn()) == tables(one.to_sklearn())
    assert many.predict_many(frame).tolist() == [
        one.predict_one(x) for x in frame.to_dict("records")
    ]


def test_dates_have_the_parts_of_the_scikit_learn_estimator():
    river = learn_each(AMFClassifier(2, seed=1), X).to_sklearn()
    plain = amforest.AMFClassifier(2, random_state=1).fit(X, Y)
    assert set(river.feature_names_in_) == set(plain.feature_names_)
    model = AMFClassifier.from_sklearn(plain)
    for x in X.to_dict("records"):
        assert model.predict_proba_one(x) == dict(enumerate(plain.predict_proba_one(x)))


def test_saved_models_know_dates():
    model = learn_each(AMFClassifier(2, seed=1), X)
    loaded = from_bytes(model.to_bytes())
    x = {"when": datetime.datetime(2024, 1, 5, 13), "size": 0.1}
    assert loaded.predict_proba_one(x) == model.predict_proba_one(x)


@pytest.mark.parametrize("requested", ["from_dtype", None])
def test_dates_may_be_errors(requested):
    model = AMFClassifier(categorical_features=requested)
    with pytest.raises(TypeError, match="feature 'when' is datetime"):
        model.learn_one({"when": datetime.datetime(2024, 1, 5)}, 1)
    with pytest.raises(TypeError, match="feature 'when' is Timestamp"):
        model.learn_many(X[1:], Y[1:])


def test_dates_may_be_categories():
    model = AMFClassifier(categorical_features=["when"])
    model.learn_one({"when": datetime.date(2024, 1, 5)}, 1)
    assert model.to_sklearn().categories_ == {"when": [datetime.date(2024, 1, 5)]}
