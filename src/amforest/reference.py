"""The AMF tree as the paper writes it: plain Python, no speed.

Algorithms 4, 5 and 6 of Mourtada, Gaïffas and Scornet, for one tree. The tests hold the compiled
core to this file, bit for bit, so rounding is part of what it says: features, ranges and range
extensions are float32, everything else is double, and sums over features run in eight lanes.

Names: v is a node, tau its birth time, [lower, upper] its range R_v, log_w and log_w_bar the
logarithms of w_v and w̄_v, ŷ_v the forecast of its label model and h(∅) that of an empty one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Mixture = NDArray[np.float64]
LANES = 8
LOG_2 = math.log(2.0)
# Beyond this gap between two logarithms the smaller term is lost in the rounding of the larger.
NEGLIGIBLE = 40.0


class Random(Protocol):
    """What the tree draws from; the core's generator is one."""

    def uniform(self) -> float: ...  # on [0, 1)
    def exponential(self, rate: float) -> float: ...
    def discrete(self, weights: Floats) -> int: ...  # j with probability ∝ weights[j]


class ClassCounts:
    """The Krichevsky–Trofimov forecaster ŷ(k) = (n_k + α) / (n + αK), with log-loss."""

    def __init__(self, n_classes: int, dirichlet: float) -> None:
        self.n = 0
        self.counts = [0] * n_classes
        self.alpha = dirichlet
        self.total_alpha = dirichlet * n_classes

    def loss(self, y: float) -> float:
        """Return ℓ(ŷ, y) = -log ŷ(y)."""
        return math.log(self.n + self.total_alpha) - math.log(self.counts[int(y)] + self.alpha)

    def is_pure(self, y: float | None = None) -> bool:
        """Tell whether all labels so far are equal (to y, if it is given)."""
        return self.n == (max(self.counts) if y is None else self.counts[int(y)])

    def update(self, y: float) -> None:
        self.counts[int(y)] += 1
        self.n += 1

    # A mixture Σ_v c_v ŷ_v(k) is Σ_v s_v n_v(k) + α Σ_v s_v with s_v = c_v / (n_v + αK). The second
    # sum is the same for all classes: it is the last entry.
    def empty_mixture(self) -> Mixture:
        return np.zeros(len(self.counts) + 1)

    def add_forecast(self, coefficient: float, mixture: Mixture) -> None:
        """Add coefficient · ŷ to the mixture."""
        scale = coefficient / (self.n + self.total_alpha)
        mixture[:-1] += scale * np.array(self.counts, dtype=np.float64)
        mixture[-1] += scale * self.alpha

    def add_default(self, coefficient: float, mixture: Mixture) -> None:
        """Add coefficient · h(∅) to the mixture."""
        mixture[-1] += coefficient / len(self.counts)

    def finish(self, mixture: Mixture) -> Mixture:
        forecast: Mixture = mixture[:-1] + mixture[-1]
        return forecast


class RunningMean:
    """The mean of the labels, 0 before the first, with square loss."""

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self.constant = True

    def loss(self, y: float) -> float:
        return (self.mean - y) * (self.mean - y)

    def is_pure(self, y: float | None = None) -> bool:
        return self.constant and (y is None or self.mean == y)

    def update(self, y: float) -> None:
        self.constant = self.n == 0 or self.is_pure(y)
        self.n += 1
        self.mean = y if self.n == 1 else self.mean + (y - self.mean) / self.n

    def empty_mixture(self) -> Mixture:
        return np.zeros(1)

    def add_forecast(self, coefficient: float, mixture: Mixture) -> None:
        mixture[0] += coefficient * self.mean

    def add_default(self, coefficient: float, mixture: Mixture) -> None:
        pass  # h(∅) = 0

    def finish(self, mixture: Mixture) -> Mixture:
        return mixture


LabelModel = ClassCounts | RunningMean


@dataclass(eq=False)
class Node:
    """σ_v of the paper, and v's links."""

    tau: float
    lower: Floats
    upper: Floats
    labels: LabelModel
    log_w: float = 0.0
    log_w_bar: float = 0.0
    parent: Node | None = None
    left: Node | None = None  # v0: x_j <= threshold
    right: Node | None = None
    feature: int = -1
    threshold: float = -1.0

    def children(self) -> tuple[Node, Node] | None:
        return (self.left, self.right) if self.left and self.right else None

    def set_children(self, left: Node, right: Node) -> None:
        self.left, self.right = left, right
        left.parent = right.parent = self


