"""Rows grouped by key: the rows of each key follow one another, in their order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amforest.distributed.segment_store import Key
from amforest.evaluation.blocks import as_list, select_rows

Indices = NDArray[np.intp]


class Group(NamedTuple):
    """The rows of one key, from start to end."""

    key: Key
    start: int
    end: int
    X: Any
    y: NDArray[Any] | None
    weights: NDArray[np.float64] | None


@dataclass(frozen=True)
class KeyRows:
    """Rows that are sorted by key, not by name but by the first row of each key.

    Attributes
    ----------
    keys : list of str or int
        The different keys.
    starts : ndarray of shape (n_keys + 1,)
        Where the rows of each key start, and where the last ones end.
    X : ndarray, sparse matrix or data frame
    y, weights : ndarray or None
    """

    keys: list[Key]
    starts: Indices
    X: Any
    y: NDArray[Any] | None = None
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return int(self.starts[-1])

    def groups(self, order: Sequence[int]) -> Iterator[Group]:
        """Yield the rows of each key, in an order of the keys."""
        for k in order:
            start, end = self.starts[k : k + 2].tolist()
            rows = slice(start, end)
            y = None if self.y is None else self.y[rows]
            weights = None if self.weights is None else self.weights[rows]
            yield Group(self.keys[k], start, end, select_rows(self.X, rows), y, weights)

    def select(self, chosen: Indices) -> tuple[KeyRows, Indices]:
        """Return the rows of some keys, and which rows they are."""
        lengths = np.diff(self.starts)[chosen]
        starts = np.append(0, np.cumsum(lengths))
        rows = np.repeat(self.starts[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
        part = KeyRows(
            [self.keys[k] for k in chosen.tolist()],
            starts,
            select_rows(self.X, rows),
            None if self.y is None else self.y[rows],
            None if self.weights is None else self.weights[rows],
        )
        return part, rows


def group_rows(
    keys: Sequence[Key],
    X: Any,
    y: NDArray[Any] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> tuple[KeyRows, Indices]:
    """Sort rows by key, and return the rows with their former positions."""
    number_of: dict[Key, int] = {}
    numbers = np.array([number_of.setdefault(key, len(number_of)) for key in keys], dtype=np.intp)
    order = np.argsort(numbers, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(numbers, minlength=len(number_of))))
    rows = KeyRows(
        list(number_of),
        starts,
        select_rows(X, order),
        None if y is None else y[order],
        None if weights is None else weights[order],
    )
    return rows, order


def validate_keys(keys: Any, name: str) -> list[Key]:
    """Return keys as text and whole numbers of Python; an error calls them `name`."""
    values = keys.to_list() if hasattr(keys, "to_list") else as_list(keys)
    if {type(value) for value in values} <= {str, int}:
        return values
    row, value = next((i, v) for i, v in enumerate(values) if type(v) not in (str, int))
    is_missing = value is None or (isinstance(value, float) and isnan(value))
    what = "is missing" if is_missing else f"is {value!r} of type {type(value).__name__}"
    advice = "drop these rows, or fill the gaps" if is_missing else "convert it first"
    raise TypeError(f"{name} {what} in row {row}; keys must be text or whole numbers: {advice}")


def validate_key(key: Any) -> Key:
    """Return the key of one row."""
    (valid,) = validate_keys([key], "key")
    return valid


def seed_of(random_state: int, key: Key) -> int:
    """Return the seed of a key's model: the same on all machines, whatever keys came before."""
    return int.from_bytes(_digest([random_state, key])[:4], "little")


def shard_of(key: Key, n_shards: int) -> int:
    """Return the shard that has the model of a key."""
    return int.from_bytes(_digest(key)[:8], "little") % n_shards


def _digest(value: Any) -> bytes:
    # JSON distinguishes the number 1 from the text "1".
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).digest()
