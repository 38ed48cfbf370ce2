"""Recovery after all labels are exchanged: how many rows until the accuracy is back."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.contenders import CONTENDERS
from benchmarks.quality.kept import kept
from benchmarks.quality.streams import flipped

WINDOW = 200  # rows
TOLERANCE = 0.02  # of accuracy
_BEFORE = 2_000  # rows


@dataclass(frozen=True)
class Recovery:
    """The accuracy before the exchange, its minimum after it, and the rows until it is back."""

    before: float
    lowest: float
    rows: int  # all that are left, if it does not come back
    is_complete: bool


def measure(contender: str, seed: int, n_rows: int) -> Recovery:
    """Return the recovery of a contender on two Gaussians in 20 features."""
    case = (n_rows, seed)
    return Recovery(**kept("recovery", contender, case, lambda: _run(contender, seed, n_rows)))


def _run(contender: str, seed: int, n_rows: int) -> dict[str, float]:
    stream = flipped(n_rows, seed)
    predictions, _ = CONTENDERS[contender].test_then_train(stream, seed)
    return vars(recovery((predictions.argmax(axis=1) == stream.y).astype(np.float64)))


def recovery(is_correct: NDArray[np.float64]) -> Recovery:
    """Return the recovery after the middle of a stream."""
    half = len(is_correct) // 2
    before = float(is_correct[max(0, half - _BEFORE) : half].mean())
    means = np.convolve(is_correct[half:], np.full(WINDOW, 1 / WINDOW), mode="valid")
    is_back = means >= before - TOLERANCE - 1e-9
    rows = int(np.argmax(is_back)) + WINDOW if is_back.any() else len(is_correct) - half
    return Recovery(before, float(means.min()), rows, bool(is_back.any()))
