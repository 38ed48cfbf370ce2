"""Errors about values that are not numbers, or too large: they name the argument and the value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest._forest.limits import LARGEST_FEATURE

ADVICE = {
    "Datetime": "convert times to numbers first",
    "Date": "convert dates to numbers first",
    "Time": "convert times to numbers first, such as seconds since midnight",
    "Duration": "convert durations to numbers first, such as seconds",
    "Struct": "make a column of each field first",
    "String": "name columns of categories in categorical_features",
    "Categorical": "name columns of categories in categorical_features",
    "Enum": "name columns of categories in categorical_features",
}


def refuse_others(values: NDArray[Any], name: str) -> None:
    """Refuse what is not a number: numpy would parse text, and convert times to nanoseconds."""
    kind = values.dtype.kind
    if kind in "mMV":
        advice = ADVICE[{"m": "Duration", "M": "Datetime", "V": "Struct"}[kind]]
        raise ValueError(f"{name} must hold numbers only, not {values.dtype}: {advice}")
    if kind not in "OSU":
        return
    text = next((value for value in values.flat if isinstance(value, str | bytes)), None)
    if text is not None:
        raise ValueError(
            f"{name} must hold numbers only: {str(text)!r} is text; {ADVICE['String']}"
        )


def too_large(i: int, j: int | str, value: float) -> str:
    """Return the message about a value of row i and column j."""
    return f"X[{i}, {j!r}] is {value}; features must be finite and lie within ±2**100 (about 1e30)"


@contextmanager
def large_values_named(X: Any) -> Iterator[None]:
    """Name the first value that is too large for float32, in scikit-learn's error about it."""
    try:
        yield
    except ValueError as error:
        if "X contains infinity" not in str(error) or not isinstance(X, np.ndarray) or X.ndim != 2:
            raise
        with np.errstate(invalid="ignore"):
            values = X.astype(np.float64)
            found = np.argwhere(np.abs(values) > LARGEST_FEATURE)
        i, j = found[0].tolist()
        raise ValueError(too_large(i, j, values[i, j])) from error


@contextmanager
def argument_named(argument: str) -> Iterator[None]:
    """Name the argument in numpy's errors of conversion."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not re.search("could not convert|real number|array element", str(error)):
            raise
        raise numbers_only(argument, error) from error


def numbers_only(argument: str, error: Exception) -> Exception:
    """Return an error that names the argument."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{argument} must hold numbers only: {error}")
