"""Categories and their codes, and sets of categories as the core's bits.

Codes are given in the order in which categories come: 0, 1, 2, … So they do not depend on how the
stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from math import isnan, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._missing import is_pandas_na

MOST_CATEGORIES = 65_535
UNKNOWN = -1.0  # the code of a category that is not known
ROWS_AT_ONCE = 8192  # of which values are listed: Python's objects take much room

Codes = dict[Hashable, float]  # by category; that of None, which is missing, is NaN
Words = NDArray[np.uint32]


@dataclass(frozen=True)
class Column:
    """Values of one feature, listed when they are needed; None is missing, as is pandas' NA."""

    name: str  # as errors call it
    n_rows: int
    values: Callable[[slice], Sequence[Any]]  # of some rows
    nan_is_missing: bool = False  # otherwise it is refused


class Categories:
    """The categories of some features. Never changes: new ones make another."""

    def __init__(self, codes: Iterable[Codes] = ()) -> None:
        self.codes = tuple(codes)

    @classmethod
    def from_lists(cls, lists: Iterable[Iterable[Hashable]]) -> Categories:
        """Undo `lists`."""
        return cls({None: nan} | {value: float(k) for k, value in enumerate(v)} for v in lists)

    def widened(self, n_features: int) -> Categories:
        """Add features of which nothing was seen yet, until there are as many."""
        more: list[Codes] = [{None: nan} for _ in range(n_features - len(self))]
        return Categories([*self.codes, *more]) if more else self

    def __len__(self) -> int:
        return len(self.codes)

    def lists(self) -> list[list[Hashable]]:
        """Return the categories of each feature, in the order of their codes."""
        return [list(known)[1:] for known in self.codes]  # without None

    def room(self, old: Sequence[int]) -> tuple[int, ...]:
        """Return for how many categories of each feature the core shall have room.

        At first for some more than there are, then, where they are too many for the old room, for
        twice as many: making room rebuilds the forest.
        """
        olds = [*old, *[0] * (len(self) - len(old))]
        return tuple(
            _room(len(known) - 1, room) for known, room in zip(self.codes, olds, strict=True)
        )

    def joined_by(
        self, columns: Sequence[Column], learnt: NDArray[np.intp] | None = None
    ) -> Categories:
        """Add what is new in the columns, in some or in all rows; check the other rows, too."""
        codes = [
            _joined(known, column, learnt)
            for known, column in zip(self.codes, columns, strict=True)
        ]
        same = all(new is known for new, known in zip(codes, self.codes, strict=True))
        return self if same else Categories(codes)

    def encode(self, columns: Sequence[Column], part: slice) -> NDArray[np.float32]:
        """Return the codes of some rows, a column each: UNKNOWN for what is not known."""
        codes = [self.encode_feature(f, column, part) for f, column in enumerate(columns)]
        return np.stack(codes, axis=1)

    def encode_feature(
        self, f: int, column: Column, part: slice = slice(None)
    ) -> NDArray[np.float32]:
        """Return the codes of feature f."""
        return _encoded(self.codes[f], column, part)


def refuse_nan(value: Any, name: str) -> None:
    """Refuse NaN where None could say that a value is missing: it would be a new one each time."""
    if isinstance(value, float) and isnan(value):
        raise ValueError(
            f"{name} holds NaN as a category; where a category is missing, give None instead"
        )


