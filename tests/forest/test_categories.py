"""Categorical features: the forest on the columns of their categories, bit for bit."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amforest import AMFClassifier, AMFRegressor
from amforest._forest.categories import Categories, Column
from amforest._forest.limits import MOST_CATEGORIES
from helpers import (
    SWITCHES,
    assert_equal_predictions,
    assert_equal_tables,
    reference_table,
    reference_trees,
    state_of,
    tables,
)

MISSING = -2  # as a category of the streams below


def one_hot(codes, numbers, n_categories):
    """The columns that categories stand for, feature by feature, then the numbers."""
    columns = [
        np.where(codes[:, [f]] == MISSING, np.nan, codes[:, [f]] == np.arange(count))
        for f, count in enumerate(n_categories)
    ]
    return np.hstack([*columns, numbers]).astype(np.float32)


def by_appearance(codes):
    """Number categories in the order in which they appear, as the library does."""
    codes = codes.copy()
    for column in codes.T:
        known = {MISSING: MISSING}
        for i, code in enumerate(column):
            column[i] = known.setdefault(code, len(known) - 1)
    return codes


def values(codes, numbers):
    """What a user has: words, None for what is missing, and numbers."""
    X = np.empty((len(codes), codes.shape[1] + numbers.shape[1]), dtype=object)
    for f in range(codes.shape[1]):
        X[:, f] = [None if code == MISSING else f"word {code}" for code in codes[:, f]]
    X[:, codes.shape[1] :] = numbers
    return X


def assert_equals_one_hot(table, expected, n_categories, never_learned=()):
    """Compare a table with one of the tree on one-hot columns."""
    ends = np.cumsum(n_categories)
    n_columns, n_numbers = ends[-1], expected["lower"].shape[1] - ends[-1]
    feature = np.searchsorted(ends, expected["feature"], side="right")
    is_category = (expected["feature"] >= 0) & (expected["feature"] < n_columns)
    is_number = expected["feature"] >= n_columns
    feature[is_number] += expected["feature"][is_number] - n_columns
    feature[expected["feature"] < 0] = -1
    category = np.where(
        is_category, expected["feature"] - np.append(0, ends)[np.minimum(feature, len(ends))], -1
    )
    np.testing.assert_array_equal(table["feature"], feature)
    np.testing.assert_array_equal(table["category"], category)
    np.testing.assert_array_equal(table["threshold"][is_number], expected["threshold"][is_number])
    seen = expected["upper"][:, :n_columns] == 1
    np.testing.assert_array_equal(table["seen"], np.delete(seen, never_learned, axis=1))
    for side in ("lower", "upper"):
        assert np.isnan(table[side][:, : len(ends)]).all()
        np.testing.assert_array_equal(
            table[side][:, len(ends) :], expected[side][:, n_columns : n_columns + n_numbers]
        )
    others = {"feature", "category", "threshold", "seen", "lower", "upper"}
    names = [name for name in table.dtype.names if name not in others]
    assert_equal_tables(table[names], expected[names])


@st.composite
def streams(draw):
    """Categories, numbers, labels and a model."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 50))
    n_levels = draw(st.lists(st.sampled_from([1, 2, 3, 5, 40]), min_size=1, max_size=4))
    codes = np.stack([rng.integers(0, count, size=n_rows) for count in n_levels], axis=1)
    numbers = rng.uniform(size=(n_rows, draw(st.sampled_from([0, 1, 3, 9])))).astype(np.float32)
    if draw(st.booleans()):
        codes[rng.random(codes.shape) < 0.3] = MISSING
        numbers[rng.random(numbers.shape) < 0.2] = np.nan
    params = {name: draw(st.booleans()) for name in SWITCHES} | {
        "n_estimators": 2,
        "random_state": draw(st.integers(0, 1000)),
        "categorical_features": range(len(n_levels)),
    }
    if draw(st.booleans()):
        model = AMFClassifier(classes=range(3), **params)
        return by_appearance(codes), numbers, rng.integers(3, size=n_rows), model, rng
    return (
        by_appearance(codes),
        numbers,
        rng.normal(size=n_rows),
        AMFRegressor(step=1.0, **params),
        rng,
    )


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_trees_and_predictions_equal_those_of_the_reference_on_one_hot_columns(stream):
    codes, numbers, y, model, rng = stream
    n_categories = np.maximum(codes.max(axis=0) + 1, 0) + 1  # the last one is never learned
    trees = reference_trees(model, n_one_hot=int(n_categories.sum()))
    half = len(y) // 2
    if half:
        model.partial_fit(values(codes, numbers)[:half], y[:half])
    for x, label in zip(values(codes, numbers)[half:], y[half:], strict=True):
        model.learn_one(list(x), label)
    for x, label in zip(one_hot(codes, numbers, n_categories), y, strict=True):
        for tree in trees:
            tree.learn(x, label)

    new = np.where(rng.random(codes.shape) < 0.3, n_categories - 1, codes)
    queries, moved = np.concatenate([codes, new]), np.concatenate([numbers, numbers + 0.5])
    by_tree = "predict_proba_by_tree" if isinstance(model, AMFClassifier) else "predict_by_tree"
    predictions = getattr(model, by_tree)(values(queries, moved)).reshape(len(queries), 2, -1)
    for i, tree in enumerate(trees):
        table = model.tree_table(i)
        kinds = [
            (name, *rest) for name, *rest in table.dtype.descr if name not in ("lower", "upper")
        ]
        width = (n_categories.sum() + numbers.shape[1],)
        dtype = np.dtype([*kinds, ("lower", "f4", width), ("upper", "f4", width)])
        last = np.cumsum(n_categories) - 1
        assert_equals_one_hot(table, reference_table(tree, dtype), n_categories, never_learned=last)
        expected = [tree.predict(x) for x in one_hot(queries, moved, n_categories)]
        assert_equal_predictions(predictions[:, i], expected)


