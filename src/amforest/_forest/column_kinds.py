"""What the columns of the first X hold, and which features they become.

Text is a category unless it is nearly unique, a date becomes its parts, all else is a number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._missing import is_pandas_na

from amforest._forest.caller import caller_level
from amforest._forest.categories import select_columns
from amforest._forest.date_parts import (
    OF_DATES,
    OF_TIMES,
    as_times,
    has_time_of_day,
    is_date,
    split_dates,
)
from amforest._forest.unique_text import is_nearly_unique

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.series import Series

AUTO = "auto"  # the value of categorical_features
NUMBER, CATEGORY, TEXT, DATE, TIME = "number", "category", "text", "date", "time"
MOST_LISTED = 8  # names in a message
AS_IT_IS: tuple[str, ...] = ("",)
DROPPED: tuple[str, ...] = ()
_PARTS = {DATE: OF_DATES, TIME: OF_TIMES}
_OF_DTYPE = {"Categorical": CATEGORY, "Enum": CATEGORY, "String": TEXT, "Date": DATE}
_OF_DTYPE |= {"Datetime": TIME}

Count = Callable[[int], tuple[int, int]]  # a column's distinct and its known values


class UnusedColumnWarning(UserWarning):
    """X has columns that the forest does not use."""


@dataclass(frozen=True, eq=False)
class GivenColumns:
    """The columns of the first X, where some of them are not features themselves."""

    names: NDArray[Any] | None
    parts: tuple[tuple[str, ...], ...]  # of each column, the suffixes of its features' names

    @property
    def sources(self) -> list[int]:
        """The column of each feature."""
        return [j for j, parts in enumerate(self.parts) for _ in parts]

    def feature_names(self) -> NDArray[Any] | None:
        """Return the names of the features."""
        if self.names is None:
            return None
        features = [
            name + part
            for name, parts in zip(self.names, self.parts, strict=True)
            for part in parts
        ]
        return np.array(features, dtype=object)

    def expand(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the features of an array of any values."""
        columns: list[Any] = []
        for j, parts in enumerate(self.parts):
            if parts == AS_IT_IS:
                columns.append(values[:, j])
            elif parts:
                columns += date_columns(
                    values[:, j].tolist(), parts, f"X's column {self.name(j)!r}"
                )
        expanded = np.empty((len(values), len(columns)), dtype=object)
        for k, column in enumerate(columns):
            expanded[:, k] = column
        return expanded

    def name(self, j: int) -> Any:
        """Return a column's name, or else its index."""
        return j if self.names is None else self.names[j]


@dataclass(frozen=True, eq=False)
class Schema:
    """The features of X: which hold categories, and their names if they have names."""

    is_categorical: NDArray[np.bool_]
    names: NDArray[Any] | None = None
    columns: GivenColumns | None = None  # None: the features are the columns of X

    @classmethod
    def read(cls, kinds: Sequence[str], requested: Any, names: Any, count: Count) -> Schema:
        """Apply the parameter `categorical_features` to the columns of the first X."""
        selected = (CATEGORY, TEXT) if is_auto(requested) else (CATEGORY,)
        is_categorical = select_columns(requested, names, np.isin(kinds, selected))
        parts = [AS_IT_IS] * len(kinds)
        for j, kind in enumerate(kinds):
            if kind in _PARTS and splits_dates(requested) and not is_categorical[j]:
                parts[j] = _PARTS[kind]
            elif kind == TEXT and is_auto(requested) and is_nearly_unique(*count(j)):
                parts[j] = DROPPED
        if not any(parts):  # nothing else is left to learn from
            parts = [AS_IT_IS] * len(kinds)
        if all(part == AS_IT_IS for part in parts):
            return cls(is_categorical, names)
        columns = GivenColumns(names, tuple(parts))
        _refuse_twins(features := columns.feature_names())
        return cls(is_categorical[columns.sources], features, columns)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.is_categorical)

    @property
    def n_columns(self) -> int:
        """The number of columns of X."""
        return self.n_features if self.columns is None else len(self.columns.parts)

    @property
    def column_names(self) -> NDArray[Any] | None:
        """The names of the columns of X, if they have names."""
        return self.names if self.columns is None else self.columns.names

    @property
    def dropped(self) -> list[int]:
        """The columns of X that are not features."""
        return (
            [] if self.columns is None else [j for j, p in enumerate(self.columns.parts) if not p]
        )

    @property
    def number_columns(self) -> list[Any]:
        """The names of the features that hold numbers, or else the columns of X they are from."""
        features = np.flatnonzero(~self.is_categorical).tolist()
        if self.names is not None:
            return [self.names[j] for j in features]
        return features if self.columns is None else [self.columns.sources[j] for j in features]

    def categorical_columns(self) -> Iterator[tuple[int, str]]:
        """Yield the indices of the features that hold categories, and their names in errors."""
        for j in np.flatnonzero(self.is_categorical).tolist():
            column = j if self.columns is None else self.columns.sources[j]
            yield j, f"X's column {column if self.names is None else self.names[j]!r}"

    def warn_of_dropped(self) -> None:
        """Name the columns of text that are dropped, and how to keep them."""
        if not (dropped := self.dropped) or self.columns is None:
            return
        sources = {self.columns.sources[j] for j in np.flatnonzero(self.is_categorical).tolist()}
        keep = [self.columns.name(j) for j in sorted({*sources, *dropped})]
        columns = "columns" if len(dropped) > 1 else "column"
        names = list_names([self.columns.name(j) for j in dropped])
        warnings.warn(
            f"X's {columns} {names} dropped: almost all values of this text differ, as those of an "
            f"ID do. To keep it as categories, set categorical_features={keep!r}; if it holds "
            "numbers, convert it to numbers first",
            UnusedColumnWarning,
            stacklevel=caller_level(),
        )


