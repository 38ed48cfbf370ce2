"""The forest's tree as the paper writes it: plain Python, no speed.

Algorithms 4, 5 and 6 of Mourtada, Gaïffas and Scornet, for one tree, and Algorithms 2 and 3 in
`UnrestrictedTree`. The tests hold the compiled core to this package: the partition and the counts
bit for bit, weights and predictions to rounding. It uses nothing of the rest of amforest.

Names follow the paper: v is a node, tau its birth time, [lower, upper] its range R_v, ŷ_v its
prediction, w_v = exp(-η L_v) its weight and w̄_v its averaged weight. Both weights are kept as
logarithms. In the paper's prior a pruning goes on below each node with probability a = ½; here
a = α (1 + depth)^-β.

Features, ranges and extensions are float32, and sums over features run in eight lanes: that is how
the core rounds. NaN is a missing feature; in a range it says that no value was seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import hyp1f1

from amforest.reference.generator import Generator
from amforest.reference.label_models import ClassCounts, LabelModel, Prediction, RunningMean

__all__ = [
    "ClassCounts",
    "Generator",
    "Importance",
    "LabelModel",
    "Node",
    "RunningMean",
    "Tree",
    "UnrestrictedTree",
]

Floats = NDArray[np.float32]
Reals = NDArray[np.float64]
LANES = 8


class Random(Protocol):
    """What a tree draws from: `Generator`, or the core's."""

    def uniform(self) -> float: ...  # on [0, 1)
    def exponential(self, rate: float) -> float: ...
    def fork(self) -> list[int]: ...  # the state of another, independent one
    def discrete(self, weights: Floats) -> int: ...  # j with probability ∝ weights[j]


@dataclass(eq=False)
class Node:
    """σ_v of the paper, and the links of v."""

    tau: float
    lower: Floats
    upper: Floats
    labels: LabelModel
    log_w: float = 0.0
    log_w_bar: float = 0.0
    parent: Node | None = None
    left: Node | None = None  # v0: x_j <= threshold
    right: Node | None = None  # v1
    feature: int = -1
    threshold: float = -1.0

    def children(self) -> tuple[Node, Node] | None:
        return (self.left, self.right) if self.left and self.right else None

    def set_children(self, left: Node, right: Node) -> None:
        self.left, self.right = left, right
        left.parent = right.parent = self

    def depth(self) -> int:
        return 0 if self.parent is None else 1 + self.parent.depth()


def extension_by_feature(x: Floats, v: Node) -> Floats:
    """Δ_j = (x_j - b_j)_+ + (a_j - x_j)_+, of which at most one term is not zero."""
    delta: Floats = np.fmax(np.maximum(x - v.upper, v.lower - x), np.float32(0))  # 0 for NaN
    return delta


def lane_sum(values: Floats) -> float:
    """Sum in float32: feature j into lane j mod 8, then the lanes as a tree."""
    lanes = np.zeros(LANES, dtype=np.float32)
    for start in range(0, len(values), LANES):
        block = values[start : start + LANES]
        lanes[: len(block)] += block
    four = lanes[:4] + lanes[4:]
    two = four[:2] + four[2:]
    return float(two[0] + two[1])


@dataclass
class Importance:
    """The loss that splits have saved, by feature, and the weight of the rows credited."""

    saved: Reals | float = 0.0
    weight: float = 0.0

    def add(self, saved: Reals, weight: float) -> None:
        self.saved, self.weight = self.saved + weight * saved, self.weight + weight

    def fade(self, factor: float) -> None:
        self.saved, self.weight = self.saved * factor, self.weight * factor


def is_credited(n_rows: int, turn: int) -> bool:
    """Return whether a tree is credited for row number `n_rows`: one in ten, by turns.

    Of ten trees each row is credited to another: the circle is divided by their turns, and row n is
    at the fraction of n times the golden ratio.
    """
    part = 2**32 // 10
    return (n_rows * 2_654_435_769 - turn * part) % 2**32 < part


