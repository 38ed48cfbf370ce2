"""Blocks of rows: streams of all kinds become blocks, which are cut, limited and joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from narwhals import concat
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse, vstack

from amforest._forest.data_frames import as_frame

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 1_000  # the rows of a block, at most


class Block(NamedTuple):
    """Some rows: an array, a sparse matrix, a frame or a list of rows; labels; weights."""

    X: Any
    y: Any
    weights: Floats | None = None


class FrameRows:
    """Rows of a frame that are taken one by one: a frame of one row costs more than to learn it.

    Parameters
    ----------
    frame : narwhals.DataFrame

    Attributes
    ----------
    columns : list of str
    values : list of list
        The values of each row.
    are_plain : bool
        Whether all values mean the same in a row as in the frame.
    """

    def __init__(self, frame: Any) -> None:
        self.columns: list[str] = frame.columns
        self.values = [list(row) for row in frame.iter_rows()]
        self.are_plain = all(_is_plain(value) for row in self.values for value in row)
        self._frame, self._rows = frame, slice(0, len(self.values))

    def __getitem__(self, rows: slice) -> FrameRows:
        part = copy(self)
        start, stop, _ = rows.indices(len(self.values))
        part.values = self.values[start:stop]
        part._rows = slice(self._rows.start + start, self._rows.start + stop)
        return part

    def to_native(self) -> Any:
        """Return the rows as a frame."""
        return self._frame[self._rows].to_native()


def _is_plain(value: Any) -> bool:
    """Tell whether a value means the same in a row and in a frame; NaN as a category does not."""
    if type(value) is float:
        return value == value  # noqa: PLR0124
    return value is None or type(value) is str


# Labels and weights


def as_list(labels: ArrayLike | Iterable[Any]) -> list[Any]:
    """Convert labels to Python's own objects; lists of mixed types keep their items."""
    if isinstance(labels, list | tuple):
        return [label.item() if isinstance(label, np.generic) else label for label in labels]
    values: list[Any] = np.asarray(labels).tolist()
    return values


def as_label_array(y: Any) -> NDArray[Any]:
    """Convert labels to an array; numpy would convert numbers among strings to strings."""
    labels = np.asarray(y)
    if labels.dtype.kind == "U" and isinstance(y, list) and not all(isinstance(v, str) for v in y):
        labels = np.array(y, dtype=object)
    return labels


def validate_weights(weights: Any, n_rows: int, name: str) -> Floats:
    """Return weights, one for each row, none below 0; an error calls them `name`."""
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n_rows,):
        raise ValueError(f"{name} has shape {values.shape}; there are {n_rows} rows")
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"{name} holds {values.min()}; weights must be finite and not negative")
    return values


# From a stream to blocks


def open_blocks(
    stream: Any, y: Any, target: str | None, sample_weight: Any
) -> tuple[Iterator[Block], NDArray[Any] | None]:
    """Return the blocks of a stream, and all labels if they are known at once."""
    if y is None and target is None and isinstance(stream, tuple) and len(stream) == 2:
        stream, y = stream
    if y is not None and target is not None:
        raise ValueError(f"target is {target!r} and y is given, too; give only one of them")
    weight = sample_weight if isinstance(sample_weight, str) else None
    if weight is not None and target is None:
        raise ValueError(f"sample_weight is {weight!r}, the name of a column; so must be target")
    if y is not None:
        block = _block(_as_table(stream), y)
    elif _is_reader(stream):
        batches = stream.to_batches() if hasattr(stream, "to_batches") else stream
        return (_block_of(batch, target, weight) for batch in batches), None
    elif isinstance(stream, str | bytes | Mapping):
        raise _no_stream(stream)
    elif as_frame(stream) is not None:
        block = _block_of(stream, target, weight)
    elif not isinstance(stream, Iterable):
        raise _no_stream(stream)
    elif isinstance(stream, np.ndarray) or issparse(stream):
        raise ValueError("y is None, but stream is X alone; give the labels in y")
    else:
        return (_block_of(item, target, weight) for item in stream), None
    n_rows = len(block.y)
    if hasattr(sample_weight, "__len__") and weight is None and len(sample_weight) != n_rows:
        raise ValueError(f"sample_weight has {len(sample_weight)} values; there are {n_rows} rows")
    return iter([block]), block.y


