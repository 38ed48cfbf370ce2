"""Text is a category, a date becomes its parts, and an ID is dropped, whatever X is."""

import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import amforest
from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    UnusedColumnWarning,
)
from amforest.baselines import MondrianForestClassifier
from amforest.model_io import from_bytes
from amforest.plotting import plot_tree
from helpers import tables

N = 120
rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "when": pd.date_range("2024-01-01", periods=N, freq="7h"),
        "town": rng.choice(["Rome", "Oslo", "Lima"], N),
        "open": rng.random(N) < 0.5,
        "size": rng.normal(size=N),
    },
    index=rng.permutation(N),  # which must not matter
)
FRAME.iloc[3, 0], FRAME.iloc[5, 1] = pd.NaT, None
Y = ((FRAME["town"] == "Rome") ^ (FRAME["size"] > 0)).to_numpy().astype(int)
FEATURES = ["when.year", "when.month", "when.day", "when.weekday", "when.hour"]
FEATURES += ["town", "open", "size"]
MODELS = [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
WAYS = {
    "pandas": lambda frame: frame,
    "pandas with pyarrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas with objects": lambda frame: frame.astype(object),
    "pandas with a zone": lambda frame: frame.assign(
        when=frame["when"].dt.tz_localize("Asia/Tokyo")
    ),
    "pandas with numbered columns": lambda frame: frame.set_axis(range(frame.shape[1]), axis=1),
    "polars": pl.from_pandas,
    "pyarrow Table": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "pyarrow RecordBatch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "an array of objects": lambda frame: frame.to_numpy(),
    "lists": lambda frame: frame.to_numpy().tolist(),
}


def new(cls=AMFClassifier, **params):
    return cls(2, random_state=0, **params)


def in_numbers(frame):
    """The same columns, as one had to write them before."""
    when = frame["when"].dt
    parts = [when.year, when.month, when.day, when.day_of_week, when.hour]
    by_name = dict(zip(FEATURES[:5], parts, strict=True))
    words = frame["town"].astype("category")
    return pd.DataFrame(by_name).assign(town=words, open=frame["open"], size=frame["size"])


def learn_quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedColumnWarning)
        return model.fit(X, y)


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_text_and_dates_of_any_kind_grow_the_forest_of_categories_and_parts(way, cls):
    X = WAYS[way](FRAME)
    expected = new(cls, categorical_features="from_dtype").fit(in_numbers(FRAME), Y)
    model = new(cls).fit(X, Y)
    assert tables(model) == tables(expected)
    assert model.predict(X).tobytes() == expected.predict(in_numbers(FRAME)).tobytes()


def test_names_are_those_of_columns_and_of_features():
    model = new().fit(FRAME, Y)
    assert model.feature_names_in_.tolist() == list(FRAME.columns)
    assert model.n_features_in_ == 4
    assert model.feature_names_.tolist() == FEATURES
    assert model.is_categorical_.tolist() == [name == "town" for name in FEATURES]
    assert list(model.categories_) == ["town"]
    plot_tree(model)


def test_days_have_no_hour():
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(N)]
    for frame in (
        pd.DataFrame({"day": days}),
        pl.DataFrame({"day": days}),
        pa.table({"day": days}),
    ):
        model = new().fit(frame, Y)
        assert model.feature_names_.tolist() == [
            f"day.{p}" for p in ("year", "month", "day", "weekday")
        ]


@pytest.mark.parametrize("cls", MODELS)
def test_one_row_is_as_a_row_of_a_frame(cls):
    model = new(cls).fit(FRAME, Y)
    expected = model.predict(FRAME)
    for i in (0, 3, 5):  # with NaT, and without a town
        x = FRAME.iloc[i]
        for row in (x, x.to_dict(), [None if pd.isna(v) else v for v in x]):
            assert model.predict_one(row) == expected[i]


def test_rows_one_by_one_give_the_same_forest():
    model = new(classes=[0, 1])
    for i in range(40):
        model.learn_one(FRAME.iloc[i] if i % 2 else FRAME.iloc[i].to_dict(), int(Y[i]))
    expected = new(classes=[0, 1]).partial_fit(FRAME[:40], Y[:40])
    assert tables(model) == tables(expected)


def test_a_first_row_without_names_may_hold_text():
    model = new().learn_one([1.0, "Rome"], 1).learn_one([2.0, "Oslo"], 0)
    assert model.categories_ == {1: ["Rome", "Oslo"]}


@pytest.mark.parametrize("ids", [True, False])
def test_saved_models_go_on_as_the_model_does(ids):
    frame = FRAME.assign(id=[f"id {k}" for k in range(N)]) if ids else FRAME
    model = learn_quietly(new(), frame[:60], Y[:60])
    for other in (from_bytes(model.to_bytes()), pickle.loads(pickle.dumps(model))):
        assert other.feature_names_in_.tolist() == list(frame.columns)
        other.partial_fit(frame[60:], Y[60:])
        assert tables(other) == tables(learn_quietly(new(), frame, Y))


