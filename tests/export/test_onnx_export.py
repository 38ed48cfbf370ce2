"""Models of ONNX predict what the forest predicts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime

from amforest import AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.export import to_onnx
from exported_models import CASES, CLASSIFIERS, N_TRAIN, fitted, labels, stream


def run(onnx_model, X):
    """Return the outputs, by name."""
    session = onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = {value.name: value.type for value in session.get_inputs()}
    if list(inputs) == ["X"]:
        fed = {"X": np.asarray(X, dtype=np.float32)}
    else:
        columns = X.items() if isinstance(X, pd.DataFrame) else enumerate(np.asarray(X).T)
        given = dict(zip(inputs, (values for _, values in columns), strict=True))
        fed = {name: column(given[name], kind) for name, kind in inputs.items()}
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, fed), strict=True))


def column(values, kind):
    if kind == "tensor(string)":
        texts = ["" if pd.isna(value) else str(value) for value in values]
        return np.array(texts, dtype=object)[:, None]
    dtype = np.int64 if kind == "tensor(int64)" else np.float32
    return np.asarray(values, dtype=dtype)[:, None]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_onnx_has_the_predictions_of_the_forest(name, kind):
    model, X = fitted(name, kind)
    outputs = run(to_onnx(model), X)
    if name in CLASSIFIERS:
        probabilities = model.predict_proba(X)
        np.testing.assert_allclose(outputs["probabilities"], probabilities, rtol=0, atol=2e-7)
        assert outputs["label"].tolist() == model.predict(X).tolist()
        assert outputs["probabilities"].dtype == np.float32
    else:
        expected = model.predict(X)
        np.testing.assert_allclose(outputs["variable"][:, 0], expected, rtol=1e-12, atol=1e-12)


def test_a_frozen_copy_gives_the_same_model():
    model, _ = fitted("AdaptiveAMFClassifier", "categories")
    frozen = to_onnx(model.freeze())
    assert frozen.SerializeToString() == to_onnx(model).SerializeToString()


@pytest.mark.parametrize("cls", [AMFRegressor, AdaptiveAMFRegressor])
def test_an_offset_of_the_labels_costs_no_accuracy(cls):
    X, y = stream("gaps")
    model = cls(n_estimators=2, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN] + 1e8)
    found = run(to_onnx(model), X)["variable"][:, 0]
    np.testing.assert_allclose(found, model.predict(X), rtol=0, atol=1e-6)


def test_the_threshold_of_a_classifier_is_kept():
    X, y = stream("numbers")
    model = AMFClassifier(threshold=0.2, random_state=0).fit(X, y > 1)
    outputs = run(to_onnx(model), X)
    assert outputs["label"].tolist() == model.predict(X).tolist()
    assert outputs["label"].sum() > (outputs["probabilities"][:, 1] > 0.5).sum()


@pytest.mark.parametrize("dtype", [np.int64, np.float64, object])
def test_categories_may_be_numbers(dtype):
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=300)
    X = np.stack([codes, rng.normal(size=300)], axis=1)
    if dtype is object:
        X = X.astype(object)
        X[:, 0] = codes.tolist()
    model = AMFClassifier(categorical_features=[0], random_state=0)
    model.fit(X.astype(dtype), codes % 2)
    tested = X.astype(dtype)
    tested[:9, 0] = 77  # unknown
    onnx_model = to_onnx(model)
    assert [value.name for value in onnx_model.graph.input] == ["X0", "X1"]
    found = run(onnx_model, tested)["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(tested), rtol=0, atol=2e-7)


def test_labels_keep_their_kind():
    X, y = stream("numbers")
    for classes in (y > 0, (y > 0).astype(int), np.where(y > 0, 2.5, -1.0) * 2, labels("A", y)):
        model = AMFClassifier(1, random_state=0).fit(X, classes)
        found = run(to_onnx(model), X)["label"]
        assert found.tolist() == model.predict(X).tolist()


def test_the_model_tells_its_opset_and_its_features():
    model, _ = fitted("AMFClassifier", "categories")
    onnx_model = to_onnx(model)
    opsets = {opset.domain: opset.version for opset in onnx_model.opset_import}
    assert opsets == {"": 17, "ai.onnx.ml": 3}
    metadata = {entry.key: entry.value for entry in onnx_model.metadata_props}
    assert json.loads(metadata["features"]) == ["a", "colour", "b", "shop"]
    assert metadata["model"] == "AMFClassifier"


def test_models_of_river_have_an_input_for_each_name():
    river = pytest.importorskip("amforest.river")
    X, y = stream("categories", 200)
    model = river.AdaptiveAMFRegressor(n_estimators=1, seed=1)
    for x, label in zip(X.to_dict("records"), y, strict=True):
        model.learn_one({k: None if pd.isna(v) else v for k, v in x.items()}, label)
    onnx_model = to_onnx(model)
    names = [value.name for value in onnx_model.graph.input]
    assert names == ["colour", "shop", "a", "b"]
    found = run(onnx_model, X[names])["variable"][:, 0]
    rows = X.astype(object).where(X.notna(), None).to_dict("records")
    np.testing.assert_allclose(found, [model.predict_one(x) for x in rows], rtol=1e-12)


def test_what_onnx_cannot_express_is_refused():
    mixed = np.array([["a", 1.0], [3, 2.0], ["b", 3.0]] * 5, dtype=object)
    model = AMFClassifier(categorical_features=[0], random_state=0).fit(mixed, [0, 1, 0] * 5)
    with pytest.raises(ValueError, match=r"categories of X0 are of the types \['int', 'str'\]"):
        to_onnx(model)
    extending = AMFClassifier(predict_extends=True).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="fit a forest with predict_extends=False"):
        to_onnx(extending)
    with pytest.raises(TypeError, match="must be a fitted forest, or a frozen copy"):
        to_onnx("model")
