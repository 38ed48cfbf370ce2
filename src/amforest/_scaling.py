"""Columns of numbers brought to comparable scales while they come.

The random splits of a forest depend on the scales of its features, and a stream cannot be looked at
beforehand. So a column is standardised by the mean and the spread of its values so far, until it
has had enough of them; from then on both stay as they are, and with them the meaning of the nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ENOUGH = 100  # values: on the paper's data sets as good as a look at all of them


class RunningScale:
    """The scales of some columns. However rows are cut into batches, the result is the same.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self._first = np.full(n_columns, np.nan)  # subtracted from all, so that sums stay exact
        self._count = np.zeros(n_columns)
        self._sum = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)

    def transform(self, rows: Floats) -> Floats:
        """Take in rows, NaN where values are missing, and return them scaled."""
        out = np.empty_like(rows)
        for j in range(rows.shape[1]):
            out[:, j] = self._scaled(j, rows[:, j])
        return out

    def _scaled(self, j: int, column: Floats) -> Floats:
        is_open = self._count[j] < ENOUGH or self._spread(j) == 0
        end = self._end(j, column) if is_open else 0
        head, tail = column[:end], column[end:]
        scaled = np.empty_like(column)
        scaled[:end] = self._take_in(j, head)
        spread = self._spread(j)
        if len(tail):
            mean = self._first[j] + self._sum[j] / self._count[j]
            scaled[end:] = (tail - mean) / spread
        return scaled

    def _end(self, j: int, column: Floats) -> int:
        """Return after how many values the scale of a column is settled."""
        seen = ~np.isnan(column)
        values = column[seen]
        if not len(values):
            return len(column)
        first = values[0] if np.isnan(self._first[j]) else self._first[j]
        varies = np.logical_or.accumulate(values != first) | (self._spread(j) > 0)
        settled = varies & (self._count[j] + np.arange(1, len(values) + 1) >= ENOUGH)
        if not settled.any():
            return len(column)
        return int(np.flatnonzero(seen)[np.argmax(settled)]) + 1

    def _take_in(self, j: int, column: Floats) -> Floats:
        """Scale each value by those up to it."""
        scaled = np.full_like(column, np.nan)
        seen = ~np.isnan(column)
        values = column[seen]
        if not len(values):
            return scaled
        if np.isnan(self._first[j]):
            self._first[j] = values[0]
        values = values - self._first[j]
        counts = self._count[j] + np.arange(1, len(values) + 1)
        # In order, from what was there: so the sums do not depend on how rows are cut.
        sums = np.cumsum(np.append(self._sum[j], values))[1:]
        squares = np.cumsum(np.append(self._squares[j], values**2))[1:]
        self._count[j], self._sum[j], self._squares[j] = counts[-1], sums[-1], squares[-1]
        spread = _spread(counts, sums, squares)
        scaled[seen] = np.divide(
            values - sums / counts, spread, out=np.zeros_like(values), where=spread > 0
        )
        return scaled

    def _spread(self, j: int) -> float:
        if not self._count[j]:
            return 0.0
        return float(_spread(self._count[j], self._sum[j], self._squares[j]))

    def to_json(self) -> dict[str, list[Any]]:
        """Return the state in values of JSON."""
        first = [None if np.isnan(x) else x for x in self._first.tolist()]
        sums = (self._count, self._sum, self._squares)
        return dict(zip(_KEYS, (first, *(values.tolist() for values in sums)), strict=True))

    @classmethod
    def from_json(cls, state: dict[str, list[Any]]) -> RunningScale:
        """Undo `to_json`; ValueError if it is nothing that it gives."""
        first, *sums = (np.array(state[key], dtype=np.float64) for key in _KEYS)
        if any(values.shape != first.shape or first.ndim != 1 for values in sums):
            raise ValueError("scales must be lists of one length")
        if not all(np.isfinite(values).all() for values in sums):
            raise ValueError("scales must be finite")
        scale = cls(len(first))
        scale._first = first
        scale._count, scale._sum, scale._squares = sums
        return scale


_KEYS = ("first", "count", "sum", "squares")


def _spread(count: Any, total: Any, squares: Any) -> Any:
    variance = np.maximum(squares / count - (total / count) ** 2, 0.0)
    # What is left of rounding is no spread.
    return np.where(variance > 1e-12 * squares / count, np.sqrt(variance), 0.0)
