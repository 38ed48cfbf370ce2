"""Blocks of rows, and how they are cut, limited, weighted and joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amforest._forest.inputs import as_frame
from amforest.evaluation.arrays import Floats, as_list, checked_weights

ROWS_AT_ONCE = 1_000


class Block(NamedTuple):
    """Some rows: an array, a sparse matrix, a frame or a list of rows; labels; weights."""

    X: Any
    y: Any
    weights: Floats | None


def label_array(y: Any) -> NDArray[Any]:
    """Return labels as an array; numpy would make text of numbers among text."""
    labels = np.asarray(y)
    if labels.dtype.kind == "U" and isinstance(y, list) and not all(isinstance(v, str) for v in y):
        labels = np.array(y, dtype=object)
    return labels


def some_rows(X: Any, rows: slice | NDArray[np.intp]) -> Any:
    """Return some rows of X."""
    if (frame := as_frame(X)) is not None:
        return frame[rows if isinstance(rows, slice) else rows.tolist()].to_native()
    if isinstance(X, list) and not isinstance(rows, slice):
        return [X[i] for i in rows.tolist()]
    return X[rows]


def part(block: Block, rows: slice) -> Block:
    """Return some rows of a block."""
    weights = None if block.weights is None else block.weights[rows]
    return Block(some_rows(block.X, rows), block.y[rows], weights)


def limited(blocks: Iterator[Block], most: int) -> Iterator[Block]:
    """Yield the first rows, and take no block after them."""
    for block in blocks:
        yield block if len(block.y) <= most else part(block, slice(0, most))
        most -= len(block.y)
        if most <= 0:
            return


def weighted(blocks: Iterator[Block], weights: Iterator[Any]) -> Iterator[Block]:
    """Give each row the next weight."""
    for block in blocks:
        some = list(islice(weights, len(block.y)))
        if len(some) < len(block.y):
            raise ValueError("sample_weight ends before the stream")
        yield block._replace(weights=checked_weights(some, len(some), "sample_weight"))


def cut(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """Yield the rows in blocks that are not larger."""
    for block in blocks:
        n_rows = len(block.y)
        if 0 < n_rows <= size:
            yield block
            continue
        for start in range(0, n_rows, size):
            yield part(block, slice(start, start + size))


def gathered(blocks: Iterator[Block], size: int) -> Iterator[Block]:
    """Yield rows that come singly in blocks of a size, the last of which may be smaller."""
    kept: list[Block] = []
    for block in blocks:
        single = len(block.y) == 1 and isinstance(block.X, list)
        if kept and not single:
            yield _joined(kept)
            kept = []
        if not single or size == 1:
            yield block
            continue
        kept.append(block)
        if len(kept) == size:
            yield _joined(kept)
            kept = []
    if kept:
        yield _joined(kept)


def _joined(blocks: list[Block]) -> Block:
    weights = [block.weights for block in blocks if block.weights is not None]
    return Block(
        [x for block in blocks for x in block.X],
        [label for block in blocks for label in as_list(block.y)],
        np.concatenate(weights) if weights else None,
    )
