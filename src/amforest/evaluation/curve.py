"""The curve of an evaluation: the values of its metrics after so many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FIRST_EVERY = 10  # rows between two points of a curve, at first
MOST_POINTS = 400


class Curve:
    """Values after so many rows; if nobody says how many, their number is bounded."""

    def __init__(self, every: int | None) -> None:
        self._thins = every is None
        self._every = FIRST_EVERY if every is None else int(every)
        self._points: dict[int, dict[str, float]] = {}
        self.next = self._every

    def add(self, row: int, point: dict[str, float]) -> None:
        """Take a point; if there are too many, drop every other one."""
        self._points[row] = point
        if self._thins and len(self._points) >= MOST_POINTS:
            self._every *= 2
            kept = {row: point for row, point in self._points.items() if row % self._every == 0}
            self._points = kept
        self.next = row - row % self._every + self._every

    def arrays(self, n_rows: int, last: dict[str, float]) -> dict[str, NDArray[Any]]:
        """Return the points, and one for now."""
        points = self._points | ({n_rows: last} if n_rows else {})
        curve: dict[str, NDArray[Any]] = {"row": np.array(list(points), dtype=np.int64)}
        for name in last:
            curve[name] = np.array([point[name] for point in points.values()])
        return curve


def point_of(metrics: dict[str, float], window: dict[str, float]) -> dict[str, float]:
    """Return the values of all metrics, over all rows and over the last, by their names."""
    pairs = ((name, f"{name}_window") for name in metrics)
    return {
        key: value
        for name, name_window in pairs
        for key, value in ((name, metrics[name]), (name_window, window[name]))
    }
