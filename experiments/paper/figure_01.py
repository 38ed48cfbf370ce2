"""Figure 1: the decision functions of ten trees, and of their forest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss, roc_auc_score

from amforest import AMFClassifier
from amforest.plotting import plot_decision
from experiments.paper._findings import Claim, Table
from experiments.paper._run import Found, Run

TITLE = "Ten trees and their forest"
ABOUT = """What ten trees and their mean, the forest, predict after one pass over 500 rows of two
noisy moons. The lines are where both classes are equally probable. Settings are the defaults, but
pure nodes are split. The claims are checked on other moons, one pair for each seed, with 2,000 rows
to test."""
N_TREES, N_ROWS, N_TEST = 10, 500, 2_000
N_DRAWN = 150  # of the rows: more would hide the field
BOX = [[-1.9, 2.9], [-1.5, 2.0]]


@dataclass(frozen=True)
class Shown:
    """The forest that is drawn with its rows, and the scores of others."""

    model: AMFClassifier
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    scores: Found


def compute(run: Run) -> Shown:
    """Grow the forest of the picture, and others to be tested."""
    X, y = _moons(N_ROWS, 0)
    n_seeds = run.choose(full=50, quick=20, tiny=3)
    found = run.cells(scored, [(seed,) for seed in range(1, n_seeds + 1)], "Figure 1")
    scores = {name: np.array([cell[name] for cell in found]) for name in found[0]}
    return Shown(_forest(0).fit(X, y), X, y, scores)


def _moons(n_rows: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = make_moons(n_rows, noise=0.3, random_state=seed)
    return X, y


def _forest(seed: int, **settings: Any) -> AMFClassifier:
    return AMFClassifier(N_TREES, split_pure=True, random_state=seed, **settings)


def scored(seed: int) -> Found:
    """Test a forest and its trees; compare with trees that were grown side by side."""
    X, y = _moons(N_ROWS + N_TEST, seed)
    train, test = slice(N_ROWS), slice(N_ROWS, None)
    model = _forest(seed).fit(X[train], y[train])
    together = _forest(seed, n_jobs=4).fit(X[train], y[train])
    tables = [[m.tree_table(i).tobytes() for i in range(N_TREES)] for m in (model, together)]
    by_tree = model.predict_proba_by_tree(X[test])[:, :, 1]
    forest = model.predict_proba(X[test])[:, 1]
    return {
        "tree_loss": np.array([log_loss(y[test], p) for p in by_tree.T]),
        "tree_auc": np.array([roc_auc_score(y[test], p) for p in by_tree.T]),
        "loss": np.array(log_loss(y[test], forest)),
        "auc": np.array(roc_auc_score(y[test], forest)),
        "mean_error": np.abs(by_tree.mean(axis=1) - forest).max(),
        "distinct": np.array(len(set(tables[0]))),
        "same_side_by_side": np.array(tables[0] == tables[1]),
    }


def draw(found: Shown) -> Figure:
    """Draw the trees in two rows, and the forest larger beside them."""
    figure = Figure(figsize=(9.6, 3.7), layout="constrained")
    grid = figure.add_gridspec(2, 6, width_ratios=[1, 1, 1, 1, 1, 3])
    how: dict[str, Any] = {"bounds": BOX, "resolution": 160}
    for k in range(N_TREES):
        ax = figure.add_subplot(grid[divmod(k, 5)])
        plot_decision(found.model, tree=k, **how, legend=False, ax=ax)
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
        ax.set_title(f"tree {k + 1}", fontsize=9)
    ax = figure.add_subplot(grid[:, 5])
    rows, labels = found.X[:N_DRAWN], found.y[:N_DRAWN]
    plot_decision(found.model, rows, labels, **how, ax=ax)
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.set_title("forest", fontsize=11)
    return figure


def claims(found: Shown) -> list[Claim]:
    """Check what Section 2.1 says of a forest, and that it gains by its trees."""
    scores = found.scores
    n, error = len(scores["loss"]), scores["mean_error"].max()
    same, distinct = scores["same_side_by_side"], scores["distinct"] == N_TREES
    better = (scores["loss"] < scores["tree_loss"].min(axis=1)) & (
        scores["auc"] > scores["tree_auc"].max(axis=1)
    )
    return [
        Claim(
            "The forest predicts the mean of its trees",
            f"largest difference {error:.1e}",
            bool(error < 1e-12),
        ),
        Claim(
            "Trees are grown in the same way, each by itself, and so in parallel",
            f"in {same.sum()} of {n} forests the trees are the same bit for bit if four threads "
            f"grow them; all {N_TREES} trees differ in {distinct.sum()}",
            bool(same.all() and distinct.all()),
        ),
        Claim(
            "The forest is better than its trees",
            f"log-loss {scores['loss'].mean():.3f}, trees {scores['tree_loss'].mean():.3f}; "
            f"AUC {scores['auc'].mean():.4f}, trees {scores['tree_auc'].mean():.4f}; in "
            f"{better.sum()} of {n} forests it is better than the best of its trees by both",
            bool(
                (scores["loss"] < scores["tree_loss"].mean(axis=1)).all()
                and (scores["auc"] > scores["tree_auc"].mean(axis=1)).all()
            ),
        ),
    ]


def tables(found: Shown) -> list[Table]:
    """Give none."""
    return []
