"""The AMF tree as the paper writes it: plain Python, no speed.

Algorithms 4, 5 and 6 of Mourtada, Gaïffas and Scornet, for one tree, and Algorithm 2 in
`UnrestrictedTree`. The tests hold the compiled core to this file, bit for bit, so rounding is part
of what it says: features, ranges and range extensions are float32, everything else is double, and
sums over features run in eight lanes. NaN is a feature that is missing; in a range it says that no
value was seen yet.

Names: v is a node, tau its birth time, [lower, upper] its range R_v, ŷ_v its forecast.
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

Floats = NDArray[np.float32]
Mixture = NDArray[np.float64]
LANES = 8
NEGLIGIBLE = 2.0**-64  # a share with which predicting passes a node by


class Random(Protocol):
    """What the tree draws from; the core's generator is one."""

    def uniform(self) -> float: ...  # on [0, 1)
    def exponential(self, rate: float) -> float: ...
    def discrete(self, weights: Floats) -> int: ...  # j with probability ∝ weights[j]


@dataclass(frozen=True)
class Scaled:
    """A positive number value · 2^(256 scale), 2^-128 <= value < 2^128, which cannot overflow."""

    value: float = 1.0
    scale: float = 0.0  # an integer

    @classmethod
    def of(cls, value: float, scale: float = 0.0) -> Scaled:
        while not 2.0**-128 <= value < 2.0**128:
            up = 1.0 if value > 1 else -1.0
            value, scale = value * 2.0 ** (-256 * up), scale + up
        return cls(value, scale)

    @classmethod
    def exp(cls, x: float) -> Scaled:
        per_scale = 256.0 * math.log(2.0)
        scale = float(round(x / per_scale))
        rest = min(max(x - scale * per_scale, -per_scale / 2), per_scale / 2)
        return cls.of(math.exp(rest), scale)

    def clamped(self) -> float:  # a double within [2^-128, 2^128]
        return self.value if self.scale == 0 else 2.0 ** math.copysign(128, self.scale)

    def times(self, a: Scaled, b: Scaled) -> Scaled:  # self · a / b
        return Scaled.of(self.value * a.value / b.value, self.scale + a.scale - b.scale)

    def __add__(self, other: Scaled) -> Scaled:
        high, low = (self, other) if self.scale >= other.scale else (other, self)
        shift = {0.0: 1.0, 1.0: 2.0**-256}.get(high.scale - low.scale, 0.0)
        return Scaled.of(high.value + low.value * shift, high.scale)


ONE = Scaled(1.0)


class ClassCounts:
    """The Krichevsky–Trofimov forecaster ŷ(k) = (n_k + α) / (n + αK), with log-loss."""

    def __init__(self, n_classes: int, dirichlet: float) -> None:
        self.n = 0
        self.counts = [0] * n_classes
        self.alpha = dirichlet
        self.total_alpha = dirichlet * n_classes

    def likelihood(self, y: float, step: float) -> Scaled:
        """Return exp(-η ℓ(ŷ, y)) = ŷ(y)^η."""
        forecast = (self.counts[int(y)] + self.alpha) / (self.n + self.total_alpha)
        return Scaled.of(forecast) if step == 1 else Scaled.exp(step * math.log(forecast))

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

    def likelihood(self, y: float, step: float) -> Scaled:
        return Scaled.exp(-step * ((self.mean - y) * (self.mean - y)))

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
    odds: Scaled = ONE  # (1 - a) / a · w_v / (w̄_v0 w̄_v1), a being the prior probability of a split
    just_split: bool = False
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
    delta: Floats = np.fmax(np.maximum(x - v.upper, v.lower - x), np.float32(0))  # 0 for NaN
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


