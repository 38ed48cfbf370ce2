"""Model files of frozen copies: whatever they hold, loading gives a valid copy or an error."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from amforest.model_io import ModelFormatError, from_bytes
from amforest.model_io.model_file import open_file, sealed_pieces
from exported_models import MODELS, fitted, predict


def parts(name):
    return open_file(fitted(name, "categories")[0].freeze().to_bytes())


def load(document, arrays):
    return from_bytes(b"".join(sealed_pieces(document, arrays)))


def changed_values(array, rng):
    """Return the array with one entry changed, in several ways."""
    for value in (0, 1, -1, 2**31 - 1, np.nan, np.inf, -1e300):
        if array.dtype.kind == "f" or (np.isfinite(value) and abs(value) <= 2**31):
            other = array.copy()
            with np.errstate(over="ignore"):
                as_typed = np.array(value).astype(array.dtype)
            other[tuple(rng.integers(n) for n in array.shape)] = as_typed
            yield other


@pytest.mark.parametrize("name", MODELS)
def test_changed_arrays_give_an_error_or_a_copy_that_predicts(name):
    document, arrays = parts(name)
    X, rng = fitted(name, "categories")[1][:40], np.random.default_rng(0)
    n_refused = 0
    for key, array in arrays.items():
        shorter = [array[:-1], array[:0]] if len(array) else []
        others = [*changed_values(array, rng), *shorter] if array.size else []
        for other in [*others, array.astype(np.uint16 if array.dtype != np.uint16 else np.int8)]:
            try:
                model = load(document, {**arrays, key: np.ascontiguousarray(other)})
            except ModelFormatError:
                n_refused += 1
            else:
                assert not np.isnan(predict(model, X)).any()
    assert n_refused > 3 * len(arrays)


@pytest.mark.parametrize("name", ["AMFClassifier", "AdaptiveAMFRegressor"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_outputs", 0),
        ("n_outputs", 7),
        ("n_samples", 0),
        ("n_samples", -1),
        ("n_numbers", 3),
        ("n_numbers", 2**40),
        ("categories", [1]),
        ("categories", None),
        ("more", 1),
    ],
)
def test_changed_documents_are_refused(name, key, value):
    document, arrays = parts(name)
    document = copy.deepcopy(document)
    document["forest"]["core"][key] = value
    with pytest.raises(ModelFormatError, match="this is not a model of amforest"):
        load(document, arrays)


def test_a_live_model_and_a_frozen_copy_are_no_substitutes():
    frozen, arrays = parts("AMFClassifier")
    with pytest.raises(ModelFormatError, match="not a model"):
        load({**frozen, "model": "AMFClassifier"}, arrays)
    for other in ("AdaptiveAMFClassifier", "AMFRegressor", "AdaptiveAMFRegressor", "river.AMF"):
        with pytest.raises(ModelFormatError, match="not a model"):
            load({**frozen, "model": f"frozen.{other}"}, arrays)
    live, of_live = open_file(fitted("AMFClassifier", "categories")[0].to_bytes())
    with pytest.raises(ModelFormatError, match="not a model"):
        load({**live, "model": "frozen.AMFClassifier"}, of_live)
    unfitted = {**frozen, "forest": {**frozen["forest"], "fitted": None, "core": None}}
    with pytest.raises(ModelFormatError, match="the model is not frozen"):
        load(unfitted, {})


@pytest.mark.parametrize("name", ["AMFClassifier", "AdaptiveAMFRegressor", "AMFRegressor"])
def test_values_that_no_forest_predicts_are_refused(name):
    document, arrays = parts(name)
    values = arrays["values"].copy()
    values[0] = -1e-3 if name != "AMFRegressor" else 1e200
    with pytest.raises(ModelFormatError, match="values must"):
        load(document, {**arrays, "values": values})


def test_a_small_file_does_not_take_the_memory_of_a_large_mixer():
    document, arrays = parts("AdaptiveAMFRegressor")
    document, n_groups = copy.deepcopy(document), 60_000
    core = document["forest"]["core"]
    core["n_groups"], core["n_estimators"] = n_groups, 1
    leaves = {
        "feature": np.full(n_groups, -1, np.int32),
        "threshold": np.empty(0, np.float32),
        "missing": np.empty(0, np.uint8),
        "weight": np.ones(n_groups, np.float32),
        "values": np.ones((n_groups, 2)),
        "numbers": np.ones((n_groups, arrays["numbers"].shape[1]), np.float32),
        "mixer_weights": np.zeros(n_groups + 4),
        "base_intercepts": np.zeros(n_groups),
        "base_sizes": np.zeros(n_groups, np.uint64),
        "base_columns": np.empty(0, np.uint32),
        "base_terms": np.empty((0, 4)),
    }
    with pytest.raises(ModelFormatError, match="mixer_state must be that of a mixer"):
        load(document, {**arrays, **leaves})


def test_columns_of_a_river_model_must_fit_the_splits():
    river = pytest.importorskip("amforest.river")
    model = river.AdaptiveAMFRegressor(n_estimators=1, seed=0)
    for k in range(50):
        model.learn_one({"a": k % 7, "b": k % 5}, k % 7)
    document, arrays = open_file(model.freeze().to_bytes())
    assert load(document, arrays).predict_one({"a": 3, "b": 1}) == model.predict_one(
        {"a": 3, "b": 1}
    )
    feature = np.where(arrays["feature"] >= 0, 3, arrays["feature"]).astype(np.int32)
    with pytest.raises(ModelFormatError, match="a split is on a column that does not exist"):
        load(document, {**arrays, "feature": feature})
