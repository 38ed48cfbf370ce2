"""Labels as they were given: arrays, lists, series and frames become arrays of their own type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from amforest._forest.column_kinds import is_missing
from amforest._forest.data_frames import as_frame
from amforest._forest.limits import LARGEST_LABEL


def as_labels(y: Any) -> Any:
    """Return labels as an array; refuse those that are masked, missing or NaN, and name the first.

    numpy keeps the integers and bools of nullable types, which scikit-learn converts to floats.
    """
    if y is None or issparse(y):
        return y
    if isinstance(y, np.ma.MaskedArray):
        _refuse_missing(np.ma.getmaskarray(y), np.full(y.shape, "masked"))
        y = y.data
    labels = _as_array(y)
    # In an array of text, numpy would write NaN and None as text, too.
    values = np.asarray(y, dtype=object) if labels.dtype.kind == "U" and y is not labels else labels
    _refuse_missing(_find_missing(values), values)
    return labels


def check_numbers(labels: NDArray[Any]) -> None:
    """Refuse labels of a regressor that are missing, infinite or too large; name the first."""
    _refuse_missing(np.isnan(labels), labels)
    if (is_bad := ~(np.abs(labels) <= LARGEST_LABEL)).any():
        row, largest = int(is_bad.argmax()), f"{LARGEST_LABEL:g}".replace("+", "")
        raise ValueError(
            f"y[{row}] is {labels[row]}; labels must be finite and lie within ±{largest}: "
            "drop this row, or scale the labels down"
        )


def _as_array(y: Any) -> NDArray[Any]:
    if (frame := as_frame(y)) is not None:
        return np.column_stack([np.asarray(c.to_native()) for c in frame.iter_columns()])
    try:
        return np.asarray(y)
    except ValueError as error:
        raise ValueError(f"y must have one label for each row: {error}") from error


def _find_missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind == "O":
        return np.array([is_missing(label) for label in labels.flat], dtype=bool)
    is_absent: NDArray[np.bool_] = labels != labels  # noqa: PLR0124  # NaN and NaT
    return is_absent


def _refuse_missing(is_absent: NDArray[np.bool_], values: NDArray[Any]) -> None:
    if is_absent.any():
        row = int(is_absent.argmax())
        raise ValueError(
            f"y[{row}] is {values.flat[row]}; each row needs a label: drop the rows that have none"
        )


def word_label_error(error: Exception, y: Any) -> None:
    """Say which label is wrong in the core's error about labels of a regressor."""
    if str(error).startswith("y must be finite"):
        try:
            check_numbers(np.asarray(y, dtype=np.float64))
        except ValueError as better:
            error.args = better.args
