"""AMF as the authors ran it: their package onelearn 0.3.0, where it is installed."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_installed() -> bool:
    """Return whether onelearn can be imported; it takes half a minute."""
    return find_spec("onelearn") is not None


@cache
def _classifier() -> Any:
    """Import onelearn, which looks for a name that numpy 2 has moved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numeric = import_module("numpy.core.numeric")
        vars(numeric)["ComplexWarning"] = import_module("numpy.exceptions").ComplexWarning
        return import_module("onelearn").AMFClassifier


class Onelearn:
    """onelearn's classifier with the methods of ours; labels are 0, …, K - 1."""

    def __init__(self, n_classes: int, seed: int, n_trees: int) -> None:
        self._model = _classifier()(n_classes, n_estimators=n_trees, random_state=seed)
        self._n_classes = n_classes
        self._is_new = True

    def partial_fit(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> Onelearn:
        """Learn some rows."""
        self._model.partial_fit(X, y)
        self._is_new = False
        return self

    def predict_proba(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Predict some rows; before the first is learned, all classes alike."""
        if self._is_new:
            return np.full((len(X), self._n_classes), 1 / self._n_classes)
        return np.asarray(self._model.predict_proba(X), dtype=np.float64)

    def partial_fit_predict_proba(
        self, X: NDArray[np.float32], y: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Predict each row, then learn it."""
        predictions = np.empty((len(X), self._n_classes))
        for i in range(len(X)):
            predictions[i] = self.predict_proba(X[i : i + 1])[0]
            self.partial_fit(X[i : i + 1], y[i : i + 1])
        return predictions
