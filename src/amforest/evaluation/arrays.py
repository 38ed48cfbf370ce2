"""Arrays of labels, weights and forecasts: names of their types, and checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


def as_list(labels: ArrayLike | Iterable[Any]) -> list[Any]:
    """Return labels as Python's own objects; lists of several kinds stay what they are."""
    if isinstance(labels, list | tuple):
        return [label.item() if isinstance(label, np.generic) else label for label in labels]
    values: list[Any] = np.asarray(labels).tolist()
    return values


def checked_weights(weights: Any, n_rows: int, name: str) -> Floats:
    """Return weights, one for each row, none below 0; `name` is what the error calls them."""
    values = np.asarray(weights, dtype=np.float64)
    check_shape(values, n_rows, (1,), name)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"{name} holds {values.min()}; weights must be finite and not negative")
    return values


def check_shape(values: NDArray[Any], n_rows: int, dimensions: Sequence[int], name: str) -> None:
    """Refuse what has not one entry for each row."""
    if values.ndim not in dimensions or len(values) != n_rows:
        raise ValueError(f"{name} has shape {values.shape}; there are {n_rows} rows")


def checked_probabilities(forecasts: ArrayLike, classes: Any) -> Floats:
    """Return probabilities, a column for each class, with 0 for NaN."""
    values = np.asarray(forecasts, dtype=np.float64)
    if classes is None or len(classes) != values.shape[1]:
        has = "None" if classes is None else f"{len(classes)} labels"
        raise ValueError(f"classes is {has}; forecasts has {values.shape[1]} columns to be named")
    values = np.where(np.isnan(values), 0.0, values)
    if values.size and not -1e-6 <= values.min() <= values.max() <= 1 + 1e-6:
        worst = values.flat[np.abs(values - 0.5).argmax()]
        raise ValueError(f"forecasts holds {worst}; probabilities lie between 0 and 1")
    return values