@pytest.mark.parametrize("predict_extends", [False, True])
def test_forests_equal_those_on_one_hot_columns_where_sums_are_exact(predict_extends):
    rng = np.random.default_rng(0)
    codes = by_appearance(rng.integers(0, [3, 50, 2], size=(2_000, 3)))
    numbers = rng.integers(0, 65, size=(2_000, 3)) / 64  # so that no sum of extensions is rounded
    y = (codes[:, 0] == 1) ^ (numbers[:, 0] > 0.5) ^ (rng.random(2_000) < 0.2)
    params = {"n_estimators": 3, "random_state": 1, "predict_extends": predict_extends}
    model = AMFClassifier(categorical_features=[0, 1, 2], **params).fit(values(codes, numbers), y)
    n_categories = codes.max(axis=0) + 1
    explicit = one_hot(codes, numbers, n_categories)
    plain = AMFClassifier(**params).fit(explicit, y)
    for i in range(3):
        assert_equals_one_hot(model.tree_table(i), plain.tree_table(i), n_categories)
    assert model.predict_proba(values(codes, numbers)).tobytes() == (
        plain.predict_proba(explicit).tobytes()
    )


# How categories come


def stream(n_rows=300):
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue", "grey"], p=[0.5, 0.3, 0.19, 0.01], size=n_rows)
    frame = pd.DataFrame(
        {
            "size": rng.uniform(size=n_rows),
            "colour": colours,
            "weight": rng.normal(size=n_rows),
            "town": rng.choice([f"town {k}" for k in range(60)], size=n_rows),
        }
    )
    return frame, ((frame["colour"] == "red") ^ (frame["size"] > 0.6)).to_numpy().astype(int)


def new(cls=AMFClassifier, **params):
    params.setdefault("categorical_features", ["colour", "town"])
    return cls(n_estimators=3, random_state=0, **params)