def find_columns(
    wish: Any, names: Sequence[str] | None, from_dtype: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell which columns hold categories.

    Parameters
    ----------
    wish : array-like of bool, int or str, "from_dtype" or None
        The parameter `categorical_features`.
    names : sequence of str, or None
        The names of the columns, if they have some.
    from_dtype : ndarray of bool
        Whether each column is of a categorical type.
    """
    n_features = len(from_dtype)
    found = np.zeros(n_features, dtype=bool)
    if wish is None:
        return found
    if isinstance(wish, str):
        return from_dtype
    wishes = np.asarray(wish)
    if wishes.ndim != 1:
        raise ValueError(f"categorical_features has {wishes.ndim} dimensions; it must be a list")
    if wishes.size == 0:
        return found
    if wishes.dtype.kind == "b":
        if len(wishes) != n_features:
            raise ValueError(
                f"categorical_features is a mask of length {len(wishes)}; X has {n_features} "
                "features"
            )
        return wishes
    if wishes.dtype.kind in "iu":
        if not 0 <= wishes.min() <= wishes.max() < n_features:
            raise ValueError(
                f"categorical_features is {wishes.tolist()}; numbers must lie between 0 and "
                f"{n_features - 1}, as X has {n_features} features"
            )
        found[wishes] = True
        return found
    if not all(isinstance(name, str) for name in wishes.tolist()):
        raise ValueError(
            f"categorical_features is {wish!r}; it must be a mask, or numbers or names of columns"
        )
    if names is None:
        raise ValueError("categorical_features gives names, but the columns of X have none")
    if unknown := sorted(set(wishes.tolist()) - set(names)):
        raise ValueError(f"categorical_features names {unknown[0]!r}, which is no column of X")
    return np.isin(names, wishes)


def unpack(words: Words, room: Sequence[int]) -> list[NDArray[np.bool_]]:
    """Return the core's sets, for each feature as an array of shape (n_nodes, room)."""
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), axis=1, bitorder="little").view(bool)
    starts = np.cumsum([0, *(1 + count for count in room)])
    return [bits[:, start + 1 : end] for start, end in pairwise(starts)]


def pack(sets: Sequence[NDArray[np.bool_]], room: Sequence[int], n_nodes: int) -> Words:
    """Undo `unpack`, with room for more categories and features."""
    n_bits = sum(1 + count for count in room)
    bits = np.zeros((n_nodes, -(-n_bits // 32) * 32), dtype=bool)
    start = 0
    for f, count in enumerate(room):
        if f < len(sets):
            bits[:, start + 1 : start + 1 + sets[f].shape[1]] = sets[f]
        start += 1 + count
    packed = np.packbits(bits, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u4").astype(np.uint32)


def _encoded(known: Codes, column: Column, part: slice) -> NDArray[np.float32]:
    values = column.values(part)
    try:
        found = map(known.get, values, repeat(UNKNOWN))
        codes = np.fromiter(found, dtype=np.float32, count=len(values))
    except TypeError as error:
        raise _unhashable(column, error) from error
    for row in np.flatnonzero(codes == UNKNOWN).tolist():
        if _is_missing(values[row], column):
            codes[row] = nan
    return codes


def _joined(known: Codes, column: Column, learnt: NDArray[np.intp] | None) -> Codes:
    different: dict[Hashable, None] = {}
    try:
        for start in range(0, column.n_rows, ROWS_AT_ONCE):
            different |= dict.fromkeys(column.values(slice(start, start + ROWS_AT_ONCE)))
    except TypeError as error:
        raise _unhashable(column, error) from error
    unknown = [value for value in different if value not in known]
    new = dict.fromkeys(value for value in unknown if not _is_missing(value, column))
    if new and learnt is not None:
        values = column.values(slice(None))
        new = dict.fromkeys(values[row] for row in learnt.tolist() if values[row] in new)
    count = len(known) - 1 + len(new)
    if count > MOST_CATEGORIES:
        raise ValueError(f"{column.name} has {count} categories; {MOST_CATEGORIES} are the most")
    codes = {value: float(len(known) - 1 + k) for k, value in enumerate(new)}
    return known | codes if new else known


def _is_missing(value: Hashable, column: Column) -> bool:
    if is_pandas_na(value):
        return True
    if column.nan_is_missing:
        return value != value  # noqa: PLR0124  # NaN of all kinds
    refuse_nan(value, column.name)
    return False


def _unhashable(column: Column, error: TypeError) -> TypeError:
    return TypeError(f"{column.name} holds what cannot be a category: {error}")


def _room(count: int, old: int) -> int:
    if old and count <= old:
        return old
    return min(2 * count if old else count + 1 + count // 8, MOST_CATEGORIES)
