"""The base of all metrics: sums over all rows of a stream, and the terms of the last rows."""

from __future__ import annotations

from math import nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from amforest.model_io.json_values import floats_from_json, floats_to_json, from_json, to_json

Floats = NDArray[np.float64]


class Ring:
    """The last rows of a table to which rows are appended; missing columns are 0."""

    def __init__(self, size: int) -> None:
        self._rows: Floats = np.empty((size, 0))
        self._n_pushed = 0

    def push(self, *columns: Floats) -> None:
        """Append rows; each argument is one column or several."""
        size, n_new = len(self._rows), len(columns[0])
        parts = [part[:, None] if part.ndim == 1 else part for part in columns]
        width = sum(part.shape[1] for part in parts)
        if width > self._rows.shape[1]:
            self._rows = np.pad(self._rows, ((0, 0), (0, width - self._rows.shape[1])))
        kept = min(n_new, size)
        places = np.arange(self._n_pushed + n_new - kept, self._n_pushed + n_new) % size
        first = 0
        for part in parts:
            self._rows[places, first : first + part.shape[1]] = part[n_new - kept :]
            first += part.shape[1]
        self._n_pushed += n_new

    def rows(self) -> Floats:
        """Return the rows, the oldest first."""
        size = len(self._rows)
        if self._n_pushed <= size:
            return self._rows[: self._n_pushed]
        return np.roll(self._rows, -(self._n_pushed % size), axis=0)

    def to_json(self) -> Any:
        """Return the rows in values of JSON."""
        return floats_to_json(self.rows())

    def restore(self, state: Any) -> None:
        """Continue from the result of `to_json`."""
        size, rows = len(self._rows), floats_from_json(state, (None, None))
        if len(rows) > size:
            raise ValueError(f"there are {len(rows)} last rows, more than {size}")
        self._rows = np.zeros((size, rows.shape[1]))
        self._rows[: len(rows)] = rows
        self._n_pushed = len(rows)


class Metric:
    """The base of all metrics.

    A metric keeps sums over all rows, and the terms of each of the last rows. Sums are taken in the
    order of the rows, so that no value depends on how the stream is cut into batches.

    A subclass defines the terms of a row, how they are added up, and the value of the sums
    (`value`) and of some rows (`_of`). It names the attributes that hold its sums (`_sums`).

    Parameters
    ----------
    window : int
        The number of last rows that `window_value` covers.
    """

    needs_probabilities: ClassVar[bool] = False
    needs_intervals: ClassVar[bool] = False  # they are its predictions, then
    _sums: ClassVar[tuple[str, ...]]

    def __init__(self, window: int) -> None:
        self._last = Ring(window)

    def update(self, y: NDArray[Any], predictions: Any, weight: Floats | None = None) -> None:
        """Add some rows: labels, predictions and weights."""
        if not len(y):
            return
        weights = np.ones(len(y)) if weight is None else weight
        terms = self._terms(y, predictions)
        self._last.push(weights, terms)
        self._add(weights, terms)

    @property
    def value(self) -> float:
        """The value over all rows; NaN if there are none."""
        raise NotImplementedError

    @property
    def window_value(self) -> float:
        """The value over the last rows."""
        rows = self._last.rows()
        return self._of(rows[:, 0], rows[:, 1:]) if rows.size else nan

    def to_json(self) -> dict[str, Any]:
        """Return the state in values of JSON."""
        sums = {name: getattr(self, name) for name in self._sums}
        return {"last": self._last.to_json()} | {
            name: floats_to_json(value) if isinstance(value, np.ndarray) else to_json(value, name)
            for name, value in sums.items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `to_json`."""
        self._last.restore(state["last"])
        for name in self._sums:
            like = getattr(self, name)
            if isinstance(like, np.ndarray):  # of length 0 in the direction of the classes
                value: Any = floats_from_json(state[name], tuple(n or None for n in like.shape))
            else:
                value = from_json(state[name])
            setattr(self, name, value)

    def _terms(self, y: NDArray[Any], predictions: Any) -> Floats:
        raise NotImplementedError

    def _add(self, weights: Floats, terms: Floats) -> None:
        raise NotImplementedError

    def _of(self, weights: Floats, terms: Floats) -> float:
        raise NotImplementedError


class Mean(Metric):
    """The mean of one term of each row."""

    _weight = _sum = 0.0
    _sums: ClassVar[tuple[str, ...]] = ("_weight", "_sum")

    @property
    def value(self) -> float:
        """The mean over all rows."""
        return ratio(self._sum, self._weight)

    def _add(self, weights: Floats, terms: Floats) -> None:
        self._weight = add_in_order(self._weight, weights)
        self._sum = add_in_order(self._sum, weights * terms)

    def _of(self, weights: Floats, terms: Floats) -> float:
        return ratio(dot(weights, terms[:, 0]), float(weights.sum()))


def add_in_order(total: float, values: Floats) -> float:
    """Add values to a total, one after another."""
    return float(np.cumsum(np.append(total, values))[-1])


def dot(a: Floats, b: Floats) -> float:
    """Return Σ a b without BLAS, whose sums depend on its number of threads."""
    return float((a * b).sum())


def ratio(a: float, b: float) -> float:
    """Return a / b, or NaN if b is 0."""
    return a / b if b else nan