X, Y = stream()
EXPECTED = new().fit(X, Y)
WORDS = ["colour", "town"]
IN_TYPES = X.astype(dict.fromkeys(WORDS, "category"))
POLARS = pl.from_pandas(X)
IN_POLARS_TYPES = POLARS.cast(dict.fromkeys(WORDS, pl.Categorical))
WAYS = {
    "names": (WORDS, X),
    "numbers": ([1, 3], X),
    "mask": ([False, True, False, True], X),
    "types of pandas": ("from_dtype", IN_TYPES),
    "types of polars": ("from_dtype", IN_POLARS_TYPES),
    "an enumeration": (
        "from_dtype",
        IN_POLARS_TYPES.with_columns(POLARS["colour"].cast(pl.Enum(POLARS["colour"].unique()))),
    ),
    "types of pyarrow": ("from_dtype", pa.Table.from_pandas(IN_TYPES)),
    "text of polars": (WORDS, POLARS),
    "text of pyarrow": (WORDS, pa.Table.from_pandas(X)),
    "an array of objects": ([1, 3], X.to_numpy(dtype=object)),
    "lists": ([1, 3], X.to_numpy(dtype=object).tolist()),
    "tuples": ([1, 3], [tuple(row) for row in X.to_numpy(dtype=object)]),
}


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_to_give_categories_grow_the_same_forest(way):
    requested, given = WAYS[way]
    model = new(categorical_features=requested).fit(given, Y)
    assert tables(model) == tables(EXPECTED)
    assert model.is_categorical_.tolist() == [False, True, False, True]
    assert list(model.categories_.values()) == [X[name].unique().tolist() for name in WORDS]
    assert model.predict_proba(given).tobytes() == EXPECTED.predict_proba(X).tobytes()


def test_numbers_may_be_categories():
    codes = pd.factorize(X["town"])[0]
    rows = np.column_stack([X["size"], codes]).astype(np.float64)
    as_words = AMFClassifier(2, categorical_features=[1], random_state=0).fit(
        np.column_stack([X["size"], X["town"]]).astype(object), Y
    )
    as_floats = AMFClassifier(2, categorical_features=[1], random_state=0).fit(rows, Y)
    as_ints = AMFClassifier(2, categorical_features=[1], random_state=0).fit(rows.tolist(), Y)
    assert tables(as_words) == tables(as_floats) == tables(as_ints)
    assert as_floats.categories_ == {1: [float(k) for k in range(codes.max() + 1)]}


def test_however_the_stream_is_cut_the_forest_is_the_same():
    for cuts in ([1, 2, 3, 7, 150], range(1, 300, 13)):
        model = new(classes=[0, 1])
        for part in np.split(np.arange(len(X)), cuts):
            model.partial_fit(X.iloc[part], Y[part])
        assert tables(model) == tables(EXPECTED)
        assert model.categories_ == EXPECTED.categories_


def test_one_row_at_a_time_gives_the_same_forest_and_the_same_predictions():
    model = new(categorical_features=[1, 3], classes=[0, 1])
    predictions = []
    for x, y in zip(X.to_numpy(dtype=object).tolist(), Y.tolist(), strict=True):
        predictions.append(model.predict_proba_one(x))
        model.learn_one(x, y)
    assert tables(model) == tables(EXPECTED)
    tested = new(classes=[0, 1]).partial_fit_predict_proba(X, Y)
    np.testing.assert_array_equal(tested, predictions)
    assert model.predict_one(X.iloc[0].tolist()) == EXPECTED.predict(X[:1])[0]


def test_threads_never_change_the_forest():
    assert tables(new(n_jobs=2).fit(X, Y)) == tables(EXPECTED)


def test_copies_go_on_as_the_model_does():
    half = len(X) // 2
    model = new().fit(X[:half], Y[:half])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.partial_fit(X[half:], Y[half:])
        assert tables(other) == tables(model.__class__(**model.get_params()).fit(X, Y))
        assert other.categories_ == EXPECTED.categories_


