"""What changed in a stream: the features whose importance differs between memories."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from amforest.evaluation.base_metric import Floats

MOST_FEATURES = 5
LEAST_CHANGE = 0.05  # of the importance of all features


class ImportancesByMemory(Protocol):
    """What `amforest.inspection.importances` returns, as far as it is used here."""

    @property
    def names(self) -> Sequence[Hashable]:
        """The features."""

    @property
    def memories(self) -> Sequence[str]:
        """The groups of trees."""

    @property
    def by_memory(self) -> Floats:
        """The loss per row that each feature saves in each group."""


@dataclass(frozen=True)
class FeatureChange:
    """A feature whose importance has changed.

    Attributes
    ----------
    feature : hashable
        Its name, or its number where X has no names.
    before, after : float
        Its part of what all features save, in the trees with the longest memories and in those that
        remember only rows since the change.
    """

    feature: Hashable
    before: float
    after: float


def find_changed_features(
    importances: ImportancesByMemory, n_rows: int
) -> tuple[FeatureChange, ...]:
    """Return the features whose importance has changed most, the largest change first.

    Parameters
    ----------
    importances : Importances
        Of an adaptive forest; see `amforest.inspection.importances`.
    n_rows : int
        The number of rows since the change. Trees whose memory is the longest with no more rows are
        compared with those of the longest memories.

    Returns
    -------
    tuple of FeatureChange
        At most five; none whose importance has changed by less than 0.05, and none without groups
        of trees of different memories.
    """
    sizes = np.array([_memory_of(name) for name in importances.memories])
    regrown = sizes[sizes > 0]
    if not len(regrown) or regrown.min() == regrown.max():
        return ()
    short = regrown[regrown <= max(n_rows, regrown.min())].max()
    if short == regrown.max():
        short = regrown[regrown < short].max()
    before, after = (
        _parts(importances.by_memory[sizes == size].sum(axis=0)) for size in (regrown.max(), short)
    )
    change = np.abs(after - before)
    largest = np.argsort(-change, kind="stable")[:MOST_FEATURES]
    return tuple(
        FeatureChange(importances.names[j], float(before[j]), float(after[j]))
        for j in largest.tolist()
        if change[j] >= LEAST_CHANGE
    )


def _memory_of(name: str) -> float:
    """Return how many rows a group of trees remembers; 0 if it is never regrown."""
    if name.startswith("all"):
        return np.inf
    number = re.match(r"\d+", name)
    return float(number[0]) if number else 0.0


def _parts(saved: Floats) -> Floats:
    """Return parts of 1: 0 for features that save nothing."""
    positive: Floats = np.maximum(saved, 0.0)
    return positive / (positive.sum() or 1.0)
