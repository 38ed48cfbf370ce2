"""Streams of all kinds, opened: tables, iterables and readers become blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from amforest._forest.inputs import as_frame
from amforest.evaluation.arrays import checked_weights
from amforest.evaluation.blocks import Block, label_array


def opened(
    stream: Any, y: Any, target: str | None, sample_weight: Any
) -> tuple[Iterator[Block], NDArray[Any] | None]:
    """Return the blocks of a stream, and all labels if they are there."""
    if y is None and target is None and isinstance(stream, tuple) and len(stream) == 2:
        stream, y = stream
    if y is not None and target is not None:
        raise ValueError(f"target is {target!r} and y is given, too; there must be one of them")
    weight = sample_weight if isinstance(sample_weight, str) else None
    if weight is not None and target is None:
        raise ValueError(f"sample_weight is {weight!r}, the name of a column; so must be target")
    if y is not None:
        block = _block(_table(stream), y)
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
        raise ValueError("y is None, but stream is X alone: where are the labels?")
    else:
        return (_block_of(item, target, weight) for item in stream), None
    n_rows = len(block.y)
    if hasattr(sample_weight, "__len__") and weight is None and len(sample_weight) != n_rows:
        raise ValueError(f"sample_weight has {len(sample_weight)} values; there are {n_rows} rows")
    return iter([block]), block.y


def _no_stream(stream: Any) -> TypeError:
    return TypeError(f"stream is {_shown(stream)}; it must be a table, an iterable or a reader")


def _is_reader(stream: Any) -> bool:
    """Tell whether it is pyarrow's RecordBatchReader, Dataset or Scanner."""
    if hasattr(stream, "read_next_batch"):
        return True
    return hasattr(stream, "to_batches") and not hasattr(stream, "column_names")


def _block_of(item: Any, target: str | None, weight: str | None) -> Block:
    """Return what an iterable gave: a row, or several."""
    if target is not None:
        return _split(item, target, weight)
    if not (isinstance(item, tuple | list) and len(item) == 2):
        advice = "name its label in target" if _is_frame_or_dict(item) else "it must give (x, y)"
        raise TypeError(f"stream gave {_shown(item)}: {advice}")
    x, y = item
    return Block([x], [y], None) if _is_row(x) else _block(_table(x), y)


def _split(item: Any, target: str, weight: str | None) -> Block:
    """Take the label, and the weight, out of a frame or a dict."""
    if not _is_frame_or_dict(item):
        raise TypeError(f"stream gave {_shown(item)}; target needs frames or dicts")
    if isinstance(item, Mapping):
        row = dict(item)
        for name, key in (("target", target), ("sample_weight", weight)):
            _check_column(name, key, list(row))
        y, weights = [row.pop(target)], None
        if weight is not None:
            weights = checked_weights([row.pop(weight)], 1, "sample_weight")
        return Block([row], y, weights)
    frame: Any = as_frame(item)
    for name, key in (("target", target), ("sample_weight", weight)):
        _check_column(name, key, frame.columns)
    X = frame.drop([target] if weight is None else [target, weight]).to_native()
    block = _block(X, frame[target].to_numpy())
    if weight is None:
        return block
    return block._replace(
        weights=checked_weights(frame[weight].to_numpy(), len(block.y), "sample_weight")
    )


def _check_column(argument: str, name: str | None, columns: list[Any]) -> None:
    if name is None or name in columns:
        return
    near = get_close_matches(name, [str(column) for column in columns], n=1, cutoff=0)
    advice = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{argument} is {name!r}, which is no column{advice}")


def _is_frame_or_dict(item: Any) -> bool:
    return isinstance(item, Mapping) or as_frame(item) is not None


def _is_row(x: Any) -> bool:
    if isinstance(x, Mapping):
        return True
    if isinstance(x, list | tuple):
        return not (x and isinstance(x[0], list | tuple | Mapping | np.ndarray))
    return getattr(x, "ndim", 2) == 1


def _table(X: Any) -> Any:
    """Return many rows as something that can be cut."""
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
    labels = label_array(y)
    n_rows = len(X) if isinstance(X, list) else X.shape[0]
    if labels.shape != (n_rows,):
        raise ValueError(f"y has shape {labels.shape}; X has {n_rows} rows")
    return Block(X, labels, None)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
