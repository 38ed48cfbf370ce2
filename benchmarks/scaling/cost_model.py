"""The time of a batch as a sum of costs, fitted to measurements."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Seconds of CPU time, of the driver and of a shard."""

    batch: float  # of the driver
    actor: float  # of the driver, for the call of each
    row: float  # of the driver
    joined: float  # of the driver, for a row and a tree
    stored: float  # of a shard, for a row
    learned: float  # of a shard, for a row and a tree

    def of_driver(self, case: Case) -> float:
        """Return the driver's CPU time of a batch."""
        return float(_driver_terms(case) @ [self.batch, self.actor, self.row, self.joined])

    def of_shard(self, case: Case) -> float:
        """Return a shard's CPU time of a batch."""
        return float(_shard_terms(case) @ [self.stored, self.learned])

    def of_batch(self, case: Case, n_cores: int) -> float:
        """Return the time of a batch where driver and shards share so many cores.

        Batches follow each other, so that driver and shards work at the same time.
        """
        driver, shard = self.of_driver(case), self.of_shard(case)
        return max(driver, shard, (driver + case.n_actors * shard) / n_cores)


def _driver_terms(case: Case) -> np.ndarray:
    cells = case.n_rows * case.n_trees
    return np.array([1, case.n_actors, case.n_rows, cells], dtype=float)


def _shard_terms(case: Case) -> np.ndarray:
    return case.n_rows * np.array([1, np.ceil(case.n_trees / case.n_actors)])


def fit(cases: Sequence[Case], driver: Sequence[float], shard: Sequence[float]) -> Costs:
    """Return the costs, none below 0, with the least squares of relative errors."""
    of_driver = _fit([_driver_terms(case) for case in cases], driver)
    return Costs(*of_driver, *_fit([_shard_terms(case) for case in cases], shard))


def _fit(terms: list[np.ndarray], seconds: Sequence[float]) -> list[float]:
    relative = np.array(terms) / np.array(seconds)[:, None]
    return [float(cost) for cost in nnls(relative, np.ones(len(terms)))[0]]
