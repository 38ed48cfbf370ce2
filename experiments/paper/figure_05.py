"""Figure 5: the unrestricted partition beside the restricted one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from experiments.paper._findings import Claim, Table
from experiments.paper._run import Found, Run
from experiments.paper._sketch import MOVED, PLAIN, draw_cells, draw_points, draw_tree
from experiments.paper._trees import (
    LABELS,
    POINTS,
    Tree,
    forest,
    tree_of,
    update,
    without_empty_leaves,
)
from experiments.paper._updates import explain, sign
from experiments.paper.figure_04 import SEED

TITLE = "Unrestricted and restricted partitions"
ABOUT = """Left, the unrestricted partition of Figure 4 and its tree: the dashed blue splits have
all samples of their cell on one side and leave the other empty. Right, what remains without them: a
restricted partition. Whether its law is that of Algorithm 5 is tested on trees of four samples. How
many splits are superfluous is counted for samples that are uniform in d dimensions, or in the first
two only while all others are constant; the label says, with 10 % noise, whether both of the first
two features are on the same side of ½. The table has the number of splits for each split that is
needed, and the mean log-loss of test-then-train."""
DIMENSIONS = (2, 5, 20)
ALL, TWO = "all vary", "two vary"
UNIFORM = (
    "If samples are uniform, a threshold that is uniform too has any number of the samples of its "
    "cell on its left with the same probability, whatever d is. So n samples need 2n − 1 splits on "
    "average in all dimensions, about two for each of the n − 1 between samples. Between the "
    "log-losses of the two partitions we see no difference for d = 5 and 20 beyond what seeds make "
    "(five of them, one kind of label; with d = 20 hardly anything is learned). Superfluous splits "
    "grow with d where samples are on a subspace: see the next claim."
)


@dataclass(frozen=True)
class Shown:
    """The tree that is drawn, what many trees were like, and what splits cost."""

    tree: Tree
    laws: Found
    costs: dict[tuple[str, int], Found]


def compute(run: Run) -> Shown:
    """Grow the tree of the picture, trees for the law, and trees in many dimensions."""
    ((_, tree),) = update("unrestricted", POINTS, LABELS, 1, SEED)
    n_parts, n_trees = run.choose(full=(10, 1_000), quick=(4, 500), tiny=(2, 100))
    parts = run.cells(grown, [(seed, n_trees) for seed in range(n_parts)], "Figure 5, the law")
    laws = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    n_samples, n_seeds = run.choose(full=(1_000, 5), quick=(300, 2), tiny=(60, 1))
    cells = [
        (kind, d, n_samples, seed)
        for kind in (ALL, TWO) for d in DIMENSIONS for seed in range(n_seeds)
    ]  # fmt: skip
    costs: dict[tuple[str, int], list[Found]] = {}
    for cell, found in zip(cells, run.cells(cost, cells, "Figure 5, the cost"), strict=True):
        costs.setdefault(cell[:2], []).append(found)
    means = {
        key: {name: np.mean([found[name] for found in some], axis=0) for name in some[0]}
        for key, some in costs.items()
    }
    return Shown(tree, laws, means)


def grown(seed: int, n_trees: int) -> Found:
    """Grow trees of four samples: unrestricted ones without superfluous splits, and restricted."""
    X, y = POINTS[:4], LABELS[:4]
    free = forest("unrestricted", n_trees, 2 * seed).fit(X, y)
    bound = forest("restricted", n_trees, 2 * seed + 1).fit(X, y)
    whole = [tree_of(free, i, X, y) for i in range(n_trees)]
    cut = [without_empty_leaves(tree) for tree in whole]
    trees = {"cut": cut, "restricted": [tree_of(bound, i, X, y) for i in range(n_trees)]}
    found: dict[str, Any] = {
        "removed": [int(tree.makes_empty.sum()) for tree in whole],
        "one_each": [
            len(tree) == 7 and (tree.table["n_samples"][tree.is_leaf] == 1).all() for tree in cut
        ],
    }
    for name, some in trees.items():
        found[f"{name}_shape"] = [_shape(tree) for tree in some]
        found[f"{name}_time"] = [tree.table["birth_time"][1] for tree in some]
        found[f"{name}_last"] = [tree.table["birth_time"].max() for tree in some]
    return {name: np.array(values) for name, values in found.items()}


def _shape(tree: Tree) -> str:
    """Return for each split its feature, and for each sample its leaf: thresholds may differ."""
    features = "".join(map(str, tree.table["feature"][~tree.is_leaf]))
    return f"{features} {' '.join(tree.names[v] for v in tree.leaves)}"


def cost(kind: str, d: int, n_samples: int, seed: int) -> Found:
    """Count the splits of both partitions, for each that is needed, and take the log-loss."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_samples, d))
    if kind == TWO:
        X[:, 2:] = 0.5
    same_side = (X[:, 0] > 0.5) == (X[:, 1] > 0.5)
    y = (same_side ^ (rng.uniform(size=n_samples) < 0.1)).astype(np.int64)
    n_trees, splits, losses = 10, [], []
    for partition in ("unrestricted", "restricted"):
        model = forest(partition, n_trees, seed)
        predictions = model.partial_fit_predict_proba(X, y)
        losses.append(-np.log(predictions[np.arange(1, n_samples), y[1:]]).mean())
        n_splits = (model.stats()["nodes"] - n_trees) / 2
        splits.append(n_splits / (n_trees * (n_samples - 1)))
    return {"splits": np.array(splits), "losses": np.array(losses)}


