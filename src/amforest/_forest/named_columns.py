"""Where the features of a stream of dicts or frames are in the rows of the core."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from math import isnan, nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from amforest._forest.categories import Categories, Codes, Column, refuse_nan
from amforest._forest.features import Floats

if TYPE_CHECKING:
    import pandas as pd

Features = Mapping[Hashable, Any]
Wish = Collection[Hashable] | str | None  # the parameter categorical_features


class Columns:
    """Where each feature is in a row: categorical ones come first, then numbers.

    Never changes: more features, or categories, make another one.
    """

    def __init__(
        self, numbers: Iterable[Hashable] = (), categories: Mapping[Hashable, Codes] | None = None
    ) -> None:
        self.numbers = list(numbers)
        self.categorical = list(categories or ())
        self.categories = Categories((categories or {}).values())
        self.of = {name: column for column, name in enumerate([*self.categorical, *self.numbers])}
        self.n_numbers = _room(len(self.numbers))  # that a row has
        spare = self.n_numbers - len(self.numbers)
        self.width = len(self.categorical) + self.n_numbers
        self._spare = (nan,) * spare
        self._pack = struct.Struct(f"{self.width}d").pack
        # Of less than two names, itemgetter makes no tuple.
        self._get = itemgetter(*self.of) if len(self.of) > 1 else None

    def __reduce__(self) -> Any:
        return Columns, (self.numbers, self._codes())

    def joined_by_row(self, x: Features, wish: Wish) -> Columns:
        """Add what is new in a row.

        A dict's order means nothing to river, so it must not change the forest: new features are
        added by the row in which each has its first value, and then by their names.
        """
        new = {name: (0, value) for name, value in x.items() if name not in self.of}
        missing = [name for name, (_, value) in new.items() if _is_missing(name, value, wish)]
        for name in missing:
            del new[name]
        return self._joined(new, wish, lambda name: _one(name, x.get(name)))

    def joined_by_frame(self, X: pd.DataFrame, wish: Wish) -> Columns:
        """Add what is new in a frame."""
        new = {}
        for name in X.columns:
            if name not in self.of and len(rows := np.flatnonzero(X[name].notna())):
                new[name] = int(rows[0]), X[name].iloc[rows[0]]
        return self._joined(
            new,
            wish,
            lambda name: _many(X[name]) if name in X else Column("", 1, lambda _: [None]),
        )

    def full_row(self, x: Features) -> Floats | None:
        """Convert x, the quick way, if it has all features, of their kinds, and no others."""
        # Other kinds of dicts may make up, and even keep, a value for a feature that is absent.
        if len(x) != len(self.of) or self._get is None or type(x) is not dict:
            return None
        try:
            values = self._get(x)
            if self.categorical:
                values = self._encoded(values)
            return np.frombuffer(self._pack(*values, *self._spare))
        except (KeyError, TypeError, struct.error):
            return None

    def row(self, x: Features) -> Floats:
        """Convert x, whatever it has; features that are not known do not count."""
        if (row := self.full_row(x)) is not None:
            return row
        values = array("d", (nan,)) * self.width
        for name, value in x.items():
            column = self.of.get(name, -1)
            if column >= len(self.categorical):
                values[column] = value if type(value) is float else _number(name, value)
            elif column >= 0:
                values[column] = self.categories.encode_feature(column, _one(name, value))[0]
        return np.frombuffer(values)

    def rows(self, X: pd.DataFrame) -> Floats:
        """Convert a frame; features that are not known do not count."""
        rows = np.full((len(X), self.width), nan)
        for name, values in X.items():
            column = self.of.get(name, -1)
            if column >= len(self.categorical):
                rows[:, column] = _numbers(name, values)
            elif column >= 0:
                rows[:, column] = self.categories.encode_feature(column, _many(values))
        return rows

    def _joined(
        self,
        new: Mapping[Hashable, tuple[int, Any]],
        wish: Wish,
        column_of: Callable[[Hashable], Column],
    ) -> Columns:
        """Add features, of which the first row and value are given, and categories."""
        in_order = sorted(_by_name(new), key=lambda name: new[name][0])
        is_category = {name: _is_category(name, new[name][1], wish) for name in in_order}
        for name in in_order:
            if not is_category[name]:
                _number(name, new[name][1])
        numbers = [*self.numbers, *(name for name in in_order if not is_category[name])]
        categorical = [*self.categorical, *(name for name in in_order if is_category[name])]
        categories = self.categories.widened(len(categorical))
        joined = categories
        if categorical:
            joined = categories.joined_by([column_of(name) for name in categorical])
        if not new and joined is categories:
            return self
        return Columns(numbers, dict(zip(categorical, joined.codes, strict=True)))

    def _codes(self) -> dict[Hashable, Codes]:
        return dict(zip(self.categorical, self.categories.codes, strict=True))

    def _encoded(self, values: tuple[Any, ...]) -> list[Any]:
        """Replace categories by their codes; KeyError if one is not known."""
        known = self.categories.codes
        return [codes[value] for codes, value in zip(known, values, strict=False)] + [
            *values[len(known) :]
        ]


def _is_category(name: Hashable, value: Any, wish: Wish) -> bool:
    """Tell whether a feature is categorical, from its name or its first value."""
    if wish is None:
        return False
    return isinstance(value, str) if isinstance(wish, str) else name in wish


def _is_missing(name: Hashable, value: Any, wish: Wish) -> bool:
    if value is None:
        return True
    if _is_category(name, value, wish):
        refuse_nan(value, _called(name))
        return False
    return isnan(_number(name, value))


def _called(name: Hashable) -> str:
    return f"feature {name!r}"


def _one(name: Hashable, value: Any) -> Column:
    return Column(_called(name), 1, lambda _: [value])


def _many(values: pd.Series) -> Column:
    name, n_rows = _called(values.name), len(values)
    return Column(name, n_rows, lambda part: values.iloc[part].tolist(), nan_is_missing=True)


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
            f"{_called(name)} is {value!r}; it must be a number, or None if it is missing. "
            "Name features that hold categories in categorical_features"
        ) from error


def _numbers(name: Hashable, values: pd.Series) -> Floats:
    if values.dtype.kind not in "biuf":
        return np.array([_number(name, value) for value in values])
    numbers: Floats = values.to_numpy(dtype=np.float64, na_value=nan)
    return numbers