@dataclass
class Tree:
    """A tree on the restricted partition; its options are those of `amforest.AMFClassifier`."""

    new_labels: Callable[[], LabelModel]  # returns an empty label model
    rng: Random
    step: float = 1.0  # η
    use_aggregation: bool = True
    split_pure: bool = False
    charge_first: bool = False
    predict_extends: bool = False
    split_prior: tuple[float, float] = (0.5, 0.0)  # α, β
    max_leaves: float = math.inf  # a full tree splits nothing
    feature_weights: Floats | None = None  # λ: extensions are λ_j Δ_j; None means 1
    n_one_hot: int = 0  # the first columns are one-hot columns: their sum is added last
    turn: int = 0  # to be credited
    n_rows: int = field(default=0, init=False)
    importance: Importance = field(default_factory=Importance, init=False)
    n_leaves: int = field(default=0, init=False)
    root: Node | None = field(default=None, init=False)

    # Algorithm 4: MondrianUpdate(x, y)
    def learn(self, x: Floats, y: float, weight: float = 1.0) -> None:
        """Learn a sample; one of weight w counts as w equal samples in a row."""
        if is_credited(self.n_rows, self.turn):
            self.importance.add(self.saved(x, y), weight)
        self.n_rows += 1
        self.learn_in(self.extend(x + np.float32(0), y), y, weight)  # a copy, without -0

    def learn_in(self, leaf: Node, y: float, weight: float, is_charged: bool = True) -> None:
        """Charge a leaf and all nodes above it for y, and count y; or only count it."""
        nodes = [leaf]
        while (parent := nodes[-1].parent) is not None:
            nodes.append(parent)
        # Weigh before counting: no loss may have seen this label.
        losses = [self.loss(v, y, weight) for v in nodes]
        for v, loss in zip(nodes, losses, strict=True):
            if is_charged:
                v.log_w -= self.step * loss
                v.log_w_bar = self.average(v)
            v.labels.update(y, weight)

    def loss(self, v: Node, y: float, weight: float) -> float:
        """ℓ(ŷ_v, y); the first sample of a node is free unless `charge_first`."""
        if v.labels.n > 0 or self.charge_first:
            return v.labels.loss(y, weight)
        after_first = self.new_labels()
        after_first.update(y, 1.0)
        return after_first.loss(y, max(weight - 1.0, 0.0))

    def prediction(self, v: Node) -> Prediction:
        """ŷ_v."""
        return v.labels.prediction()

    def average(self, v: Node) -> float:
        """Log w̄_v: w̄_v = w_v in a leaf, and (1 - a) w_v + a w̄_v0 w̄_v1 elsewhere."""
        if v.children() is None:
            return v.log_w
        return float(np.logaddexp(*self.log_terms(v)))

    def log_terms(self, v: Node) -> tuple[float, float]:
        """Log of (1 - a) w_v and of a w̄_v0 w̄_v1: the prunings that end at v, and those below."""
        left, right = v.children() or (v, v)
        a = self.split_probability(v)
        return math.log(1 - a) + v.log_w, math.log(a) + left.log_w_bar + right.log_w_bar

    def split_probability(self, v: Node) -> float:
        alpha, beta = self.split_prior
        return alpha if beta == 0 else alpha * (1.0 + v.depth()) ** -beta

    # Algorithm 5: ExtendCell(root, x)
    def extend(self, x: Floats, y: float) -> Node:
        """Extend the partition by x; return the leaf of x."""
        if self.root is None:
            self.root = self.new_leaf(0.0, x)
            return self.root
        v = self.root
        while True:
            delta = self.extensions(x, v)
            extension = self.total(delta)
            if extension > 0 and not self.stays_whole(v, y):
                time = v.tau + self.rng.exponential(extension)
                children = v.children()
                if children is None or time < children[0].tau:
                    return self.split(v, x, delta, time)
            self.widen(v, x)
            if v.children() is None:
                return v
            v = self.child(v, x)

    def extensions(self, x: Floats, v: Node) -> Floats:
        """λ_j Δ_j."""
        return self.weighted(extension_by_feature(x, v))

    def weighted(self, lengths: Floats) -> Floats:
        return lengths if self.feature_weights is None else self.feature_weights * lengths

    def total(self, delta: Floats) -> float:
        """Δ = Σ_j λ_j Δ_j."""
        numbers = np.float32(lane_sum(delta[self.n_one_hot :]))
        total = numbers + np.float32(delta[: self.n_one_hot].sum(dtype=np.float64))
        return float(min(total, np.finfo(np.float32).max))  # λ_j Δ_j may overflow

    def stays_whole(self, v: Node, y: float | None = None) -> bool:
        """Return whether v must not be split: its labels (and y) are equal, or the tree is full."""
        return self.is_full() or (not self.split_pure and v.labels.is_pure(y))

    def is_full(self) -> bool:
        return self.n_leaves >= self.max_leaves

    def split(self, v: Node, x: Floats, delta: Floats, time: float) -> Node:
        """Split v at the given time: σ_v moves down, and beside it is the new leaf of x."""
        feature = self.choose_feature(delta)
        on_left = x[feature] < v.lower[feature]
        low, high = (x, v.lower) if on_left else (v.upper, x)
        leaf, rest = self.new_leaf(time, x), self.move_down(v, time)
        v.set_children(*((leaf, rest) if on_left else (rest, leaf)))
        v.feature = feature
        v.threshold = self.choose_threshold(float(low[feature]), float(high[feature]))
        self.widen(v, x)
        return leaf

    def choose_feature(self, delta: Floats) -> int:
        """Draw J with probability λ_j Δ_j / Δ."""
        return self.rng.discrete(delta)

    def choose_threshold(self, low: float, high: float) -> float:
        """Draw S from U([low, high]), rounded so that low <= S < high: the split separates."""
        threshold = np.float32(low + self.rng.uniform() * (high - low))
        if threshold >= high:
            threshold = np.nextafter(np.float32(high), np.float32(-np.inf))
        return float(threshold)

    def new_leaf(self, tau: float, x: Floats) -> Node:
        self.n_leaves += 1
        return Node(tau, x, x, self.new_labels())

    def move_down(self, v: Node, time: float) -> Node:
        """Return a copy of σ_v, born at the given time, to which the subtree of v moves."""
        rest = replace(v, tau=time, labels=deepcopy(v.labels))
        if children := v.children():
            rest.set_children(*children)
        return rest

    def widen(self, v: Node, x: Floats) -> None:
        """Set R_v to the smallest box that contains R_v and x."""
        v.lower, v.upper = np.fmin(v.lower, x), np.fmax(v.upper, x)  # a number before NaN

    def child(self, v: Node, x: Floats) -> Node:
        """Return the child of x; where x_j is missing, the one with more samples."""
        left, right = v.children() or (v, v)
        if np.isnan(x[v.feature]):
            return right if right.labels.n > left.labels.n else left
        return left if x[v.feature] <= v.threshold else right

    def path(self, x: Floats) -> Iterator[Node]:
        """Yield the nodes whose cells contain x, from the root to a leaf."""
        v = self.root
        while v is not None:
            yield v
            v = self.child(v, x) if v.children() else None

    # Algorithm 6: Predict(x)
    def predict(self, x: Floats) -> Prediction:
        """Return the mixture of Equation (6).

        With `predict_extends` x is a leaf of its own, as after ExtendCell(root, x). The result is
        the mean over the random place where x branches off its path: at v with probability p,
        given that it has not above v.
        """
        default = self.new_labels().prediction()  # h(∅)
        if self.root is None:
            return default
        prediction, stays = np.zeros_like(default), 1.0
        for v in self.path(x):
            if self.predict_extends and (p := self.branch_probability(v, x)) > 0:
                y, log_w_bar = self.mix(v, default, 0.0, v.log_w_bar)  # v's copy, x's leaf: w = 1
                prediction += stays * p * self.go_up(v, y, log_w_bar)
                stays *= 1.0 - p
        return prediction + stays * self.go_up(v, self.prediction(v), v.log_w_bar)

    def go_up(self, v: Node, y: Prediction, log_w_bar: float) -> Prediction:
        """Return ỹ_root, given ỹ_v and log w̄_v."""
        while (parent := v.parent) is not None:
            left, right = parent.children() or (v, v)
            sibling = right if v is left else left
            y, log_w_bar = self.mix(parent, y, log_w_bar, sibling.log_w_bar)
            v = parent
        return y

    def mix(
        self, v: Node, y: Prediction, log_w_bar: float, log_w_bar_sibling: float
    ) -> tuple[Prediction, float]:
        """Return ỹ_v = (1 - a) w_v / w̄_v ŷ_v + a w̄_v0 w̄_v1 / w̄_v ỹ_va, and log w̄_v.

        ỹ_va and log w̄_va are given: they are those of v's child on the path.
        """
        if not self.use_aggregation:
            return y, log_w_bar
        a = self.split_probability(v)
        ends, goes_on = math.log(1 - a) + v.log_w, math.log(a) + log_w_bar + log_w_bar_sibling
        total = float(np.logaddexp(ends, goes_on))
        y = math.exp(ends - total) * self.prediction(v) + math.exp(goes_on - total) * y
        return y, total

    def branch_probability(self, v: Node, x: Floats) -> float:
        """p_v = 1 - exp(-Δ_v t_v), where t_v is the time from v's birth to its children's."""
        extension = self.total(self.extensions(x, v))
        if extension == 0 or self.stays_whole(v):
            return 0.0
        children = v.children()
        return -math.expm1(-extension * (children[0].tau - v.tau)) if children else 1.0

    def share(self, v: Node) -> float:
        """(1 - a) w_v / w̄_v: the weight of the prunings that end at v, among those with v."""
        if v.children() is None:
            return 1.0
        ends, _ = self.log_terms(v)
        return math.exp(ends - self.average(v)) if self.use_aggregation else 0.0

    def saved(self, x: Floats, y: float) -> Reals:
        """Return what the splits on each feature save of the loss of y, which is not counted yet.

        If the path v_0, v_1, … of x ended at v_i, the prediction would be
        m_i = Σ_{j < i} reach_j share_j ŷ_j + reach_i ŷ_i, with reach_i = Π_{j < i} (1 - share_j).
        The feature on which v_{i-1} splits saves ℓ(m_{i-1}, y) - ℓ(m_i, y).
        """
        saved = np.zeros(len(x))
        above, reach, before = 0 * self.new_labels().prediction(), 1.0, 0.0
        for v in self.path(x):
            loss = self.mixture_loss(above + reach * self.prediction(v), y)
            if v.parent is not None:
                saved[v.parent.feature] += before - loss
            before = loss
            above = above + reach * self.share(v) * self.prediction(v)
            reach *= 1.0 - self.share(v)
        return saved

    def mixture_loss(self, prediction: Prediction, y: float) -> float:
        """Return ℓ of a mixture of predictions."""
        return self.new_labels().mixture_loss(prediction, y)

    def weighted_depth(self, x: Floats) -> float:
        """Σ_T w(T) depth_T(x), over the prunings T of the tree as it is."""
        depth, reach = 0.0, 1.0
        for v in self.path(x):
            reach *= 1.0 - self.share(v)
            depth += reach
        return depth