@dataclass
class Tree:
    """One AMF tree; its options are those of `amforest.AMFClassifier`."""

    new_labels: Callable[[], LabelModel]  # makes an empty label model
    rng: Random
    step: float = 1.0  # η
    use_aggregation: bool = True
    split_pure: bool = False
    charge_first: bool = False
    predict_extends: bool = False
    split_prior: tuple[float, float] = (0.5, 0.0)  # α, β
    max_leaves: float = math.inf  # then nothing is split any more
    n_leaves: int = field(default=0, init=False)
    root: Node | None = field(default=None, init=False)

    # Algorithm 4
    def learn(self, x: Floats, y: float) -> None:
        """MondrianUpdate(x, y): extend the partition by x, then weigh and count y on x's path."""
        v: Node | None = self.extend(x + np.float32(0), y)  # a copy, without -0
        gain = ONE
        while v is not None:
            gain = self.weigh(v, y, gain) if self.use_aggregation else ONE
            v.labels.update(y)
            v = v.parent

    def weigh(self, v: Node, y: float, gain: Scaled) -> Scaled:
        """w_v ← w_v m, m = exp(-η ℓ(ŷ_v, y)), then w̄_v; return the gain g by which w̄_v has grown.

        As only the odds between the terms of w̄_v = (1 - a) w_v + a w̄_v0 w̄_v1 are kept, all that
        counts of the child on the path is its own gain. The label must not have been counted yet.
        """
        m = v.labels.likelihood(y, self.step) if v.labels.n > 0 or self.charge_first else ONE
        if v.children() is None:
            return m
        kept = Scaled.of(v.odds.clamped()).times(m, ONE)
        before = 1.0 / self.split_prior[0] if v.just_split else v.odds.clamped() + 1.0
        v.odds, v.just_split = v.odds.times(m, gain), False
        return (kept + gain).times(ONE, Scaled.of(before))

    # Algorithm 5
    def extend(self, x: Floats, y: float) -> Node:
        """ExtendCell from the root down; return the leaf of x."""
        if self.root is None:
            self.root = self.new_leaf(0.0, x)
            return self.root
        v = self.root
        while True:
            delta = extension_by_feature(x, v)
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

    def total(self, delta: Floats) -> float:
        return lane_sum(delta)

    def stays_whole(self, v: Node, y: float | None = None) -> bool:
        """Tell whether v may not be split: its labels (and y) are equal, or the tree is full."""
        return self.is_full() or (not self.split_pure and v.labels.is_pure(y))

    def is_full(self) -> bool:
        return self.n_leaves >= self.max_leaves

    def split(self, v: Node, x: Floats, delta: Floats, time: float) -> Node:
        """Split v at the given time: what v was moves down and x gets a leaf beside it."""
        feature = self.choose_feature(delta)
        on_left = x[feature] < v.lower[feature]
        low, high = (x, v.lower) if on_left else (v.upper, x)
        leaf, rest = self.new_leaf(time, x), self.move_down(v, time)
        v.odds, v.just_split = self.odds_above(v), True
        v.set_children(*((leaf, rest) if on_left else (rest, leaf)))
        v.feature = feature
        v.threshold = self.choose_threshold(float(low[feature]), float(high[feature]))
        self.widen(v, x)
        return leaf

    def odds_above(self, v: Node) -> Scaled:
        """Return (1 - a) / a · w_v / w̄_v: w̄ of what moves down is w̄_v, and the new leaf's is 1."""
        a = self.split_prior[0]
        if v.children() is None:
            return Scaled.of((1.0 - a) / a)
        return Scaled.of(v.odds.value / a, v.odds.scale).times(ONE, v.odds + ONE)

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
        self.n_leaves += 1
        return Node(tau, x, x, self.new_labels())

    def move_down(self, v: Node, time: float) -> Node:
        """Copy σ_v, born at the given time, and hang v's subtree below the copy."""
        rest = replace(v, tau=time, labels=deepcopy(v.labels))
        if children := v.children():
            rest.set_children(*children)
        return rest

    def widen(self, v: Node, x: Floats) -> None:
        """R_v ← the smallest box that holds R_v and x."""
        v.lower, v.upper = np.fmin(v.lower, x), np.fmax(v.upper, x)  # NaN is no value

    def child(self, v: Node, x: Floats) -> Node:
        """Return the child of x; where x_j is missing, the one with more samples."""
        left, right = v.children() or (v, v)
        if np.isnan(x[v.feature]):
            return right if right.labels.n > left.labels.n else left
        return left if x[v.feature] <= v.threshold else right

    # Algorithm 6
    def share(self, v: Node) -> float:
        """(1 - a) w_v / w̄_v: the weight of prunings that stop at v, among those that reach it."""
        share = v.odds.clamped() / (v.odds.clamped() + 1.0)
        if v.children() is None:
            share = 1.0 - self.split_prior[0]
        return share if self.use_aggregation and share >= NEGLIGIBLE else 0.0

    def path(self, x: Floats) -> Iterator[Node]:
        """Yield the nodes whose cells hold x, from the root to a leaf."""
        v = self.root
        while v is not None:
            yield v
            v = self.child(v, x) if v.children() else None

    def predict(self, x: Floats) -> Mixture:
        """Predict(x): the mixture of Equation (6).

        Going down, each v but the last takes its share of `reach`, the weight of the prunings that
        go below its ancestors. With `predict_extends`, x branches off at v with probability p if it
        has not above: v's children are a copy of v and a fresh leaf {x}, w̄_v becomes
        (1 - a) w_v + a w̄_v, and the total weight, in units of w̄_root, 1 + reach (share + a - 1).
        The mean over these counts. 1 - reach is what the ancestors have `taken`: it is added up,
        because the difference would be mere rounding where all of that is tiny.
        """
        model = self.new_labels()
        above, forecast = model.empty_mixture(), model.empty_mixture()  # Σ over ancestors; result
        reach, taken = 1.0, 0.0
        stays = 1.0  # the probability that x has not branched off yet
        a = self.split_prior[0]
        if self.root is None:
            model.add_default(1.0, forecast)
        for v in self.path(x):
            share = self.share(v)
            if self.predict_extends and (p := self.branch_probability(v, x)) > 0:
                weight = stays * p / (taken + reach * (share + a))
                forecast += weight * above
                v.labels.add_forecast(weight * (reach * share), forecast)
                model.add_default(weight * (reach * a), forecast)
                stays *= 1.0 - p
            last = v.children() is None
            v.labels.add_forecast(reach if last else reach * share, above)
            taken += reach * share
            reach *= 1.0 - share
        forecast += stays * above
        return model.finish(forecast)

    def branch_probability(self, v: Node, x: Floats) -> float:
        """p_v = 1 - exp(-Δ_v t_v), t_v being the time from v's birth to its children's."""
        extension = self.total(extension_by_feature(x, v))
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


