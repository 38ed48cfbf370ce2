"""Figure 2: a Mondrian partition and its tree over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from amforest.plotting import plot_partition, plot_tree
from amforest.theory import MondrianPartition, sample_mondrian, sample_mondrians
from experiments.paper._findings import Claim, Table
from experiments.paper._run import Found, Run

TITLE = "A Mondrian partition and its tree"
ABOUT = """A Mondrian partition of the unit square, drawn by Algorithm 1 until time λ = 1.5 (left),
and its tree with times on the vertical axis, where circles are splits (right). The claims are
tested on many partitions until λ = 2, by all their splits together."""
SQUARE = [[0.0, 1.0], [0.0, 1.0]]
LIFETIME, SEED = 1.5, 2334  # no cell is too small to be seen


@dataclass(frozen=True)
class Shown:
    """The partition that is drawn, and what the splits of many were like."""

    partition: MondrianPartition
    splits: Found


def compute(run: Run) -> Shown:
    """Draw the partition of the picture, and many others."""
    partition = sample_mondrian(SQUARE, LIFETIME, random_state=SEED)
    n_partitions = run.choose(full=5_000, quick=2_000, tiny=200)
    (splits,) = run.cells(sampled, [(n_partitions, 2.0, 0)], "Figure 2")
    return Shown(partition, splits)


def sampled(n_partitions: int, lifetime: float, seed: int) -> Found:
    """Draw partitions; return how their splits compare with the laws of Algorithm 1.

    `first` is whether the first feature is split, which has probability `share`. `place` and
    `time` are uniform on [0, 1]: the threshold within its side, and the time E to a split by its
    distribution function, given that it is before λ. `n_leaves` is of each partition.
    """
    partitions = sample_mondrians(SQUARE, lifetime, n_partitions, seed)
    nodes = np.concatenate([partition.table for partition in partitions])
    starts = np.cumsum([0, *(len(partition.table) for partition in partitions[:-1])])
    start = np.repeat(starts, [len(partition.table) for partition in partitions])
    inner = nodes["left"] >= 0
    v, children = nodes[inner], nodes[(start + nodes["left"])[inner]]
    sides, j = v["upper"] - v["lower"], v["feature"]
    total, rows = sides.sum(axis=1), np.arange(len(v))
    waited = -np.expm1(-total * (children["birth_time"] - v["birth_time"]))
    until_end = -np.expm1(-total * (lifetime - v["birth_time"]))
    return {
        "first": j == 0,
        "share": sides[:, 0] / total,
        "place": (v["threshold"] - v["lower"][rows, j]) / sides[rows, j],
        "time": waited / until_end,
        "n_leaves": np.array([partition.n_leaves for partition in partitions]),
        "lifetime": np.array(lifetime),
    }


def draw(found: Shown) -> Figure:
    """Draw the cells and the tree."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 3])
    plot_partition(found.partition, ax=left)
    left.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    plot_tree(found.partition, ax=right)
    for text in right.texts:
        text.set_fontsize(8)
    return figure


def claims(found: Shown) -> list[Claim]:
    """Check the laws of Algorithm 1, and the number of cells."""
    splits, table = found.splits, found.partition.table
    share, n = splits["share"], len(splits["share"])
    z = (splits["first"] - share).sum() / np.sqrt((share * (1 - share)).sum())
    p_feature = 2 * stats.norm.sf(abs(z))
    p_place, p_time = (stats.kstest(splits[name], "uniform").pvalue for name in ("place", "time"))
    lifetime, n_leaves = float(splits["lifetime"]), splits["n_leaves"]
    expected, error = (1 + lifetime) ** 2, n_leaves.std() / np.sqrt(len(n_leaves))
    later = table["birth_time"][1:] > table["birth_time"][table["parent"][1:]]
    return [
        Claim(
            "Children are born when their parent is split, later than it and before λ",
            f"all {len(later)} nodes of the picture but the root",
            bool(later.all() and table["birth_time"].max() <= found.partition.lifetime),
        ),
        Claim(
            "A cell is split after an exponential time, whose rate is the sum of its sides",
            f"p-value {p_time:.2f} of {n:,} splits (Kolmogorov–Smirnov)",
            bool(p_time > 0.001),
        ),
        Claim(
            "The feature is drawn in proportion to the cell's sides",
            f"p-value {p_feature:.2f} (z = {z:.2f})",
            bool(p_feature > 0.001),
        ),
        Claim(
            "The threshold is uniform on the side",
            f"p-value {p_place:.2f} (Kolmogorov–Smirnov)",
            bool(p_place > 0.001),
        ),
        Claim(
            "On the unit square there are (1 + λ)² cells on average",
            f"{n_leaves.mean():.2f} ± {error:.2f} for λ = {lifetime:g}, expected {expected:g}",
            bool(abs(n_leaves.mean() - expected) < 3.3 * error),
        ),
    ]


def tables(found: Shown) -> list[Table]:
    """Give none."""
    return []
