"""Streams with keys, and what a dictionary of models does with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from amforest import AMFClassifier
from amforest.distributed.key_rows import seed_of
from amforest.model_io import to_bytes

CLASSIFIER = AMFClassifier(n_estimators=2, classes=[0, 1], random_state=7)


def keyed_stream(n_rows: int, n_keys: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return features, labels and keys, few of which are frequent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    keys = (n_keys * rng.uniform(size=n_rows) ** 3).astype(int)
    return X, ((X[:, 0] > 0) ^ (keys % 2 == 0)).astype(int), keys


class Dictionary:
    """A model for each key, in a dictionary."""

    def __init__(self, estimator: Any) -> None:
        self.estimator, self.models = estimator, {}

    def test_then_train(self, X: Any, y: Any, keys: Any) -> Any:
        """Predict each row, then learn it, one by one."""
        name = "partial_fit_predict" + "_proba" * is_classifier(self.estimator)
        return np.concatenate(
            [
                getattr(self.model(key), name)(X[i : i + 1], y[i : i + 1])
                for i, key in enumerate(keys.tolist())
            ]
        )

    def model(self, key: Any) -> Any:
        if key not in self.models:
            seed = seed_of(self.estimator.random_state, key)
            self.models[key] = clone(self.estimator).set_params(random_state=seed)
        return self.models[key]

    def to_bytes(self) -> dict[Any, bytes]:
        return {key: to_bytes(model) for key, model in self.models.items()}


def all_bytes(forests: Any) -> dict[Any, bytes]:
    """Return the models of `KeyedForests`, as bytes."""
    keys = forests.keys()
    return {key: to_bytes(forests.model(key)) for key in keys}
