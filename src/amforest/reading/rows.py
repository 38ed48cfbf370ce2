"""From the columns of a stretch of a file to a batch, without the rows that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from amforest.reading._arrow import Array, pa, pc
from amforest.reading.batches import Batch, Lines, Reject, missing_label, value_text
from amforest.reading.columns import Column


@dataclass(frozen=True)
class Layout:
    """What a stream reads: its columns, and which of them is the label (None: none)."""

    columns: Sequence[Column]
    target: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]


@dataclass(frozen=True)
class Stretch:
    """Rows of a file whose columns are not converted yet.

    Attributes
    ----------
    file : str
    lines : ndarray of int64
        The line, or the number, of each row.
    values : list of pyarrow.Array
        One array for each column of the layout.
    text : callable
        Shows a row.
    rejects : list of Reject
        What was found to be bad before.
    """

    file: str
    lines: Lines
    values: list[Array]
    text: Callable[[int], str]
    rejects: list[Reject]


def to_batch(stretch: Stretch, layout: Layout) -> Batch:
    """Convert the columns, and reject the rows where that is not possible."""
    arrays: list[Array] = []
    reasons: dict[int, str] = {}  # of the first column that does not fit
    for column, values in zip(layout.columns, stretch.values, strict=True):
        converted, is_bad = column.convert(values)
        arrays.append(converted)
        if is_bad is not None:
            for row in np.flatnonzero(is_bad).tolist():
                if row not in reasons:
                    reasons[row] = column.why_not(value_text(values[row]))
    table = pa.RecordBatch.from_arrays(arrays, names=layout.names)
    if layout.target is not None and (labels := table.column(layout.target)).null_count:
        for row in np.flatnonzero(np.asarray(pc.is_null(labels))).tolist():
            reasons.setdefault(row, missing_label(layout.target))
    earlier = sorted(stretch.rejects, key=lambda reject: reject.line)
    batch = Batch(table, stretch.file, stretch.lines, tuple(earlier))
    if not reasons:
        return batch
    is_bad = np.zeros(len(batch), dtype=bool)
    is_bad[list(reasons)] = True
    lines = stretch.lines
    rejects = [
        Reject(stretch.file, int(lines[row]), reasons[row], stretch.text(row))
        for row in sorted(reasons)
    ]
    return batch.drop(is_bad, rejects)
