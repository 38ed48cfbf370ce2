"""The scale of columns of numbers, which follows a stream.

The random splits of AMF depend on the scales of its features, and a stream cannot be inspected
beforehand. So each column of numbers is standardised by the mean and the spread of its values so
far. If both changed with every value, nodes would lose their meaning; if they never changed, a
column that drifts would outgrow all others. So they are updated when the number of values doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FIRST_UPDATE = 100  # values; scales are updated at 100, 200, 400, …
_KEYS = ("first", "count", "sum", "squares", "mean", "spread")


class RunningScale:
    """The scales of some columns. The result does not depend on how rows are cut into batches.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self._first = np.full(n_columns, np.nan)  # subtracted from all, so that sums stay exact
        self._count, self._sum, self._squares = np.zeros((3, n_columns))
        self._mean, self._spread = np.zeros((2, n_columns))  # in force, of values minus the first

    def transform(self, rows: Floats) -> Floats:
        """Update the scales by rows, NaN where values are missing, and return the rows scaled."""
        out = np.full_like(rows, np.nan)
        for j, column in enumerate(rows.T):
            is_known = ~np.isnan(column)
            if is_known.any():
                out[is_known, j] = self._update(j, column[is_known])
        return out

    def apply(self, rows: Floats) -> Floats:
        """Return rows scaled by the scales in force, without updating these."""
        return np.where(
            np.isnan(rows), np.nan, _ratio(rows - self._first - self._mean, self._spread)
        )

    def restore(self, j: int, value: float) -> float:
        """Return the value of column j that `apply` scales to this one."""
        return float(self._first[j] + self._mean[j] + value * self._spread[j])

    def _update(self, j: int, values: Floats) -> Floats:
        """Scale each value by the values up to it, or up to the last update."""
        if np.isnan(self._first[j]):
            self._first[j] = values[0]
        values = values - self._first[j]
        before = int(self._count[j])
        counts = before + np.arange(1, len(values) + 1)
        # In order, from the sums before: so they do not depend on how rows are cut.
        sums = np.cumsum(np.append(self._sum[j], values))[1:]
        squares = np.cumsum(np.append(self._squares[j], values**2))[1:]
        self._count[j], self._sum[j], self._squares[j] = counts[-1], sums[-1], squares[-1]

        means = np.append(self._mean[j], sums / counts)
        spreads = np.append(self._spread[j], _spread(counts, sums, squares))
        updated = np.maximum(_last_update(counts) - before, 0)  # 0: before this batch
        self._mean[j], self._spread[j] = means[updated[-1]], spreads[updated[-1]]
        return _ratio(values - means[updated], spreads[updated])

    def to_json(self) -> dict[str, list[Any]]:
        """Return the state in values of JSON."""
        columns = (self._first, self._count, self._sum, self._squares, self._mean, self._spread)
        lists = [[None if np.isnan(x) else x for x in column.tolist()] for column in columns]
        return dict(zip(_KEYS, lists, strict=True))

    @classmethod
    def from_json(cls, state: dict[str, list[Any]]) -> RunningScale:
        """Restore the result of `to_json`; ValueError if `state` is nothing like it."""
        first, *rest = (np.array(state[key], dtype=np.float64) for key in _KEYS)
        if any(values.shape != first.shape or first.ndim != 1 for values in rest):
            raise ValueError("scales must be lists of one length")
        if not all(np.isfinite(values).all() for values in rest):
            raise ValueError("scales must be finite")
        scale = cls(len(first))
        scale._first = first
        scale._count, scale._sum, scale._squares, scale._mean, scale._spread = rest
        return scale


def _last_update(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of values at the last update."""
    doublings = np.log2(np.maximum(counts, FIRST_UPDATE) / FIRST_UPDATE).astype(np.int64)
    return np.where(counts < FIRST_UPDATE, counts, FIRST_UPDATE << doublings)


def _spread(counts: NDArray[np.int64], sums: Floats, squares: Floats) -> Floats:
    variance = squares / counts - (sums / counts) ** 2
    # A variance within the rounding error is 0.
    return np.where(variance > 1e-12 * squares / counts, np.sqrt(np.maximum(variance, 0)), 0.0)


def _ratio(values: Floats, spreads: Floats) -> Floats:
    return np.divide(values, spreads, out=np.zeros_like(values), where=spreads > 0)
