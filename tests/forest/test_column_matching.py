"""With strict=False, columns are matched by name: other orders, more of them, and fewer."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    UnusedColumnWarning,
)
from amforest.model_io import from_bytes
from helpers import tables

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
FRAME = FRAME.assign(word=list("xyzx") * 20, day=pd.date_range("2024-01-01", periods=80))
Y = (FRAME["b"] > 0).astype(int).to_numpy()
MODELS = [AMFClassifier, AMFRegressor, AdaptiveAMFClassifier, AdaptiveAMFRegressor]
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
ORDER = ["day", "word", "b", "a"]


def new(cls=AMFClassifier, **params):
    return cls(2, random_state=0, strict=False, **params)


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_in_another_order_are_matched_by_name(library, cls):
    convert = LIBRARIES[library]
    expected = new(cls).fit(FRAME[:40], Y[:40]).partial_fit(FRAME[40:], Y[40:])
    model = new(cls).fit(convert(FRAME[:40]), Y[:40])
    model.partial_fit(convert(FRAME[ORDER][40:]), Y[40:])
    assert tables(model) == tables(expected)
    assert model.predict(convert(FRAME[ORDER])).tobytes() == expected.predict(FRAME).tobytes()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("absent", ["a", "word", "day"])
def test_absent_columns_are_missing_values(absent, library):
    convert = LIBRARIES[library]
    model = new().fit(FRAME, Y)
    gaps = FRAME.assign(**{absent: pd.Series([None] * 80, dtype=FRAME[absent].dtype)})
    given = model.predict_proba(convert(FRAME.drop(columns=absent)))
    assert given.tobytes() == model.predict_proba(gaps).tobytes()
    other = new().fit(FRAME, Y).partial_fit(convert(FRAME.drop(columns=absent)), Y)
    assert tables(other) == tables(model.partial_fit(gaps, Y))


def test_unknown_columns_are_ignored_with_one_warning_for_each_forest():
    model, more = new().fit(FRAME, Y), FRAME.assign(c=1.0, d="text")[["d", *ORDER, "c"]]
    with pytest.warns(UnusedColumnWarning, match="X has 'd', 'c', which the forest ignores"):
        given = model.predict_proba(more)
    assert given.tobytes() == model.predict_proba(FRAME).tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(more, Y).predict(more)
        model.predict_one(more.iloc[0])
    assert tables(model) == tables(new().fit(FRAME, Y).partial_fit(FRAME, Y))


@pytest.mark.parametrize("cls", MODELS)
def test_named_rows_follow_the_same_policy(cls):
    model = new(cls).fit(FRAME, Y)
    with pytest.warns(UnusedColumnWarning, match="x has 'c', which the forest ignores"):
        given = model.predict_one({"c": 1.0, "word": "x", "b": 0.5})
    assert given == model.predict(pd.DataFrame({"word": ["x"], "b": [0.5]}))[0]
    expected = new(cls).fit(FRAME, Y).partial_fit(FRAME[["a", "day"]][:1], Y[:1])
    model.learn_one(FRAME.iloc[0][["day", "a"]], Y[0])
    assert tables(model) == tables(expected)


def test_names_of_other_data_are_refused():
    model = new().fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"X has none of the columns .* 'a', 'b', 'word', 'day'"):
        model.predict(FRAME.add_prefix("my "))
    with pytest.raises(ValueError, match="x has none of the columns"):
        model.predict_one({"c": 1.0})


def test_strict_is_the_default_and_may_be_changed_later():
    model = AMFClassifier(2, random_state=0).fit(FRAME, Y)
    with pytest.raises(
        ValueError, match=r"in the same order as they were in fit(.|\n)*strict=False"
    ):
        model.predict(FRAME[ORDER])
    with pytest.raises(ValueError, match=r"x lacks 'a'.*strict=False"):
        model.predict_one({"b": 1.0, "word": "x", "day": None})
    model.set_params(strict=False).partial_fit(FRAME[ORDER], Y)
    assert model.predict(FRAME[ORDER]).tobytes() == model.predict(FRAME).tobytes()
    assert from_bytes(model.to_bytes()).strict is False


def test_the_default_passes_the_check_of_scikit_learn_that_matching_by_name_fails():
    check_dataframe_column_names_consistency("strict", AMFClassifier(2))
    with pytest.raises(AssertionError):
        check_dataframe_column_names_consistency("by name", new())
