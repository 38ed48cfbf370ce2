"""Where the features of a stream of dicts or frames are in the rows of the core."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Hashable, Iterable, Mapping
from math import isnan, nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from amforest._base import Floats

if TYPE_CHECKING:
    import pandas as pd

Features = Mapping[Hashable, Any]


class Columns:
    """Where each feature is in a row. Never changes: more features make another one."""

    def __init__(self, names: Iterable[Hashable] = ()) -> None:
        self.of = {name: column for column, name in enumerate(names)}
        self.width = _room(len(self.of))
        self._spare = (nan,) * (self.width - len(self.of))
        self._pack = struct.Struct(f"{self.width}d").pack
        # Of less than two names, itemgetter makes no tuple.
        self._get = itemgetter(*self.of) if len(self.of) > 1 else None

    def __reduce__(self) -> Any:
        return Columns, (list(self.of),)

    def joined_by(self, new: Mapping[Hashable, int]) -> Columns:
        """Add features by the row in which each has its first value, and then by their names.

        A dict's order means nothing to river, so it must not change the forest.
        """
        if not new:
            return self
        return Columns([*self.of, *sorted(_by_name(new), key=new.__getitem__)])

    def full_row(self, x: Features) -> Floats | None:
        """Convert x, the quick way, if it has all features, with numbers, and no others."""
        # Other kinds of dicts may make up, and even keep, a value for a feature that is absent.
        if len(x) != len(self.of) or self._get is None or type(x) is not dict:
            return None
        try:
            return np.frombuffer(self._pack(*self._get(x), *self._spare))
        except (KeyError, struct.error):
            return None

    def row(self, x: Features) -> Floats:
        """Convert x, whatever it has; features that are not known do not count."""
        if (row := self.full_row(x)) is not None:
            return row
        values = array("d", (nan,)) * self.width
        for name, value in x.items():
            if name in self.of:
                values[self.of[name]] = value if type(value) is float else _number(name, value)
        return np.frombuffer(values)

    def rows(self, X: pd.DataFrame) -> Floats:
        """Convert a frame; features that are not known do not count."""
        rows = np.full((len(X), self.width), nan)
        for name, values in X.items():
            if name in self.of:
                rows[:, self.of[name]] = _numbers(name, values)
        return rows


def new_in_row(x: Features, known: Columns) -> dict[Hashable, int]:
    new = {name: _number(name, value) for name, value in x.items() if name not in known.of}
    return {name: 0 for name, number in new.items() if not isnan(number)}


def new_in_frame(X: pd.DataFrame, known: Columns) -> dict[Hashable, int]:
    """Return the row of the first value of each feature that is not known."""
    new = {name: _numbers(name, values) for name, values in X.items() if name not in known.of}
    present = {name: np.flatnonzero(~np.isnan(numbers)) for name, numbers in new.items()}
    return {name: int(rows[0]) for name, rows in present.items() if len(rows)}


def _room(n_features: int) -> int:
    """Return how wide rows are: a multiple of 4, as in the core, and with room for ever more."""
    unit = max(4, (1 << n_features.bit_length()) // 8)
    return max(4, -(-n_features // unit) * unit)


def _by_name(names: Iterable[Hashable]) -> list[Any]:
    some: list[Any] = list(names)
    try:
        return sorted(some)
    except TypeError:  # 1 and "a" have no order
        return sorted(some, key=repr)


def _number(name: Hashable, value: Any) -> float:
    if value is None:
        return nan
    try:
        return float(array("d", (value,))[0])  # float alone would parse strings
    except TypeError as error:
        raise TypeError(
            f"feature {name!r} is {value!r}; it must be a number, or None if it is missing. "
            "Encode categories first, for example by river's preprocessing.OneHotEncoder"
        ) from error


def _numbers(name: Hashable, values: pd.Series) -> Floats:
    if values.dtype.kind not in "biuf":
        return np.array([_number(name, value) for value in values])
    numbers: Floats = values.to_numpy(dtype=np.float64, na_value=nan)
    return numbers
