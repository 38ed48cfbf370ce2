"""Categories and their codes, and sets of categories as the core's bits.

Codes are given in the order in which categories come: 0, 1, 2, … So they do not depend on how the
stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CATEGORIES = 65_535
UNKNOWN = -1.0  # the code of a category that is not known

Column = Sequence[Hashable]  # values of one feature; None is missing
Codes = dict[Hashable, float]  # by category; that of None is NaN
Words = NDArray[np.uint32]


class Categories:
    """The categories of some features. Never changes: new ones make another."""

    def __init__(self, codes: Iterable[Codes] = ()) -> None:
        self.codes = tuple(codes)

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

    def joined_by(self, columns: Sequence[Column], names: Sequence[str]) -> Categories:
        """Add what is new in the columns of values."""
        codes = [
            _joined(known, column, name)
            for known, column, name in zip(self.codes, columns, names, strict=True)
        ]
        return self if all(map(_same, codes, self.codes)) else Categories(codes)

    def encode(self, f: int, column: Column, name: str) -> list[float]:
        """Return the codes of values of feature f: UNKNOWN for what is not known."""
        known = self.codes[f]
        try:
            codes = [known.get(value, UNKNOWN) for value in column]
        except TypeError as error:
            raise _unhashable(name, error) from error
        if UNKNOWN in codes:
            for value, code in zip(column, codes, strict=True):
                if code == UNKNOWN:
                    refuse_nan(value, name)
        return codes


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


def _joined(known: Codes, column: Column, name: str) -> Codes:
    try:
        new = [value for value in dict.fromkeys(column) if value not in known]
    except TypeError as error:
        raise _unhashable(name, error) from error
    if not new:
        return known
    for value in new:
        refuse_nan(value, name)
    count = len(known) - 1 + len(new)
    if count > MOST_CATEGORIES:
        raise ValueError(f"{name} has {count} categories; {MOST_CATEGORIES} are the most")
    return known | {value: float(len(known) - 1 + k) for k, value in enumerate(new)}


def _same(a: object, b: object) -> bool:
    return a is b


def _unhashable(name: str, error: TypeError) -> TypeError:
    return TypeError(f"{name} holds what cannot be a category: {error}")


def _room(count: int, old: int) -> int:
    if old and count <= old:
        return old
    return min(2 * count if old else count + 1 + count // 8, MOST_CATEGORIES)