# IDs


def with_ids(n_distinct=N, n_rows=N):
    return FRAME[:n_rows].assign(id=[f"id {k % n_distinct}" for k in range(n_rows)])


@pytest.mark.parametrize("cls", [*MODELS, MondrianForestClassifier])
def test_nearly_unique_text_is_dropped_with_a_warning_that_says_how_to_keep_it(cls):
    frame = with_ids()
    with pytest.warns(
        UnusedColumnWarning, match=r"X's column 'id' dropped.*\['town', 'id'\]"
    ) as seen:
        model = new(cls).fit(frame, Y)
    assert seen[0].filename == __file__
    assert tables(model) == tables(new(cls).fit(FRAME, Y))
    assert model.feature_names_in_.tolist() == [*FRAME.columns, "id"]
    expected = new(cls).fit(FRAME, Y).predict(FRAME).tobytes()
    assert model.predict(frame).tobytes() == model.predict(FRAME).tobytes() == expected


def test_the_advice_keeps_it():
    model = new(categorical_features=["town", "id"]).fit(with_ids(), Y)
    assert len(model.categories_["id"]) == N
    assert model.feature_names_.tolist() == [*FEATURES, "id"]


@pytest.mark.parametrize(
    "frame",
    [
        with_ids(n_rows=49),
        with_ids(n_distinct=108),  # nine in ten
        with_ids().astype({"id": "category"}),
        with_ids()[["id"]],  # there is nothing else
    ],
)
def test_other_text_is_kept(frame, recwarn):
    model = new().fit(frame, Y[: len(frame)])
    assert "id" in model.categories_
    assert not [w for w in recwarn if issubclass(w.category, UnusedColumnWarning)]


def test_later_batches_drop_nothing():
    model = new(classes=[0, 1]).partial_fit(with_ids()[:49], Y[:49])
    model.partial_fit(with_ids()[49:], Y[49:])
    assert len(model.categories_["id"]) == N


# What remains an error


@pytest.mark.parametrize("requested", ["from_dtype", None])
def test_text_and_dates_may_be_errors(requested):
    for name in ("when", "town"):
        with pytest.raises(ValueError, match=f"'{name}' must hold numbers only"):
            new(categorical_features=requested).fit(FRAME[[name]], Y)
    with pytest.raises(ValueError, match="is text"):
        new(categorical_features=requested).fit([[1.0, "x"], [2.0, "y"]], [0, 1])


ADVICE = {
    ("pandas", "town"): r'X\["town"\].astype\("category"\)',
    ("pandas", "when"): r'X\["when"\].dt.hour',
    ("polars", "town"): r'pl.col\("town"\).cast\(pl.Categorical\)',
    ("polars", "when"): r'pl.col\("when"\).dt.hour\(\)',
    ("pyarrow Table", "town"): r'X\["town"\].dictionary_encode\(\)',
    ("pyarrow Table", "when"): r'pyarrow.compute.hour\(X\["when"\]\)',
}


@pytest.mark.parametrize(("way", "name"), ADVICE)
def test_advice_is_in_the_words_of_the_library(way, name):
    with pytest.raises(ValueError, match=ADVICE[way, name]):
        new(categorical_features=None).fit(WAYS[way](FRAME[[name]]), Y)


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (FRAME.assign(when="2024-01-01"), "'when' holds '2024-01-01'; it must hold dates"),
        (FRAME.assign(size="large"), "'size' must hold numbers only"),
    ],
)
def test_what_a_column_holds_is_decided_by_the_first_batch(later, message):
    model = new().fit(FRAME, Y)
    before = model.to_bytes()
    for call in (model.predict, lambda X: model.partial_fit(X, Y)):
        with pytest.raises(ValueError, match=message):
            call(later)
    assert model.to_bytes() == before


@pytest.mark.parametrize("X", [np.array([["1.5", "x"]] * 2), [[1, "x"], ["y", 2]]])
def test_text_that_may_be_numbers_is_refused(X):
    with pytest.raises(ValueError, match=r"X's column . must hold numbers only: '.*' is text"):
        new().fit(X, [0, 1])


def test_a_part_of_a_date_with_the_name_of_a_column_is_refused():
    with pytest.raises(ValueError, match=r"column 'when.hour', and a date .* rename"):
        new().fit(FRAME.assign(**{"when.hour": 1.0}), Y)


def test_the_warning_is_public():
    assert amforest.UnusedColumnWarning is UnusedColumnWarning
