"""The river estimators pass river's checks and are the scikit-learn ones' forests, bit for bit."""

import copy
import pickle
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import islice
from math import nan

import numpy as np
import pandas as pd
import pytest

import amforest
from amforest._forest.core_handle import handle_of
from amforest._forest.encoder import padded_width
from amforest.river import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    columns_of,
)
from helpers import tables
from river import checks, compose, datasets, drift, evaluate, metrics, preprocessing

CLASSIFIERS = [AMFClassifier, AdaptiveAMFClassifier]
MODELS = [*CLASSIFIERS, AMFRegressor, AdaptiveAMFRegressor]
ALL_CHECKS = [
    pytest.param(cls(**params), check, id=f"{cls.__name__}-{i}-{check.__name__}-{k}")
    for cls in MODELS
    for i, params in enumerate(cls._unit_test_params())
    for k, check in enumerate(checks.yield_checks(cls(**params)))
]


@pytest.mark.parametrize(("model", "check"), ALL_CHECKS)
def test_river_checks_pass(model, check):
    check(model.clone())


def rows_of(dataset, n):
    return list(islice(dataset, n))


@pytest.fixture(params=MODELS)
def stream(request):
    """An estimator class with data for it."""
    dataset = datasets.Phishing() if request.param in CLASSIFIERS else datasets.TrumpApproval()
    return request.param, rows_of(dataset, 300)


def ragged(rows):
    """Some features come late, some go, and all rows lack some."""
    rng = np.random.default_rng(0)
    return [
        ({k: v for i, (k, v) in enumerate(x.items()) if t >= 20 * i and rng.random() < 0.8}, y)
        for t, (x, y) in enumerate(rows)
    ]


def frame(rows):
    return pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])


def learn(model, rows, **how):
    for x, y in rows:
        model.learn_one(x, y, **how)
    return model


def predictions(model, rows):
    if isinstance(model, tuple(CLASSIFIERS)):
        return [model.predict_proba_one(x) for x, _ in rows]
    return [model.predict_one(x) for x, _ in rows]


def names_of(model):
    return list(columns_of(handle_of(model).fitted).of)


def bits(model):
    return tables(model.to_sklearn())


# The same forest as the scikit-learn estimators'


@pytest.mark.parametrize("cls", CLASSIFIERS)
@pytest.mark.parametrize("dataset", [datasets.Bananas, datasets.Phishing, datasets.ImageSegments])
def test_three_ways_to_learn_give_identical_predictions(dataset, cls):
    rows = rows_of(dataset(), 1_500 if cls is AMFClassifier else 400)
    names = sorted(rows[0][0])
    X = np.array([[x[name] for name in names] for x, _ in rows])
    y = [label for _, label in rows]
    params = {"n_estimators": 5 if cls is AMFClassifier else 2}

    in_one_go = cls._estimator(**params, random_state=1)
    expected = in_one_go.partial_fit_predict_proba(X, y)[1:]
    by_row = cls._estimator(**params, random_state=1).learn_one(X[0], y[0])
    by_dict = cls(**params, seed=1)
    by_dict.learn_one(*rows[0])
    hits = Counter()
    for p, x, (features, label) in zip(expected, X[1:], rows[1:], strict=True):
        hits["in one go"] += in_one_go.classes_[p.argmax()] == label
        hits["by row"] += by_row.predict_one(x) == label
        hits["by dict"] += by_dict.predict_one(features) == label
        assert by_row.predict_proba_one(x).tolist() == p[p > 0].tolist()
        assert list(by_dict.predict_proba_one(features).values()) == p[p > 0].tolist()
        by_row.learn_one(x, label)
        by_dict.learn_one(features, label)
    assert len(set(hits.values())) == 1
    assert hits["by dict"] / len(rows) > 0.6
    assert bits(by_dict) == tables(by_row) == tables(in_one_go)


@pytest.mark.parametrize("cut", [1, 7, 300])
@pytest.mark.parametrize("shape", [list, ragged])
def test_learn_many_is_learn_one_for_each_row(stream, shape, cut):
    cls, rows = stream[0], shape(stream[1])
    many, X, y = cls(n_estimators=3, seed=1), *frame(rows)
    for start in range(0, len(rows), cut):
        many.learn_many(X[start : start + cut], y[start : start + cut])
    one = learn(cls(n_estimators=3, seed=1), rows)
    assert bits(many) == bits(one)
    assert names_of(many) == names_of(one)
    assert tables(many._model) == tables(one._model)


def test_predict_many_is_predict_one_for_each_row(stream):
    cls, rows = stream
    model, X = learn(cls(n_estimators=3, seed=1), rows[:200]), frame(rows)[0][200:]
    assert model.predict_many(X).tolist() == [model.predict_one(x) for x, _ in rows[200:]]
    assert model.predict_many(X).index.equals(X.index)
    assert len(model.predict_many(X[:0])) == 0
    if cls in CLASSIFIERS:
        probabilities = model.predict_proba_many(X)
        assert probabilities.index.equals(X.index)
        assert probabilities.to_dict("records") == predictions(model, rows[200:])


