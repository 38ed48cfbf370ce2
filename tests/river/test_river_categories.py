"""Categories in river's dicts and frames: the same forest as the scikit-learn estimators'."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river")

import amforest
from amforest._forest.categories import OTHERS
from amforest.model_io import from_bytes
from amforest.river import AMFClassifier, AMFRegressor
from helpers import tables
from river import evaluate, metrics


def rows_of(n_rows=250):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n_rows):
        x = {"town": f"town {rng.integers(20)}", "size": rng.uniform(), "colour": "red"}
        x["colour"] = str(rng.choice(["red", "green", "blue"]))
        if i > n_rows // 2:
            x["shape"] = str(rng.choice(["round", "square"]))
        rows.append((x, str((x["colour"] == "red") ^ (x["size"] > 0.6))))
    return rows


def with_gaps(rows):
    rng = np.random.default_rng(1)
    return [({k: v for k, v in x.items() if rng.random() < 0.8}, y) for x, y in rows]


ROWS = rows_of()


def learn(model, rows):
    for x, y in rows:
        model.learn_one(x, y)
    return model


def bits(model):
    return tables(model.to_sklearn())


@pytest.mark.parametrize("shape", [list, with_gaps])
@pytest.mark.parametrize("cut", [1, 7, 250])
def test_learn_many_is_learn_one_for_each_row(shape, cut):
    rows = shape(ROWS)
    X, y = pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])
    many = AMFClassifier(3, seed=1)
    for start in range(0, len(rows), cut):
        many.learn_many(X[start : start + cut], y[start : start + cut])
    one = learn(AMFClassifier(3, seed=1), rows)
    assert bits(many) == bits(one)
    assert many.to_sklearn().categories_ == one.to_sklearn().categories_
    assert many.predict_many(X).tolist() == [one.predict_one(x) for x, _ in rows]


def test_the_forest_is_that_of_the_scikit_learn_estimator():
    rows = [({k: x[k] for k in ("colour", "town", "size")}, y) for x, y in ROWS]
    X, y = pd.DataFrame([x for x, _ in rows]), [y for _, y in rows]
    model = amforest.AMFClassifier(3, random_state=1, categorical_features=["colour", "town"])
    assert bits(learn(AMFClassifier(3, seed=1), rows)) == tables(model.partial_fit(X, y))


@pytest.mark.parametrize("shape", [list, with_gaps])
@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor])
def test_conversion_to_scikit_learn_and_back_loses_nothing(cls, shape):
    rows = shape(ROWS)
    if cls is AMFRegressor:
        rows = [(x, float(y == "True")) for x, y in rows]
    model = learn(cls(3, seed=1), rows[:150])
    other = model.to_sklearn()
    back = cls.from_sklearn(other)
    assert back.predict_one(rows[200][0]) == model.predict_one(rows[200][0])
    assert bits(learn(back, rows[150:])) == bits(learn(model, rows[150:]))
    assert other.n_samples_seen_ == 150
    assert sorted(other.categories_["colour"]) == ["blue", "green", "red"]
    names = other.feature_names_in_
    x = [rows[200][0].get(name) for name in names]
    assert other.predict_one(x) == cls.from_sklearn(other).predict_one(rows[200][0])
    frame = pd.DataFrame([x for x, _ in rows[200:]], columns=names)
    assert other.predict(frame).tolist() == cls.from_sklearn(other).predict_many(frame).tolist()


def test_columns_without_names_convert_too():
    X = np.array([[x["town"], x["size"], x["colour"]] for x, _ in ROWS], dtype=object)
    y = [y for _, y in ROWS]
    plain = amforest.AMFClassifier(2, categorical_features=[0, 2], random_state=0).fit(X, y)
    model = AMFClassifier.from_sklearn(plain)
    assert model.categorical_features == [0, 2]
    assert model.predict_one(dict(enumerate(X[0]))) == plain.predict_one(X[0])
    back = model.to_sklearn()
    assert back.categorical_features == [0, 1]  # categories come first
    assert back.predict_one(X[0, [0, 2, 1]]) == plain.predict_one(X[0])


def test_copies_go_on_as_the_model_does():
    model = learn(AMFClassifier(2, seed=1), ROWS[:100])
    whole = bits(learn(AMFClassifier(2, seed=1), ROWS))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert bits(learn(other, ROWS[100:])) == whole


@pytest.mark.parametrize("shape", [list, with_gaps])
@pytest.mark.parametrize("cut", [1, 7, 250])
def test_later_categories_share_a_column_however_they_come(shape, cut):
    rows = shape(ROWS)
    X, y = pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])
    towns = X["town"].dropna().unique()[:4].tolist()
    many = AMFClassifier(3, max_categories=4, seed=1)
    for start in range(0, len(rows), cut):
        many.learn_many(X[start : start + cut], y[start : start + cut])
    one = learn(AMFClassifier(3, max_categories=4, seed=1), rows)
    loaded = from_bytes(learn(AMFClassifier(3, max_categories=4, seed=1), rows[:60]).to_bytes())
    is_other = {x["town"] for x, _ in rows if "town" in x} - set(towns)
    renamed = [(x | {"town": "other"} if x.get("town") in is_other else x, y) for x, y in rows]
    expected = learn(AMFClassifier(3, max_categories=None, seed=1), renamed)
    for model in (many, one, learn(loaded, rows[60:])):
        assert bits(model) == bits(expected)
        assert model.to_sklearn().categories_["town"] == [*towns, OTHERS]
    x = {"town": "nowhere", "size": 0.3}
    assert one.predict_proba_one(x) == expected.predict_proba_one(x | {"town": "other"})
    back = AMFClassifier.from_sklearn(one.to_sklearn())
    assert back.max_categories == 4
    assert back.predict_proba_one(x) == one.predict_proba_one(x)


def test_predicting_makes_no_category_known():
    model = learn(AMFClassifier(2, seed=1), ROWS)
    before = bits(model)
    unknown = model.predict_proba_one({**ROWS[-1][0], "town": "nowhere"})
    assert sum(unknown.values()) == pytest.approx(1)
    assert bits(model) == before


def test_names_may_be_given_and_any_hashable_value_is_a_category():
    rows = [({"key": (i % 3, "x"), "size": i / 100}, i % 3 == 1) for i in range(100)]
    model = learn(AMFClassifier(3, categorical_features={"key"}, seed=1), rows)
    assert model.to_sklearn().categories_ == {"key": [(0, "x"), (1, "x"), (2, "x")]}
    assert model.predict_one({"key": (1, "x"), "size": 0.5}) is True


def test_a_stream_with_words_can_be_evaluated():
    rows = [(x, x["colour"]) for x, _ in ROWS]
    accuracy = evaluate.progressive_val_score(rows, AMFClassifier(seed=1), metrics.Accuracy())
    assert accuracy.get() > 0.8


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"colour": float("nan"), "size": 1.0}, "feature 'colour' holds NaN as a category"),
        ({"colour": [1], "size": 1.0}, "feature 'colour' holds a value that cannot be a category"),
        ({"colour": "red", "size": "1.5"}, "feature 'size' is '1.5'; it must be a number"),
    ],
)
def test_bad_values_are_named_and_change_nothing(x, message):
    model = learn(AMFClassifier(2, seed=1), ROWS[:50])
    before = bits(model)
    for call in (lambda: model.learn_one(x, "True"), lambda: model.predict_one(x)):
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    assert bits(model) == before


def test_one_word_for_categorical_features_is_refused():
    with pytest.raises(ValueError, match="categorical_features is 'colour'"):
        AMFClassifier(categorical_features="colour")