@dataclass
class UnrestrictedTree(Tree):
    """The tree of Section 2, on a box: its leaves hold one point at the most."""

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
        depth, other = len(above), v.lower
        while not (np.array_equal(x, other) or self.is_full()):
            v, other = self.split_cell(v, x, lower, upper, depth)
            depth += 1
        return v

    def cell(self, x: Floats, above: list[Node]) -> tuple[Floats, Floats]:
        """Return the corners of x's cell below the given nodes."""
        lower, upper = self.lower.copy(), self.upper.copy()
        for u in above:
            (upper if x[u.feature] <= u.threshold else lower)[u.feature] = u.threshold
        return lower, upper

    def split_cell(
        self, v: Node, x: Floats, lower: Floats, upper: Floats, depth: int
    ) -> tuple[Node, Floats]:
        """Split v's cell, which becomes x's part of it; return its node and the point there."""
        other, nowhere = v.lower, np.full_like(x, np.nan)
        # Where no number is left between the ends, a split would change nothing.
        is_flat = (np.nextafter(lower, upper) >= upper) & (x == other)
        sizes = np.where(is_flat, np.float32(0), upper - lower)
        time = v.tau + self.rng.exponential(lane_sum(sizes))
        feature = self.choose_feature(sizes)
        threshold = self.choose_threshold(float(lower[feature]), float(upper[feature]))
        x_right, other_right = x[feature] > threshold, other[feature] > threshold
        rest = self.move_down(v, time)
        leaf = self.new_leaf(time, nowhere if x_right == other_right else x)
        alpha, beta = self.split_prior
        a = alpha if beta == 0 else alpha * (1.0 + depth) ** -beta
        v.odds, v.lower, v.upper = Scaled.of((1.0 - a) / a), nowhere, nowhere
        v.set_children(*((leaf, rest) if other_right else (rest, leaf)))
        v.feature, v.threshold = feature, threshold
        (lower if x_right else upper)[feature] = threshold
        return (rest, other) if x_right == other_right else (leaf, x)

    # Algorithm 3
    def predict(self, x: Floats) -> Mixture:
        """Predict(x); with `predict_extends`, in the mean over the splits that single x out.

        Each of the K new nodes has the forecast of x's leaf, and a share 1 - a of what reaches it;
        below the last is a fresh leaf. So h(∅) gets E[a^K] of what reaches the leaf.
        """
        model = self.new_labels()
        forecast, reach = model.empty_mixture(), 1.0
        if self.root is None:
            model.add_default(1.0, forecast)
            return model.finish(forecast)
        *above, last = self.path(x)
        for v in above:
            v.labels.add_forecast(reach * self.share(v), forecast)
            reach *= 1.0 - self.share(v)
        fresh = self.mean_power(x, above, last) if self.predict_extends else 0.0
        last.labels.add_forecast(reach * (1.0 - fresh), forecast)
        model.add_default(reach * fresh, forecast)
        return model.finish(forecast)

    def mean_power(self, x: Floats, above: list[Node], last: Node) -> float:
        """Return E[a^K], or 0 if x need not be singled out.

        The points part at a time T ~ Exp(δ), δ = |x - x'|₁. Until then the 2d distances s to the
        cell's walls shrink to uniform parts of themselves at the rates s: N_t times, E[a^N_t] =
        M(1 - a, 1, -st), with Kummer's function M. So E[a^K] = a E[Π_s M(1 - a, 1, -s T)].
        """
        if last.labels.n == 0 or np.array_equal(x, last.lower) or self.is_full():
            return 0.0
        if not self.use_aggregation:
            return 1.0
        lower, upper = self.cell(x, above)
        points = np.stack([x, last.lower]).astype(np.float64)
        slacks = np.concatenate([points.min(axis=0) - lower, upper - points.max(axis=0)])
        delta, a = np.abs(points[0] - points[1]).sum(), self.split_prior[0]

        def density(u: float) -> float:  # of T at exp(u) / δ, times the product
            z = slacks * (math.exp(u) / delta)
            return math.exp(u - math.exp(u)) * float(np.prod(hyp1f1(1.0 - a, 1.0, -z)))

        return a * float(quad(density, -40, 4, epsabs=1e-14, limit=500)[0])
