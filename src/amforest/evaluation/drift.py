"""Drift: rows at which the predictions of a model became worse."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from amforest.evaluation.base_metric import Floats
from amforest.evaluation.feature_changes import FeatureChange
from amforest.model_io.json_values import floats_from_json, floats_to_json, from_json, to_json

BLOCK = 50  # rows whose sums are kept together
MOST_OF_A_SIZE = 5  # buckets; then the two oldest of them are joined
DELTA = 1e-3  # the false-alarm rate of a test, if losses are independent and its bound is tight
# Columns of the buckets; the squares of blocks are those of their sums.
BLOCKS, SUM, SQUARES, OF_BLOCKS, UNBOUNDED, ROWS = range(6)


class RiverDetector(Protocol):
    """A change detector of river, such as `river.drift.ADWIN`."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last number was one too many."""

    def update(self, x: Any) -> Any:
        """Take a number."""


@dataclass(frozen=True)
class Drift:
    """A change of the stream.

    Attributes
    ----------
    row : int
        The row at which it was detected, from 1.
    since : int
        The row after which the losses are higher, rounded to blocks of losses.
    before, after : float
        The mean loss of the rows up to `since`, back to the change before, and of those after it.
    changed : tuple of FeatureChange
        The features whose importance has changed most, where a `DriftWatch` has an adaptive forest.
    """

    row: int
    since: int
    before: float
    after: float
    changed: tuple[FeatureChange, ...] = ()


