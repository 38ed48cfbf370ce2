"""Scores of predicted numbers: squared errors by blocks of rows."""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.quality.scores import BLOCK
from benchmarks.quality.streams import Floats


@dataclass(frozen=True)
class RegressionScores:
    """The result of one run; sums are by block of rows, the last one may be shorter.

    The first row is not scored: nothing is known before it, not even the unit of y.
    """

    n_rows: int
    square_sums: list[float]
    us_per_row: float

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(sum(self.square_sums) / (self.n_rows - 1)))

    def first(self, n_rows: int) -> "RegressionScores":
        """Return the scores of the first rows; blocks are not cut."""
        if n_rows >= self.n_rows:
            return self
        n_blocks = n_rows // BLOCK
        return replace(self, n_rows=n_blocks * BLOCK, square_sums=self.square_sums[:n_blocks])


def score_numbers(predictions: Floats, y: Floats, seconds: float) -> RegressionScores:
    """Return the scores of predictions."""
    squares = (predictions - y) ** 2
    squares[0] = 0.0
    starts = np.arange(0, len(y), BLOCK)
    sums = np.add.reduceat(squares, starts)
    return RegressionScores(len(y), sums.tolist(), 1e6 * seconds / len(y))
