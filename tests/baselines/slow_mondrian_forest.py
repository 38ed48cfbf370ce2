"""The label distribution of a Mondrian tree as its inventors write it: plain Python, no speed.

Posterior means and predictions of Lakshminarayanan, Roy and Teh, "Mondrian Forests: Efficient
Online Random Forests" (NIPS 2014), over a given tree. The tests hold `MondrianForestClassifier` to
this file. It shares no code with the library.

Their notation, and where it is in the table of one of our trees:

========  =====================================================  ===============================
theirs    meaning                                                ours
========  =====================================================  ===============================
τ_j       when node j is split; at a leaf the lifetime λ         the children's `birth_time`
τ_par(j)  when j's parent was split; 0 at the root               j's `birth_time`
Δ_j       τ_j - τ_par(j), the time during which j was whole      λ - `birth_time` in a leaf
l_j, u_j  corners of the box around j's data                     `lower`, `upper`
c_jk      customers: a leaf's labels k; else its children's      `counts`, in leaves only; above
          tables, tab_left(j)k + tab_right(j)k                   them, how many children saw k
tab_jk    tables, min(c_jk, 1): whether j has seen class k       `counts` > 0
========  =====================================================  ===============================

Our trees live forever: λ = ∞. A leaf has Δ = ∞, so its discount is 0 and its posterior mean is what
its labels are; outside its box x branches off it with probability 1, inside it never does. That is
so in a paused leaf too, one that was not split because its labels are all equal.

Extensions are doubles here and float32 in the core: they are equal where features are multiples of
a power of two, such as 1/64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

INFINITY = math.inf
Numbers = Sequence[float]


@dataclass(eq=False)
class Node:
    """Node j of a Mondrian tree, and what is below it."""

    birth_time: float  # τ_par(j)
    split_time: float  # τ_j
    lower: Numbers
    upper: Numbers
    counts: Numbers  # of j's labels; only those of leaves count
    feature: int = -1
    threshold: float = -1.0
    children: tuple[Node, Node] | None = None  # x[feature] <= threshold goes to the first

    @property
    def duration(self) -> float:  # Δ_j
        return self.split_time - self.birth_time


def from_table(table: Any, lifetime: float = INFINITY) -> Node:
    """Build the nodes of `AMFClassifier.tree_table(i)`; return the root."""

    def build(row: Any) -> Node:
        node = Node(
            birth_time=float(row["birth_time"]),
            split_time=lifetime,
            lower=row["lower"].tolist(),
            upper=row["upper"].tolist(),
            counts=row["counts"].tolist(),
        )
        if row["left"] >= 0:
            left, right = build(table[row["left"]]), build(table[row["right"]])
            node.children, node.split_time = (left, right), left.birth_time
            node.feature, node.threshold = int(row["feature"]), float(row["threshold"])
        return node

    return build(table[0])


def preorder(j: Node) -> Iterator[Node]:
    """Yield the nodes in the order of the table's rows."""
    yield j
    for child in j.children or ():
        yield from preorder(child)


def customers(j: Node) -> list[float]:
    """Return c_jk for all k."""
    if j.children is None:
        return list(j.counts)
    left, right = j.children
    return [a + b for a, b in zip(tables(left), tables(right), strict=True)]


def tables(j: Node) -> list[float]:
    """Return tab_jk for all k: the approximation that interpolated Kneser–Ney smoothing makes."""
    return [min(c, 1) for c in customers(j)]


def default_gamma(j: Node) -> float:
    """Return γ = 10 D, their choice for D features within [0, 1]."""
    return 10.0 * len(j.lower)


def discount(gamma: float, duration: float) -> float:
    """Return d = exp(-γ Δ), γ > 0."""
    return math.exp(-gamma * duration)


def posterior_mean(c: Numbers, tab: Numbers, d: float, base: Numbers) -> list[float]:
    """Return G_k = (c_k - d tab_k + d tab_· G_par,k) / c_·, or G_par where there is no label."""
    if sum(c) == 0:
        return list(base)
    return [
        (c_k - d * tab_k + d * sum(tab) * base_k) / sum(c)
        for c_k, tab_k, base_k in zip(c, tab, base, strict=True)
    ]


def uniform(j: Node) -> list[float]:
    """Return H, the base distribution: G of the root's parent."""
    return [1 / len(j.counts)] * len(j.counts)


def posterior_means(root: Node, gamma: float | None = None) -> dict[Node, list[float]]:
    """Return G_j for all nodes, in preorder."""
    gamma = default_gamma(root) if gamma is None else gamma
    parent = {child: j for j in preorder(root) for child in j.children or ()}
    means: dict[Node, list[float]] = {}
    for j in preorder(root):
        base = means[parent[j]] if j in parent else uniform(root)
        means[j] = posterior_mean(customers(j), tables(j), discount(gamma, j.duration), base)
    return means


def extension(j: Node, x: Numbers) -> float:
    """Return η_j(x), how far x lies outside j's box; NaN is a value that is missing."""
    sides = zip(x, j.lower, j.upper, strict=True)
    return sum(max(0.0, value - upper, lower - value) for value, lower, upper in sides)


def branch_probability(eta: float, duration: float) -> float:
    """Return p_j = 1 - exp(-Δ_j η_j(x))."""
    return -math.expm1(-eta * duration) if eta > 0 else 0.0


def expected_discount(gamma: float, eta: float, duration: float) -> float:
    """Return E[exp(-γ T)], T being exponential with rate η > 0, given that T < Δ.

    The mean is ∫ exp(-γt) η exp(-ηt) dt / (1 - exp(-ηΔ)), over t from 0 to Δ.
    """
    within = branch_probability(gamma + eta, duration) / branch_probability(eta, duration)
    return eta / (gamma + eta) * within


def child_of(j: Node, x: Numbers) -> Node:
    """Return the child of x; where the value is missing, the one with more labels (our rule)."""
    left, right = j.children or (j, j)
    if math.isnan(x[j.feature]):
        return right if sum(right.counts) > sum(left.counts) else left
    return left if x[j.feature] <= j.threshold else right


def predict(root: Node, x: Numbers, gamma: float | None = None) -> list[float]:
    """Return the distribution of x's label, in expectation over where x branches off its path.

    If it does so at j, a fresh node takes j's place, with j and a leaf for x as its children. The
    leaf has no labels, so what j brings are all the customers of the fresh node: one for each class
    that j has seen. Its discount is the expected one. (The program that the authors published
    leaves the fresh node all customers of j instead.)
    """
    gamma = default_gamma(root) if gamma is None else gamma
    prediction = [0.0] * len(root.counts)
    base, stays = uniform(root), 1.0  # G of j's parent; the probability of no branch so far
    j = root
    while True:
        eta = extension(j, x)
        p = branch_probability(eta, j.duration)
        if p > 0:
            seen = tables(j)
            fresh = posterior_mean(seen, seen, expected_discount(gamma, eta, j.duration), base)
            prediction = [f + stays * p * g for f, g in zip(prediction, fresh, strict=True)]
            stays *= 1 - p
        base = posterior_mean(customers(j), tables(j), discount(gamma, j.duration), base)
        if j.children is None:
            return [f + stays * g for f, g in zip(prediction, base, strict=True)]
        j = child_of(j, x)
