"""Categories and their codes, and sets of categories as the core's bits.

Codes are given in the order in which categories appear: 0, 1, 2, … Of a feature with more than
`max_categories`, all later ones share one more code, that of OTHERS, and are not stored. Codes do
not depend on how the stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, repeat
from math import isnan, nan
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._missing import is_pandas_na

from amforest._forest.limits import MOST_CATEGORIES

UNKNOWN = -1.0  # the code of a category that was never learned
ROWS_AT_ONCE = 8192  # whose values are listed together: Python's objects take much memory
LEAST_AT_ONCE, LARGEST_AT_ONCE = 64, 4096  # numbers that are looked up together, and their range
HASHABLE = frozenset({str, int, float, bool, NoneType})  # types whose values can be looked up

Codes = dict[Hashable, float]  # by category; the code of None, which is missing, is NaN
Words = NDArray[np.uint32]


class Others(Enum):
    """What stands for all categories without a code of their own, once there is one."""

    OTHERS = "<others>"

    def __str__(self) -> str:
        return self.value

    __repr__ = __str__


OTHERS = Others.OTHERS


@dataclass(frozen=True)
class Column:
    """Values of one feature, listed on demand; None and pandas' NA are missing."""

    name: str  # in error messages
    n_rows: int
    values: Callable[[slice], Sequence[Any]]  # of some rows
    nan_is_missing: bool = False  # otherwise NaN is an error
    numbers: NDArray[Any] | None = None  # the values, if they are an array of numbers


class Categories:
    """The categories of some features. Immutable: `extend` returns another object."""

    def __init__(self, codes: Iterable[Codes] = ()) -> None:
        self.codes = tuple(codes)

    @classmethod
    def from_lists(cls, lists: Iterable[Iterable[Hashable]]) -> Categories:
        """Undo `lists`."""
        return cls({None: nan} | {value: float(k) for k, value in enumerate(v)} for v in lists)

    def widen(self, n_features: int) -> Categories:
        """Add features without categories, up to a number of features."""
        more: list[Codes] = [{None: nan} for _ in range(n_features - len(self))]
        return Categories([*self.codes, *more]) if more else self

    def __len__(self) -> int:
        return len(self.codes)

    def lists(self) -> list[list[Hashable]]:
        """Return the categories of each feature, in the order of their codes; OTHERS is last."""
        return [list(codes)[1:] for codes in self.codes]  # without None

    def capacities(self, old: Sequence[int], limit: int | None = None) -> tuple[int, ...]:
        """Return for how many categories of each feature the core reserves memory.

        At first for some more than there are; where they exceed the old capacity, for twice as
        many as there are; but for no more than `limit` and the others.
        """
        olds = [*old, *[0] * (len(self) - len(old))]
        return tuple(
            _capacity(len(codes) - 1, capacity, limit)
            for codes, capacity in zip(self.codes, olds, strict=True)
        )

    def extend(
        self,
        columns: Sequence[Column],
        limit: int | None,
        learned: NDArray[np.intp] | None = None,
    ) -> Categories:
        """Add the new categories of some rows (None: all); validate the other rows, too.

        A feature with `limit` categories (None: as many as the core can have) gets the code of
        OTHERS with its next category, and no more codes.
        """
        codes = [
            _extend(known, column, limit, learned)
            for known, column in zip(self.codes, columns, strict=True)
        ]
        same = all(new is known for new, known in zip(codes, self.codes, strict=True))
        return self if same else Categories(codes)

    def encode(self, columns: Sequence[Column], part: slice) -> NDArray[np.float32]:
        """Return the codes of some rows, one column per feature; UNKNOWN for new categories."""
        codes = [self.encode_feature(f, column, part) for f, column in enumerate(columns)]
        return np.stack(codes, axis=1)

    def encode_feature(
        self, f: int, column: Column, part: slice = slice(None)
    ) -> NDArray[np.float32]:
        """Return the codes of feature f."""
        return _encode(self.codes[f], column, part)


def refuse_nan(value: Any, name: str) -> None:
    """Refuse NaN as a category: it differs from itself, so each one would be a new category."""
    if isinstance(value, float) and isnan(value):
        raise ValueError(
            f"{name} holds NaN as a category; where a category is missing, give None instead"
        )


