"""Figure 6: one update of the restricted partition, Algorithms 4 and 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.paper._findings import Claim, Table
from experiments.paper._run import Found, Run
from experiments.paper._sketch import BOLD, MOVED, NEW, RANGE, draw_range, mark_node, write_times
from experiments.paper._trees import LABELS, POINTS, Tree, forest, random_updates, update
from experiments.paper._updates import (
    Look,
    draw_update,
    explain,
    path_table,
    same_nodes,
    sign,
    weights_error,
)

TITLE = "An update of the restricted partition"
ABOUT = """A tree of Algorithms 4 and 5 before and after its fifth sample, whose path is bold. The
sample is outside of the range of node 1, the green dotted box, which grows. A split (broad, red) is
put above the one that was there (dashed, blue), because it comes earlier: times τ are beside the
splits. The points are those of the paper's drawing, the labels 0, 1, 1, 0, 1, and the seed was
chosen for a tree like the paper's. The claims are checked on many trees of 20 random samples."""
ORDER = [4, 2, 3, 1, 0]  # the samples of Figure 4 come in another order here
FAR = 1024  # a power of two: nothing is rounded
N_SAMPLES, N_NODES = 20, 39
SEED = 1213  # the fifth sample splits node 1 above an older split


@dataclass(frozen=True)
class Shown:
    """The update that is drawn, and what was counted in many others."""

    before: Tree
    after: Tree
    counts: dict[str, Any]


def compute(run: Run) -> Shown:
    """Update the tree of the picture, and many others."""
    ((before, after),) = update("restricted", POINTS[ORDER], LABELS[ORDER], 1, SEED)
    n_streams = run.choose(full=100, quick=40, tiny=3)
    found = run.cells(checked, [(seed, N_SAMPLES, 10) for seed in range(n_streams)], "Figure 6")
    together = {name: np.concatenate([cell[name] for cell in found]) for name in found[0]}
    return Shown(before, after, together)


def checked(seed: int, n_samples: int, n_trees: int) -> Found:
    """Check the updates of some trees; one entry for each tree."""
    updates = random_updates("restricted", n_samples, n_trees, seed)
    rows = [_check(before, after) for before, after in updates]
    X, y = updates[0][1].X, updates[0][1].y
    far = forest("restricted", n_trees, seed).fit(FAR * X, y)
    scaled = [_is_scaled(after, far.tree_table(i)) for i, (_, after) in enumerate(updates)]
    checks = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {"scaled": np.array(scaled), **checks}


def _is_scaled(tree: Tree, far: NDArray[Any]) -> bool:
    """Return whether a tree of samples multiplied by `FAR` is the same at another scale."""
    near = tree.table
    return (
        np.array_equal(far["threshold"][~tree.is_leaf], FAR * near["threshold"][~tree.is_leaf])
        and np.allclose(FAR * far["birth_time"], near["birth_time"], rtol=1e-12, atol=0)
        and all(np.array_equal(far[name], near[name]) for name in ("left", "feature", "share"))
    )


def _moved(before: Tree, after: Tree) -> tuple[str, dict[str, str]]:
    """Return the node that is split, and the new names of the nodes that were there before.

    The new leaf is va: what was vu becomes v(1-a)u.
    """
    leaf = after.path(after.X[-1])[-1]
    v, other = leaf[:-1], leaf[:-1] + str(1 - int(leaf[-1]))
    names = {u: other + u[len(v) :] if u.startswith(v) else u for u in before.names}
    return v, names


def _check(before: Tree, after: Tree) -> dict[str, Any]:
    v, names = _moved(before, after)
    on_path, moved_root = after.path(after.X[-1]), names[v]
    others = {u: name for u, name in names.items() if name not in (*on_path, moved_root)}
    births, old = before.table["birth_time"], before.row[v]
    time = after.table["birth_time"][after.row[moved_root]]
    next_split = np.inf if before.is_leaf[old] else births[before.table["left"][old]]
    return {
        "above_split": bool(next_split < np.inf),
        "in_time": bool(births[old] < time < next_split),
        "renamed": {*names.values(), *on_path} == {*after.names},
        "one_each": bool((after.table["n_samples"][after.is_leaf] == 1).all()),
        "nodes": len(after),
        "others_same": same_nodes(before, after, others)
        and same_nodes(before, after, {v: moved_root}, but="birth_time"),
        "ranges": _ranges_hold(after),
        "weights_error": weights_error(before, after),
    }


