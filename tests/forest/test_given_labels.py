"""Labels keep their type, whatever library they come from; wrong ones are named and refused."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.baselines import OnlineDummyClassifier
from amforest.distributed import KeyedForests

CLASSIFIERS = [AMFClassifier, AdaptiveAMFClassifier]
REGRESSORS = [AMFRegressor, AdaptiveAMFRegressor]
X = np.random.default_rng(0).normal(size=(40, 2))
LARGE = [2**60, 2**60 + 1]
KINDS = {
    "int64": LARGE, "Int64": LARGE, "UInt64": [2**64 - 2, 2**64 - 1], "int64[pyarrow]": LARGE,
    "uint64[pyarrow]": LARGE, "boolean": [False, True], "bool[pyarrow]": [False, True],
    "string": ["a", "b"], "string[pyarrow]": ["a", "b"], "str": ["a", "b"], "object": ["a", "b"],
}  # fmt: skip


def new(cls):
    return cls(1, random_state=0)


def series(dtype, values=None):
    return pd.Series((KINDS[dtype] if values is None else values) * 20).astype(dtype)


def learned(cls, method, y):
    model = new(cls)
    getattr(model, method)(X, y)
    return model


@pytest.mark.parametrize("method", ["fit", "partial_fit", "partial_fit_predict_proba"])
@pytest.mark.parametrize("as_category", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
def test_classes_are_the_labels_of_a_series_of_any_dtype(dtype, as_category, method):
    y = series(dtype).astype("category") if as_category else series(dtype)
    model = learned(AMFClassifier, method, y)
    assert repr(model.classes_.tolist()) == repr(KINDS[dtype])  # False, not 0.0
    plain = np.array(y.tolist())
    assert model.score(X, y) == np.mean(model.predict(X) == plain)
    assert model.partial_fit(X, y).classes_.tolist() == KINDS[dtype]


def test_unsigned_and_signed_classes_stay_integers():
    y = np.array([2**64 - 1, 2**64 - 2, 5], dtype=np.uint64)
    model = new(AMFClassifier).partial_fit(X[:3], y)
    assert model.classes_.tolist() == [5, 2**64 - 2, 2**64 - 1]


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "int64[pyarrow]"])
def test_classes_are_the_labels_of_a_frame_with_one_column(dtype):
    with pytest.warns(match="column-vector y"):
        model = new(AMFClassifier).fit(X, pd.DataFrame({"y": series(dtype)}))
    assert model.classes_.tolist() == KINDS[dtype]
    assert model.classes_.dtype.kind in "ib"


MISSING = {
    "Int64": [1, None], "boolean": [True, None], "int64[pyarrow]": [1, None],
    "float64": [1.0, None], "string": ["a", None], "str": ["a", None], "object": ["a", None],
}  # fmt: skip
if not series("str", MISSING["str"]).isna().any():
    del MISSING["str"]  # in pandas 2, None becomes the text "None"


@pytest.mark.parametrize("cls", CLASSIFIERS)
@pytest.mark.parametrize("as_category", [False, True])
@pytest.mark.parametrize("dtype", MISSING)
def test_a_missing_label_of_a_series_is_named(dtype, as_category, cls):
    y = series(dtype, MISSING[dtype])
    y = y.astype("category") if as_category else y
    model = new(cls)
    for call in (model.fit, model.partial_fit, model.partial_fit_predict_proba):
        with pytest.raises(ValueError, match=r"y\[1\] is .*; each row needs a label: drop the ro"):
            call(X, y)
    with pytest.raises(ValueError, match=r"y\[1\] is .*; each row needs a label"):
        model.fit(X, [0, 1] * 20).score(X, y)


@pytest.mark.parametrize("y", [["a", np.nan] * 20, np.array(["a", np.nan] * 20, object)])
def test_nan_among_text_is_a_missing_label(y):
    with pytest.raises(ValueError, match=r"y\[1\] is nan; each row needs a label"):
        new(AMFClassifier).fit(X, y)


# Regressors

BAD_NUMBERS = {
    np.nan: r"y\[{}\] is nan; each row needs a label",
    np.inf: r"y\[{}\] is inf; labels must be finite and lie within ±1e75",
    -1e80: r"y\[{}\] is -1e\+80; labels must be finite and lie within ±1e75",
}


@pytest.mark.parametrize("cls", REGRESSORS)
@pytest.mark.parametrize("value", BAD_NUMBERS)
def test_a_bad_label_of_a_regressor_is_named_with_its_row(value, cls):
    y = np.zeros(40)
    y[7] = value
    model = new(cls).fit(X, X[:, 0])
    before = model.to_bytes()
    for rows in (X, X.tolist()):
        for call in (model.fit, model.partial_fit, model.partial_fit_predict):
            with pytest.raises(ValueError, match=BAD_NUMBERS[value].format(7)):
                call(rows, y)
    with pytest.raises(ValueError, match=BAD_NUMBERS[value].format(0)):
        model.learn_one(X[0], value)
    assert model.to_bytes() == before


@pytest.mark.parametrize("cls", REGRESSORS)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "partial_fit_predict"])
def test_labels_without_rows_are_named(cls, method):
    with pytest.raises(ValueError, match=r"^y has no rows.*0 sample"):
        getattr(new(cls), method)(X[:0], [])


HOURS = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=i) for i in range(40)]
DATES = pd.Series(HOURS)
TIMES = {
    "datetime64": DATES.to_numpy(),
    "timedelta64": (DATES - DATES[0]).to_numpy(),
    "pandas": DATES,
    "pandas with a zone": DATES.dt.tz_localize("Asia/Tokyo"),
    "pandas durations": DATES - DATES[0],
    "pandas with pyarrow": DATES.astype("timestamp[us][pyarrow]"),
    "pandas objects": DATES.astype(object),
    "polars": pl.Series(HOURS),
    "polars dates": pl.Series(HOURS).dt.date(),
    "polars durations": pl.Series(HOURS) - HOURS[0],
    "polars times": pl.Series(HOURS).dt.time(),
    "pyarrow": pa.array(HOURS),
    "a list": HOURS,
    "dates in a list": [hour.date() for hour in HOURS],
    "durations in a list": [hour - HOURS[0] for hour in HOURS],
    "datetime64 among objects": np.array([np.datetime64("2024-01-01"), *HOURS[1:]], object),
    "timedelta64 among objects": np.array([1.0, np.timedelta64(3, "s")] * 20, object),
}


@pytest.mark.parametrize("cls", REGRESSORS)
@pytest.mark.parametrize("name", TIMES)
def test_regressors_refuse_times_as_labels(name, cls):
    model = new(cls).fit(X, X[:, 0])
    before = model.to_bytes()
    words = "y must hold numbers only.*convert (times|dates|durations) to numbers first"
    for call in (model.fit, model.partial_fit, model.partial_fit_predict):
        with pytest.raises(ValueError, match=words):
            call(X, TIMES[name])
    assert model.to_bytes() == before


@pytest.mark.parametrize("cls", REGRESSORS)
@pytest.mark.parametrize("y", [HOURS[0], np.datetime64("2024"), np.timedelta64(3, "s"), DATES[0]])
def test_regressors_refuse_a_time_as_a_label_of_one_row(y, cls):
    for model in (new(cls), new(cls).fit(X, X[:, 0])):
        with pytest.raises(ValueError, match=r"y must hold numbers only.*to numbers first"):
            model.learn_one(X[0], y)


# Many classes

IDS = np.arange(1001)
ROWS = np.random.default_rng(0).normal(size=(2002, 2))


@pytest.mark.parametrize("cls", CLASSIFIERS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_labels_like_ids_are_warned_of_once(cls, method):
    model = cls(1, max_bytes=10**8, random_state=0)
    with pytest.warns(
        UserWarning, match="y has 1,001 classes in 1,001 rows.*regressor.*max_b"
    ) as seen:
        getattr(model, method)(ROWS[:1001], IDS)
    assert [warning.filename for warning in seen] == [__file__]
    model.partial_fit(ROWS[:10], np.arange(2000, 2010))


def test_labels_like_ids_are_warned_of_when_rows_come_one_by_one():
    model = AMFClassifier(1, max_bytes=10**7, random_state=0)
    for x, label in zip(ROWS[:1000], IDS[:1000], strict=True):
        model.learn_one(x, label)
    with pytest.warns(UserWarning, match="y has 1,001 classes in 1,001 rows"):
        model.learn_one(ROWS[1000], 1000)


def test_an_error_made_of_the_warning_changes_nothing():
    model = AMFClassifier(1, max_bytes=10**7, random_state=0).fit(ROWS[:2], [0, 1])
    before = model.to_bytes()
    with pytest.raises(UserWarning, match="classes"):
        model.partial_fit(ROWS[:1001], IDS)
    assert model.to_bytes() == before


@pytest.mark.parametrize("how", [{"classes": IDS}, {}])
def test_many_classes_that_are_announced_or_repeat_are_learned_without_a_warning(how):
    y = IDS if how else np.tile(IDS, 2)
    model = AMFClassifier(1, max_bytes=10**7, random_state=0, **how).fit(ROWS[: len(y)], y)
    assert len(model.classes_) == 1001


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]", "uint64[pyarrow]"])
def test_a_frozen_copy_scores_labels_of_their_own_type(dtype):
    y = series(dtype)
    columns = np.column_stack([X, y == y[0]])
    frozen = new(AdaptiveAMFClassifier).fit(columns, y).freeze()
    half = y.where(y == y[0], y[0])  # one class, which half of the rows have
    assert frozen.score(columns, y) == 1
    assert frozen.score(columns, half) == 0.5


def test_the_dummy_keeps_large_integers_apart():
    dummy = OnlineDummyClassifier().fit(X, series("Int64"))
    assert dummy.classes_.tolist() == LARGE


def test_models_by_key_refuse_dates_as_numbers():
    forests = KeyedForests(AdaptiveAMFRegressor(1))
    dates = pd.Series(pd.date_range("2026-01-01", periods=40))
    with pytest.raises(ValueError, match="y must hold numbers only"):
        forests.partial_fit(X, dates, keys=["a"] * 40)
    assert not len(forests)
