"""Figure 3: all prunings of a small tree, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from amforest.theory import leaves_of
from experiments.paper._findings import Claim, Table
from experiments.paper._run import Found, Run
from experiments.paper._sketch import FONT_SIZE, NEW, draw_tree
from experiments.paper._trees import (
    LABELS,
    POINTS,
    Floats,
    Tree,
    forest,
    prior,
    prunings,
    tree_of,
)
from experiments.paper.figure_06 import ORDER, SEED

TITLE = "All prunings of a tree"
ABOUT = """The tree of Figure 6 after four samples, and all its prunings. Above are the cells of
each, the darker the more probable is class 1; ○ and ● are samples of class 0 and 1. Below, the way
of the query point (a red diamond) is red: its last node predicts. A pruning's weight is its prior
probability times exp(−loss), divided by the sum over all. The tree predicts as it is, without the
extension of Algorithm 6. Mixtures are compared with `predict_proba` also on many trees of 7 random
samples."""


@dataclass(frozen=True)
class Shown:
    """The tree, its prunings (leaves, prior, weight), and what others were like."""

    tree: Tree
    ends: list[list[int]]
    priors: Floats
    weights: Floats
    prediction: float  # of the model, at the query
    errors: Found
    sizes: dict[int, Found]

    @property
    def query(self) -> Floats:
        """The fifth sample of Figure 6."""
        query: Floats = POINTS[ORDER[4]]
        return query


def compute(run: Run) -> Shown:
    """Analyse the small tree, and many others."""
    X, y = POINTS[ORDER[:4]], LABELS[ORDER[:4]]
    model = forest("restricted", 1, SEED).fit(X, y)
    tree = tree_of(model, 0, X, y)
    prediction = float(model.predict_proba(POINTS[ORDER[4:]])[0, 1])
    n_streams = run.choose(full=100, quick=40, tiny=4)
    parts = run.cells(compared, [(seed, 7, 10) for seed in range(n_streams)], "Figure 3, mixtures")
    errors = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    lengths = run.choose(full=(8, 32, 128, 512), quick=(8, 32, 128), tiny=(8, 32))
    counts = run.cells(counted, [(n, 100, 0) for n in lengths], "Figure 3, numbers of prunings")
    sizes = dict(zip(lengths, counts, strict=True))
    ends, priors, weights = _weighed(tree)
    return Shown(tree, ends, priors, weights, prediction, errors, sizes)


def _weighed(tree: Tree) -> tuple[list[list[int]], Floats, Floats]:
    """Return the prunings, the largest first, their prior and their posterior probabilities."""
    ends = sorted(prunings(tree.table), key=len, reverse=True)
    priors = np.array([prior(tree, leaves) for leaves in ends])
    weights = priors * [tree.w[leaves].prod() for leaves in ends]
    return ends, priors, weights / weights.sum()


def compared(seed: int, n_samples: int, n_trees: int) -> Found:
    """Compare the mixture over all prunings with the predictions of trees; one entry for each."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(n_samples, 2)), rng.integers(2, size=n_samples)
    queries = rng.uniform(-0.5, 1.5, size=(50, 2))
    model = forest("restricted", n_trees, seed).fit(X, y)
    predictions = model.predict_proba_by_tree(queries)
    found: dict[str, list[float]] = {"error": [], "prior": [], "prunings": []}
    for i in range(n_trees):
        tree = tree_of(model, i, X, y)
        ends, priors, weights = _weighed(tree)
        each = [tree.predictions[leaves_of(tree.table, queries, leaves)] for leaves in ends]
        mixture = np.tensordot(weights, each, axes=1)
        found["error"].append(float(np.abs(mixture - predictions[:, i]).max()))
        found["prior"].append(float(priors.sum()))
        found["prunings"].append(len(ends))
    return {name: np.array(values) for name, values in found.items()}


