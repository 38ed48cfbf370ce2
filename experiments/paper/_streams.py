"""The data sets as streams: shuffled by a seed, because some files are sorted by class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest import datasets
from experiments.paper._run import Run


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows in the order in which they come."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    n_classes: int

    def rows(self, which: Any) -> Stream:
        """Return some of the rows."""
        return replace(self, X=self.X[which], y=self.y[which])

    def __len__(self) -> int:
        return len(self.y)


@cache  # all ten are about 50 MB
def _loaded(name: str, stands_in: bool) -> Stream:
    data = datasets.make_simulated(name) if stands_in else datasets.load(name)
    return Stream(data.X, data.y, len(data.classes))


def must_stand_in(run: Run) -> bool:
    """Return whether generated data take the place of absent ones, as they may in tiny runs."""
    return run.size == "tiny" and not datasets.are_available()


def stream(name: str, seed: int, max_rows: int | None, *, stands_in: bool = False) -> Stream:
    """Return a data set, or its first rows, in an order that the seed gives.

    If it `stands_in`, generated data of the same shape take its place.
    """
    whole = _loaded(name, stands_in)
    return whole.rows(np.random.default_rng(seed).permutation(len(whole))[:max_rows])


def split(
    name: str, seed: int, max_rows: int | None, *, stands_in: bool = False
) -> tuple[Stream, Stream]:
    """Return the stream to learn, and the 30 % that are held out."""
    whole = stream(name, seed, max_rows, stands_in=stands_in)
    n_test = round(0.3 * len(whole))
    return whole.rows(slice(n_test, None)), whole.rows(slice(n_test))
