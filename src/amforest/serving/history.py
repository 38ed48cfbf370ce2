"""The past of a server, for pages that are opened later: a point each second, thinned with age."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

Point = dict[str, Any]  # with "tick", the number of the second


class History:
    """Points in time: all of the last minutes, and some of the whole time.

    Memory is bounded: whenever there are `most` points of the whole time, every other one is
    dropped, and from then on half as many are added.

    Parameters
    ----------
    n_recent : int, default=300
        The last points, all of which are kept.
    most : int, default=600
        The largest number of points of the whole time.

    Attributes
    ----------
    spacing : int
        The ticks between two points of the whole time.
    """

    def __init__(self, n_recent: int = 300, most: int = 600) -> None:
        self.spacing = 1
        self._most = most
        self._recent: deque[Point] = deque(maxlen=n_recent)
        self._all: list[Point] = []
        self._lock = Lock()

    def add(self, point: Point) -> None:
        """Add the newest point."""
        with self._lock:
            self._recent.append(point)
            if point["tick"] % self.spacing:
                return
            self._all.append(point)
            if len(self._all) >= self._most:
                self.spacing *= 2
                self._all = [old for old in self._all if old["tick"] % self.spacing == 0]

    def to_json(self) -> dict[str, Any]:
        """Return the points, the oldest first."""
        with self._lock:
            return {
                "spacing": self.spacing,
                "most": self._most,
                "n_recent": self._recent.maxlen,
                "all": list(self._all),
                "recent": list(self._recent),
            }
