"""Errors about X name the column, the value that was given, and what to do."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor

N = 40
Y = np.arange(N) % 2
MODELS = [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]


def new(cls=AMFClassifier, **params):
    return cls(1, random_state=0, **params)


# Values that are too large

MIXED = {
    "text": ["x", "y"] * (N // 2),
    "floats": [1.0, 2.0] * (N // 2),
    "integers": [1, 2] * (N // 2),
    "dates": pd.date_range("2024-01-01", periods=N),
}


def frame(other, speed):
    return pd.DataFrame({"t": MIXED[other], "speed": speed})


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("other", MIXED)
def test_an_infinite_feature_of_a_frame_is_named(other, cls):
    words = r"X\[0, 'speed'\] is inf; features must be finite"
    with pytest.raises(ValueError, match=words):
        new(cls).fit(frame(other, np.inf), Y)
    model = new(cls).fit(frame(other, 1.0), Y)
    before = model.to_bytes()
    for call in (model.predict, lambda X: model.partial_fit(X, Y)):
        with pytest.raises(ValueError, match=words):
            call(frame(other, np.inf))
        with pytest.raises(ValueError, match=r"X\[0, 'speed'\] is 1\d*"):
            call(frame(other, 1e35))  # not infinite as float32: the core refuses it
    assert model.to_bytes() == before


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("other", ["text", "floats"])
def test_an_infinite_feature_of_one_row_is_named(other, cls):
    model = new(cls).fit(frame(other, 1.0), Y)
    x = {"t": MIXED[other][0], "speed": np.inf}
    calls = [model.predict_one, lambda x: model.learn_one(x, 1)]
    for call in calls:
        for row in (x, list(x.values())):
            with pytest.raises(ValueError, match=r"^[xX]\['speed'\] is inf"):
                call(row)


def test_an_infinite_number_beside_text_is_named_by_its_column_of_x():
    for X in (np.array([["x", np.inf]] * N, dtype=object), [["x", np.inf]] * N):
        with pytest.raises(ValueError, match=r"X\[0, 1\] is inf"):
            new().fit(X, Y)


@pytest.mark.parametrize("other", MIXED)
def test_a_large_integer_is_not_called_infinite(other):
    large = pd.Series([10**40] * N, dtype=object)
    with pytest.raises(ValueError, match=r"X\[0, 'speed'\] is 1e\+40; features must"):
        new().fit(frame(other, large), Y)
    with pytest.raises(ValueError, match=r"'speed' holds an integer that is too large"):
        new().fit(frame(other, large**10), Y)


def test_a_large_integer_of_one_row_is_an_error_of_values():
    model = new().fit(np.zeros((2, 2)), [0, 1])
    for call in (model.predict_one, lambda x: model.learn_one(x, 1)):
        with pytest.raises(ValueError, match="x holds an integer that is too large"):
            call([1.0, 10**400])


# Values that are not numbers

VALUES = {
    "time of day": (datetime.time(3), "is a time of day; convert times to numbers first"),
    "duration": (datetime.timedelta(1), "is a duration; convert durations to numbers first"),
    "timedelta64": (np.timedelta64(3, "s"), "is a duration; convert durations to numbers first"),
    "dict": ({"a": 1}, "is a dict; make a column of each field first"),
    "list": ([1, 2], "is a sequence; make a column of each element first"),
    "array": (np.array([1, 2]), "is a sequence; make a column of each element first"),
    "bytes": (b"ab", "b'ab' is of type bytes; decode bytes to text first"),
    "set": ({1}, "is of type set; convert it to a number first"),
}


def column(value):
    values = np.empty(N, dtype=object)
    for i in range(N):
        values[i] = value
    return values


@pytest.mark.parametrize("name", VALUES)
def test_values_of_objects_that_are_no_numbers_are_explained(name):
    value, words = VALUES[name]
    X = pd.DataFrame({"a": 1.0, "d": pd.Series(column(value), dtype=object)})
    for rows, where in (
        (X, "X's column 'd'"),
        (X.to_numpy(), "X's column 1"),
        (X.to_numpy().tolist(), "X's column 1"),
    ):
        with pytest.raises(
            (ValueError, TypeError), match=f"{where} must hold numbers only: .*{words}"
        ):
            new().fit(rows, Y)
    model = new().fit(np.zeros((2, 2)), [0, 1])
    if name != "timedelta64":  # numpy makes a number of it
        with pytest.raises((ValueError, TypeError), match=f"x must hold numbers only: .*{words}"):
            model.learn_one([1.0, value], 1)


COLUMNS = {
    "list": (pl.Series([[1, 2]] * N), r"List.*make a column of each element"),
    "array": (pl.Series([[1, 2]] * N, dtype=pl.Array(pl.Int64, 2)), r"Array.*of each element"),
    "struct": (pl.Series([{"a": 1}] * N), r"Struct.*make a column of each field"),
    "time": (pl.Series([datetime.time(3)] * N), "Time.*convert times to numbers"),
    "duration": (pl.Series([datetime.timedelta(3)] * N), "Duration.*convert durations to numbers"),
    "binary": (pl.Series([b"ab"] * N), "(Binary|bytes).*decode bytes to text"),
}
WIDE = {  # which early versions of polars do not have
    name: (pl.Series([1, None] * (N // 2), dtype=getattr(pl, name)), r"cast\(pl.Float64\)")
    for name in ("Int128", "UInt128")
    if hasattr(pl, name)
}


@pytest.mark.parametrize("name", [*COLUMNS, *WIDE])
def test_columns_that_hold_no_numbers_are_explained(name):
    values, words = (COLUMNS | WIDE)[name]
    X = pl.DataFrame({"a": np.ones(N)}).with_columns(values.alias("d"))
    for table in (X, X.to_arrow()) if name in COLUMNS else (X,):
        with pytest.raises(
            (ValueError, TypeError), match=f"X's column 'd' must hold numbers only.*{words}"
        ):
            new().fit(table, Y)


# Columns that are empty in the first batch

EMPTY = {
    "pandas": lambda values: pd.DataFrame({"a": pd.Series(values, dtype=object), "b": 1.0}),
    "polars": lambda values: pl.DataFrame({"a": values, "b": [1.0] * len(values)}),
    "pyarrow": lambda values: pa.table({"a": values, "b": [1.0] * len(values)}),
    "an array": lambda values: np.array([[value, 1.0] for value in values], dtype=object),
}


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("library", EMPTY)
def test_a_column_that_is_empty_in_the_first_batch_holds_numbers(library, cls):
    make, numbers = EMPTY[library], np.linspace(-1, 1, N).tolist()
    model = new(cls).fit(make([None] * 2), [0, 1])
    expected = new(cls).fit(np.array([[np.nan, 1.0]] * 2), [0, 1])
    assert not model.is_categorical_.any()
    model.partial_fit(make(numbers), Y)
    expected.partial_fit(np.array([[number, 1.0] for number in numbers]), Y)
    rows = make(numbers)
    assert model.predict(rows).tolist() == expected.predict([[v, 1.0] for v in numbers]).tolist()


def test_an_empty_column_of_pandas_text_holds_categories():
    X = pd.DataFrame({"a": pd.Series([None] * 2, dtype="string"), "b": 1.0})
    assert new().fit(X, [0, 1]).is_categorical_.tolist() == [True, False]


# Parameters and weights


@pytest.mark.parametrize("cls", MODELS)
def test_strict_must_be_a_bool(cls):
    with pytest.raises(ValueError, match="'strict' parameter"):
        new(cls, strict="no").fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("cls", MODELS)
def test_x_without_rows_is_named(cls):
    model = new(cls).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"^X has no rows.*0 sample"):
        model.predict(np.empty((0, 1)))