def select_columns(
    requested: Any, names: Sequence[str] | None, from_dtype: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which columns hold categories.

    Parameters
    ----------
    requested : array-like of bool, int or str, "from_dtype" or None
        The parameter `categorical_features`.
    names : sequence of str, or None
        The names of the columns, if they have names.
    from_dtype : ndarray of bool
        Whether each column has a categorical dtype.
    """
    n_features = len(from_dtype)
    selected = np.zeros(n_features, dtype=bool)
    if requested is None:
        return selected
    if isinstance(requested, str):
        return from_dtype
    columns = np.asarray(requested)
    if columns.ndim != 1:
        raise ValueError(f"categorical_features has {columns.ndim} dimensions; it must be a list")
    if columns.size == 0:
        return selected
    if columns.dtype.kind == "b":
        if len(columns) != n_features:
            raise ValueError(
                f"categorical_features is a mask of length {len(columns)}; X has {n_features} "
                "features"
            )
        return columns
    if columns.dtype.kind in "iu":
        if not 0 <= columns.min() <= columns.max() < n_features:
            raise ValueError(
                f"categorical_features is {columns.tolist()}; indices must lie between 0 and "
                f"{n_features - 1}, because X has {n_features} features"
            )
        selected[columns] = True
        return selected
    if not all(isinstance(name, str) for name in columns.tolist()):
        raise ValueError(
            f"categorical_features is {requested!r}; it must be a mask, or indices or names of "
            "columns"
        )
    if names is None:
        raise ValueError(
            "categorical_features holds names, but the columns of X have none: give indices, or "
            "a data frame"
        )
    if unknown := sorted(set(columns.tolist()) - set(names)):
        raise ValueError(f"categorical_features names {unknown[0]!r}, which is not a column of X")
    return np.isin(names, columns)


def unpack(words: Words, capacities: Sequence[int]) -> list[NDArray[np.bool_]]:
    """Return the core's sets, for each feature as an array of shape (n_nodes, capacity)."""
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), axis=1, bitorder="little").view(bool)
    starts = np.cumsum([0, *(1 + count for count in capacities)])
    return [bits[:, start + 1 : end] for start, end in pairwise(starts)]


def find_simple(known: Codes, value: Any) -> float:
    """Return the code of a value of one of the types in HASHABLE; UNKNOWN if it needs checks."""
    code = known.get(value)
    if code is not None:
        return code
    return known.get(OTHERS, UNKNOWN) if value == value else UNKNOWN  # noqa: PLR0124  # not NaN


def _encode(known: Codes, column: Column, part: slice) -> NDArray[np.float32]:
    if column.numbers is not None:
        found_at_once = _encode_whole_numbers(known, column.numbers[part])
        if found_at_once is not None:
            return found_at_once
    values, others = column.values(part), known.get(OTHERS, UNKNOWN)
    try:
        found = map(known.get, values, repeat(others))
        codes = np.fromiter(found, dtype=np.float32, count=len(values))
    except TypeError as error:
        raise _unhashable(column, error) from error
    for row in np.flatnonzero(codes == others).tolist():
        if _is_missing(values[row], column):
            codes[row] = nan
    return codes


def _encode_whole_numbers(known: Codes, values: NDArray[Any]) -> NDArray[np.float32] | None:
    """Return the codes of many whole numbers; None of others. NaN is missing.

    A number is looked up once, which takes a fifth of the time.
    """
    if len(values) < LEAST_AT_ONCE:
        return None
    if not 0 <= np.fmin.reduce(values) <= np.fmax.reduce(values) <= LARGEST_AT_ONCE:
        return None
    is_missing = np.isnan(values)
    places = np.where(is_missing, 0, values).astype(np.intp)
    if (places != values)[~is_missing].any():
        return None
    counts, others = np.bincount(places), known.get(OTHERS, UNKNOWN)
    table = np.empty(len(counts), dtype=np.float32)
    for number in np.flatnonzero(counts).tolist():
        table[number] = known.get(number, others)
    codes = table[places]
    codes[is_missing] = nan
    return codes


def _extend(
    known: Codes, column: Column, limit: int | None, learned: NDArray[np.intp] | None
) -> Codes:
    codes = known
    for start in range(0, column.n_rows, ROWS_AT_ONCE):
        values = column.values(slice(start, start + ROWS_AT_ONCE))
        new = _new_categories(codes, column, values)
        if new and learned is not None:
            part = slice(*np.searchsorted(learned, [start, start + ROWS_AT_ONCE]))
            of_rows = (values[row - start] for row in learned[part].tolist())
            new = dict.fromkeys(value for value in of_rows if value in new)
        if new and OTHERS not in codes:
            codes = codes.copy() if codes is known else codes
            _add(new, codes, limit)
    if len(codes) - 1 > MOST_CATEGORIES:
        raise ValueError(
            f"{column.name} has {len(codes) - 1} categories; the limit is {MOST_CATEGORIES}: set "
            "max_categories, so that the later ones share a column"
        )
    return codes


def _new_categories(known: Codes, column: Column, values: Sequence[Any]) -> dict[Hashable, None]:
    try:
        unknown = [value for value in dict.fromkeys(values) if value not in known]
    except TypeError as error:
        raise _unhashable(column, error) from error
    new = dict.fromkeys(value for value in unknown if not _is_missing(value, column))
    if OTHERS in new:
        raise ValueError(f"{column.name} holds {OTHERS}, which is not a category of its own")
    return new


def _add(new: Iterable[Hashable], codes: Codes, limit: int | None) -> None:
    for value in new:
        count = float(len(codes) - 1)  # without None
        if limit is not None and count >= limit:
            codes[OTHERS] = count
            return
        codes[value] = count


def _is_missing(value: Hashable, column: Column) -> bool:
    if is_pandas_na(value):
        return True
    if column.nan_is_missing:
        return value != value  # noqa: PLR0124  # NaN of any type
    refuse_nan(value, column.name)
    return False


def _unhashable(column: Column, error: TypeError) -> TypeError:
    return TypeError(f"{column.name} holds a value that cannot be a category: {error}")


def _capacity(count: int, old: int, limit: int | None) -> int:
    if old and count <= old:
        return old
    most = MOST_CATEGORIES if limit is None else max(limit + 1, count)
    return min(2 * count if old else count + 1 + count // 8, most)
