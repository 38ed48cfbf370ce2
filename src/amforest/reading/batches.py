"""What a stream gives: batches of typed rows, and the rows that it had to leave out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.reading._arrow import RecordBatch, pa, pc
from amforest.reading.names import StreamError, unknown_column

Lines = NDArray[np.int64]

TEXT_LENGTH = 200  # of a row that is shown
VALUE_LENGTH = 40  # of a value that is shown


@dataclass(frozen=True)
class Reject:
    """A row that could not be read.

    Attributes
    ----------
    file : str
        Where it is from.
    line : int
        The line on which it begins, from 1; the number of the row for Parquet and Arrow.
    reason : str
        What is wrong, with the column and its value.
    text : str
        The row, shortened.
    """

    file: str
    line: int
    reason: str
    text: str

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
    """Rows of one file, in its order.

    Attributes
    ----------
    table : pyarrow.RecordBatch
        Numbers and bools (0 and 1) as float64, categories as dictionaries of strings, dates as
        date32 or timestamps in UTC. What is missing is null.
    file : str
        Where they are from.
    lines : ndarray of int64
        The line on which each row begins, from 1; the number of the row for Parquet and Arrow.
    rejects : tuple of Reject
        The rows of this stretch that could not be read, in their order.
    """

    table: RecordBatch
    file: str
    lines: Lines
    rejects: tuple[Reject, ...] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def slice(self, start: int, stop: int | None = None) -> Batch:
        """Return the rows from start to stop; a reject goes with the next row after it.

        Those after the last row are in slices without a stop only, so that ``slice(0, n)`` and
        ``slice(n)`` are the whole for every n.
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
        return replace(self, table=table, lines=lines, rejects=rejects)

    def pieces(self, n_rows: int) -> Iterator[Batch]:
        """Cut it into batches of at most so many rows."""
        for start in range(0, max(len(self), 1), n_rows):
            is_last = start + n_rows >= len(self)
            yield self.slice(start, None if is_last else start + n_rows)

    def drop(self, is_bad: NDArray[np.bool_], rejects: list[Reject]) -> Batch:
        """Return the other rows, with these rejects as well."""
        table = self.table.filter(pa.array(~is_bad))
        merged = tuple(sorted((*self.rejects, *rejects), key=lambda reject: reject.line))
        return replace(self, table=table, lines=self.lines[~is_bad], rejects=merged)


def split_target(batch: Batch, target: str) -> tuple[Batch, NDArray[Any]]:
    """Take the label from the rows.

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
    names = batch.table.schema.names
    if target not in names:
        raise unknown_column(target, names)
    labels = batch.table.column(target)
    if pa.types.is_temporal(labels.type):
        raise StreamError(f"column {target!r} holds dates, which cannot be labels")
    is_missing = np.asarray(pc.is_null(labels))
    if is_missing.any():
        rejects = [
            _without_label(batch, row, target) for row in np.flatnonzero(is_missing).tolist()
        ]
        batch = batch.drop(is_missing, rejects)
        labels = batch.table.column(target)
    others = batch.table.select([name for name in names if name != target])
    y = labels.to_numpy(zero_copy_only=False)
    return replace(batch, table=others), y


def missing_label(target: str) -> str:
    """Say why a row without a label is rejected."""
    return f"column {target!r}: the label is missing"


def shortened(text: str, length: int) -> str:
    """Cut a text that is too long to be shown."""
    return text if len(text) <= length else text[: length - 1] + "…"


def row_text(table: RecordBatch, row: int) -> str:
    """Show a row of which no text is known."""
    values = (value_text(table.column(j)[row]) for j in range(min(table.num_columns, TEXT_LENGTH)))
    return shortened(",".join(values), TEXT_LENGTH)


def value_text(scalar: Any) -> str:
    """Show a value; pyarrow may have one that Python cannot."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):
        value = (
            scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_buffer().to_pybytes()
        )
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return "" if value is None else str(value)


def _without_label(batch: Batch, row: int, target: str) -> Reject:
    text = row_text(batch.table, row)
    return Reject(batch.file, int(batch.lines[row]), missing_label(target), text)
