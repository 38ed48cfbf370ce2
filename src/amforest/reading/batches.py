"""What a stream yields: batches of typed rows, and the rows that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from amforest.reading.conversion import Mask, expand_dates
from amforest.reading.schema import Column, check_column
from amforest.reading.sources import StreamError, shorten

Lines = NDArray[np.int64]

TEXT_LENGTH = 200  # of a row in a reject


@dataclass(frozen=True)
class Reject:
    """A row that could not be read.

    Attributes
    ----------
    file : str
        The file it is in.
    line : int
        The line on which it begins, from 1; the number of the row for Parquet and Arrow.
    reason : str
        What is wrong, with the column and its value.
    text : str
        The row, shortened.
    group : str
        The reason without the value, which rows with the same fault have in common.
    """

    file: str
    line: int
    reason: str
    text: str
    group: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.group:
            object.__setattr__(self, "group", self.reason)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


class RejectedRow(StreamError):  # noqa: N818
    """A row could not be read, and the stream is strict.

    Attributes
    ----------
    reject : Reject
        The row.
    """

    def __init__(self, reject: Reject) -> None:
        super().__init__(str(reject))
        self.reject = reject


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one file, in its order. A batch may have rejects only, and no rows.

    Attributes
    ----------
    table : pyarrow.RecordBatch
        Numbers and bools (0 and 1) as float64, categories as dictionaries of strings, dates as
        date32 or timestamps in UTC. Missing values are null.
    file : str
        The file they are in.
    lines : ndarray of int64
        The line on which each row begins, from 1; the number of the row for Parquet and Arrow.
    rejects : tuple of Reject
        The rows of this part of the file that could not be read, in their order.
    target : str or None
        The column of labels, if the stream has one.
    bytes_before, bytes_read : int
        The number of bytes of the stream before this batch, and up to its end.
    """

    table: pa.RecordBatch
    file: str
    lines: Lines
    rejects: tuple[Reject, ...] = ()
    target: str | None = None
    bytes_before: int = 0
    bytes_read: int = 0

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def X(self) -> pa.RecordBatch:  # noqa: N802
        """The features, as estimators take them: without the target, and with dates as numbers."""
        names = [name for name in self.table.schema.names if name != self.target]
        return expand_dates(self.table.select(names))

    @cached_property
    def y(self) -> NDArray[Any] | None:
        """The labels: float64, or strings as objects; None if the stream has no target."""
        if self.target is None:
            return None
        labels: NDArray[Any] = _check_labels(self, self.target).to_numpy(zero_copy_only=False)
        return labels

    def slice(self, start: int, stop: int | None = None) -> Batch:
        """Return the rows from start to stop; a reject belongs to the next row after it.

        Rejects after the last row are in slices without a stop only, so that ``slice(0, n)`` and
        ``slice(n)`` add up to the whole for every n.
        """
        first, last, _ = slice(start, stop).indices(len(self))
        last = max(first, last)
        after = self.lines[first - 1] if first else 0
        before = None if stop is None else self.lines[last - 1] if last > first else 0
        rejects = tuple(
            reject
            for reject in self.rejects
            if reject.line > after and (before is None or reject.line < before)
        )
        table, lines = self.table.slice(first, last - first), self.lines[first:last]
        n_bytes = self.bytes_read - self.bytes_before
        bounds = (self.bytes_before + n_bytes * row // max(len(self), 1) for row in (first, last))
        before, read = bounds if len(self) else (self.bytes_before, self.bytes_read)
        return replace(
            self, table=table, lines=lines, rejects=rejects, bytes_before=before, bytes_read=read
        )

    def pieces(self, n_rows: int) -> Iterator[Batch]:
        """Yield batches of at most `n_rows` rows."""
        for start in range(0, max(len(self), 1), n_rows):
            is_last = start + n_rows >= len(self)
            yield self.slice(start, None if is_last else start + n_rows)

    def reject(self, is_bad: Mask, rejects: Sequence[Reject]) -> Batch:
        """Return the batch without some rows, and with their rejects."""
        table = self.table.filter(pa.array(~is_bad))
        merged = tuple(sorted((*self.rejects, *rejects), key=lambda reject: reject.line))
        return replace(self, table=table, lines=self.lines[~is_bad], rejects=merged)


def split_target(batch: Batch, target: str) -> tuple[Batch, NDArray[Any]]:
    """Separate the labels from the features.

    Parameters
    ----------
    batch : Batch
    target : str
        The name of a column of numbers, bools or categories.

    Returns
    -------
    X : Batch
        The other columns. Rows without a label are among its rejects.
    y : ndarray
        The labels: float64, or strings as objects.

    Raises
    ------
    StreamError
        If there is no such column, or it holds dates.
    """
    labels = _check_labels(batch, target)
    is_missing = np.asarray(pc.is_null(labels))
    if is_missing.any():
        rejects = [
            Reject(batch.file, int(batch.lines[row]), _no_label(target), show_row(batch.table, row))
            for row in np.flatnonzero(is_missing).tolist()
        ]
        batch = batch.reject(is_missing, rejects)
        labels = batch.table.column(target)
    features = batch.table.select([name for name in batch.table.schema.names if name != target])
    return replace(batch, table=features, target=None), labels.to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class RawBlock:
    """Rows of a file whose columns are not converted yet.

    Attributes
    ----------
    file : str
    lines : ndarray of int64
        The line, or the number, of each row.
    values : list of pyarrow.Array
        One array for each column of the stream.
    show : callable
        Returns the text of a row, for its reject.
    rejects : list of Reject
        The rows that were rejected while the block was parsed.
    position : int
        The number of bytes of the file up to the end of the block.
    """

    file: str
    lines: Lines
    values: list[pa.Array]
    show: Callable[[int], str]
    rejects: list[Reject]
    position: int


def convert_block(block: RawBlock, columns: Sequence[Column], target: str | None) -> Batch:
    """Convert the columns to their types, and reject the rows that have a misfit or no label."""
    arrays: list[pa.Array] = []
    reasons: dict[int, tuple[str, str]] = {}  # of the first column that does not fit
    for column, values in zip(columns, block.values, strict=True):
        converted, is_misfit = column.convert(values)
        arrays.append(converted)
        if is_misfit is not None:
            for row in np.flatnonzero(is_misfit).tolist():
                if row not in reasons:
                    reasons[row] = column.explain(show_value(values[row]))
    table = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    if target is not None and (labels := table.column(target)).null_count:
        for row in np.flatnonzero(np.asarray(pc.is_null(labels))).tolist():
            reasons.setdefault(row, (_no_label(target), ""))
    earlier = sorted(block.rejects, key=lambda reject: reject.line)
    batch = Batch(table, block.file, block.lines, tuple(earlier), target)
    if not reasons:
        return batch
    is_bad = np.zeros(len(batch), dtype=bool)
    is_bad[list(reasons)] = True
    rejects = [
        Reject(block.file, int(block.lines[row]), reasons[row][0], block.show(row), reasons[row][1])
        for row in sorted(reasons)
    ]
    return batch.reject(is_bad, rejects)


def show_row(table: pa.RecordBatch, row: int) -> str:
    """Return the text of a row of Parquet or Arrow, shortened."""
    values = (show_value(table.column(j)[row]) for j in range(min(table.num_columns, TEXT_LENGTH)))
    return shorten(",".join(values), TEXT_LENGTH)


def show_value(scalar: Any) -> str:
    """Return the text of a value, which may be one that Python cannot hold."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):
        value = (
            scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_buffer().to_pybytes()
        )
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return "" if value is None else str(value)


def _check_labels(batch: Batch, target: str) -> pa.Array:
    """Return the column of labels; raise `StreamError` if it is absent or holds dates."""
    check_column(target, batch.table.schema.names)
    labels = batch.table.column(target)
    if pa.types.is_temporal(labels.type):
        raise StreamError(f"column {target!r} holds dates, which cannot be labels")
    return labels


def _no_label(target: str) -> str:
    return f"column {target!r}: the label is missing"
