"""The adaptive forest for classes, in plain Python: its definition.

Groups of trees are regrown from remembered rows, with splits that know the labels, and a mixer
combines the groups. The tests hold the compiled core to this module: the trees bit for bit, the
mixer's weights and predictions to rounding.

A row is float32: codes of categories first, then numbers; NaN is missing. A tree sees categories as
numbers. A regrowth does a bounded amount of work for each row of the stream, so that the rows alone
determine when the new tree replaces the old one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from amforest.reference import ClassCounts, Floats, Generator, Node, Tree
from amforest.reference.generator import MASK

Integers = NDArray[np.intp]
Reals = NDArray[np.float64]
NOWHERE = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.float32)  # a range to be set

WORK_PER_ROW = 2**14
AT_ONCE = 128  # rows of a step


@dataclass(frozen=True)
class Group:
    """Trees that are regrown from the last `memory` rows; None: from all that are remembered."""

    memory: int | None = None
    is_honest: bool = False  # some rows choose splits, the others are charged
    is_plain: bool = False  # labels choose no splits


@dataclass
class Row:
    """A row that is remembered."""

    x: Floats
    y: int
    weight: float


def next_regrow(now: int, phase: float, memory: int | None, last: float = math.inf) -> float:
    """Return the number of rows at which a tree is regrown next; `phase` in [0, 1) is its own.

    That is when the number of rows doubles and, once half the memory is full, each half memory;
    without a memory, not after row `last`. Trees of one group are never regrown at the same row.
    """
    doubling: float = 16 * 2.0**phase
    while math.floor(doubling) <= now:
        doubling *= 2
    if memory is None:
        return math.floor(doubling) if math.floor(doubling) <= last else math.inf
    period, end_of_doublings = memory / 2, 16
    while end_of_doublings < period:
        end_of_doublings *= 2
    if doubling < end_of_doublings:
        return math.floor(doubling)
    cycle = max(math.floor((now - end_of_doublings) / period - phase), 0)
    # The last summand covers rounding.
    while (row := math.floor(end_of_doublings + period * (cycle + phase) + 1e-6)) <= now:
        cycle += 1
    return row


@dataclass
class Numbers:
    """A tree's number for each category: random, or learned at a regrow."""

    key: int
    n_codes: int  # features that are categories
    learned: dict[tuple[int, int], np.float32] | None = None  # by feature and code
    prior: float = 0.0  # of a category that is not among the learned

    def encode(self, x: Floats) -> Floats:
        """Return x as the tree sees it; adding 0 turns -0 into 0."""
        numbers = [self.of(f, code) for f, code in enumerate(x[: self.n_codes].tolist())]
        return np.append(np.array(numbers, dtype=np.float32), x[self.n_codes :] + np.float32(0))

    def of(self, feature: int, code: float) -> np.float32:
        if math.isnan(code):
            return np.float32(np.nan)
        if self.learned is not None:
            return self.learned.get((feature, int(code)), np.float32(self.prior))
        word = (feature << 32 | int(code) & 0xFFFFFFFF) + 1  # the finaliser of splitmix64
        z = (self.key + 0x9E3779B97F4A7C15 * word) & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return np.float32((z ^ z >> 31) >> 40) * np.float32(2.0**-24)


def category_numbers(rows: list[Row], contrast: list[float], key: int, n_codes: int) -> Numbers:
    """Return the means of contrast[y] over the rows of each category, and two rows at the mean."""
    total = [0.0, 0.0]  # of the contrast, and of the weight
    sums: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        codes = enumerate(row.x[:n_codes].tolist())
        seen = [(f, int(code)) for f, code in codes if not math.isnan(code)]
        for counted in (total, *(sums.setdefault(code, [0.0, 0.0]) for code in seen)):
            counted[0] += row.weight * contrast[row.y]
            counted[1] += row.weight
    mean = total[0] / total[1] if total[1] > 0 else 0.0
    learned = {code: np.float32((s + 2 * mean) / (n + 2)) for code, (s, n) in sums.items()}
    return Numbers(key, n_codes, learned, mean)


def running_sum(values: Reals) -> float:
    """Sum in the order of the values, as the core does."""
    total = 0.0
    for value in values.tolist():
        total += value
    return total


def information(counts: Reals) -> float:
    """Σ_k n_k log n_k - n log n."""
    *logs, of_all = (
        n * math.log(n) if n > 0 else 0.0 for n in (*counts.tolist(), running_sum(counts))
    )
    return running_sum(np.array(logs)) - of_all


def gain(values: Floats, threshold: float, y: Integers, weight: Reals) -> float:
    """Return how much a split tells about the labels of the rows whose value is not missing."""
    sides = values <= threshold, values > threshold
    left, right = (
        np.bincount(y[side], weight[side], int(y.max()) + 1).astype(np.float64) for side in sides
    )
    return information(left) + information(right) - information(left + right)


