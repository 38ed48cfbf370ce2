"""Drift: rows at which the predictions of a model became worse."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from amforest.evaluation.base_metric import Floats

BLOCK = 50  # rows whose sums are kept together
MOST_OF_A_SIZE = 5  # buckets; then the two oldest of them are joined
FEWEST = 100  # rows on each side of a change
BLOCKS_IN_MEAN = 40  # of the mean by which unbounded losses are divided
DELTA = 1e-6  # the false-alarm rate of a test, if losses are independent


@dataclass(frozen=True)
class Drift:
    """A change of the stream.

    Attributes
    ----------
    row : int
        The row at which it was detected, from 1.
    since : int
        The row after which the losses are higher, rounded to blocks.
    """

    row: int
    since: int


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
        Whether losses are between 0 and 1. If not, a loss x counts as x / (x + m), where m is a
        moving mean of the losses.

    Attributes
    ----------
    drifts : list of Drift

    Examples
    --------
    >>> from amforest.evaluation.drift import DriftDetector
    >>> detector = DriftDetector()
    >>> detector.update([0.1, 0.3] * 1000 + [0.6, 0.8] * 500)
    >>> [drift.since for drift in detector.drifts]
    [2000]
    """

    def __init__(self, *, is_bounded: bool = True) -> None:
        self._is_bounded, self._n_blocks, self._mean = is_bounded, 0, 0.0
        self.drifts: list[Drift] = []
        self._n_rows = 0
        self._block: Floats = np.empty(0)  # rows that do not fill a block yet
        # Of each bucket, the oldest first: blocks, sum, sum of squares, squares of block sums.
        self._buckets: Floats = np.empty((0, 4))

    def update(self, losses: Floats | list[float]) -> None:
        """Add the losses of some rows."""
        rows = np.append(self._block, np.asarray(losses, dtype=np.float64))
        n_full = len(rows) // BLOCK * BLOCK
        for block in rows[:n_full].reshape(-1, BLOCK):
            self._add(block)
        self._block = rows[n_full:]

    def _add(self, block: Floats) -> None:
        self._n_rows += BLOCK
        if not self._is_bounded:
            block = self._bound(block)
        total = float(block.sum())
        bucket = [1.0, total, float((block**2).sum()), total**2]
        self._buckets = _compress(np.vstack((self._buckets, bucket)))
        while (change := self._find_change()) is not None:
            place, is_rise = change
            if is_rise:
                newer = int(self._buckets[place:, 0].sum()) * BLOCK
                self.drifts.append(Drift(self._n_rows, self._n_rows - newer))
                self._buckets = self._buckets[:0]
            else:
                self._buckets = self._buckets[place:]

    def _bound(self, block: Floats) -> Floats:
        """Return losses as numbers between 0 and 1, by the mean loss before them."""
        own = float(block.mean())
        mean = self._mean if self._n_blocks else own
        self._n_blocks += 1
        self._mean = mean + (own - mean) / min(self._n_blocks + 1, BLOCKS_IN_MEAN)
        bounded: Floats = np.divide(block, block + mean, out=np.zeros(BLOCK), where=block > 0)
        return bounded

    def _find_change(self) -> tuple[int, bool] | None:
        """Return the most significant place at which the mean changes, and whether it rises."""
        totals = self._buckets.cumsum(axis=0)
        n = BLOCK * totals[:, 0]
        is_apart = (n >= FEWEST) & (n[-1:] - n >= FEWEST)
        if not is_apart.any():
            return None
        sides = totals[is_apart], totals[-1] - totals[is_apart]
        old, new = (BLOCK * side[:, 0] for side in sides)
        means = sides[0][:, 1] / old, sides[1][:, 1] / new
        variance = np.maximum(*(sum(parts) for parts in zip(*map(_spread, sides), strict=True)))
        variance /= n[-1]
        inverse, strength = 1 / old + 1 / new, log(len(n) / DELTA)
        bound = np.sqrt(2 * variance * strength * inverse) + 2 / 3 * strength * inverse
        excess = np.abs(means[1] - means[0]) / bound
        best = int(excess.argmax())
        if excess[best] <= 1:
            return None
        return int(np.flatnonzero(is_apart)[best]) + 1, bool(means[1][best] > means[0][best])


def _spread(side: Floats) -> tuple[Floats, Floats]:
    """Return n times the variance of rows, and n times that of blocks, as one row has it."""
    blocks, sums, squares, of_blocks = side.T
    squared_mean = (sums / (BLOCK * blocks)) ** 2
    n = BLOCK * blocks
    return squares - n * squared_mean, of_blocks - n * BLOCK * squared_mean


def _compress(buckets: Floats) -> Floats:
    """Join the two oldest buckets of each size that there is too often."""
    size = 1.0
    while len(same := np.flatnonzero(buckets[:, 0] == size)) > MOST_OF_A_SIZE:
        first, second = same[:2]
        buckets[second] += buckets[first]
        buckets = np.delete(buckets, first, axis=0)
        size *= 2
    return buckets
