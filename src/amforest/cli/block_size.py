"""The number of rows that are predicted and learned at once, by the time that they take."""

from __future__ import annotations

from amforest.cli.settings import ROWS_PER_BLOCK

FIRST_ROWS = 32  # before the speed is known
SECONDS_PER_BLOCK = 0.05  # Ctrl-C waits for the end of a block


class BlockSize:
    """Rows for `SECONDS_PER_BLOCK`, at the speed of the last block. No result depends on it.

    Attributes
    ----------
    n_rows : int
        The number of rows of the next block.
    """

    def __init__(self) -> None:
        self.n_rows = FIRST_ROWS

    def update(self, n_rows: int, seconds: float) -> None:
        """Record a block; one that is fast for once at most doubles the next."""
        per_row = max(seconds, 1e-9) / n_rows
        fitting = int(min(SECONDS_PER_BLOCK / per_row, ROWS_PER_BLOCK))
        self.n_rows = max(1, min(fitting, 2 * self.n_rows))