class DriftDetector:
    """Detect rows after which losses are higher than before.

    This is ADWIN (Bifet and Gavaldà, 2007) for rising losses: the losses since the last change are
    kept as sums over buckets whose sizes grow with their age. If the mean of the newer buckets
    exceeds that of the older ones by more than Bernstein's bound, there is a drift, and all losses
    are dropped. If it is as much lower, the model has learned, and the older buckets are dropped.
    The variance is that of means of blocks, if that is larger than that of rows: losses of rows
    close to each other are alike in many streams.

    Memory grows with the logarithm of the number of rows. The result does not depend on how rows
    are cut into batches.

    Parameters
    ----------
    is_bounded : bool, default=True
        Whether losses are between 0 and 1. If not, a loss x counts as x / (x + m), where m is the
        median of the first losses since the last change.
    detector : detector of river, default=None
        What detects changes instead of the bound: an object with `update(x)` and
        `drift_detected`. A copy of it gets the losses between 0 and 1. It is a drift if the losses
        are higher than before; where they have become lower, the model has learned.

    Attributes
    ----------
    drifts : list of Drift

    Examples
    --------
    >>> from amforest.evaluation.drift import DriftDetector
    >>> detector = DriftDetector()
    >>> (drift,) = detector.update([0.1, 0.3] * 1000 + [0.6, 0.8] * 500)
    >>> drift.since, round(drift.before, 3), round(drift.after, 3)
    (2000, 0.2, 0.7)
    """

    def __init__(self, *, is_bounded: bool = True, detector: RiverDetector | None = None) -> None:
        self._is_bounded = is_bounded
        self._scale: float | None = None  # of losses that are not bounded, until they change
        self._detector = deepcopy(detector)
        self.drifts: list[Drift] = []
        self._n_rows = 0
        # Losses that do not fill a block yet, and their rows.
        self._block: Floats = np.empty(0)
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._end = 0  # the last row of the newest bucket
        self._buckets: Floats = np.empty((0, 6))  # the oldest first

    def update(self, losses: Floats | list[float]) -> list[Drift]:
        """Add the losses of some rows, NaN where there is none; return drifts that are new."""
        new = np.asarray(losses, dtype=np.float64)
        numbers = np.arange(self._n_rows + 1, self._n_rows + len(new) + 1)
        self._n_rows += len(new)
        is_there = ~np.isnan(new)
        values = np.append(self._block, new[is_there])
        rows = np.append(self._rows, numbers[is_there])
        n_full = len(values) // BLOCK * BLOCK
        n_before = len(self.drifts)
        self._block, self._rows = values[n_full:], rows[n_full:]
        for start in range(0, n_full, BLOCK):
            block = slice(start, start + BLOCK)
            self._add(values[block], rows[block])
        return self.drifts[n_before:]

    def to_json(self) -> dict[str, Any]:
        """Return the state in values of JSON, without the drifts; TypeError with one of river."""
        if self._detector is not None:
            name = type(self._detector).__name__
            raise TypeError(f"detector is a {name} of river, whose state cannot be saved as JSON")
        return {
            "scale": to_json(self._scale, "scale"),
            "counts": [self._n_rows, self._end],
            "block": floats_to_json(self._block),
            "rows": self._rows.tolist(),
            "buckets": floats_to_json(self._buckets),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `to_json`."""
        self._scale = from_json(state["scale"])
        self._n_rows, self._end = (int(n) for n in state["counts"])
        self._rows = np.array(state["rows"], dtype=np.int64)
        self._block = floats_from_json(state["block"], self._rows.shape)
        self._buckets = floats_from_json(state["buckets"], (None, self._buckets.shape[1]))

    def _add(self, block: Floats, rows: NDArray[np.int64]) -> None:
        bounded = block if self._is_bounded else self._bound(block)
        total, end = float(bounded.sum()), int(rows[-1])
        bucket = [1.0, total, float((bounded**2).sum()), total**2, float(block.sum())]
        self._buckets = _compress(np.vstack((self._buckets, [*bucket, end - self._end])))
        self._end = end
        if self._detector is None:
            while (change := find_change(self._buckets))[0] > 1:
                self._divide(*change[1:], end)
            return
        for x, row in zip(bounded.tolist(), rows.tolist(), strict=True):
            self._detector.update(x)
            if self._detector.drift_detected:
                self._divide(*find_change(self._buckets)[1:], row)

    def _divide(self, place: int, is_rise: bool, row: int) -> None:
        """Note a drift before the bucket at a place, or drop the older ones."""
        older, newer = self._buckets[:place].sum(axis=0), self._buckets[place:].sum(axis=0)
        before, after = (
            float(side[UNBOUNDED] / max(BLOCK * side[BLOCKS], 1)) for side in (older, newer)
        )
        if is_rise:
            self.drifts.append(Drift(row, self._end - int(newer[ROWS]), before, after))
        if is_rise or (self._scale is not None and after < self._scale / 2):
            self._buckets, self._scale = self._buckets[:0], None
        else:
            self._buckets = self._buckets[place:]

    def _bound(self, block: Floats) -> Floats:
        """Return losses as numbers between 0 and 1."""
        if self._scale is None:
            self._scale = float(np.median(block)) or float(block.mean())
        bounded: Floats = np.divide(
            block, block + self._scale, out=np.zeros(BLOCK), where=block > 0
        )
        return bounded


def find_change(buckets: Floats) -> tuple[float, int, bool]:
    """Return before which bucket the mean changes most, and whether it rises there.

    First comes the change as a multiple of the largest that is not a change; 0 of a single bucket.
    """
    if len(buckets) < 2:
        return 0.0, 0, False
    totals = buckets.cumsum(axis=0)
    n = BLOCK * totals[:, BLOCKS]
    sides = totals[:-1], totals[-1] - totals[:-1]
    old, new = (BLOCK * side[:, BLOCKS] for side in sides)
    means = sides[0][:, SUM] / old, sides[1][:, SUM] / new
    variance = np.maximum(*(sum(parts) for parts in zip(*map(_spread, sides), strict=True)))
    variance /= n[-1]
    inverse, strength = 1 / old + 1 / new, log(len(n) / DELTA)
    bound = np.sqrt(2 * variance * strength * inverse) + 2 / 3 * strength * inverse
    excess = np.abs(means[1] - means[0]) / bound
    best = int(excess.argmax())
    return float(excess[best]), best + 1, bool(means[1][best] > means[0][best])


def _spread(side: Floats) -> tuple[Floats, Floats]:
    """Return n times the variance of rows, and n times that of blocks, as one row has it."""
    blocks, sums, squares, of_blocks = side.T[:UNBOUNDED]
    squared_mean = (sums / (BLOCK * blocks)) ** 2
    n = BLOCK * blocks
    return squares - n * squared_mean, of_blocks - n * BLOCK * squared_mean


def _compress(buckets: Floats) -> Floats:
    """Join the two oldest buckets of each size that there is too often."""
    size = 1.0
    while len(same := np.flatnonzero(buckets[:, BLOCKS] == size)) > MOST_OF_A_SIZE:
        first, second = same[:2]
        buckets[second] += buckets[first]
        buckets = np.delete(buckets, first, axis=0)
        size *= 2
    return buckets
