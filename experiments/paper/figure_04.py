"""Figure 4: one update of the unrestricted partition, Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.paper._findings import Claim, Table
from experiments.paper._run import Found, Run
from experiments.paper._sketch import BOLD, NEW
from experiments.paper._trees import LABELS, POINTS, Tree, random_updates, update
from experiments.paper._updates import (
    Look,
    draw_update,
    explain,
    path_table,
    same_nodes,
    sign,
    weights_error,
)

TITLE = "An update of the unrestricted partition"
ABOUT = """A tree of Algorithm 2 before and after its fifth sample, whose path is bold. New splits
are broad and red, open circles are leaves without a sample, and the numbers are the weights and the
predictions along the path. The points are placed as in the paper, the labels are 1, 0, 1, 1, 0, and
the seed was chosen for a tree like the paper's. The claims are checked on many trees of 20 random
samples."""
SEED = 229  # the leaf of x_2 is split three times, and two of the splits leave a cell empty


@dataclass(frozen=True)
class Shown:
    """The update that is drawn, and what was counted in many others."""

    before: Tree
    after: Tree
    counts: dict[str, Any]


def compute(run: Run) -> Shown:
    """Update the tree of the picture, and many others."""
    ((before, after),) = update("unrestricted", POINTS, LABELS, 1, SEED)
    n_streams = run.choose(full=100, quick=40, tiny=3)
    found = run.cells(checked, [(seed, 20, 10) for seed in range(n_streams)], "Figure 4")
    together = {name: np.concatenate([cell[name] for cell in found]) for name in found[0]}
    return Shown(before, after, together)


def checked(seed: int, n_samples: int, n_trees: int) -> Found:
    """Check the updates of some trees; one entry for each tree."""
    updates = random_updates("unrestricted", n_samples, n_trees, seed)
    rows = [_check(before, after) for before, after in updates]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _check(before: Tree, after: Tree) -> dict[str, Any]:
    x = after.X[-1]
    old_leaf, on_path = before.path(x)[-1], set(after.path(x))
    new = [name for name in after.names if name not in before.row]
    new_leaves = [v for v in map(after.row.get, new) if v is not None and after.is_leaf[v]]
    was_empty = bool(before.is_empty[before.row[old_leaf]])
    splits = len(new) // 2
    new_empty = int(after.is_empty[new_leaves].sum())
    others = {name: name for name in before.names if name not in on_path}
    return {
        "was_empty": was_empty,
        "splits": splits,
        "needed": splits == 0 if was_empty else splits >= 1 and new_empty == splits - 1,
        "below_leaf": all(name.startswith(old_leaf) for name in new),
        "one_each": bool((after.table["n_samples"][after.is_leaf] <= 1).all()),
        "others_same": same_nodes(before, after, others),
        "weights_error": weights_error(before, after),
    }


def draw(found: Shown) -> Figure:
    """Draw cells and tree, before above after."""
    before, after = found.before, found.after
    new = [name for name in after.names if name not in before.row]
    splits = [before.path(after.X[-1])[-1], *new]
    look = Look(dict.fromkeys(splits, NEW), dict.fromkeys(new, NEW))
    figure = draw_update(before, after, (Look(), look))
    signs = [
        sign("new split, new node", **NEW),
        sign("path of the new sample", linewidth=BOLD),
        sign("leaf with its sample", linestyle="", marker="o"),
        sign("empty leaf", linestyle="", marker="o", markerfacecolor="white"),
    ]
    explain(figure.axes[2], signs)
    return figure


def claims(found: Shown) -> list[Claim]:
    """Check what Section 3 says of an update."""
    counts = found.counts
    n, split = len(counts["splits"]), ~counts["was_empty"]
    error = counts["weights_error"].max()
    return [
        Claim(
            "A new sample splits the leaf it falls into only if another sample is there, until the "
            "two are apart; each split but the last leaves an empty leaf",
            f"{counts['needed'].sum():,} of {n:,} updates: {split.sum():,} with "
            f"{counts['splits'][split].mean():.2f} splits on average, at most "
            f"{counts['splits'].max()}; {n - split.sum():,} fell into an empty leaf and split none",
            bool(counts["needed"].all()),
        ),
        Claim(
            "What was split before stays as it was: new nodes are below the old leaf, and no leaf "
            "has more than one sample",
            f"{(counts['below_leaf'] & counts['one_each']).sum():,} of {n:,} updates",
            bool((counts["below_leaf"] & counts["one_each"]).all()),
        ),
        Claim(
            "Only nodes on the new sample's path change",
            f"all other nodes are equal bit for bit in {counts['others_same'].sum():,} of {n:,}",
            bool(counts["others_same"].all()),
        ),
        Claim(
            "On the path w is multiplied by exp(−loss), and w̄ is ½ w + ½ w̄₀ w̄₁, upwards",
            f"largest relative error of the core's weights {error:.1e}",
            bool(error < 1e-12),
        ),
    ]


def tables(found: Shown) -> list[Table]:
    """Give the weights on the path of the picture."""
    return [path_table(found.before, found.after)]
