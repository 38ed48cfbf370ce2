"""Errors about values that are not numbers, or too large: they name the argument and the value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from reprlib import Repr
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amforest._forest.column_kinds import is_missing
from amforest._forest.limits import LARGEST_FEATURE

ADVICE = {
    "Datetime": "convert times to numbers first",
    "Date": "convert dates to numbers first",
    "Time": "convert times to numbers first, such as seconds since midnight",
    "Duration": "convert durations to numbers first, such as seconds",
    "Struct": "make a column of each field first",
    "List": "make a column of each element first",
    "Array": "make a column of each element first",
    "Binary": "decode bytes to text first",
    "Int128": "convert integers of 128 bits to floats first",
    "UInt128": "convert integers of 128 bits to floats first",
    "String": "name columns of categories in categorical_features",
    "Categorical": "name columns of categories in categorical_features",
    "Enum": "name columns of categories in categorical_features",
    "Other": "convert it to a number first, or name its column in categorical_features",
}
_SHORT = Repr()
_SHORT.maxother = _SHORT.maxstring = 60
TIMES = ("Datetime", "Date", "Time", "Duration")
_OF_TYPES: tuple[tuple[tuple[type, ...], str, str], ...] = (
    ((str,), "String", "text"),
    ((bytes,), "Binary", "of type bytes"),
    ((datetime, np.datetime64), "Datetime", "a time"),
    ((date,), "Date", "a date"),
    ((time,), "Time", "a time of day"),
    ((timedelta, np.timedelta64), "Duration", "a duration"),
    ((dict,), "Struct", "a dict"),
    ((list, tuple, np.ndarray), "List", "a sequence"),
)


class Other(NamedTuple):
    """A value that is not a number."""

    place: int  # in the flattened array
    kind: str  # for which there is advice
    claim: str  # what the value is, for a message


def find_others(values: NDArray[Any]) -> Iterator[Other]:
    """Yield the first value of each type that is not a number."""
    seen: set[type] = set()
    for i, value in enumerate(values.flat):
        if type(value) in seen or is_missing(value):
            continue
        seen.add(type(value))
        kind, words = _describe(value)
        if kind:
            plain = str(value) if isinstance(value, str) else value
            yield Other(i, kind, f"{_SHORT.repr(plain)} is {words}")


def refuse_others(
    values: NDArray[Any],
    name: str,
    columns: Sequence[Any] | None = None,
    advise: Callable[[str], str] = ADVICE.__getitem__,
) -> None:
    """Refuse what is not a number: numpy would parse text, and convert times to nanoseconds.

    `columns` are the names of the columns of a table; None means their indices.
    """
    kind = values.dtype.kind
    if kind in "mMV":
        advice = advise({"m": "Duration", "M": "Datetime", "V": "Struct"}[kind])
        raise ValueError(f"{name} must hold numbers only, not {values.dtype}: {advice}")
    if kind not in "OSU" or (other := next(find_others(values), None)) is None:
        return
    if values.ndim == 2:
        j = other.place % values.shape[1]
        name = f"{name}'s column {(j if columns is None else columns[j])!r}"
    message = f"{name} must hold numbers only: {other.claim}; {advise(other.kind)}"
    try:
        values.flat[other.place : other.place + 1].astype(np.float64)
    except TypeError as error:  # scikit-learn's estimator checks require these words
        raise TypeError(f"{message} ({error})") from error
    except ValueError as error:
        raise ValueError(message) from error
    raise ValueError(message)


def refuse_times(values: NDArray[Any], name: str) -> None:
    """Refuse times and durations, which numpy would convert to counts of some unit."""
    if values.dtype.kind in "mM":
        refuse_others(values, name)
    if values.dtype.kind == "O":
        for other in find_others(values):
            if other.kind in TIMES:
                raise ValueError(
                    f"{name} must hold numbers only: {other.claim}; {ADVICE[other.kind]}"
                )


def too_large(i: int, j: int | str, value: float) -> str:
    """Return the message about a value of row i and column j."""
    return f"X[{i}, {j!r}] is {value}; features must be finite and lie within ±2**100 (about 1e30)"


def name_column(error: ValueError, columns: Sequence[Any]) -> None:
    """Write the name of a column in place of its index in the core's message about a value."""
    found = re.match(r"([Xx]\[(?:\d+, )?)(\d+)(\] is )", str(error))
    if found is not None:
        name = columns[int(found[2])]
        error.args = (f"{found[1]}{name!r}{found[3]}{str(error)[found.end() :]}",)


def _describe(value: Any) -> tuple[str, str]:
    """Return which kind a value is of, and the words for it; empty if it is a number."""
    for types, kind, words in _OF_TYPES:
        if isinstance(value, types):
            return kind, words
    if hasattr(value, "__float__") or hasattr(value, "__index__"):
        return "", ""
    return "Other", f"of type {type(value).__name__}"


@contextmanager
def large_values_named(X: Any, columns: Sequence[Any] | None = None) -> Iterator[None]:
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
        column = j if columns is None else columns[j]
        raise ValueError(too_large(i, column, values[i, j])) from error


@contextmanager
def argument_named(argument: str) -> Iterator[None]:
    """Name the argument in errors of numpy and scikit-learn that do not."""
    try:
        yield
    except OverflowError as error:
        raise integer_too_large(argument, error) from error
    except (TypeError, ValueError) as error:
        if str(error).startswith("Found array with 0 sample"):
            raise ValueError(f"{argument} has no rows. {error}") from error
        if not re.search("could not convert|real number|array element", str(error)):
            raise
        raise numbers_only(argument, error) from error


def integer_too_large(name: str, error: OverflowError) -> ValueError:
    """Return an error that names what holds an integer that no float can hold."""
    return ValueError(f"{name} holds an integer that is too large, so scale it down: {error}")


def numbers_only(argument: str, error: Exception) -> Exception:
    """Return an error that names the argument."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{argument} must hold numbers only: {error}")