def is_auto(requested: Any) -> bool:
    """Return whether the kinds of columns follow from their values."""
    return isinstance(requested, str) and requested == AUTO


def splits_dates(requested: Any) -> bool:
    """Return whether dates become numbers; otherwise they are an error."""
    return requested is not None and (is_auto(requested) or not isinstance(requested, str))


def frame_kinds(frame: nw.DataFrame[Any]) -> list[str]:
    """Return what each column of a frame holds."""
    kinds = []
    for name, dtype in frame.schema.items():
        kind = type(dtype).__name__
        is_any = kind == "Object" or holds_objects(frame.get_column(name))
        kinds.append(
            kind_of(frame.get_column(name).to_list()) if is_any else _OF_DTYPE.get(kind, NUMBER)
        )
    return kinds


def holds_objects(column: Series[Any]) -> bool:
    """Return whether a column holds pandas' objects: narwhals guesses a type from their values.

    It regards them as text if all of them are missing.
    """
    return column.implementation.is_pandas_like() and bool(column.to_native().dtype == object)


def kind_of(values: Iterable[Any]) -> str:
    """Return what Python's values are, if all are of one kind; else they may be numbers."""
    known = [value for value in values if not is_missing(value)]
    if known and all(isinstance(value, str) for value in known):
        return TEXT
    if known and all(map(is_date, known)):
        return TIME if any(map(has_time_of_day, known)) else DATE
    return NUMBER


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if isinstance(value, float | date | np.generic):
        return bool(value != value)  # noqa: PLR0124
    return value is None or is_pandas_na(value)


def date_columns(values: list[Any], parts: tuple[str, ...], name: str) -> list[NDArray[Any]]:
    """Return the parts of Python's dates."""
    bad = [value for value in values if not is_missing(value) and not is_date(value)]
    if bad:
        raise ValueError(f"{name} holds {bad[0]!r}; it must hold dates, as in the first X")
    return select_parts(as_times(values), parts)


def select_parts(times: NDArray[Any], parts: tuple[str, ...]) -> list[NDArray[Any]]:
    """Return some of the numbers of dates."""
    numbers = split_dates(times, has_time=parts == OF_TIMES)
    return [numbers[part] for part in parts]


def list_names(names: Sequence[Any]) -> str:
    """Return names for a message."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(map(repr, names[:MOST_LISTED])) + more


def _refuse_twins(features: NDArray[Any] | None) -> None:
    if features is None or len(set(features)) == len(features):
        return
    twin = next(name for name in features if (features == name).sum() > 1)
    raise ValueError(
        f"X has a column {twin!r}, and a date whose part has this name: rename one of them"
    )