@dataclass
class UnrestrictedTree(Tree):
    """A tree on the partition of Section 2, of a box: each leaf contains at most one point.

    All feature weights must be positive: otherwise no split may separate two points.
    """

    lower: Floats = field(kw_only=True)
    upper: Floats = field(kw_only=True)

    # Algorithm 2
    def extend(self, x: Floats, y: float) -> Node:
        """Lines 2 to 11; return the leaf of x."""
        if self.root is None:
            self.root = self.new_leaf(0.0, x)
            return self.root
        *above, v = self.path(x)
        lower, upper = self.cell(x, above)
        if v.labels.n == 0:
            v.lower = v.upper = x
        other = v.lower
        while not (np.array_equal(x, other) or self.is_full()):
            v, other = self.split_cell(v, x, lower, upper)
        return v

    def cell(self, x: Floats, above: list[Node]) -> tuple[Floats, Floats]:
        """Return the corners of x's cell below the given nodes."""
        lower, upper = self.lower.copy(), self.upper.copy()
        for u in above:
            (upper if x[u.feature] <= u.threshold else lower)[u.feature] = u.threshold
        return lower, upper

    def split_cell(self, v: Node, x: Floats, lower: Floats, upper: Floats) -> tuple[Node, Floats]:
        """Split the cell of v, which becomes x's part of it; return its node and its point."""
        other, nowhere = v.lower, np.full_like(x, np.nan)
        # Where no number is left between the ends, a split would change nothing.
        is_flat = (np.nextafter(lower, upper) >= upper) & (x == other)
        sizes = self.weighted(np.where(is_flat, np.float32(0), upper - lower))
        time = v.tau + self.rng.exponential(lane_sum(sizes))
        feature = self.choose_feature(sizes)
        threshold = self.choose_threshold(float(lower[feature]), float(upper[feature]))
        x_right, other_right = x[feature] > threshold, other[feature] > threshold
        rest = self.move_down(v, time)
        leaf = self.new_leaf(time, nowhere if x_right == other_right else x)
        v.lower, v.upper = nowhere, nowhere
        v.set_children(*((leaf, rest) if other_right else (rest, leaf)))
        v.feature, v.threshold = feature, threshold
        (lower if x_right else upper)[feature] = threshold
        return (rest, other) if x_right == other_right else (leaf, x)

    # Algorithm 3
    def predict(self, x: Floats) -> Prediction:
        """Return the mixture; with `predict_extends`, its mean over the splits that isolate x.

        Each of the K new nodes has the prediction of x's leaf, and a share of 1 - a; below the last
        is a new leaf, which predicts h(∅). So ỹ of x's leaf is E[1 - a^K] ŷ + E[a^K] h(∅).
        """
        default = self.new_labels().prediction()
        if self.root is None:
            return default
        *above, leaf = self.path(x)
        new = self.mean_power(x, above, leaf) if self.predict_extends else 0.0
        y = (1.0 - new) * self.prediction(leaf) + new * default
        return self.go_up(leaf, y, leaf.log_w_bar)

    def mean_power(self, x: Floats, above: list[Node], leaf: Node) -> float:
        """Return E[a^K], or 0 if x needs no leaf of its own.

        The points are separated at a time T ~ Exp(δ), ``δ = |x - x'|₁``. Until then the 2d
        distances s to the cell's walls shrink to uniform parts of themselves at the rates s: N_t
        times, with E[a^N_t] = M(1 - a, 1, -st), M being Kummer's function. So
        E[a^K] = a E[Π_s M(1 - a, 1, -sT)].
        """
        if leaf.labels.n == 0 or np.array_equal(x, leaf.lower) or self.is_full():
            return 0.0
        if not self.use_aggregation:
            return 1.0
        lower, upper = self.cell(x, above)
        points = np.stack([x, leaf.lower]).astype(np.float64)
        walls = np.stack([points.min(axis=0) - lower, upper - points.max(axis=0)])
        slacks, sides = self.weighted(walls), self.weighted(np.abs(points[0] - points[1]))
        delta, a = sides.sum(), self.split_prior[0]

        def density(u: float) -> float:  # of T at exp(u) / δ, times the product
            z = slacks * (math.exp(u) / delta)
            return math.exp(u - math.exp(u)) * float(np.prod(hyp1f1(1.0 - a, 1.0, -z)))

        return a * float(quad(density, -40, 4, epsabs=1e-14, limit=500)[0])