def extension_by_feature(x: Floats, v: Node) -> Floats:
    """Δ_j = (x_j - b_j)_+ + (a_j - x_j)_+, of which one term at the most is not zero."""
    delta: Floats = np.maximum(np.maximum(x - v.upper, v.lower - x), np.float32(0))
    return delta


def lane_sum(values: Floats) -> float:
    """Sum in float32 as SIMD does: feature j into lane j mod 8, then the lanes as a tree."""
    lanes = np.zeros(LANES, dtype=np.float32)
    for start in range(0, len(values), LANES):
        block = values[start : start + LANES]
        lanes[: len(block)] += block
    four = lanes[:4] + lanes[4:]
    two = four[:2] + four[2:]
    return float(two[0] + two[1])


def log_mean(log_a: float, log_b: float) -> tuple[float, float]:
    """Return log(½a + ½b) and the share of a in it, a / (a + b)."""
    gap = abs(log_a - log_b)
    ratio = math.exp(-gap) if gap < NEGLIGIBLE else 0.0  # smaller / larger
    share = (1.0 if log_a >= log_b else ratio) / (1.0 + ratio)
    return max(log_a, log_b) + math.log(1.0 + ratio) - LOG_2, share


class Tree:
    """One AMF tree.

    Parameters
    ----------
    new_labels : callable
        Makes an empty label model: ``lambda: ClassCounts(n_classes, dirichlet)`` or `RunningMean`.
    rng : Random
        The source of randomness.
    step, use_aggregation, split_pure, charge_first, predict_extends
        As in `amforest.AMFClassifier`.
    """

    def __init__(
        self,
        new_labels: Callable[[], LabelModel],
        rng: Random,
        *,
        step: float = 1.0,
        use_aggregation: bool = True,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
    ) -> None:
        self.new_labels = new_labels
        self.rng = rng
        self.step = step
        self.use_aggregation = use_aggregation
        self.split_pure = split_pure
        self.charge_first = charge_first
        self.predict_extends = predict_extends
        self.root: Node | None = None

    # Algorithm 4
    def learn(self, x: Floats, y: float) -> None:
        """MondrianUpdate(x, y): extend the partition by x, then weigh and count y on x's path."""
        v: Node | None = self.extend(x + np.float32(0), y)  # a copy, without -0
        while v is not None:
            if self.use_aggregation:
                self.weigh(v, y)
            v.labels.update(y)
            v = v.parent

    def weigh(self, v: Node, y: float) -> None:
        """w_v ← w_v exp(-η ℓ(ŷ_v, y)), then w̄_v. The label must not have been counted yet."""
        if v.labels.n > 0 or self.charge_first:
            v.log_w -= self.step * v.labels.loss(y)
        v.log_w_bar = v.log_w
        if children := v.children():
            v.log_w_bar, _ = log_mean(v.log_w, children[0].log_w_bar + children[1].log_w_bar)

    # Algorithm 5
    def extend(self, x: Floats, y: float) -> Node:
        """ExtendCell from the root down; return the leaf of x."""
        if self.root is None:
            self.root = self.new_leaf(0.0, x)
            return self.root
        v = self.root
        while True:
            delta = extension_by_feature(x, v)
            extension = lane_sum(delta)
            if extension > 0 and not self.stays_whole(v, y):
                time = v.tau + self.rng.exponential(extension)
                children = v.children()
                if children is None or time < children[0].tau:
                    return self.split(v, x, delta, time)
            self.widen(v, x)
            if v.children() is None:
                return v
            v = self.child(v, x)

    def stays_whole(self, v: Node, y: float | None = None) -> bool:
        """Tell whether v may not be split, because its labels (and y) are all equal."""
        return not self.split_pure and v.labels.is_pure(y)

    def split(self, v: Node, x: Floats, delta: Floats, time: float) -> Node:
        """Split v at the given time: what v was moves down and x gets a leaf beside it."""
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
        """Draw J with probability Δ_j / Δ."""
        return self.rng.discrete(delta)

    def choose_threshold(self, low: float, high: float) -> float:
        """Draw S from U([low, high]), rounded so that low <= S < high: the split separates."""
        threshold = np.float32(low + self.rng.uniform() * (high - low))
        if threshold >= high:
            threshold = np.nextafter(np.float32(high), np.float32(-np.inf))
        return float(threshold)

    def new_leaf(self, tau: float, x: Floats) -> Node:
        return Node(tau, x, x, self.new_labels())

    def move_down(self, v: Node, time: float) -> Node:
        """Copy σ_v, born at the given time, and hang v's subtree below the copy."""
        rest = replace(v, tau=time, labels=deepcopy(v.labels))
        if children := v.children():
            rest.set_children(*children)
        return rest

    def widen(self, v: Node, x: Floats) -> None:
        """R_v ← the smallest box that holds R_v and x."""
        v.lower = np.minimum(v.lower, x)
        v.upper = np.maximum(v.upper, x)

    def child(self, v: Node, x: Floats) -> Node:
        child = v.left if x[v.feature] <= v.threshold else v.right
        assert child is not None, "v must be an inner node"
        return child

    # Algorithm 6
    def share(self, v: Node) -> float:
        """½ w_v / w̄_v: the weight of the prunings that stop at v, among those that reach it."""
        if not self.use_aggregation:
            return 0.0
        if children := v.children():
            return log_mean(v.log_w, children[0].log_w_bar + children[1].log_w_bar)[1]
        return 0.5

    def path(self, x: Floats) -> Iterator[Node]:
        """Yield the nodes whose cells hold x, from the root to a leaf."""
        v = self.root
        while v is not None:
            yield v
            v = self.child(v, x) if v.children() else None

    def predict(self, x: Floats) -> Mixture:
        """Predict(x): the mixture of Equation (6).

        Going down, `reach` is the weight of the prunings that go below the ancestors of v; each v
        but the last takes its share of it. With `predict_extends`, x may branch off at v: this has
        probability p = 1 - exp(-Δ_v t_v), given that it has not above. Then v's children are a
        copy of v and a fresh leaf {x}, w̄_v becomes ½w_v + ½w̄_v, and the total weight, with w̄ of
        the root as unit, 1 + reach (share - ½). The forecast is the mean over these places.
        """
        model = self.new_labels()
        above, forecast = model.empty_mixture(), model.empty_mixture()  # Σ over ancestors; result
        reach, stays = 1.0, 1.0  # `stays`: the probability that x has not branched off yet
        if self.root is None:
            model.add_default(1.0, forecast)
        for v in self.path(x):
            share = self.share(v)
            if self.predict_extends and (p := self.branch_probability(v, x)) > 0:
                weight = stays * p / (1.0 + reach * (share - 0.5))
                forecast += weight * above
                v.labels.add_forecast(weight * (reach * share), forecast)
                model.add_default(weight * (reach * 0.5), forecast)
                stays *= 1.0 - p
            last = v.children() is None
            v.labels.add_forecast(reach if last else reach * share, above)
            reach *= 1.0 - share
        forecast += stays * above
        return model.finish(forecast)

    def branch_probability(self, v: Node, x: Floats) -> float:
        """p_v = 1 - exp(-Δ_v t_v), t_v being the time from v's birth to its children's."""
        extension = lane_sum(extension_by_feature(x, v))
        if extension == 0 or self.stays_whole(v):
            return 0.0
        children = v.children()
        return -math.expm1(-extension * (children[0].tau - v.tau)) if children else 1.0

    def weighted_depth(self, x: Floats) -> float:
        """Σ_T w(T) depth_T(x), over the prunings T of the tree as it is."""
        depth, reach = 0.0, 1.0
        for v in self.path(x):
            if v.children():
                reach *= 1.0 - self.share(v)
                depth += reach
        return depth

    def preorder(self) -> Iterator[tuple[Node, int]]:
        """Yield all nodes with their depths, parents first, left before right."""
        stack = [(self.root, 0)] if self.root else []
        while stack:
            v, depth = stack.pop()
            yield v, depth
            if children := v.children():
                stack += [(children[1], depth + 1), (children[0], depth + 1)]
