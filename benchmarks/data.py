"""The streams to learn: the paper's ten data sets in one fixed random order, and uniform ones."""

import os
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from amforest import datasets

# Rows, features and classes of the paper's data sets.
SHAPES = {
    "adult": (32_561, 107, 2),
    "bank": (45_211, 51, 2),
    "car": (1_728, 21, 4),
    "cardio": (2_126, 24, 3),
    "churn": (3_333, 71, 2),
    "default_cb": (30_000, 23, 2),
    "letter": (20_000, 16, 26),
    "satimage": (5_104, 36, 6),
    "sensorless": (58_509, 48, 11),
    "spambase": (4_601, 57, 2),
}


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows to be learnt in their order."""

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    n_classes: int

    def first(self, n_rows: int) -> "Stream":
        """Return the beginning of the stream."""
        return replace(self, X=self.X[:n_rows], y=self.y[:n_rows])


def are_real() -> bool:
    """Return whether the paper's data sets are at hand; if not, generated ones stand in."""
    return bool(os.environ.get("AMFOREST_DATA"))


def stream(name: str, max_rows: int | None) -> Stream:
    """Return the first rows of a data set, shuffled by a fixed seed."""
    if are_real():
        dataset = datasets.load(name)
        X, y, n_classes = dataset.X, dataset.y, len(dataset.classes)
    else:
        X, y, n_classes = _generated(*SHAPES[name])
    order = np.random.default_rng(0).permutation(len(y))[:max_rows]
    return Stream(name, X[order], y[order], n_classes)


def uniform(n_rows: int, seed: int) -> Stream:
    """Return points uniform in [0, 1]^16 with fair coins for labels, so that the trees grow."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 16), dtype=np.float32)
    return Stream("uniform", X, rng.integers(2, size=n_rows), 2)


def _generated(
    n_rows: int, n_features: int, n_classes: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Return uniform points; the largest of n_classes linear scores gives the label."""
    rng = np.random.default_rng(1)
    X = rng.random((n_rows, n_features), dtype=np.float32)
    scores = (X - 0.5) @ rng.standard_normal((n_features, n_classes))
    return X, np.argmax(scores, axis=1), n_classes
