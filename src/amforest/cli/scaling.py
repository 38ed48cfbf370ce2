"""Columns of numbers brought to comparable scales while they come.

The random splits of a forest depend on the scales of its features, and a stream cannot be looked at
beforehand. So a column is standardised by the mean and the spread of its values so far. If both
moved with each value, nodes would lose their meaning; if they stood still, a column that drifts
would grow beyond all others. So they are renewed when there are twice as many values as last time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ENOUGH = 100  # values, from which on scales are renewed at 100, 200, 400, …
_KEYS = ("first", "count", "sum", "squares", "mean", "spread")


class RunningScale:
    """The scales of some columns. However rows are cut into batches, the result is the same.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self._first = np.full(n_columns, np.nan)  # subtracted from all, so that sums stay exact
        self._count, self._sum, self._squares = np.zeros((3, n_columns))
        self._mean, self._spread = np.zeros((2, n_columns))  # in force; the mean of what is left

    def transform(self, rows: Floats) -> Floats:
        """Take in rows, NaN where values are missing, and return them scaled."""
        out = np.full_like(rows, np.nan)
        for j, column in enumerate(rows.T):
            seen = ~np.isnan(column)
            if seen.any():
                out[seen, j] = self._take_in(j, column[seen])
        return out

    def apply(self, rows: Floats) -> Floats:
        """Scale rows by what is known so far, and take in nothing."""
        return np.where(
            np.isnan(rows), np.nan, _ratio(rows - self._first - self._mean, self._spread)
        )

    def _take_in(self, j: int, values: Floats) -> Floats:
        """Scale each value by those up to it, or up to the last renewal."""
        if np.isnan(self._first[j]):
            self._first[j] = values[0]
        values = values - self._first[j]
        before = int(self._count[j])
        counts = before + np.arange(1, len(values) + 1)
        # In order, from what was there: so the sums do not depend on how rows are cut.
        sums = np.cumsum(np.append(self._sum[j], values))[1:]
        squares = np.cumsum(np.append(self._squares[j], values**2))[1:]
        self._count[j], self._sum[j], self._squares[j] = counts[-1], sums[-1], squares[-1]

        means = np.append(self._mean[j], sums / counts)
        spreads = np.append(self._spread[j], _spread(counts, sums, squares))
        renewed = np.maximum(_renewal(counts) - before, 0)  # 0: before this batch
        self._mean[j], self._spread[j] = means[renewed[-1]], spreads[renewed[-1]]
        return _ratio(values - means[renewed], spreads[renewed])

    def to_json(self) -> dict[str, list[Any]]:
        """Return the state in values of JSON."""
        columns = (self._first, self._count, self._sum, self._squares, self._mean, self._spread)
        lists = [[None if np.isnan(x) else x for x in column.tolist()] for column in columns]
        return dict(zip(_KEYS, lists, strict=True))

    @classmethod
    def from_json(cls, state: dict[str, list[Any]]) -> RunningScale:
        """Undo `to_json`; ValueError if it is nothing that it gives."""
        first, *rest = (np.array(state[key], dtype=np.float64) for key in _KEYS)
        if any(values.shape != first.shape or first.ndim != 1 for values in rest):
            raise ValueError("scales must be lists of one length")
        if not all(np.isfinite(values).all() for values in rest):
            raise ValueError("scales must be finite")
        scale = cls(len(first))
        scale._first = first
        scale._count, scale._sum, scale._squares, scale._mean, scale._spread = rest
        return scale


def _renewal(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many values there were when the scale that is in force was found."""
    doublings = np.log2(np.maximum(counts, ENOUGH) / ENOUGH).astype(np.int64)
    return np.where(counts < ENOUGH, counts, ENOUGH << doublings)


def _spread(counts: NDArray[np.int64], sums: Floats, squares: Floats) -> Floats:
    variance = squares / counts - (sums / counts) ** 2
    # What is left of rounding is no spread.
    return np.where(variance > 1e-12 * squares / counts, np.sqrt(np.maximum(variance, 0)), 0.0)


def _ratio(values: Floats, spreads: Floats) -> Floats:
    return np.divide(values, spreads, out=np.zeros_like(values), where=spreads > 0)