def feature_weights(x: Floats, rng: Generator) -> Floats:
    """λ_j = 1 / mean |x_j - x'_j| over random pairs of rows; 0 where all are equal."""
    pairs = [(rng.below(len(x)), rng.below(len(x))) for _ in range(min(len(x), 256))]
    weights = np.zeros(x.shape[1], dtype=np.float32)
    for j, column in enumerate(x.astype(np.float64).T):
        distances = np.array([abs(column[a] - column[b]) for a, b in pairs])
        distances = distances[~np.isnan(distances)]
        if (total := running_sum(distances)) > 0:
            weights[j] = min(len(distances) / total, 2.0**100)
    return weights


def sizes(v: Node, tree: Tree) -> Reals:
    """λ_j |R_j|, 0 where no value was seen."""
    lengths = v.upper.astype(np.float64) - v.lower
    return np.nan_to_num(np.asarray(tree.feature_weights) * lengths)


def sample_of(choosers: Integers, rng: Generator, most: int = 1000) -> Integers:
    """Return the rows on which splits are judged: all, or one of each of 1,000 equal parts."""
    n = len(choosers)
    if n <= most:
        return choosers
    places = [int((k + rng.uniform()) * n / most) for k in range(most)]
    return choosers[np.minimum(places, n - 1)]


def replay(tree: Tree, leaf: Node, row: Row, is_charged: bool) -> None:
    """Learn a row in a tree as it is; one that is not charged is only counted."""
    v: Node | None = leaf
    while v is not None:
        if is_charged:
            v.log_w -= tree.step * tree.loss(v, row.y, row.weight)
            v.log_w_bar = tree.average(v)
        v.labels.update(row.y, row.weight)
        v = v.parent


def work_of(count: int, each: int) -> Iterator[int]:
    """Yield the work of steps of some rows or nodes."""
    for start in range(0, count, AT_ONCE):
        yield each * min(count - start, AT_ONCE)


