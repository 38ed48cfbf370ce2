"""`KeyedForests` in one process equals a dictionary of models, and refuses what it cannot learn."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyed_streams import CLASSIFIER, Dictionary, all_bytes, keyed_stream
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
)
from amforest.distributed import KeyedForests
from amforest.evaluation import progressive_validation

SMALL = {"memories": (None, 15), "n_estimators": 1}


@given(
    cuts=st.lists(st.integers(1, 119), max_size=6),
    max_bytes=st.sampled_from([1, 20_000, 60_000, None]),
    seed=st.integers(0, 5),
)
def test_equals_a_dictionary_however_models_are_evicted(cuts, max_bytes, seed):
    X, y, keys = keyed_stream(120, 30, seed)
    expected = Dictionary(CLASSIFIER)
    with KeyedForests(CLASSIFIER, max_bytes=max_bytes) as forests:
        parts = [
            forests.partial_fit_predict_proba(X[a:b], y[a:b], keys=keys[a:b])
            for a, b in pairwise(sorted({0, *cuts, 120}))
        ]
        assert np.array_equal(np.concatenate(parts), expected.test_then_train(X, y, keys))
        assert all_bytes(forests) == expected.to_bytes()
        assert (forests.stats()["evictions"] > 0) == (max_bytes is not None)


@pytest.mark.parametrize(
    "estimator",
    [
        AMFRegressor(n_estimators=2, random_state=0),
        AdaptiveAMFClassifier(honest_memories=(), classes=[0, 1], random_state=0, **SMALL),
        AdaptiveAMFRegressor(random_state=0, **SMALL),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_equals_a_dictionary_for_all_estimators(estimator):
    X, y, keys = keyed_stream(200, 20)
    expected = Dictionary(estimator)
    with KeyedForests(estimator, max_bytes=50_000) as forests:
        method = getattr(forests, "partial_fit_predict" + "_proba" * hasattr(estimator, "classes"))
        predictions = [
            method(X[a : a + 50], y[a : a + 50], keys=keys[a : a + 50]) for a in range(0, 200, 50)
        ]
        assert np.array_equal(np.concatenate(predictions), expected.test_then_train(X, y, keys))
        assert all_bytes(forests) == expected.to_bytes()
        some = [
            expected.model(key).predict(x[None])[0] for x, key in zip(X, keys.tolist(), strict=True)
        ]
        assert np.array_equal(forests.predict(X, keys=keys), some)


def test_models_in_memory_stay_within_the_limit():
    X, y, keys = keyed_stream(2000, 200)
    with KeyedForests(CLASSIFIER, max_bytes=300_000) as forests:
        for a in range(0, 2000, 20):
            forests.partial_fit(X[a : a + 20], y[a : a + 20], keys=keys[a : a + 20])
            assert forests.stats()["bytes_in_memory"] <= 300_000
        assert 1 < forests.stats()["models_in_memory"] < len(forests)


def test_single_rows_equal_batches():
    X, y, keys = keyed_stream(100, 9)
    with KeyedForests(CLASSIFIER, max_bytes=20_000) as one, KeyedForests(CLASSIFIER) as many:
        for x, label, key in zip(X, y.tolist(), keys.tolist(), strict=True):
            one.learn_one(x, label, key=key)
        many.partial_fit(X, y, keys=keys)
        assert all_bytes(one) == all_bytes(many)
        assert one.n_samples_seen_ == many.n_samples_seen_ == 100
        key = int(keys[0])
        assert np.array_equal(
            one.predict_proba_one(X[0], key=key), many.predict_proba(X[:1], keys=[key])[0]
        )
        assert one.predict_one(X[0], key=key) == many.predict(X[:1], keys=[key])[0]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_have_a_column_of_keys(frame):
    X, y, keys = keyed_stream(100, 9)
    table = frame({"a": X[:, 0], "sensor": keys.astype(str), "b": X[:, 1], "c": X[:, 2]})
    with KeyedForests(CLASSIFIER, key="sensor") as one, KeyedForests(CLASSIFIER) as other:
        one.partial_fit(table, y)
        other.partial_fit(X, y, keys=keys.astype(str))
        assert all_bytes(one) == all_bytes(other)
        assert one.feature_names_in_.tolist() == ["a", "b", "c"]
        turned = table[["c", "b", "sensor", "a"]]
        assert np.array_equal(
            one.predict_proba(turned), other.predict_proba(X, keys=keys.astype(str))
        )


def test_frames_may_have_categories():
    _, y, keys = keyed_stream(60, 4)
    table = pl.DataFrame({"sensor": keys, "colour": (["red", "blue", "green"] * 20)})
    estimator = AMFClassifier(categorical_features=["colour"], random_state=0)
    with KeyedForests(estimator, key="sensor", max_bytes=1) as forests:
        forests.partial_fit(table, y)
        expected = clone(estimator).set_params(random_state=forests.model(1).random_state)
        expected.partial_fit(table.filter(pl.col("sensor") == 1)[["colour"]], y[keys == 1])
        assert forests.model(1).to_bytes() == expected.to_bytes()


def test_sparse_rows_equal_dense_ones():
    X, y, keys = keyed_stream(60, 4)
    with KeyedForests(CLASSIFIER) as one, KeyedForests(CLASSIFIER) as other:
        one.partial_fit(csr_matrix(X), y, keys=keys)
        other.partial_fit(X, y, keys=keys)
        assert all_bytes(one) == all_bytes(other)


def test_rows_of_weight_0_create_no_model():
    X, y, _ = keyed_stream(3, 1)
    with KeyedForests(CLASSIFIER) as forests:
        forests.partial_fit(X, y, sample_weight=[1, 0, 2], keys=["a", "b", "a"])
        assert forests.keys() == ["a"]
        assert forests.model("a").n_samples_seen_ == 2


def test_classes_of_all_keys_have_columns():
    estimator = AMFClassifier(random_state=0)
    with KeyedForests(estimator) as forests:
        forests.partial_fit([[0.0], [1.0]], ["x", "y"], keys=["a", "b"])
        assert forests.classes_.tolist() == ["x", "y"]
        assert forests.predict_proba([[0.0], [0.0], [0.0]], keys=["b", "new", "a"]).tolist() == [
            [0, 1],
            [0.5, 0.5],
            [1, 0],
        ]
        later = forests.partial_fit_predict_proba([[0.0], [0.0]], ["z", "z"], keys=["a", "c"])
        assert later.tolist() == [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]]


def test_unseen_keys_are_predicted_as_documented():
    X, y, keys = keyed_stream(50, 5)
    with KeyedForests(CLASSIFIER) as forests:
        assert forests.predict_proba(X[:2], keys=["a", "b"]).tolist() == [[0.5, 0.5]] * 2
        assert forests.predict_proba_one(X[0], key="a").tolist() == [0.5, 0.5]
    with KeyedForests(AMFRegressor(random_state=0)) as numbers:
        numbers.partial_fit(X, y, keys=keys)
        assert np.isnan(numbers.predict(X[:1], keys=[-1])[0])
        assert np.isnan(numbers.predict_one(X[0], key=-1))
    with KeyedForests(CLASSIFIER, unseen="error") as strict:
        strict.partial_fit(X, y, keys=keys)
        with pytest.raises(KeyError, match="'new': keys that have no model"):
            strict.predict(X[:2], keys=["new", "new"])


def test_seeds_depend_on_the_key_alone():
    X, y, keys = keyed_stream(60, 6)
    with KeyedForests(CLASSIFIER) as one, KeyedForests(CLASSIFIER) as other:
        one.partial_fit(X, y, keys=keys)
        for key in reversed(one.keys()):
            other.partial_fit(X[keys == key], y[keys == key], keys=keys[keys == key])
        assert all_bytes(one) == all_bytes(other)
        present = one.keys()
        assert len({one.model(key).random_state for key in present}) == len(one)


def test_evaluation_takes_it_as_any_other_model():
    X, y, keys = keyed_stream(400, 4)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(sensor=keys)
    with KeyedForests(CLASSIFIER, key="sensor") as forests:
        progress = progressive_validation(forests, table, y)
    assert progress.metrics["accuracy"] > 0.8
    assert progress.n_rows == 400


def test_fit_forgets_all_models(tmp_path):
    X, y, keys = keyed_stream(60, 6)
    with KeyedForests(CLASSIFIER, directory=tmp_path / "models") as forests:
        forests.partial_fit(X, y, keys=keys + 100).save()
        forests.fit(X, y, keys=keys)
        assert set(forests.keys()) == set(keys.tolist())


ERRORS = {
    "keys is None; X is a ndarray": lambda f, X, y: f.partial_fit(X, y),
    "keys has 1 entries; X has 9": lambda f, X, y: f.partial_fit(X, y, keys=[1]),
    "y has 8 labels; X has 9": lambda f, X, y: f.partial_fit(X, y[1:], keys=y),
    "keys is missing in row 0": lambda f, X, y: f.partial_fit(X, y, keys=[None] * 9),
    "keys is 0.5 of type float": lambda f, X, y: f.partial_fit(X, y, keys=[0.5] * 9),
    "X has 2 features; the models have 3": lambda f, X, y: f.partial_fit(X[:, :2], y, keys=y),
    "y mixes text and numbers": lambda f, X, y: f.partial_fit(X, ["a"] * 9, keys=y),
    "X[0, 0] is": lambda f, X, y: f.partial_fit(X * 1e35, y, keys=y),
    "key is 'sensor', but X has no such column": lambda f, X, y: f.predict(pd.DataFrame(X)),
    "classes is [5, 6], but": lambda f, X, y: f.partial_fit(X, y, [5, 6], keys=y),
    "key is 'new', which has no model": lambda f, X, y: f.model("new"),
    "key is 1.5 of type float": lambda f, X, y: f.learn_one(X[0], 1, key=1.5),
    "directory is None": lambda f, X, y: f.save(),
}


@pytest.mark.parametrize("words", ERRORS)
def test_errors_name_the_argument_and_change_nothing(words):
    X, y, _ = keyed_stream(9, 1)
    with KeyedForests(CLASSIFIER, key="sensor") as forests:
        forests.partial_fit(X, y, keys=y)
        before = all_bytes(forests)
        with pytest.raises((ValueError, TypeError, KeyError), match=re.escape(words)):
            ERRORS[words](forests, X, y)
        assert all_bytes(forests) == before


def test_other_columns_are_refused():
    _, y, _ = keyed_stream(9, 1)
    with KeyedForests(CLASSIFIER) as forests:
        forests.partial_fit(pd.DataFrame({"key": y, "a": y, "b": y}), y)
        with pytest.raises(ValueError, match=r"\['b'\] missing, \['c'\] unexpected"):
            forests.predict(pd.DataFrame({"key": y, "a": y, "c": y}))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"max_bytes": 0}, "max_bytes"),
        ({"n_shards": 0}, "n_shards"),
        ({"key": 3}, "'key' parameter"),
        ({"unseen": "guess"}, "unseen"),
    ],
)
def test_parameters_are_validated(parameters, words):
    X, y, keys = keyed_stream(9, 1)
    with pytest.raises(ValueError, match=words):
        KeyedForests(CLASSIFIER, **parameters).partial_fit(X, y, keys=keys)


def test_methods_of_the_other_task_are_refused():
    with pytest.raises(AttributeError, match="estimator is a AMFRegressor, which predicts numbers"):
        KeyedForests(AMFRegressor()).predict_proba([[0.0]], keys=["a"])
    with pytest.raises(NotFittedError, match="call partial_fit"):
        KeyedForests(AMFRegressor()).predict([[0.0]], keys=["a"])


def test_an_error_in_a_model_names_its_key():
    estimator = AMFClassifier(partition="unrestricted", random_state=0)
    with (
        KeyedForests(estimator) as forests,
        pytest.raises(ValueError, match="must lie in") as caught,
    ):
        forests.partial_fit([[0.5], [3.0]], [0, 1], keys=["a", "b"])
    assert caught.value.__notes__ == ["This is about the rows of the key 'b'."]


def test_importing_does_not_import_ray():
    code = "import sys, amforest.distributed as d; d.KeyedForests; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_class_weight_and_threshold_are_those_of_the_estimator():
    X, y, keys = keyed_stream(120, 3, 0)
    options = {"class_weight": "balanced", "threshold": 0.1, "classes": [0, 1]}
    estimator = AMFClassifier(2, **options, random_state=0)
    expected = Dictionary(estimator)
    with KeyedForests(estimator) as forests:
        probabilities = forests.partial_fit_predict_proba(X, y, keys=keys)
        assert np.array_equal(probabilities, expected.test_then_train(X, y, keys))
        assert all_bytes(forests) == expected.to_bytes()
        is_one = forests.predict_proba(X, keys=keys)[:, 1] >= 0.1
        assert forests.predict(X, keys=keys).tolist() == is_one.astype(int).tolist()
        assert forests.predict_one(X[0], key=keys[0]) == int(is_one[0])


def test_the_signature_shows_the_parameters():
    names = list(inspect.signature(KeyedForests).parameters)
    assert names[:2] == ["estimator", "key"]
    assert set(names) == set(KeyedForests(AMFClassifier()).get_params(deep=False))