def test_fitting_anew_forgets_the_categories():
    model = new(categorical_features="from_dtype").fit(IN_TYPES, Y)
    numbers = X[["size", "weight"]]
    assert tables(model.fit(numbers, Y)) == tables(new(categorical_features=None).fit(numbers, Y))
    assert model.categories_ == {}


def test_rows_of_weight_zero_bring_no_categories():
    rows = pd.concat([X.assign(town="nowhere")[:5], X])
    weights = np.repeat([0.0, 1.0], [5, len(X)])
    labels = np.append(Y[:5], Y)
    model = new().fit(rows, labels, sample_weight=weights)
    assert tables(model) == tables(EXPECTED)
    assert model.categories_ == EXPECTED.categories_


def test_a_category_that_was_never_learned_is_predicted_and_stays_unknown():
    query = X[:3].assign(town=["nowhere", None, "town 1"])
    predictions = EXPECTED.predict_proba(query)
    np.testing.assert_allclose(predictions.sum(axis=1), 1)
    assert "nowhere" not in EXPECTED.categories_["town"]
    assert EXPECTED.predict_proba(query).tobytes() == predictions.tobytes()


GAPS = X.astype(object).where(np.random.default_rng(1).random(X.shape) < 0.8, None)


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
def test_what_pandas_says_is_missing_is_missing(nothing):
    expected = tables(new(categorical_features=[1, 3]).fit(GAPS.to_numpy(), Y))
    given = GAPS.copy()
    given[WORDS] = given[WORDS].where(given[WORDS].notna(), nothing)
    assert tables(new().fit(given, Y)) == expected
    in_types = given.astype(dict.fromkeys(WORDS, "category"))
    assert tables(new(categorical_features="from_dtype").fit(in_types, Y)) == expected


def test_nulls_of_polars_and_arrow_are_missing():
    expected = tables(new(categorical_features=[1, 3]).fit(GAPS.to_numpy(), Y))
    columns = {name: GAPS[name].tolist() for name in GAPS}
    assert tables(new().fit(pl.DataFrame(columns), Y)) == expected
    assert tables(new().fit(pa.table(columns), Y)) == expected


def test_nan_is_missing_in_an_array_of_floats():
    rng = np.random.default_rng(0)
    floats = np.where(rng.random((300, 2)) < 0.2, np.nan, rng.integers(5, size=(300, 2)))
    objects = np.where(np.isnan(floats), None, floats)
    params = {"categorical_features": [0, 1]}
    assert tables(new(**params).fit(floats, Y)) == tables(new(**params).fit(objects, Y))


def test_a_hundred_categories_cost_bits():
    rng = np.random.default_rng(0)
    towns, y = rng.integers(100, size=5_000), rng.integers(2, size=5_000)
    model = AMFClassifier(1, categorical_features=[0], random_state=0).fit(towns[:, None], y)
    plain = AMFClassifier(1, random_state=0).fit(np.eye(100)[towns], y)
    assert model.stats()["bytes"] < plain.stats()["bytes"] / 3


def test_the_table_says_which_category_goes_right():
    model = new(n_jobs=None).fit(X, Y)
    table = model.tree_table(0)
    names, categories = list(X.columns), model.categories_
    leaves = model.apply(X)[:, 0]
    for row in range(20):
        x, v = X.iloc[row], 0
        while table["feature"][v] >= 0:
            name = names[table["feature"][v]]
            if table["category"][v] >= 0:
                right = x[name] == categories[name][table["category"][v]]
            else:
                right = x[name] > table["threshold"][v]
            v = table["right" if right else "left"][v]
        assert leaves[row] == v


# Bad input


def with_town(value):
    rows = X.to_numpy(dtype=object)
    rows[7, 3] = value
    return rows