@pytest.mark.parametrize("shape", [list, ragged])
def test_conversion_to_scikit_learn_loses_nothing(stream, shape):
    cls, rows = stream[0], shape(stream[1])
    model = learn(cls(n_estimators=3, seed=1), rows[:200])
    before = predictions(model, rows)
    other = model.to_sklearn()
    X, y = frame(rows)
    X = X[list(other.feature_names_in_)]
    if cls in CLASSIFIERS:
        assert [list(p.values()) for p in before] == other.predict_proba(X).tolist()
    else:
        assert before == other.predict(X).tolist()
    back = cls.from_sklearn(other)
    other.partial_fit(X[200:], y[200:])
    assert predictions(model, rows) == before == predictions(back, rows)
    learn(model, rows[200:])
    learn(back, rows[200:])
    assert bits(model) == tables(other) == bits(back)
    assert back._get_params() == model._get_params()


def test_columns_without_names_are_numbered(stream):
    cls, rows = stream
    X, y = frame(rows)
    plain = cls._estimator(n_estimators=2, random_state=1).partial_fit(X.to_numpy(), y)
    model = cls.from_sklearn(plain)
    assert names_of(model) == list(range(X.shape[1]))
    assert not hasattr(
        learn(model, [({0: 1.0, "new": 2.0}, y[0])]).to_sklearn(), "feature_names_in_"
    )


def test_a_model_that_has_learned_nothing_can_be_converted(stream):
    cls, rows = stream
    model = cls.from_sklearn(cls(n_estimators=2, seed=1).to_sklearn())
    assert bits(learn(model, rows)) == bits(learn(cls(n_estimators=2, seed=1), rows))


def test_only_its_own_kind_can_be_converted():
    with pytest.raises(TypeError, match=r"must be an amforest\.AMFClassifier"):
        AMFClassifier.from_sklearn(amforest.AMFRegressor())


# Features


def test_room_for_features_grows_by_a_quarter():
    rooms = [padded_width(n) for n in range(2_000)]
    assert rooms == sorted(rooms)
    assert all(n <= room <= max(n + 3, 1.25 * n) or room == 4 for n, room in enumerate(rooms))
    assert all(room % 4 == 0 for room in rooms)
    assert len(set(rooms)) < 40


def test_missing_values_are_absent_keys(stream):
    cls, rows = stream[0], ragged(stream[1])
    names = dict.fromkeys(name for x, _ in rows for name in x)
    absent = learn(cls(n_estimators=2, seed=1), rows)
    for missing in (None, nan, np.float32("nan")):
        filled = [({name: x.get(name, missing) for name in names}, y) for x, y in rows]
        model = learn(cls(n_estimators=2, seed=1), filled)
        assert bits(model) == bits(absent)
        assert predictions(model, filled) == predictions(absent, rows)


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_many_late_features_are_the_same_as_early_ones(cls):
    rng = np.random.default_rng(0)
    rows = [({f"x{j:03}": rng.random() for j in range(t + 1)}, t % 3) for t in range(120)]
    grown = learn(cls(n_estimators=2, seed=1), rows)
    X, y = frame(rows)
    whole = cls._estimator(n_estimators=2, random_state=1).partial_fit(X, y)
    assert bits(grown) == tables(whole)


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_names_may_be_of_any_kind_and_in_any_order(cls):
    one, other = cls(seed=1), cls(seed=1)
    for t in range(50):
        x = {1: t % 7, "a": t % 5, (2, "b"): t % 3, None: t % 2}
        one.learn_one(x, t % 2)
        other.learn_one(dict(reversed(x.items())), t % 2)
    assert bits(one) == bits(other)


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_a_row_without_features_is_learned(cls):
    model = cls(seed=1)
    for label in "aab":
        model.learn_one({}, label)
    assert model.predict_one({}) == "a"
    assert model.predict_one({"new": 1.0}) == "a"
    assert model.to_sklearn().n_samples_seen_ == 3


def test_bools_and_numpy_numbers_are_numbers():
    plain, others = AMFRegressor(seed=1), AMFRegressor(seed=1)
    for t in range(20):
        plain.learn_one({"a": float(t % 2), "b": float(t)}, t)
        others.learn_one({"a": t % 2 == 1, "b": np.int64(t)}, np.float64(t))
    assert bits(plain) == bits(others)