def _no_stream(stream: Any) -> TypeError:
    return TypeError(f"stream is {_show(stream)}; it must be a table, an iterable or a reader")


def _is_reader(stream: Any) -> bool:
    """Tell whether it is pyarrow's RecordBatchReader, Dataset or Scanner."""
    if hasattr(stream, "read_next_batch"):
        return True
    return hasattr(stream, "to_batches") and not hasattr(stream, "column_names")


def _block_of(item: Any, target: str | None, weight: str | None) -> Block:
    """Convert an item of an iterable: a row, or several."""
    if hasattr(item, "X") and hasattr(item, "y"):  # a batch of `amforest.reading`
        return _block_of_batch(item, target)
    if target is not None:
        return _split(item, target, weight)
    if not (isinstance(item, tuple | list) and len(item) == 2):
        advice = (
            "name the column of labels in target"
            if _is_frame_or_dict(item)
            else "it must yield (x, y)"
        )
        raise TypeError(f"stream yields {_show(item)}: {advice}")
    x, y = item
    return Block([x], [y]) if _is_row(x) else _block(_as_table(x), y)


def _block_of_batch(batch: Any, target: str | None) -> Block:
    if target is not None or batch.y is None:
        raise ValueError(
            f"target is {target!r}; the column of labels of this stream must be named where it is "
            "opened: open_stream(…, target=…)"
        )
    return _block(batch.X, batch.y)


def _split(item: Any, target: str, weight: str | None) -> Block:
    """Separate the label, and the weight, from a frame or a dict."""
    if not _is_frame_or_dict(item):
        raise TypeError(f"stream yields {_show(item)}; target needs frames or dicts")
    if isinstance(item, Mapping):
        row = dict(item)
        for name, key in (("target", target), ("sample_weight", weight)):
            _check_column(name, key, list(row))
        y, weights = [row.pop(target)], None
        if weight is not None:
            weights = validate_weights([row.pop(weight)], 1, "sample_weight")
        return Block([row], y, weights)
    frame: Any = as_frame(item)
    for name, key in (("target", target), ("sample_weight", weight)):
        _check_column(name, key, frame.columns)
    X = frame.drop([target] if weight is None else [target, weight]).to_native()
    block = _block(X, frame[target].to_numpy())
    if weight is None:
        return block
    return block._replace(
        weights=validate_weights(frame[weight].to_numpy(), len(block.y), "sample_weight")
    )


def _check_column(argument: str, name: str | None, columns: list[Any]) -> None:
    if name is None or name in columns:
        return
    near = get_close_matches(name, [str(column) for column in columns], n=1, cutoff=0)
    advice = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{argument} is {name!r}, which is not a column{advice}")


def _is_frame_or_dict(item: Any) -> bool:
    return isinstance(item, Mapping) or as_frame(item) is not None


def _is_row(x: Any) -> bool:
    if isinstance(x, Mapping):
        return True
    if isinstance(x, list | tuple):
        return not (x and isinstance(x[0], list | tuple | Mapping | np.ndarray))
    return getattr(x, "ndim", 2) == 1


def _as_table(X: Any) -> Any:
    """Convert many rows to something that can be sliced."""
    if isinstance(X, list | np.ndarray):
        table = X
    elif issparse(X):
        table = X.tocsr()
    elif (frame := as_frame(X)) is not None:
        table = frame.to_native()
    else:
        table = np.asarray(X)
    if isinstance(table, np.ndarray) and table.ndim != 2:
        raise ValueError(f"X has shape {table.shape}; it must be a table")
    return table


def _block(X: Any, y: Any) -> Block:
    labels = as_label_array(y)
    n_rows = len(X) if isinstance(X, list) else X.shape[0]
    if labels.shape != (n_rows,):
        raise ValueError(f"y has shape {labels.shape}; X has {n_rows} rows")
    return Block(X, labels)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


# Cutting and joining


