"""The document of `to_json` is all that a reader in another language needs."""

from __future__ import annotations

import json

import json_predictor
import numpy as np
import pandas as pd
import pytest

from amforest import AMFClassifier
from amforest.export import to_json
from exported_models import CASES, CLASSIFIERS, fitted, predict


def plain_rows(X):
    values = X.to_numpy() if isinstance(X, pd.DataFrame) else X
    # The forest has numbers as float32.
    return [
        [
            value
            if isinstance(value, str)
            else None
            if pd.isna(value)
            else float(np.float32(value))
            for value in row
        ]
        for row in values.tolist()
    ]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_plain_python_predicts_from_the_document(name, kind):
    model, X = fitted(name, kind)
    document = json.loads(json.dumps(to_json(model), allow_nan=False))
    found = [json_predictor.predict(document, x) for x in plain_rows(X)]
    expected = predict(model, X)
    expected = expected if name in CLASSIFIERS else expected[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    if name in CLASSIFIERS:
        assert document["classes"] == model.classes_.tolist()


def test_weights_of_leaves_are_those_of_the_rows():
    model, _ = fitted("AMFClassifier", "numbers")
    for nodes in to_json(model)["trees"]:
        assert sum(node.get("weight", 0) for node in nodes) == model.n_samples_seen_


def test_categories_that_json_does_not_have_are_refused():
    X = np.array([[(1, 2), 1.0], [(3, 4), 2.0], [None, 3.0]] * 3, dtype=object)
    model = AMFClassifier(categorical_features=[0], random_state=0).fit(X, [0, 1, 0] * 3)
    with pytest.raises(ValueError, match=r"a category is \(1, 2\), which is not a value of JSON"):
        to_json(model)