def counted(n_samples: int, n_trees: int, seed: int) -> Found:
    """Count the prunings of trees of uniform samples: log₂ of their numbers."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(n_samples, 2)), np.arange(n_samples) % 2
    model = forest("restricted", n_trees, seed).fit(X, y)
    return {"log2": np.array([_log2_count(model.tree_table(i)) for i in range(n_trees)])}


def _log2_count(table: Any) -> float:
    """Return log₂ N(root), where N(v) = 1 + N(v0) N(v1), and 1 for leaves."""
    logs = np.zeros(len(table))
    for v in np.flatnonzero(table["left"] >= 0)[::-1]:  # children come after parents
        logs[v] = np.logaddexp2(0, logs[table["left"][v]] + logs[table["right"][v]])
    return float(logs[0])


def draw(found: Shown) -> Figure:
    """Draw the cells and the tree of each pruning."""
    figure = Figure(figsize=(9.6, 4.5), layout="constrained")
    axes = figure.subplots(2, len(found.ends), height_ratios=[1, 0.85])
    for j, ((cells, nodes), leaves) in enumerate(zip(axes.T, found.ends, strict=True)):
        _draw_cells(cells, found, leaves)
        prediction = _draw_nodes(nodes, found, leaves)
        cells.set_title(f"weight {found.weights[j]:.3f}", fontsize=11)
        nodes.set_title(f"predicts {prediction:.3f}", fontsize=FONT_SIZE, y=-0.12)
    axes[1, 0].text(-0.5, 0, "ŷ(1)\nbelow\nleaves", fontsize=8, va="top")
    return figure


def _draw_cells(ax: Axes, found: Shown, leaves: list[int]) -> None:
    """Draw the cells of a pruning, the samples by class, and the query."""
    tree, greys = found.tree, ScalarMappable(Normalize(0, 2), "Greys")  # points stay visible
    lower, upper = (corner[leaves] for corner in tree.cells())
    for a, b, prediction in zip(lower, upper, tree.predictions[leaves, 1], strict=True):
        colour = greys.to_rgba(prediction)
        ax.add_patch(Rectangle(a, *(b - a), facecolor=colour, edgecolor="0.15"))
    for label, fill in enumerate(("white", "black")):
        style: dict[str, Any] = {"color": "black", "markerfacecolor": fill, "linestyle": ""}
        ax.plot(*tree.X[tree.y == label].T, marker="o", markersize=6, **style)
    ax.plot(*found.query[:, None], marker="D", markersize=6.5, color=NEW["color"])
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])


def _draw_nodes(ax: Axes, found: Shown, leaves: list[int]) -> float:
    """Draw the tree of a pruning; return its prediction at the query."""
    tree = found.tree
    (end,) = leaves_of(tree.table, found.query[None], leaves)
    path = [tree.names[end][:depth] for depth in range(tree.table["depth"][end] + 1)]
    styles = dict.fromkeys(path, NEW)
    place = draw_tree(ax, tree, ends=leaves, path=path, styles=styles, names=False)
    ax.plot(*([u] for u in place[end]), marker="o", markersize=7, color=NEW["color"], zorder=5)
    for v in leaves:
        where: dict[str, Any] = {"xytext": (0, -7), "textcoords": "offset points"}
        text = ax.annotate(f"{tree.predictions[v, 1]:.2f}", place[v], **where, fontsize=FONT_SIZE)
        text.set(ha="center", va="top")
    ax.set(xlim=(-0.6, 3.6), ylim=(-2.7, 0.35))
    if len(leaves) < 4:  # in the middle
        ax.set_xlim(-2.1 + (len(leaves) - 1) / 2, 2.1 + (len(leaves) - 1) / 2)
    return float(tree.predictions[end, 1])


def _mixture(found: Shown) -> float:
    """Return the mean of the prunings' predictions at the query, by their weights."""
    table, query = found.tree.table, found.query[None]
    ends = [leaves_of(table, query, leaves)[0] for leaves in found.ends]
    return float(found.weights @ found.tree.predictions[ends, 1])


def claims(found: Shown) -> list[Claim]:
    """Check Equation (6), and how many prunings there are."""
    mixture, error = _mixture(found), found.errors["error"].max()
    worst = max(error, abs(mixture - found.prediction))
    off = np.abs(found.errors["prior"] - 1).max()
    rates = {n: float(np.median(size["log2"])) / n for n, size in found.sizes.items()}
    text = ", ".join(f"{rate:.2f} (n = {n})" for n, rate in rates.items())
    return [
        Claim(
            "The tree of four samples has five prunings, itself included",
            f"{len(found.ends)}",
            len(found.ends) == 5,
        ),
        Claim(
            "A tree predicts the mean over all its prunings, weighted by prior and past loss",
            f"at the query {mixture:.6f}, `predict_proba` {found.prediction:.6f}; largest "
            f"difference, also for {len(found.errors['error']):,} other trees with up to "
            f"{found.errors['prunings'].max()} prunings: {worst:.1e}",
            bool(worst < 1e-12),
        ),
        Claim(
            "The prior is a probability: that of stopping at each node with probability ½",
            f"the sum over all prunings is off 1 by at most {off:.1g} if the leaves of the "
            "tree itself, below which prunings of the infinite tree predict alike, cost nothing",
            bool(off < 1e-12),
        ),
        Claim(
            "The number of prunings is exponential in the number n of samples",
            f"log₂ of it over n, median of 100 trees: {text}",
            bool(max(rates.values()) < 2 * min(rates.values())),
        ),
    ]


def tables(found: Shown) -> list[Table]:
    """Give prior, loss and weight of each pruning."""
    losses = [-np.log(found.tree.w[leaves]).sum() for leaves in found.ends]
    rows = [
        [
            f"{len(leaves)} leaves" if len(leaves) > 1 else "the root",
            f"{p:.3f}",
            f"{loss:.3f}",
            f"{w:.3f}",
        ]
        for leaves, p, loss, w in zip(found.ends, found.priors, losses, found.weights, strict=True)
    ]
    return [Table(["pruning", "prior", "loss", "weight"], rows)]
