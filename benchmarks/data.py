"""The streams: the paper's ten data sets in a fixed random order, and uniform points."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from amforest import datasets


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows to learn, in order."""

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    n_classes: int

    def first(self, n_rows: int) -> "Stream":
        """Return the beginning of the stream."""
        return replace(self, X=self.X[:n_rows], y=self.y[:n_rows])


def are_real() -> bool:
    """Return whether the paper's data sets are available; otherwise generated ones are used."""
    return datasets.are_available()


def stream(name: str, max_rows: int | None) -> Stream:
    """Return the first rows of a data set, shuffled by a fixed seed."""
    dataset = datasets.load(name) if are_real() else datasets.make_simulated(name)
    order = np.random.default_rng(0).permutation(len(dataset.y))[:max_rows]
    return Stream(name, dataset.X[order], dataset.y[order], len(dataset.classes))


def uniform(n_rows: int, seed: int) -> Stream:
    """Return points uniform in [0, 1]^16 with random labels, so that the trees keep growing."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 16), dtype=np.float32)
    return Stream("uniform", X, rng.integers(2, size=n_rows), 2)
