"""Streams and fitted forests of all kinds, and the rows that exports and frozen copies predict."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
)

N_TRAIN, N_TEST = 600, 150
CLASSIFIERS = {"AMFClassifier": AMFClassifier, "AdaptiveAMFClassifier": AdaptiveAMFClassifier}
REGRESSORS = {"AMFRegressor": AMFRegressor, "AdaptiveAMFRegressor": AdaptiveAMFRegressor}
MODELS = CLASSIFIERS | REGRESSORS
STREAMS = ("numbers", "gaps", "categories")
CASES = [(name, stream) for name in MODELS for stream in STREAMS]


def stream(kind: str, n_rows: int = N_TRAIN + N_TEST) -> tuple[Any, Any]:
    """Return features, and a number that depends on them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=n_rows)
    if kind == "numbers":
        return X, y
    if kind == "gaps":
        X[rng.uniform(size=X.shape) < 0.15] = np.nan
        return X, y
    colours = rng.choice(["red", "green", "blue", "grey"], size=n_rows, p=[0.4, 0.3, 0.2, 0.1])
    frame = pd.DataFrame(
        {
            "a": X[:, 0],
            "colour": colours,
            "b": X[:, 1],
            "shop": rng.choice([f"s{k}" for k in range(30)], size=n_rows),
        }
    )
    frame.loc[rng.uniform(size=n_rows) < 0.1, "colour"] = None
    frame.loc[rng.uniform(size=n_rows) < 0.1, "a"] = np.nan
    frame.loc[n_rows - 5 :, "shop"] = "never seen"
    return frame, y + 2 * (colours == "red")


def labels(name: str, y: Any) -> Any:
    """Return three classes of text for classifiers."""
    return y if name in REGRESSORS else np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 1])]


def first_and_rest(X: Any) -> tuple[Any, Any]:
    return X[:N_TRAIN], X[N_TRAIN:]


@cache
def fitted(name: str, kind: str) -> tuple[Any, Any]:
    """Return a forest that has learned the beginning of a stream, and the rows behind it."""
    X, y = stream(kind)
    learned, rest = first_and_rest(X)
    size = {"n_estimators": 3, "memories": (None, 100)} if name.startswith("Ad") else {}
    options: dict[str, Any] = {"max_categories": 12} if kind == "categories" else {}
    model = MODELS[name](random_state=0, **size, **options)
    return model.fit(learned, labels(name, y)[:N_TRAIN]), rest


def predict(model: Any, X: Any) -> Any:
    """Return probabilities, or numbers."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
