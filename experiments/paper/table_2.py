"""Table 2: how many nodes an update and a prediction visit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from amforest import AMFClassifier
from experiments.paper import _run
from experiments.paper._findings import Claim, Table
from experiments.paper._methods import AMF, MF, STYLES

TITLE = "Nodes visited by an update and by a prediction"
ABOUT = """
Counted in trees that learn uniform points of the unit square one by one, their labels fair coins,
all leaves split: means over the last rows up to n (a tenth, at most 500) and over 20 trees. AMF
goes down a path and up again, so each of its nodes counts twice, for a prediction as for an update.
MF has the same trees and paths; the paper has its update recompute the posterior of the whole tree,
so all nodes count, once. (That is not needed: `MondrianForestClassifier` counts labels on the path
when it learns, and smooths along the path when it predicts.)
"""
KINDS = ("update of AMF", "prediction of AMF", "update of MF, whole tree", "prediction of MF")
DEEPER = 4 * np.log(10)  # uniform samples lie 2 log n deep: visits added by a decade, down and up
MOST_COUNTED = 500


@dataclass(frozen=True, eq=False)
class Found:
    """Numbers of rows, and the visits by kind, of shape (n_seeds, n_sizes)."""

    n: NDArray[np.int64]
    visits: dict[str, NDArray[np.float64]]

    def mean(self, kind: str) -> NDArray[np.float64]:
        """Return the mean over the seeds."""
        return np.asarray(self.visits[kind].mean(axis=0))


def visits(seed: int, sizes: list[int]) -> _run.Found:
    """Return the mean visits of updates and predictions by a path, and the nodes of the tree.

    Without aggregation the weighted depth is the depth of the leaf.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(sizes[-1], 2)).astype(np.float32)
    y = rng.integers(2, size=sizes[-1])
    tree = AMFClassifier(1, use_aggregation=False, split_pure=True, random_state=seed)
    found, learned = [], 0
    for n in sizes:
        start = n - min(n // 10, MOST_COUNTED)
        tree.partial_fit(X[learned:start], y[learned:start])
        paths = [_paths(tree, X[i : i + 1], y[i : i + 1]) for i in range(start, n)]
        found.append([*np.mean(paths, axis=0), tree.stats()["nodes"]])
        learned = n
    prediction, update, nodes = np.transpose(found)
    return {"prediction": prediction, "update": update, "nodes": nodes}


def _paths(tree: AMFClassifier, x: NDArray[np.float32], y: NDArray[np.int64]) -> list[float]:
    """Return the nodes visited by the prediction of a row, and by learning it: down, and up."""
    before = tree.weighted_depth(x)
    after = tree.partial_fit(x, y).weighted_depth(x)
    return [2 * (float(depth[0, 0]) + 1) for depth in (before, after)]


def compute(run: _run.Run) -> Found:
    """Grow trees, one for each seed."""
    n_seeds = run.choose(full=20, quick=8, tiny=2)
    largest = run.choose(full=6, quick=5, tiny=4)
    sizes = [10**k for k in range(3, largest + 1)]
    cells = [(seed, sizes) for seed in range(n_seeds)]
    results = run.cells(visits, cells, "Table 2: visits")
    found = {name: np.stack([result[name] for result in results]) for name in results[0]}
    paths = (found["update"], found["prediction"], found["nodes"], found["prediction"])
    return Found(np.array(sizes), dict(zip(KINDS, paths, strict=True)))


def draw(found: Found) -> Figure:
    """Draw visits against n, log-log."""
    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.subplots()
    for kind, method in zip(KINDS[:3], (AMF, AMF, MF), strict=True):
        style, hollow = STYLES[method], kind.startswith("prediction")
        look = {"markerfacecolor": "white", "linestyle": "--"} if hollow else {"markersize": 8}
        how = {"color": style.color, "marker": style.marker, **look}
        label = "prediction of AMF and of MF" if hollow else kind
        axes.loglog(found.n, found.mean(kind), **how, label=label)
    axes.set_xlabel("rows learned, n")
    axes.set_ylabel("nodes visited")
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def tables(found: Found) -> list[Table]:
    """Return the mean visits at each n."""
    rows = [
        [kind, order, *map(_text, found.mean(kind))]
        for kind, order in zip(KINDS, ("log n", "log n", "n", "log n"), strict=True)
    ]
    return [Table(["visits", "paper: Θ of", *(f"n = {n:,}" for n in found.n)], rows)]


def _text(count: float) -> str:
    return f"{count:.1f}" if count < 100 else f"{count:,.0f}"


def claims(found: Found) -> list[Claim]:
    """Check how the visits grow."""
    return [
        _logarithmic(found, KINDS[0], "An update of AMF visits Θ(log n) nodes"),
        _logarithmic(found, KINDS[1], "A prediction of AMF, or of MF, visits Θ(log n) nodes"),
        _linear(found),
    ]


def _logarithmic(found: Found, kind: str, text: str) -> Claim:
    """Check that each decade adds the same number of visits, to a seventh."""
    added = np.diff(found.mean(kind)) / np.diff(np.log10(found.n))
    return Claim(
        text,
        f"a decade of n adds {added.min():.1f} to {added.max():.1f} visits (theory:"
        f" {DEEPER:.1f}), {found.mean(kind)[-1]:.1f} at n = {found.n[-1]:,}",
        bool(np.all(np.abs(added / DEEPER - 1) < 1 / 7)),
        "Too few trees: visits of single rows vary.",
    )


def _linear(found: Found) -> Claim:
    """Check that the nodes grow as a power of n that is nearly 1."""
    nodes = found.mean(KINDS[2])
    power = np.polyfit(np.log(found.n), np.log(nodes), 1)[0]
    return Claim(
        "An update of MF that goes through the whole tree visits Θ(n) nodes",
        f"they grow as n^{power:.3f}, {nodes[-1]:,.0f} at n = {found.n[-1]:,}",
        bool(abs(power - 1) < 0.05),
        "Rows that are equal share a leaf.",
    )
