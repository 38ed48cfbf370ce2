"""Small trees of the paper's Algorithms 2 and 4, and what its figures say of their nodes.

Nodes have the paper's names: v0 and v1 are the children of v, and the root's name is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from amforest import AMFClassifier
from amforest.theory import leaves_of, node_predictions, online_losses

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Table = NDArray[Any]
Partition = Literal["restricted", "unrestricted"]

# Five points placed as in the paper's drawings, in the order of its Figure 4. The labels are ours.
POINTS = np.array([[0.45, 0.7], [0.7, 0.3], [0.2, 0.8], [0.13, 0.61], [0.5, 0.4]])
LABELS = np.array([1, 0, 1, 1, 0])


def forest(partition: Partition, n_trees: int, seed: int) -> AMFClassifier:
    """Return a forest that learns as the paper's algorithms do: η = 1, α = ½, all nodes charged."""
    paper: dict[str, Any] = {"charge_first": True, "split_pure": True, "dirichlet": 0.5}
    return AMFClassifier(n_trees, partition=partition, random_state=seed, classes=[0, 1], **paper)


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree's table, and the samples that it has learned."""

    table: Table
    X: Floats
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def names(self) -> list[str]:
        """The paper's names of the nodes."""
        names = [""] * len(self)
        for v, node in enumerate(self.table):
            if node["left"] >= 0:
                names[node["left"]], names[node["right"]] = f"{names[v]}0", f"{names[v]}1"
        return names

    @cached_property
    def row(self) -> dict[str, int]:
        """The nodes' rows by their names."""
        return {name: v for v, name in enumerate(self.names)}

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Which nodes are leaves."""
        return np.asarray(self.table["left"] < 0)

    @cached_property
    def is_empty(self) -> NDArray[np.bool_]:
        """Which nodes have no sample in their cell."""
        return np.asarray(self.table["n_samples"] == 0)

    @cached_property
    def makes_empty(self) -> NDArray[np.bool_]:
        """Which nodes have a split with all samples on one side."""
        children = self.is_empty[self.table["left"]] | self.is_empty[self.table["right"]]
        return np.asarray(children & ~self.is_leaf)

    @cached_property
    def leaves(self) -> Rows:
        """The leaf of each sample."""
        return leaves_of(self.table, self.X)

    @cached_property
    def w(self) -> Floats:
        """w_v = exp(-L_v): what the node has earned, sample by sample."""
        weights: Floats = np.exp(-online_losses(self.table, self.X, self.y))
        return weights

    @cached_property
    def w_bar(self) -> Floats:
        """w̄_v: w_v in leaves, ½ w_v + ½ w̄_v0 w̄_v1 elsewhere."""
        weights = self.w.copy()
        for v in np.flatnonzero(~self.is_leaf)[::-1]:  # children come after parents
            below = weights[self.table["left"][v]] * weights[self.table["right"][v]]
            weights[v] = (weights[v] + below) / 2
        return weights

    @cached_property
    def predictions(self) -> Floats:
        """ŷ_v, the probabilities of both classes."""
        return node_predictions(self.table)

    def path(self, x: Floats) -> list[str]:
        """Return the names of the nodes whose cells hold x, from the root to a leaf."""
        leaf = self.names[int(leaves_of(self.table, x[None])[0])]
        return [leaf[:depth] for depth in range(len(leaf) + 1)]

    def cells(self) -> tuple[Floats, Floats]:
        """Return the corners of the nodes' cells in the unit square."""
        lower, upper = np.zeros((len(self), 2)), np.ones((len(self), 2))
        for v, node in enumerate(self.table):
            if node["left"] < 0:
                continue
            for child in (node["left"], node["right"]):
                lower[child], upper[child] = lower[v], upper[v]
            upper[node["left"], node["feature"]] = node["threshold"]
            lower[node["right"], node["feature"]] = node["threshold"]
        return lower, upper

    def odds_error(self) -> float:
        """Return by how much w_v / (w̄_v0 w̄_v1) of the core is off, relatively, at the most."""
        inner = self.table[~self.is_leaf]
        kept = inner["odds"] * 2.0 ** (256 * inner["odds_scale"])
        below = self.w_bar[inner["left"]] * self.w_bar[inner["right"]]
        return float(np.abs(kept * below / self.w[~self.is_leaf] - 1).max(initial=0))


def tree_of(model: AMFClassifier, i: int, X: Floats, y: NDArray[np.int64]) -> Tree:
    """Return tree i of a forest that has learned X and y."""
    return Tree(model.tree_table(i), X, y)


def update(
    partition: Partition, X: Floats, y: NDArray[np.int64], n_trees: int, seed: int
) -> list[tuple[Tree, Tree]]:
    """Return each tree of a forest before and after it has learned the last sample."""
    model = forest(partition, n_trees, seed).partial_fit(X[:-1], y[:-1])
    before = [tree_of(model, i, X[:-1], y[:-1]) for i in range(n_trees)]
    model.partial_fit(X[-1:], y[-1:])
    return [(tree, tree_of(model, i, X, y)) for i, tree in enumerate(before)]


def random_updates(
    partition: Partition, n_samples: int, n_trees: int, seed: int
) -> list[tuple[Tree, Tree]]:
    """Return the updates of trees by the last of some random samples of the unit square."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(n_samples, 2)), rng.integers(2, size=n_samples)
    return update(partition, X, y, n_trees, seed)


def without_empty_leaves(tree: Tree) -> Tree:
    """Remove the splits that have all samples on one side: their parent gets the other child.

    Depths stay those of the whole tree, so that drawings of both agree.
    """
    table, kept, stands_for = tree.table, [], np.arange(len(tree))
    for v in reversed(range(len(tree))):  # children come after parents
        if tree.makes_empty[v]:
            left, right = table["left"][v], table["right"][v]
            stands_for[v] = stands_for[right if tree.is_empty[left] else left]
        elif not tree.is_empty[v]:
            kept.append(v)
    rows = np.array(kept[::-1])
    number = np.full(len(tree) + 1, -1)  # the last entry is for no node, -1
    number[rows] = np.arange(len(rows))
    smaller = table[rows].copy()
    for side in ("left", "right"):
        inner = smaller[side] >= 0
        smaller[side][inner] = number[stands_for[smaller[side][inner]]]
        smaller["parent"][smaller[side][inner]] = np.flatnonzero(inner)
        # A child is born where its parent is split, not at a split in between that is removed.
        smaller["birth_time"][smaller[side][inner]] = table["birth_time"][table[side][rows[inner]]]
    smaller["parent"][0], smaller["birth_time"][0] = -1, 0.0
    return Tree(smaller, tree.X, tree.y)


def prunings(table: Table, v: int = 0) -> Iterator[list[int]]:
    """Yield the leaves of all prunings of the tree below v, the smallest first."""
    yield [v]
    if table["left"][v] >= 0:
        below = [list(prunings(table, int(table[side][v]))) for side in ("left", "right")]
        for left, right in product(*below):
            yield left + right


def prior(tree: Tree, leaves: list[int]) -> float:
    """Return the prior probability of a pruning: ½ for each of its nodes that could be split.

    It is Equation (7), summed over what the prunings of the infinite tree do below the leaves.
    """
    ends = [tree.names[v] for v in leaves]
    nodes = {name[:depth] for name in ends for depth in range(len(name) + 1)}
    return float(0.5 ** sum(not tree.is_leaf[tree.row[name]] for name in nodes))