def select_rows(X: Any, rows: slice | NDArray[np.intp]) -> Any:
    """Return some rows of X."""
    if isinstance(X, FrameRows) and isinstance(rows, slice):
        return X[rows]
    if _is_arrow_table(X):  # as below, without a frame around it, which costs more than the rows
        if not isinstance(rows, slice):
            return X.take(rows)
        start, stop, _ = rows.indices(X.num_rows)
        return X.slice(start, max(stop - start, 0))
    if (frame := as_frame(X)) is not None:
        return frame[rows if isinstance(rows, slice) else rows.tolist()].to_native()
    if isinstance(X, list) and not isinstance(rows, slice):
        return [X[i] for i in rows.tolist()]
    return X[rows]


def _is_arrow_table(X: Any) -> bool:
    """Tell pyarrow's tables, without importing pyarrow."""
    return type(X).__module__.startswith("pyarrow") and type(X).__name__ == "Table"


def join_tables(tables: Sequence[Any]) -> Any:
    """Return the rows of tables of one kind, one below the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    if isinstance(first, list):
        return [row for table in tables for row in table]
    if issparse(first):
        return vstack(tables, format="csr")
    if isinstance(first, np.ndarray):
        return np.concatenate(tables)
    if all(map(_is_arrow_table, tables)) and len({table.schema for table in tables}) == 1:
        return import_module("pyarrow").concat_tables(tables)
    frames: list[Any] = [as_frame(table) for table in tables]
    return concat(frames).to_native()


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of blocks of one kind as one block."""
    if len(blocks) == 1:
        return blocks[0]
    weights = [block.weights for block in blocks if block.weights is not None]
    labels = [label for block in blocks for label in as_list(block.y)]
    return Block(
        join_tables([block.X for block in blocks]),
        as_label_array(labels),
        np.concatenate(weights) if weights else None,
    )


def first_rows(blocks: Iterable[Block], n_rows: int) -> Block:
    """Return the first rows of some blocks; there must be as many."""
    return join_blocks(list(limit_rows(iter(blocks), n_rows)))


def slice_block(block: Block, rows: slice) -> Block:
    """Return some rows of a block."""
    weights = None if block.weights is None else block.weights[rows]
    return Block(select_rows(block.X, rows), block.y[rows], weights)


def limit_rows(blocks: Iterator[Block], max_rows: int) -> Iterator[Block]:
    """Yield the first rows; no block is taken after them."""
    for block in blocks:
        yield block if len(block.y) <= max_rows else slice_block(block, slice(0, max_rows))
        max_rows -= len(block.y)
        if max_rows <= 0:
            return


def add_weights(blocks: Iterator[Block], weights: Iterator[Any]) -> Iterator[Block]:
    """Give each row the next weight."""
    for block in blocks:
        some = list(islice(weights, len(block.y)))
        if len(some) < len(block.y):
            raise ValueError("sample_weight ends before the stream")
        yield block._replace(weights=validate_weights(some, len(some), "sample_weight"))


def cut_blocks(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """Yield the rows in blocks of at most `size` rows."""
    for block in blocks:
        n_rows = len(block.y)
        if 0 < n_rows <= size:
            yield block
            continue
        for start in range(0, n_rows, size):
            yield slice_block(block, slice(start, start + size))


def join_rows(blocks: Iterator[Block], size: int) -> Iterator[Block]:
    """Join single rows to blocks of `size` rows, the last of which may be smaller."""
    kept: list[Block] = []
    for block in blocks:
        is_single = len(block.y) == 1 and isinstance(block.X, list)
        if kept and not is_single:
            yield _join(kept)
            kept = []
        if not is_single or size == 1:
            yield block
            continue
        kept.append(block)
        if len(kept) == size:
            yield _join(kept)
            kept = []
    if kept:
        yield _join(kept)


def _join(blocks: list[Block]) -> Block:
    weights = [block.weights for block in blocks if block.weights is not None]
    return Block(
        [x for block in blocks for x in block.X],
        [label for block in blocks for label in as_list(block.y)],
        np.concatenate(weights) if weights else None,
    )
