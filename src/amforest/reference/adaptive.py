"""The adaptive forest, in plain Python: its definition.

Groups of trees are regrown from remembered rows, with splits that know the labels, and a mixer
combines the groups. What differs between classes and numbers is the task: `ClassTask` in
`adaptive_classes`, `NumberTask` in `adaptive_numbers`. The tests hold the compiled core to these
modules: the trees bit for bit, the mixer's weights and predictions to rounding.

A row is float32: codes of categories first, then numbers; NaN is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amforest.reference import Floats, Generator, Importance, Reals, Tree
from amforest.reference.linear_models import LinearExperts
from amforest.reference.regrowth import ForestTree, Group, Numbers, Regrowth, Row, Task

LEAST_IMPORTANCE_MEMORY = 250  # importances of fewer rows would be those of chance


def next_regrow(
    now: int, phase: float, memory: int | None, regrows_per_memory: int, last: float = math.inf
) -> float:
    """Return the number of rows at which a tree is regrown next; `phase` in [0, 1) is its own.

    That is when the number of rows doubles, then `regrows_per_memory` times while as many rows come
    as the memory holds; without a memory, not after row `last`. Trees of one group are never
    regrown at the same row.
    """
    doubling: float = 16 * 2.0**phase
    while math.floor(doubling) <= now:
        doubling *= 2
    if memory is None:
        return math.floor(doubling) if math.floor(doubling) <= last else math.inf
    period, end_of_doublings = memory / regrows_per_memory, 16
    while end_of_doublings < period:
        end_of_doublings *= 2
    if doubling < end_of_doublings:
        return math.floor(doubling)
    cycle = max(math.floor((now - end_of_doublings) / period - phase), 0)
    # The last summand covers rounding.
    while (row := math.floor(end_of_doublings + period * (cycle + phase) + 1e-6)) <= now:
        cycle += 1
    return row


@dataclass(kw_only=True)
class Slot(ForestTree):
    """A tree of the forest, and when it is regrown."""

    group: Group
    phase: float
    due: float = 0.0
    n_regrows: int = 0
    regrowth: Regrowth | None = None
    importance: Importance = field(default_factory=Importance)  # which regrowing keeps

    def credit(self, row: Row, n_trees: int) -> None:
        """Credit features with what they save; a group with a memory forgets what is older."""
        if self.group.memory is not None:
            memory = max(self.group.memory, LEAST_IMPORTANCE_MEMORY)
            self.importance.fade(memory / (memory + n_trees))
        self.importance.add(self.saved(row), row.weight)


@dataclass
class AdaptiveForest:
    """The forest; its parameters are those of `amforest.AdaptiveAMFClassifier`, or its task's.

    `max_leaves` limits the trees without a memory. A full one is regrown from half as many rows.
    """

    task: Task
    groups: list[Group]
    seeds: list[list[int]]  # one for each tree, group after group
    n_codes: int = 0  # features that are categories: they come first
    n_estimators: int = 5
    n_candidates: int = 30
    row_limit: int = 65_536
    max_leaves: float = math.inf
    tree_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self.experts = LinearExperts(self.n_codes) if self.task.has_linear_experts else None
        n_experts = self.experts.N if self.experts else 0
        self.mixer = self.task.new_mixer(len(self.groups) + n_experts)
        self.slots = []
        for t, seed in enumerate(self.seeds):
            g, place = divmod(t, self.n_estimators)
            phase = (place + g / len(self.groups)) / self.n_estimators
            tree = self.new_tree(Generator(seed), self.groups[g])
            numbers = Numbers(seed[0], self.n_codes)
            slot = Slot(tree=tree, numbers=numbers, group=self.groups[g], phase=phase)
            self.set_due(slot, 0)
            self.slots.append(slot)

    def new_tree(self, rng: Generator, group: Group) -> Tree:
        memory, leaves = self.memory_of(group), self.max_leaves
        if group.memory is not None:
            leaves = memory + memory // self.task.regrows_per_memory + 64
        return self.task.new_tree(rng, max_leaves=leaves, **self.tree_options)

    def memory_of(self, group: Group) -> int:
        limit = self.max_leaves / 2 if group.memory is None else group.memory
        return int(min(limit, self.row_limit))

    def set_due(self, slot: Slot, now: int) -> None:
        memory = None if slot.group.memory is None else self.memory_of(slot.group)
        # A plain tree is regrown only to settle the scales of features.
        last = 1024 if slot.group.is_plain else self.row_limit
        slot.due = next_regrow(now, slot.phase, memory, self.task.regrows_per_memory, last)

    def predict(self, x: Floats) -> Reals:
        return self.mixer.mix(self.predict_by_expert(x))

    def predict_by_expert(self, x: Floats) -> Reals:
        """Return the predictions of the groups, and of linear regressions."""
        by_tree = np.array([slot.predict(x) for slot in self.slots])
        by_group = by_tree.reshape(len(self.groups), self.n_estimators, -1)
        joined = np.array([self.task.join(group) for group in by_group])
        return np.append(joined, self.experts.predict(x), axis=0) if self.experts else joined

    def learn(self, x: Floats, y: float, weight: float = 1.0) -> None:
        """Learn a row; one of weight 0 is skipped."""
        if weight == 0:
            return
        by_expert = self.predict_by_expert(x)
        limited = self.mixer.limit(by_expert, y)
        self.mixer.learn(by_expert, limited, weight)
        if self.experts:
            self.experts.learn(x, limited, weight)
        self.rows.append(Row(x, y, weight))
        for t, slot in enumerate(self.slots):
            if (len(self.rows) - 1 - t) % self.n_estimators == 0:  # one tree of each group
                slot.credit(self.rows[-1], self.n_estimators)
            slot.learn(self.rows[-1])
            self.regrow(slot, len(self.rows))

    def regrow(self, slot: Slot, now: int) -> None:
        """Start to regrow the tree if it is due, or work on it; replace it in the end."""
        group = slot.group
        if slot.regrowth is None:
            if now < slot.due and not (group.memory is None and slot.tree.is_full()):
                return
            first = now - min(now, self.memory_of(group))
            seed = slot.tree.rng.fork()
            slot.regrowth = Regrowth(self, group, seed, slot.numbers.key, first, now)
            self.set_due(slot, now)
        if slot.regrowth.work(now):
            grown = slot.regrowth.grown
            slot.tree, slot.numbers, slot.base = grown.tree, grown.numbers, grown.base
            slot.regrowth = None
            slot.n_regrows += 1
            if slot.due <= now:  # it took longer than that
                self.set_due(slot, now)