def work_for(n_late: int, n_spare: int) -> int:
    """Return the work for a row, `n_late` after the start of a regrowth.

    It must end while the rows since then are remembered, which are `n_spare`: when half of the time
    is over, the work doubles again and again.
    """
    half = max(n_spare // 2, 1)
    doublings = 0 if n_late <= half else min(1 + 16 * (n_late - half) // half, 32)
    return WORK_PER_ROW << doublings


@dataclass
class Regrowth:
    """A tree that is being regrown from rows[first:last]."""

    forest: AdaptiveForest
    group: Group
    seed: list[int]
    key: int  # of random numbers of categories
    first: int
    last: int
    credit: int = 0  # the work that may still be done now; below 0, what was done ahead

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start again with the same rows and random numbers: the classes have changed."""
        self.next: int | None = None  # row to catch up with, once the tree is ready
        self.steps = self.regrow(Generator(self.seed))

    def work(self, now: int) -> bool:
        """Work for one more row; return whether the tree has learned all rows."""
        self.credit += work_for(now - self.last, self.forest.row_limit // 4)
        while self.credit > 0 and self.next != now:
            self.credit -= next(self.steps)
        return self.next == now

    def regrow(self, rng: Generator) -> Iterator[int]:
        """Regrow the tree; yield the work of each step."""
        rows = self.forest.rows[self.first : self.last]
        self.y = np.array([row.y for row in rows])
        self.weight = np.array([row.weight for row in rows])
        self.numbers = self.draw_numbers(rows, rng)
        yield from work_of(len(rows), 4)
        self.x = np.array([self.numbers.encode(row.x) for row in rows])
        yield from work_of(len(rows), 16)
        self.tree = self.forest.new_tree(rng, self.group)  # draws from `rng` while it grows
        self.tree.feature_weights = feature_weights(self.x, rng)
        seed, leaves = rng.fork(), dict[int, Node]()
        yield 64 * min(len(rows), 256)
        yield from self.grow(rng, leaves)
        self.tree.rng = Generator(seed)
        yield from work_of(self.tree.n_leaves - 1, 32)  # the core joins ranges
        for i, row in enumerate(rows):
            replay(self.tree, leaves[i], row, not (self.group.is_honest and self.chooses[i]))
            is_last = i + 1 == len(rows)
            self.next = self.last if is_last else None
            if is_last or (i + 1) % AT_ONCE == 0:
                yield 128 * (i % AT_ONCE + 1)
        while self.next is not None:
            row = self.forest.rows[self.next]
            self.tree.learn(self.numbers.encode(row.x), row.y, row.weight)
            self.next += 1
            yield 1024

    def draw_numbers(self, rows: list[Row], rng: Generator) -> Numbers:
        """Draw which rows choose splits, and which of them learn the numbers of categories."""
        n_codes, n_classes = self.forest.n_codes, self.forest.n_classes
        learns = n_codes > 0 and not self.group.is_plain
        contrast = [float(k) for k in range(n_classes)]
        if learns and n_classes > 2:
            contrast = [rng.uniform() for _ in range(n_classes)]
        self.chooses, self.is_counted = np.ones((2, len(rows)), dtype=bool)
        for i in range(len(rows)):
            self.chooses[i] = not self.group.is_honest or rng.uniform() < 0.7
            self.is_counted[i] = learns and rng.uniform() < 0.5
        if not learns:
            return Numbers(self.key, n_codes)
        counted = [rows[i] for i in np.flatnonzero(self.chooses & self.is_counted)]
        return category_numbers(counted, contrast, self.key, n_codes)

    def grow(self, rng: Generator, leaves: dict[int, Node]) -> Iterator[int]:
        """Add all nodes, in preorder; set the leaf of each row."""
        tree = self.tree
        tree.root = Node(0.0, *NOWHERE, tree.new_labels())
        waiting = [(tree.root, np.flatnonzero(self.chooses), np.flatnonzero(~self.chooses))]
        while waiting:
            v, choosers, others = waiting.pop()
            members = np.append(choosers, others)
            v.lower, v.upper = np.fmin.reduce(self.x[members]), np.fmax.reduce(self.x[members])
            work = 32 + 8 * len(members)
            # This node, and those that wait, are leaves at least.
            is_full = tree.n_leaves + len(waiting) + 2 > tree.max_leaves
            if is_full or self.is_whole(v, choosers):
                tree.n_leaves += 1
                leaves.update(dict.fromkeys(members.tolist(), v))
            else:
                sample = sample_of(choosers, rng)
                rate = max(running_sum(sizes(v, tree)), sys.float_info.min)
                time = min(v.tau + rng.exponential(rate), sys.float_info.max)
                v.feature, v.threshold = self.best_split(v, sample, rng)
                v.set_children(*(Node(time, *NOWHERE, tree.new_labels()) for _ in range(2)))
                goes_left, n = self.goes_left(v, members), len(choosers)
                for child, goes in ((v.right, ~goes_left), (v.left, goes_left)):
                    waiting.append((cast(Node, child), choosers[goes[:n]], others[goes[n:]]))
                work += self.forest.n_candidates * (len(sample) + 16) + 4 * len(members)
            yield work

    def is_whole(self, v: Node, choosers: Integers) -> bool:
        """Return whether v is a leaf: it is a point, or the labels that choose are equal."""
        if len(choosers) == 0 or not (v.lower < v.upper).any():
            return True
        return not self.tree.split_pure and len(set(self.y[choosers])) == 1

    def goes_left(self, v: Node, members: Integers) -> NDArray[np.bool_]:
        """Return which rows go to the left; a missing value follows most of the weight."""
        values, weight = self.x[members, v.feature], self.weight[members]
        left, right = values <= v.threshold, values > v.threshold
        follows = np.isnan(values) & (running_sum(weight[right]) <= running_sum(weight[left]))
        return np.asarray(left | follows)

    def best_split(self, v: Node, sample: Integers, rng: Generator) -> tuple[int, float]:
        """Return the feature and the threshold of the best of some random splits."""
        columns = np.flatnonzero(v.lower < v.upper)

        def with_threshold(j: int) -> tuple[int, float]:
            return j, self.tree.choose_threshold(float(v.lower[j]), float(v.upper[j]))

        if self.group.is_plain or self.forest.n_candidates == 1:  # a Mondrian tree
            lengths = np.minimum(sizes(v, self.tree)[columns], np.finfo(np.float32).max)
            return with_threshold(int(columns[rng.discrete(lengths.astype(np.float32))]))
        best, best_gain = (0, 0.0), -math.inf
        for _ in range(self.forest.n_candidates):
            split = with_threshold(int(columns[rng.below(len(columns))]))
            if (its_gain := self.gain_of(*split, sample)) > best_gain:
                best, best_gain = split, its_gain
        return best

    def gain_of(self, feature: int, threshold: float, sample: Integers) -> float:
        judges, scale = sample, 1.0
        if feature < self.forest.n_codes:
            # A category's number may know the labels of the rows that were counted.
            judges = sample[~self.is_counted[sample]]
            if len(judges) == 0:
                return 0.0
            scale = running_sum(self.weight[sample]) / running_sum(self.weight[judges])
        values = self.x[judges, feature]
        return gain(values, threshold, self.y[judges], self.weight[judges]) * scale


class Mixer:
    """p(k) ∝ exp(Σ_g u_g ℓ_gk), ℓ_gk = log((1 - ε) p_g(k) + ε / K); u by gradient descent."""

    def __init__(self, n_groups: int, rate: float) -> None:
        self.rate = rate
        self.weights: Reals = np.full(n_groups, 1.0 / n_groups)  # u

    def logs(self, by_group: Reals) -> Reals:
        return np.asarray(np.log((1 - 1e-4) * by_group + 1e-4 / by_group.shape[1]))

    def mix(self, by_group: Reals) -> Reals:
        """Return the prediction, from those of the groups: groups × classes."""
        scores = self.weights @ self.logs(by_group)
        odds = np.exp(scores - scores.max())
        return np.asarray(odds / odds.sum())

    def learn(self, by_group: Reals, y: int, weight: float = 1.0) -> None:
        """Take a gradient step on -log p(y); a row of weight w moves u as min(w, 10) rows do."""
        logs = self.logs(by_group)
        gradient = logs @ self.mix(by_group) - logs[:, y]
        self.weights = self.weights - self.rate * min(weight, 10.0) * gradient


@dataclass
class Slot:
    """A tree of the forest, its table of categories, and when it is regrown."""

    group: Group
    phase: float
    tree: Tree
    numbers: Numbers
    due: float = 0.0
    n_regrows: int = 0
    regrowth: Regrowth | None = None


@dataclass
class AdaptiveForest:
    """The forest; its parameters are those of `amforest.AdaptiveAMFClassifier`.

    `max_leaves` limits the trees without a memory. A full one is regrown from half as many rows.
    """

    groups: list[Group]
    seeds: list[list[int]]  # one for each tree, group after group
    n_classes: int
    dirichlet: float
    n_codes: int = 0  # features that are categories: they come first
    n_estimators: int = 5
    n_candidates: int = 30
    row_limit: int = 65_536
    mixer_rate: float = 0.01
    max_leaves: float = math.inf
    tree_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self.mixer = Mixer(len(self.groups), self.mixer_rate)
        self.slots = []
        for t, seed in enumerate(self.seeds):
            g, place = divmod(t, self.n_estimators)
            phase = (place + g / len(self.groups)) / self.n_estimators
            tree = self.new_tree(Generator(seed), self.groups[g])
            slot = Slot(self.groups[g], phase, tree, Numbers(seed[0], self.n_codes))
            self.set_due(slot, 0)
            self.slots.append(slot)

    def new_tree(self, rng: Generator, group: Group) -> Tree:
        def new_labels() -> ClassCounts:
            return ClassCounts(self.n_classes, self.dirichlet)

        memory, leaves = self.memory_of(group), self.max_leaves
        if group.memory is not None:
            leaves = memory + memory // 2 + 64
        return Tree(new_labels, rng, max_leaves=leaves, **self.tree_options)

    def memory_of(self, group: Group) -> int:
        limit = self.max_leaves / 2 if group.memory is None else group.memory
        return int(min(limit, self.row_limit))

    def set_due(self, slot: Slot, now: int) -> None:
        memory = None if slot.group.memory is None else self.memory_of(slot.group)
        # A plain tree is regrown only to settle the scales of features.
        last = 1024 if slot.group.is_plain else self.row_limit
        slot.due = next_regrow(now, slot.phase, memory, last)

    def predict(self, x: Floats) -> Reals:
        return self.mixer.mix(self.predict_by_group(x))

    def predict_by_group(self, x: Floats) -> Reals:
        by_tree = np.array([slot.tree.predict(slot.numbers.encode(x)) for slot in self.slots])
        return np.asarray(by_tree.reshape(len(self.groups), self.n_estimators, -1).mean(axis=1))

    def learn(self, x: Floats, y: int, weight: float = 1.0) -> None:
        """Learn a row; one of weight 0 is skipped."""
        if weight == 0:
            return
        self.mixer.learn(self.predict_by_group(x), y, weight)
        self.rows.append(Row(x, y, weight))
        for slot in self.slots:
            slot.tree.learn(slot.numbers.encode(x), y, weight)
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
            slot.tree, slot.numbers = slot.regrowth.tree, slot.regrowth.numbers
            slot.regrowth = None
            slot.n_regrows += 1
            if slot.due <= now:  # it took longer than that
                self.set_due(slot, now)

    def set_classes(self, n_classes: int, dirichlet: float) -> None:
        """Add classes; trees that are being regrown start again."""
        self.n_classes, self.dirichlet = n_classes, dirichlet
        for slot in self.slots:
            waiting = [slot.tree.root]
            while waiting:
                if v := waiting.pop():
                    cast(ClassCounts, v.labels).set_classes(n_classes, dirichlet)
                    waiting += [v.left, v.right]
            if slot.regrowth:
                slot.regrowth.restart()