def draw(found: Shown) -> Figure:
    """Draw cells above trees, the unrestricted ones on the left."""
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    axes = figure.subplots(2, 3, width_ratios=[3.4, 3.4, 1.9], height_ratios=[3, 2.7])
    whole, cut = found.tree, without_empty_leaves(found.tree)
    blue = [whole.names[v] for v in np.flatnonzero(whole.makes_empty)]
    below = [f"{name}{a}" for name in blue for a in "01"]
    for tree, splits, nodes, column, title in (
        (whole, blue, below, axes[:, 0], "Unrestricted"), (cut, [], [], axes[:, 1], "Restricted"),
    ):  # fmt: skip
        draw_cells(column[0], tree, dict.fromkeys(splits, MOVED))
        draw_points(column[0], tree)
        draw_tree(column[1], tree, styles=dict.fromkeys(nodes, MOVED))
        column[0].set_title(title, fontsize=11)
    signs = [
        sign("split between samples", **PLAIN),
        sign("split that leaves\na cell empty", **MOVED),
        sign("leaf with its sample", linestyle="", marker="o"),
        sign("empty leaf", linestyle="", marker="o", markerfacecolor="white"),
    ]
    explain(axes[0, 2], signs)
    axes[1, 2].set_axis_off()
    return figure


def claims(found: Shown) -> list[Claim]:
    """Check what Section 4.1 says of the two partitions."""
    laws, one_each = found.laws, found.laws["one_each"]
    shapes, both = np.unique([laws["cut_shape"], laws["restricted_shape"]], return_inverse=True)
    counts = np.stack([np.bincount(row, minlength=len(shapes)) for row in both.reshape(2, -1)])
    often = counts.sum(axis=0) >= 10  # the others count as one
    tested = np.column_stack([counts[:, often], counts[:, ~often].sum(axis=1)])
    p_shape = stats.chi2_contingency(tested[:, tested.any(axis=0)]).pvalue
    p_first, p_last = (
        stats.ks_2samp(laws[f"cut_{name}"], laws[f"restricted_{name}"]).pvalue
        for name in ("time", "last")
    )
    last, five = DIMENSIONS[-1], found.costs[ALL, 5]["losses"]
    uniform, flat = found.costs[ALL, last], found.costs[TWO, last]
    return [
        Claim(
            "Without the splits that leave a cell empty, each leaf has exactly one sample",
            f"{one_each.sum():,} of {len(one_each):,} trees of four samples; "
            f"{laws['removed'].mean():.2f} splits are removed on average, three remain",
            bool(one_each.all()),
        ),
        Claim(
            "What remains of an unrestricted partition is a restricted one: the law is that of "
            "Algorithm 5",
            f"p-values: shapes of the trees ({len(shapes)} of them, χ²) {p_shape:.2f}, times of "
            f"the first and last split (Kolmogorov–Smirnov) {p_first:.2f} and {p_last:.2f}",
            bool(min(p_shape, p_first, p_last) > 0.001),
        ),
        Claim(
            "With many features, all of which vary, more splits are superfluous and it matters "
            "more that they are removed",
            f"splits for each that is needed: {uniform['splits'][0]:.2f} for d = {last}, "
            f"{found.costs[ALL, 2]['splits'][0]:.2f} for d = 2; log-loss for d = 5: unrestricted "
            f"{five[0]:.3f}, restricted {five[1]:.3f}",
            bool(uniform["splits"][0] > 1.2 * found.costs[ALL, 2]["splits"][0]),
            why=UNIFORM,
        ),
        Claim(
            "It matters where samples vary in few of many dimensions, to which the restricted "
            "partition adapts",
            f"d = {last}, of which two vary: {flat['splits'][0]:.1f} splits for each that is "
            f"needed; log-loss: unrestricted {flat['losses'][0]:.3f}, restricted "
            f"{flat['losses'][1]:.3f}",
            bool(
                flat["splits"][0] > 2 * found.costs[TWO, 2]["splits"][0]
                and flat["losses"][1] < flat["losses"][0]
            ),
        ),
    ]


def tables(found: Shown) -> list[Table]:
    """Give the splits for each that is needed, and the log-loss of test-then-train."""
    headings = ["features", "d", "splits, unrestricted", "log-loss, unrestricted", "restricted"]
    rows = [
        [kind, str(d), f"{costs['splits'][0]:.2f}", *(f"{loss:.3f}" for loss in costs["losses"])]
        for (kind, d), costs in found.costs.items()
    ]
    return [Table(headings, rows)]
