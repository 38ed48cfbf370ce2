"""The time of a batch as a sum of costs, fitted to measurements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class Case:
    """A forest on some actors that learns batches of some rows."""

    family: str
    n_trees: int
    n_actors: int
    n_rows: int


@dataclass(frozen=True)
class Costs:
    """Seconds: of a batch, of an actor's call, of a row, and of a row and tree."""

    batch: float
    actor: float
    row: float
    joined: float  # what the driver does with a tree's prediction of a row
    learned: float  # by a tree in a shard

    def of_batch(self, case: Case, n_cores: int) -> float:
        """Return the seconds of a batch, where so many cores work on shards."""
        return float(_terms(case, n_cores) @ np.array(self.values()))

    def values(self) -> tuple[float, ...]:
        """Return the costs in the order of the terms."""
        return self.batch, self.actor, self.row, self.joined, self.learned


def _terms(case: Case, n_cores: int) -> np.ndarray:
    cells = case.n_rows * case.n_trees
    n_at_once = min(case.n_actors, n_cores)
    return np.array([1, case.n_actors, case.n_rows, cells, cells / n_at_once], dtype=float)


def fit(measured: Iterable[tuple[Case, float]], n_cores: int) -> Costs:
    """Return the costs, none negative, with the least squares of relative errors."""
    rows = [(_terms(case, n_cores) / seconds) for case, seconds in measured]
    costs, _ = nnls(np.array(rows), np.ones(len(rows)))
    return Costs(*map(float, costs))
