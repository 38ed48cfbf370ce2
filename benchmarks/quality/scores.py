"""Scores of predictions: log-loss and accuracy by blocks of rows."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.streams import Floats, Labels

BLOCK = 500  # rows
UNIFORM = 0.001  # of this are all predictions: a probability of 0 costs 7 nats and more, not ∞


@dataclass(frozen=True)
class Scores:
    """The result of one run; sums are by block of rows, the last one may be shorter."""

    n_rows: int
    loss_sums: list[float]
    correct_sums: list[int]
    us_per_row: float

    @property
    def log_loss(self) -> float:
        """The mean log-loss."""
        return sum(self.loss_sums) / self.n_rows

    @property
    def accuracy(self) -> float:
        """The fraction of rows whose class was predicted."""
        return sum(self.correct_sums) / self.n_rows

    def first(self, n_rows: int) -> "Scores":
        """Return the scores of the first rows; blocks are not cut."""
        if n_rows >= self.n_rows:
            return self
        n_blocks = n_rows // BLOCK
        losses, corrects = self.loss_sums[:n_blocks], self.correct_sums[:n_blocks]
        return replace(self, n_rows=n_blocks * BLOCK, loss_sums=losses, correct_sums=corrects)

    def write(self, path: Path) -> None:
        """Write a file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        partial.replace(path)


def read(path: Path) -> Scores | None:
    """Return the scores in a file, if there is one."""
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Scores(**content)


def probabilities(predictions: Floats) -> Floats:
    """Return rows that sum to 1, mixed with the uniform distribution; rows of zeros are uniform."""
    n_classes = predictions.shape[1]
    sums = predictions.sum(axis=1, keepdims=True)
    known = np.divide(
        predictions, sums, out=np.full(predictions.shape, 1 / n_classes), where=sums > 0
    )
    mixed: Floats = (1 - UNIFORM) * known + UNIFORM / n_classes
    return mixed


def losses(predictions: Floats, y: Labels) -> Floats:
    """Return the log-loss of each row."""
    p = probabilities(predictions)
    result: Floats = -np.log(p[np.arange(len(y)), y])
    return result


def score(predictions: Floats, y: Labels, seconds: float) -> Scores:
    """Return the scores of predictions."""
    starts = np.arange(0, len(y), BLOCK)
    correct = (predictions.argmax(axis=1) == y).astype(np.int64)
    return Scores(
        n_rows=len(y),
        loss_sums=np.add.reduceat(losses(predictions, y), starts).tolist(),
        correct_sums=np.add.reduceat(correct, starts).tolist(),
        us_per_row=1e6 * seconds / len(y),
    )
