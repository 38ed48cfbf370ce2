"""A tree of the adaptive forest, and how it is regrown from remembered rows.

A tree sees categories as numbers. A regrowth does a bounded amount of work for each row of the
stream, so that the rows alone determine when the new tree replaces the old one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from amforest.reference import Floats, Generator, Node, Reals, Tree
from amforest.reference.generator import MASK
from amforest.reference.linear_models import LinearBase, fit_base

if TYPE_CHECKING:
    from amforest.reference.adaptive import AdaptiveForest

Integers = NDArray[np.intp]
NOWHERE = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.float32)  # a range to be set

WORK_PER_ROW = 2**14
AT_ONCE = 128  # rows of a step


@dataclass(frozen=True)
class Group:
    """Trees that are regrown from the last `memory` rows; None: from all that are remembered."""

    memory: int | None = None
    is_honest: bool = False  # some rows choose splits, the others are charged
    is_plain: bool = False  # labels choose no splits
    has_base: bool = False  # trees learn the residuals of a linear regression


@dataclass
class Row:
    """A row that is remembered."""

    x: Floats
    y: float
    weight: float


class Mixer(Protocol):
    """Combines the predictions of the groups and other experts."""

    def mix(self, by_expert: Reals) -> Reals: ...
    def limit(self, by_expert: Reals, y: float) -> float: ...
    def learn(self, by_expert: Reals, y: float, weight: float = 1.0) -> None: ...


class Task(Protocol):
    """What differs between classes and numbers."""

    has_linear_experts: bool
    cuts_between_rows: bool  # thresholds lie between two random rows; or anywhere in the range
    regrows_per_memory: int

    def new_tree(self, rng: Generator, **options: Any) -> Tree: ...
    def new_mixer(self, n_experts: int) -> Mixer: ...

    def contrast(self, first_label: float, rng: Generator) -> Callable[[float], float]:
        """Return the statistic of the label whose means are the numbers of categories."""

    def gain(self, values: Floats, threshold: float, y: Reals, weight: Reals) -> float:
        """Return how much a split tells about the labels."""

    def margin(self, y: Reals, weight: Reals) -> float:
        """Return by how much the gain of a better split must be larger."""

    def join(self, by_tree: Reals) -> Reals:
        """Return the prediction of a group from those of its trees."""


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


def category_numbers(
    rows: list[Row], contrast: Callable[[float], float], key: int, n_codes: int
) -> Numbers:
    """Return the means of contrast(y) over the rows of each category, and two rows at the mean."""
    total = [0.0, 0.0]  # of the contrast, and of the weight
    sums: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        codes = enumerate(row.x[:n_codes].tolist())
        seen = [(f, int(code)) for f, code in codes if not math.isnan(code)]
        for counted in (total, *(sums.setdefault(code, [0.0, 0.0]) for code in seen)):
            counted[0] += row.weight * contrast(row.y)
            counted[1] += row.weight
    mean = total[0] / total[1] if total[1] > 0 else 0.0
    values = {code: (s + 2 * mean) / (n + 2) for code, (s, n) in sums.items()}
    unit = unit_for(max(abs(value) for value in (mean, *values.values())))
    learned = {code: np.float32(value * unit) for code, value in values.items()}
    return Numbers(key, n_codes, learned, mean * unit)


def unit_for(largest: float) -> float:
    """Return a power of two by which numbers fit float32: 1 unless they are far from it."""
    is_near = largest == 0 or 2.0**-60 < largest < 2.0**60
    return 1.0 if is_near else math.ldexp(1.0, 1 - math.frexp(largest)[1])


def running_sum(values: Reals) -> float:
    """Sum in the order of the values, as the core does."""
    total = 0.0
    for value in values.tolist():
        total += value
    return total


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


def work_of(count: int, each: int, at_end: int = 0) -> Iterator[int]:
    """Yield the work of steps of some rows or nodes; the last step does more."""
    for start in range(0, count, AT_ONCE):
        is_last = start + AT_ONCE >= count
        yield each * min(count - start, AT_ONCE) + (at_end if is_last else 0)


def work_for(n_late: int, n_spare: int) -> int:
    """Return the work for a row, `n_late` after the start of a regrowth.

    It must end while the rows since then are remembered, which are `n_spare`: when half of the time
    is over, the work doubles again and again.
    """
    half = max(n_spare // 2, 1)
    doublings = 0 if n_late <= half else min(1 + 16 * (n_late - half) // half, 32)
    return WORK_PER_ROW << doublings


@dataclass
class ForestTree:
    """A tree that sees categories as numbers, and learns the residuals of its base."""

    tree: Tree
    numbers: Numbers
    base: LinearBase | None = None

    def predict(self, row: Floats) -> Reals:
        x = self.numbers.encode(row)
        prediction = self.tree.predict(x)
        if self.base:
            prediction[0] += self.base.of(x)
        return prediction

    def learn(self, row: Row) -> None:
        x = self.numbers.encode(row.x)
        self.tree.learn(x, row.y - self.base.of(x) if self.base else row.y, row.weight)

    def saved(self, row: Row) -> Reals:
        """Return what each feature saves of the loss of a row that is not learned yet."""
        x = self.numbers.encode(row.x)
        if self.base is None:
            return self.tree.saved(x, row.y)
        return self.tree.saved(x, row.y - self.base.of(x)) + self.base.saved(x, row.y)


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
        numbers, base = self.draw_numbers(rows, rng), None
        yield from work_of(len(rows), 4)
        self.x = np.array([numbers.encode(row.x) for row in rows])
        yield from work_of(len(rows), 16)
        if self.group.has_base:
            # A category's number may know the labels of the rows that were counted.
            base, self.y = fit_base(self.x, self.y, self.weight, ~self.is_counted)
            n = len(base.columns)
            yield from work_of(len(rows), 32)
            yield from work_of(len(rows), 16 + n**2 // 4, n**3 // 6)
            yield from work_of(len(rows), 16 + n**2)
        self.tree = self.forest.new_tree(rng, self.group)  # draws from `rng` while it grows
        self.tree.feature_weights = feature_weights(self.x, rng)
        seed, leaves = rng.fork(), dict[int, Node]()
        yield 64 * min(len(rows), 256)
        yield from self.grow(rng, leaves)
        self.tree.rng = Generator(seed)
        yield from work_of(self.tree.n_leaves - 1, 32)  # the core joins ranges
        self.grown = ForestTree(self.tree, numbers, base)
        for i, (y, weight) in enumerate(zip(self.y.tolist(), self.weight.tolist(), strict=True)):
            is_charged = not (self.group.is_honest and self.chooses[i])
            self.tree.learn_in(leaves[i], y, weight, is_charged)
            is_last = i + 1 == len(rows)
            self.next = self.last if is_last else None
            if is_last or (i + 1) % AT_ONCE == 0:
                yield 128 * (i % AT_ONCE + 1)
        while self.next is not None:
            self.grown.learn(self.forest.rows[self.next])
            self.next += 1
            yield 1024

    def draw_numbers(self, rows: list[Row], rng: Generator) -> Numbers:
        """Draw which rows choose splits, and which of them learn the numbers of categories."""
        n_codes = self.forest.n_codes
        learns = n_codes > 0 and not self.group.is_plain
        contrast = self.forest.task.contrast(rows[0].y, rng) if learns else float
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
                work += self.n_tried(sample) * (len(sample) + 16) + 4 * len(members)
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

    def n_tried(self, sample: Integers) -> int:
        """Return how many candidates there are: few rows have few splits between them."""
        most = 4 * (len(sample) - 1) if len(sample) > 2 else 1
        n_candidates = self.forest.n_candidates
        return min(n_candidates, most) if self.forest.task.cuts_between_rows else n_candidates

    def best_split(self, v: Node, sample: Integers, rng: Generator) -> tuple[int, float]:
        """Return the feature and the threshold of the best of some random splits."""
        columns = np.flatnonzero(v.lower < v.upper)
        if self.group.is_plain or self.forest.n_candidates == 1:  # a Mondrian tree
            lengths = np.minimum(sizes(v, self.tree)[columns], np.finfo(np.float32).max)
            j = int(columns[rng.discrete(lengths.astype(np.float32))])
            return j, self.tree.choose_threshold(float(v.lower[j]), float(v.upper[j]))
        best, best_gain = (0, 0.0), -math.inf
        margin = self.forest.task.margin(self.y[sample], self.weight[sample])
        for _ in range(self.n_tried(sample)):
            j = int(columns[rng.below(len(columns))])
            split = j, self.tree.choose_threshold(*self.ends(v, j, sample, rng))
            its_gain = self.gain_of(*split, sample)
            if its_gain > best_gain + margin:
                best, best_gain = split, its_gain
        return best

    def ends(self, v: Node, j: int, sample: Integers, rng: Generator) -> tuple[float, float]:
        """Return what a threshold lies between: two random rows that differ, or the range."""
        if self.forest.task.cuts_between_rows:
            a, b = (float(self.x[sample[rng.below(len(sample))], j]) for _ in range(2))
            if a < b or b < a:  # not where one is missing
                return min(a, b), max(a, b)
        return float(v.lower[j]), float(v.upper[j])

    def gain_of(self, feature: int, threshold: float, sample: Integers) -> float:
        judges, scale = sample, 1.0
        if feature < self.forest.n_codes:
            # A category's number may know the labels of the rows that were counted.
            judges = sample[~self.is_counted[sample]]
            if len(judges) == 0:
                return 0.0
            scale = running_sum(self.weight[sample]) / running_sum(self.weight[judges])
        values = self.x[judges, feature]
        labels, weight = self.y[judges], self.weight[judges]
        return self.forest.task.gain(values, threshold, labels, weight) * scale
