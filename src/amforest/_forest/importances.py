"""The importances of features: what the splits on each have saved, as the core counts it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from amforest._forest.class_labels import ClassLabels
from amforest._forest.core_handle import Core, Fitted, is_adaptive_core
from amforest._forest.encoder import Encoder
from amforest._forest.losses import Floats

MOST_RECENT = 1_000  # rows of a memory that shows what matters now


@dataclass(frozen=True, slots=True, eq=False)
class Importances:
    """How much of the loss of a row each feature saves: a mean over trees and over rows.

    Each row was predicted before it was learned. Features that a forest does not use, or uses in
    vain, are near 0 and may be negative.

    Attributes
    ----------
    names : list
        The features: their names, or their numbers where X has none.
    total : ndarray of shape (n_features,)
        For each feature the loss that splits on it save in a row, in `unit`. Of an adaptive forest
        the mean over `memories`, by `weights`.
    memories : list of str
        The groups of trees of an adaptive forest; none of others. Those with a short memory show
        what has mattered recently.
    by_memory : ndarray of shape (n_memories, n_features)
        The same for each group.
    weights : ndarray of shape (n_memories,)
        The parts of the groups in `total`: the weights of the mixer, where they are positive.
    memory_rows : ndarray of shape (n_memories,)
        How many rows each group remembers; infinite if all, or if it is never regrown.
    unit : str
        "nats" of log-loss, or "squared error".
    """

    names: list[Hashable]
    total: Floats
    memories: list[str]
    by_memory: Floats
    weights: Floats
    memory_rows: Floats
    unit: str

    def normalised(self) -> Floats:
        """Return parts of 1, as `feature_importances_`: 0 for what is negative, or not known."""
        return _parts_of_one(self.total)

    def long_term(self) -> Floats:
        """Return parts of 1 by the groups with the longest memory, without groups by `total`."""
        return self._parts_by(self.memory_rows.max(initial=0.0))

    def recent(self) -> Floats | None:
        """Return parts of 1 by the groups with a memory of `recent_rows`; None without such."""
        return None if self.recent_rows is None else self._parts_by(self.recent_rows)

    @property
    def recent_rows(self) -> int | None:
        """The longest memory up to 1,000 rows, or the shortest; None if there is only one."""
        rows = self.memory_rows
        if not len(rows) or rows.min() == rows.max():
            return None
        return int(rows[rows <= max(MOST_RECENT, rows.min())].max())

    def _parts_by(self, rows: float) -> Floats:
        has_groups = len(self.memory_rows) > 0
        saved = self.by_memory[self.memory_rows == rows].sum(axis=0) if has_groups else self.total
        return _parts_of_one(saved)


def _parts_of_one(saved: Floats) -> Floats:
    positive = np.maximum(saved, 0.0)
    largest = positive.max(initial=0.0)
    if largest == 0:
        return positive
    positive /= largest  # so that the sum is finite
    parts: Floats = positive / positive.sum()
    return parts


def importances_of(fitted: Fitted, memories: Sequence[str] = ()) -> Importances:
    """Return the importances of a forest; `memories` are the names of an adaptive forest's."""
    by_group, weights = _by_group(fitted.core)
    columns = _columns(fitted.encoder)
    by_group = by_group[:, columns]
    is_adaptive = is_adaptive_core(fitted.core)
    return Importances(
        names=_names(fitted.encoder),
        total=weights @ by_group,
        memories=list(memories[: len(by_group)]),
        by_memory=by_group if is_adaptive else by_group[:0],
        weights=weights if is_adaptive else weights[:0],
        memory_rows=_memory_rows(fitted.core),
        unit="nats" if isinstance(fitted.labels, ClassLabels) else "squared error",
    )


def _by_group(core: Core) -> tuple[Floats, Floats]:
    """Return the loss saved per row in each group of trees, and the parts of the groups."""
    saved, n_rows = core.importances()
    n_groups, parts = 1, np.ones(1)
    if is_adaptive_core(core):
        n_groups = len(core.groups)
        parts = np.maximum(core.mixer_weights[:n_groups], 0.0)
        if not parts.any():
            parts = np.ones(n_groups)
    totals = n_rows.reshape(n_groups, -1).sum(axis=1)
    by_group = saved.reshape(n_groups, -1, saved.shape[1]).sum(axis=1)
    by_group /= np.where(totals > 0, totals, 1.0)[:, None]
    return by_group, parts / parts.sum()


def _memory_rows(core: Core) -> Floats:
    """Return how many rows each group of trees remembers; none for cores without groups."""
    if not is_adaptive_core(core):
        return np.empty(0)
    return np.array([memory or np.inf for memory, *_ in core.groups], dtype=np.float64)


def _columns(encoder: Encoder) -> list[int]:
    """Return the core's column of each feature: its columns of categories come first."""
    if encoder.named is not None:
        return list(encoder.named.of.values())
    is_number = ~encoder.schema.is_categorical
    order = np.argsort(is_number, kind="stable")  # the features by column
    columns: list[int] = np.argsort(order).tolist()
    return columns


def _names(encoder: Encoder) -> list[Hashable]:
    if encoder.named is not None:
        return list(encoder.named.of)
    names = encoder.schema.names
    return list(range(encoder.schema.n_features)) if names is None else names.tolist()