@pytest.mark.parametrize("value", ["red", "1.5", 1j, [1.0]])
@pytest.mark.parametrize("known", [True, False])
def test_values_that_are_no_numbers_are_refused_by_name(value, known):
    model = AMFRegressor(categorical_features=None, seed=1)
    model.learn_one({"size": 1.0, "colour": 2.0} if known else {"size": 1.0}, 1.0)
    before = pickle.dumps(model)
    with pytest.raises(TypeError, match=r"feature 'colour' is .* must be a number"):
        model.learn_one({"size": 1.0, "colour": value}, 1.0)
    X = pd.DataFrame({"size": [1.0], "colour": pd.Series([value], dtype=object)})
    with pytest.raises(TypeError, match=r"feature 'colour' is .* must be a number"):
        model.learn_many(X, pd.Series([1.0]))
    assert pickle.dumps(model) == before


def test_frames_may_have_objects_and_nullable_numbers():
    X = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    X["c"] = pd.Series([None, 2.5, 1], dtype=object)
    y = pd.Series([0.0, 1.0, 2.0])
    many, one = AMFRegressor(seed=1), AMFRegressor(seed=1)
    many.learn_many(X, y)
    learn(
        one, [({"a": 1, "b": True}, 0), ({"b": False, "c": 2.5}, 1), ({"a": 3, "b": 1, "c": 1}, 2)]
    )
    assert bits(many) == bits(one)


def test_two_columns_of_one_name_are_refused():
    X = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    with pytest.raises(ValueError, match="each column must have a name of its own"):
        AMFRegressor().learn_many(X, pd.Series([1.0]))


def test_the_input_never_changes():
    model = AMFRegressor(seed=1)
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    x = defaultdict(float, {"a": 1.0, "c": 2.0})
    model.learn_one(x, 2.0)
    model.predict_one(x)
    assert dict(x) == {"a": 1.0, "c": 2.0}


@pytest.mark.parametrize(
    ("x", "y", "w"),
    [
        ({"a": 1.0, "new": 1e31}, True, 1.0),
        ({"a": 1.0, "new": 1.0}, "text among bools", 1.0),
        ({"a": 1.0, "new": 1.0}, [], 1.0),
        ({"a": 1.0, "new": 1.0}, True, -1.0),
    ],
)
@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_a_failed_call_leaves_the_model_as_it_was(cls, x, y, w):
    rng = np.random.default_rng(0)
    model = cls(n_estimators=2, seed=1)
    learn(model, [({k: rng.random() for k in "abcd"}, rng.random() < 0.5) for _ in range(50)])
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError)):
        model.learn_one(x, y, w)
    assert pickle.dumps(model) == before
    model.learn_one({"a": 1.0, "e": 2.0}, True)


# Labels and weights


@pytest.mark.parametrize(
    "labels", [[True, False], ["b", "a", "c"], [3, 1, 2], [True, 2, False], [np.bool_(True)]]
)
@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_predictions_are_labels_of_the_type_learned(cls, labels):
    model, rng = cls(n_estimators=2, seed=1), np.random.default_rng(0)
    rows = [({"a": i + 0.1 * rng.random()}, y) for _ in range(20) for i, y in enumerate(labels)]
    learn(model, rows)
    kinds = {y: bool if isinstance(y, np.bool_) else type(y) for y in labels}
    for x, y in rows:
        assert model.predict_one(x) == y
        assert type(model.predict_one(x)) is kinds[y]
    assert {label: type(label) for label in model.predict_proba_one({})} == kinds
    assert {label: type(label) for label in model.predict_proba_many(frame(rows)[0])} == kinds


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_predictions_before_any_data_are_neutral(cls):
    X = pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 6])
    classifier, regressor = cls(), AMFRegressor()
    classifier.learn_one({"a": 1.0}, "b", w=0)
    assert classifier.predict_proba_one({"a": 1.0}) == {}
    assert classifier.predict_one({"a": 1.0}) is None
    assert classifier.predict_many(X).tolist() == [None, None]
    assert classifier.predict_proba_many(X).shape == (2, 0)
    assert regressor.predict_one({"a": 1.0}) == 0
    assert regressor.predict_many(X).to_dict() == {5: 0, 6: 0}


def test_weights_are_sample_weights(stream):
    cls, rows = stream
    X, y = frame(rows)
    X = X[sorted(X)]
    w = np.random.default_rng(0).choice([0, 0.5, 1, 2], len(y))
    w[0] = 1
    expected = cls._estimator(n_estimators=2, random_state=1).partial_fit(X, y, sample_weight=w)
    one, many = cls(n_estimators=2, seed=1), cls(n_estimators=2, seed=1)
    for (x, label), weight in zip(rows, w, strict=True):
        one.learn_one(x, label, weight)
    many.learn_many(X, y, pd.Series(w))
    assert bits(one) == bits(many) == tables(expected)