def _ranges_hold(tree: Tree) -> bool:
    """Return whether all nodes have the ranges of their samples."""
    leaves, X = np.array(tree.names)[tree.leaves], tree.X.astype(np.float32)
    inside = [X[np.char.startswith(leaves, name)] for name in tree.names]
    lower, upper = ([f(rows, axis=0) for rows in inside] for f in (np.min, np.max))
    return np.array_equal(tree.table["lower"], lower) and np.array_equal(tree.table["upper"], upper)


def draw(found: Shown) -> Figure:
    """Draw cells and tree, before above after."""
    before, after = found.before, found.after
    v, names = _moved(before, after)
    leaf, children = after.path(after.X[-1])[-1], [f"{v}0", f"{v}1"]
    looks = (
        Look({v: MOVED}, dict.fromkeys(children, MOVED)),
        Look(
            {v: NEW, names[v]: MOVED},
            {leaf: NEW, names[v]: NEW} | {names[u]: MOVED for u in children},
        ),
    )
    figure = draw_update(before, after, looks)
    for tree, (cells, nodes) in zip(
        (before, after), (figure.axes[:2], figure.axes[3:5]), strict=True
    ):
        draw_range(cells, tree, v)
        mark_node(nodes, tree, v)
        write_times(nodes, tree)
    signs = [
        sign("new split, new node", **NEW),
        sign("split that moves down", **MOVED),
        sign("path of the new sample", linewidth=BOLD),
        sign(f"node {v}", linestyle="", marker="s", color=RANGE["color"]),
        sign(f"its range $R_{v}$", **RANGE),
    ]
    explain(figure.axes[2], signs)
    return figure


def claims(found: Shown) -> list[Claim]:
    """Check what Section 4.1 says of an update."""
    counts = found.counts
    n, error = len(counts["nodes"]), counts["weights_error"].max()
    placed = counts["in_time"] & counts["renamed"]
    sizes = counts["one_each"] & (counts["nodes"] == N_NODES)
    return [
        Claim(
            "A new sample puts one split into the tree: above the first split on its way that "
            "would come later, or into a leaf. What was below v moves below v0 or v1",
            f"{placed.sum():,} of {n:,} updates; {counts['above_split'].sum():,} of the new splits "
            "are above an older one",
            bool(placed.all()),
        ),
        Claim(
            "Each leaf has exactly one sample, none is empty: n samples make 2n − 1 nodes",
            f"{sizes.sum():,} of {n:,} trees of {N_SAMPLES} samples",
            bool(sizes.all()),
        ),
        Claim(
            "Only nodes on the new sample's path change, and their ranges grow to hold it",
            f"all other nodes, also those that moved, are equal bit for bit in "
            f"{counts['others_same'].sum():,} of {n:,}; ranges are those of the samples in "
            f"{counts['ranges'].sum():,}",
            bool((counts["others_same"] & counts["ranges"]).all()),
        ),
        Claim(
            "Weights are updated as in Algorithm 2: w by exp(−loss), then w̄ = ½ w + ½ w̄₀ w̄₁",
            f"largest relative error of the core's weights {error:.1e}",
            bool(error < 1e-12),
        ),
        Claim(
            "The algorithm is free of the range: features need not lie in [0, 1]",
            f"{counts['scaled'].sum():,} of {n:,} trees are the same if features are multiplied by "
            f"{FAR:,}, with thresholds so multiplied and times so divided",
            bool(counts["scaled"].all()),
        ),
    ]


def tables(found: Shown) -> list[Table]:
    """Give the weights on the path of the picture."""
    return [path_table(found.before, found.after)]
