"""A warning where the spreads of features differ so much that narrow ones are hardly split."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from amforest._forest.caller import caller_level
from amforest._forest.encoder import Encoder
from amforest._forest.inputs import Features, Sparse, dense

if TYPE_CHECKING:
    from amforest._forest.core_handle import Core, Fitted

N_ROWS = 100  # whose spreads are compared
LARGEST_RATIO = 1e4
MOST_NAMED = 5  # narrow columns in a warning


class ScaleWarning(UserWarning):
    """The spreads of numeric features differ by a factor of more than 10⁴."""


class ScaleCheck:
    """Compares the spreads of the first N_ROWS rows, once.

    Always of exactly these rows, so that the warning does not depend on batches. Before a batch
    that holds the last of them, its rows are added to the range of the first tree's root; after a
    single row, the root has seen them all. Nothing needs to be saved.
    """

    __slots__ = ("advice", "is_over", "message")

    def __init__(self, advice: str | None = None) -> None:
        self.advice = advice  # what to do; None: there is no warning
        self.restart()

    def restart(self) -> None:
        """Expect the first row of a new forest."""
        self.is_over = self.advice is None
        self.message: str | None = None

    def look_ahead(
        self, core: Core, encoder: Encoder, rows: Features | Sparse, learned: NDArray[np.intp]
    ) -> None:
        """Compare the spreads before a batch, if it holds row N_ROWS of those learned."""
        if self.is_over:
            return
        self.message, n_before = None, core.n_samples
        if n_before < N_ROWS <= n_before + len(learned):
            numbers = dense(rows[learned[: N_ROWS - n_before]])[:, rows.shape[1] - core.n_numbers :]
            self._compare(core, encoder, numbers)

    def look_back(self, fitted: Fitted) -> None:
        """Compare the spreads after one row, if it was row N_ROWS; then warn."""
        self.message = None
        if fitted.core.n_samples == N_ROWS:
            with suppress(MemoryError):  # the row is learned: its call must not fail
                self._compare(fitted.core, fitted.encoder, np.empty((0, fitted.core.n_numbers)))
        self.finish(fitted)

    def finish(self, fitted: Fitted) -> None:
        """Warn if the rows that were compared are learned."""
        if self.is_over or fitted.core.n_samples < N_ROWS:
            return
        self.is_over = True
        if self.message is not None:
            warnings.warn(self.message, ScaleWarning, stacklevel=caller_level())

    def _compare(self, core: Core, encoder: Encoder, numbers: NDArray[Any]) -> None:
        if core.bounds is not None:
            return  # an unrestricted partition has its bounds instead
        if core.n_samples:
            root = core.tree_table(0)
            numbers = np.vstack([root["lower"][:1], root["upper"][:1], numbers])
        with np.errstate(all="ignore"):  # the core refuses infinite values
            lower, upper = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
            spreads = np.asarray(upper, np.float64) - lower
        self.message = _describe(spreads, encoder, self.advice)


def _describe(spreads: NDArray[np.float64], encoder: Encoder, advice: str | None) -> str | None:
    """Return the warning; None if the spreads are similar. 0 and NaN do not count."""
    if not np.any(spreads > 0):
        return None
    widest = int(np.nanargmax(spreads))
    narrow = np.flatnonzero((spreads > 0) & (spreads * LARGEST_RATIO < spreads[widest])).tolist()
    if not narrow:
        return None
    narrow.sort(key=lambda j: spreads[j])
    names, ratio = encoder.number_names(), spreads[widest] / spreads[narrow[0]]
    wide, *others = (f"{spreads[j]:.2g} in {names[j]}" for j in (widest, *narrow[:MOST_NAMED]))
    more = f" and {len(narrow) - MOST_NAMED} more columns" if len(narrow) > MOST_NAMED else ""
    return (
        f"the spreads of the features differ by a factor of {ratio:.2g} in the first {N_ROWS} "
        f"rows: {wide}, but {', '.join(others)}{more}. Splits are drawn in proportion to the "
        f"spreads, so narrow columns are hardly used: {advice}"
    )