def test_one_weight_may_be_for_all_rows(stream):
    cls, rows = stream
    one = learn(cls(n_estimators=2, seed=1), rows, w=2.0)
    many = cls(n_estimators=2, seed=1)
    many.learn_many(*frame(rows), w=2.0)
    assert bits(one) == bits(many)


def test_weight_0_learns_nothing(stream):
    cls, rows = stream
    model = learn(cls(n_estimators=2, seed=1), rows)
    before = pickle.dumps(model)
    model.learn_one({"new": 1.0}, rows[0][1], w=0)
    model.learn_many(pd.DataFrame({"new": [1.0, 2.0]}), pd.Series([1, 0]), w=pd.Series([0, 0]))
    model.learn_many(pd.DataFrame({"new": []}), pd.Series([]))
    assert pickle.dumps(model) == before


# Among river's tools


def test_pickles_and_copies_continue_identically(stream):
    cls, rows = stream[0], ragged(stream[1])
    model = learn(cls(n_estimators=2, seed=1), rows[:150])
    others = [
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        model.clone(include_attributes=True),
    ]
    learn(model, rows[150:])
    for other in others:
        assert bits(learn(other, rows[150:])) == bits(model)


def test_clones_start_afresh_with_the_same_parameters(stream):
    cls, rows = stream
    model = learn(cls(n_estimators=2, use_aggregation=False, seed=1), rows)
    assert predictions(model.clone(), rows[:1]) == predictions(cls(), rows[:1])
    assert bits(learn(model.clone(), rows)) == bits(model)
    assert model.clone({"n_estimators": 4}).to_sklearn().n_estimators == 4


def test_memory_usage_counts_the_core(stream):
    cls, rows = stream
    model = cls(n_estimators=5, seed=1)
    sizes = [model._raw_memory_usage]
    for part in (rows[:50], rows[50:]):
        learn(model, part)
        sizes.append(model._raw_memory_usage)
        assert sizes[-1] > model.stats()["bytes"] > sizes[-2]
    assert "B" in model._memory_usage


def test_works_in_pipelines(stream):
    cls, rows = stream
    model = preprocessing.MinMaxScaler() | cls(n_estimators=3, seed=1)
    metric = metrics.Accuracy() if cls in CLASSIFIERS else metrics.MAE()
    evaluate.progressive_val_score(rows, model, metric)
    assert metric.get() > 0.75 if cls in CLASSIFIERS else metric.get() < 2


def test_categories_are_encoded_in_a_pipeline():
    encode = (compose.SelectType(str) | preprocessing.OneHotEncoder()) + compose.SelectType(float)
    model = encode | AMFClassifier(seed=1)
    for t in range(100):
        model.learn_one({"colour": "red" if t % 2 else "blue", "size": 1.0}, t % 2 == 1)
    assert model.predict_one({"colour": "red", "size": 1.0}) is True


def test_weights_pass_through_river_s_evaluation(stream):
    cls, rows = stream
    model = cls(n_estimators=2, seed=1)
    metric = metrics.Accuracy() if cls in CLASSIFIERS else metrics.MAE()
    evaluate.progressive_val_score([(x, y, {"w": 2.0}) for x, y in rows], model, metric)
    assert bits(model) == bits(learn(cls(n_estimators=2, seed=1), rows, w=2.0))


def test_retraining_on_drift_recovers():
    rng = np.random.default_rng(0)
    rows = [
        ({"a": a, "b": rng.random()}, (a < 0.5) == (t < 1000))
        for t, a in enumerate(rng.random(2000).tolist())
    ]
    plain = AMFClassifier(n_estimators=3, seed=1)
    wrapped = drift.DriftRetrainingClassifier(
        plain.clone(), drift.ADWIN(), train_in_background=False
    )
    accuracy = [
        evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get()
        for model in (plain, wrapped)
    ]
    assert accuracy[1] > accuracy[0] + 0.1
    assert accuracy[1] > 0.85


# Imports


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_amforest_alone_imports_neither_river_nor_pandas():
    # scikit-learn itself imports pandas where it is installed.
    code = "import sys, sklearn.base; before = set(sys.modules); import amforest; "
    result = run(code + "print({'river', 'pandas'} & (set(sys.modules) - before))")
    assert result.stdout.strip() == "set()", result.stderr


def test_rows_need_no_pandas():
    code = """import sys
class WithoutPandas:
    def find_spec(self, name, *places):
        if name == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, WithoutPandas())
from amforest.river import AMFRegressor
model = AMFRegressor()
model.learn_one({"a": 1}, 2)
print(model.predict_one({}))"""
    result = run(code)
    assert result.stdout.strip() == "2.0", result.stderr


def test_without_river_the_error_says_what_to_install():
    result = run("import sys; sys.modules['river'] = None; import amforest.river")
    assert result.stderr.strip().endswith(
        "ImportError: amforest.river needs river: pip install 'amforest[river]'"
    )