BAD = {
    "NaN": (with_town(float("nan")), "X's column 3 holds NaN as a category.*give None"),
    "a list": (with_town(["town"]), "X's column 3 holds a value that cannot be a category.*list"),
    "text as a number": (X.assign(size="1.5").to_numpy(object), "'1.5' is text"),
    "a sparse matrix": (sp.csr_array(np.ones((300, 4))), "X is sparse"),
    "ragged rows": ([[0.5, "red", 1.0, "town"], [0.5]] * 150, "rows differ in length"),
    "one dimension": (X.to_numpy(object)[0], "Expected 2D array"),
}


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict"])
@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_named_and_change_nothing(method, name):
    given, message = BAD[name]
    model = new(categorical_features=[1, 3]).fit(X.to_numpy(object), Y)
    before, attributes = tables(model), state_of(model)
    labels = () if method == "predict" else (Y,)
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(model, method)(given, *labels)
    assert tables(model) == before
    assert state_of(model) == attributes


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, "red", 1.0, float("nan")], "holds NaN as a category"),
        ([0.5, "red", 1.0, {}], "cannot be a category"),
        ([0.5, "red", 1.0], "x has 3 features; the forest was built for 4"),
        (["0.5", "red", 1.0, "town 1"], "'0.5' is text"),
    ],
)
@pytest.mark.parametrize("method", ["learn_one", "predict_one", "predict_proba_one"])
def test_a_bad_row_is_explained_and_changes_nothing(method, row, message):
    model = new(categorical_features=[1, 3]).fit(X.to_numpy(object), Y)
    before = tables(model)
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(model, method)(row, *([1] if method == "learn_one" else []))
    assert tables(model) == before


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ([True, False], "mask of length 2; X has 4"),
        ([1, 4], "between 0 and 3"),
        ([-1], "between 0 and 3"),
        (["colour", "shape"], "names 'shape', which is not a column"),
        ([0.5], "a mask, or indices or names"),
        ([[1]], "2 dimensions"),
        ("from dtype", "categorical_features"),
        (1, "categorical_features"),
    ],
)
def test_impossible_categorical_features_are_explained(requested, message):
    model = new(categorical_features=requested)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "n_features_in_")


def test_names_need_a_frame():
    with pytest.raises(ValueError, match="holds names, but the columns of X have none"):
        new().fit(X.to_numpy(object), Y)


def test_a_frame_with_other_types_is_looked_up_by_its_values():
    model = new(categorical_features="from_dtype").fit(IN_TYPES, Y)
    assert model.predict_proba(X).tobytes() == EXPECTED.predict_proba(X).tobytes()
    with pytest.raises(ValueError, match=r"'size' must hold numbers only.*categorical_features"):
        model.predict(IN_TYPES.astype({"size": "category"}))


def test_there_may_be_65535_categories_and_no_more():
    rows = np.arange(MOST_CATEGORIES)[:, None]
    model = AMFClassifier(1, categorical_features=[0], max_categories=None, random_state=0)
    model.partial_fit(rows[:1], [0]).partial_fit(rows, np.zeros(len(rows), int))
    with pytest.raises(
        ValueError, match="X's column 0 has 65536 categories; the limit is 65535: set"
    ):
        model.partial_fit([[MOST_CATEGORIES]], [0])
    assert len(model.categories_[0]) == MOST_CATEGORIES


@given(st.integers(0, 2**32 - 1), st.sampled_from("?ilfd"), st.sampled_from([3, 4095, 4097, 1e9]))
def test_numbers_looked_up_at_once_have_the_same_codes(seed, dtype, largest):
    rng = np.random.default_rng(seed)
    values = np.round(rng.uniform(0, largest, size=(200, 2)))
    values[0] = rng.choice([0.0, -0.0, 0.5, -1.0, 1.0])
    if dtype in "fd":
        values[rng.random(values.shape) < 0.1] = np.nan
    values = values.astype(dtype)
    known = Categories().widen(2).extend(columns_of(values[:90]), limit=50)
    found = known.encode(columns_of(values, are_numbers=True), slice(None))
    np.testing.assert_array_equal(found, known.encode(columns_of(values), slice(None)))


def columns_of(values, *, are_numbers=False):
    return [
        Column(
            "x", len(values), lambda part, c=c: c[part].tolist(), True, c if are_numbers else None
        )
        for c in values.T
    ]
