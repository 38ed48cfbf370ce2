"""A long stream with drift and bounded memory: the forest must keep its size and its quality."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.contenders import ADAPTIVE, ADAPTIVE_CLASS, new_model
from benchmarks.quality.kept import kept
from benchmarks.quality.regression_adapter import predict_means
from benchmarks.quality.regression_contenders import ADAPTIVE_REG_CLASS
from benchmarks.quality.scores import losses
from benchmarks.quality.streams import Floats, Labels

MAX_BYTES = 200_000_000
N_FEATURES = 10
_PIECE = 10_000  # rows
_PERIOD = 250_000  # rows between two changes
_THRESHOLD = 0.8  # between the classes
_FLIPPED = 0.05  # of the labels
_NOISE = 0.5  # the standard deviation, where the labels are numbers
_STATUS = Path("/proc/self/status")


def measure(
    contender: str, n_rows: int, say: Callable[[str], None], is_again: bool = False
) -> dict[str, Any]:
    """Return the peaks of memory, and the loss of each tenth of the stream."""
    learn = _learn_classes if contender == ADAPTIVE else _learn_numbers
    result: dict[str, Any] = kept(
        "long", contender, (n_rows,), lambda: _run(*learn(n_rows), n_rows, say), is_again=is_again
    )
    return result


def _learn_classes(n_rows: int) -> tuple[Any, Iterator[Floats]]:
    """Return a classifier, and the log-losses of the rows that it predicts, then learns."""
    model = new_model(ADAPTIVE_CLASS, 0, max_bytes=MAX_BYTES)
    return model, (
        losses(model.partial_fit_predict_proba(X, y, classes=[0, 1]), y) for X, y in pieces(n_rows)
    )


def _learn_numbers(n_rows: int) -> tuple[Any, Iterator[Floats]]:
    """Return a regressor, and the squared errors of the rows."""
    model = new_model(ADAPTIVE_REG_CLASS, 0, max_bytes=MAX_BYTES)
    rng = np.random.default_rng(0)
    rows = ((X, z + _NOISE * rng.standard_normal(len(z))) for X, z in _concepts(n_rows, rng))
    return model, ((predict_means(model, X, y) - y) ** 2 for X, y in rows)


def pieces(n_rows: int) -> Iterator[tuple[Floats, Labels]]:
    """Yield rows with classes, some of which are flipped."""
    rng = np.random.default_rng(0)
    for X, z in _concepts(n_rows, rng):
        yield X, ((z > _THRESHOLD) ^ (rng.random(len(X)) < _FLIPPED)).astype(np.int64)


def _concepts(n_rows: int, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
    """Yield rows; each concept is as hard as the others: its features and signs are exchanged."""
    for start in range(0, n_rows, _PIECE):
        if start % _PERIOD == 0:
            order, signs = rng.permutation(N_FEATURES), rng.choice((-1.0, 1.0), N_FEATURES)
        X = rng.standard_normal((min(_PIECE, n_rows - start), N_FEATURES))
        Z = X[:, order] * signs
        yield X, Z[:, 0] + Z[:, 1] * Z[:, 2] + np.abs(Z[:, 3])


def _run(
    model: Any, row_losses: Iterator[Floats], n_rows: int, say: Callable[[str], None]
) -> dict[str, Any]:
    tenth = max(_PIECE, n_rows // 10)
    sums, counts = np.zeros(n_rows // tenth + 1), np.zeros(n_rows // tenth + 1)
    peak, n_done = 0, 0
    resident = highest = _resident()
    start = time.process_time()
    for piece in row_losses:
        part = n_done // tenth
        sums[part] += piece.sum()
        counts[part] += len(piece)
        n_done += len(piece)
        peak, highest = max(peak, int(model.stats()["bytes"])), max(highest, _resident())
        if n_done % (10 * _PIECE) == 0:
            seconds = time.process_time() - start
            say(f"{n_done:,} rows, {peak / 1e6:.0f} MB, {1e6 * seconds / n_done:.0f} µs per row")
    seconds = time.process_time() - start
    known = counts > 0
    return {
        "n_rows": n_rows,
        "peak_bytes": peak,
        "resident_growth": highest - resident,
        "losses": (sums[known] / counts[known]).tolist(),
        "us_per_row": 1e6 * seconds / n_rows,
    }


def _resident() -> int:
    """Return the resident set of this process in bytes; 0 if the system does not report it."""
    text = _STATUS.read_text() if _STATUS.exists() else ""
    match = re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(match[1]) if match else 0
