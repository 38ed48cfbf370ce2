"""Figure 12: test AUC against the number of trees."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from experiments.paper._aucs import DATASETS, auc_after_all
from experiments.paper._curves import Curves, draw_curves, legend, mean_text, panels
from experiments.paper._findings import Claim, Table
from experiments.paper._methods import ALGORITHMS, AMF, ET, MF, RF
from experiments.paper._run import Run
from experiments.paper._streams import must_stand_in

TITLE = "Sensitivity to the number of trees"
ABOUT = """
AUC on the 30 % of the rows that are held out, of forests of 1 to 50 trees that have learned the
others: AMF and MF in one pass, RF and ET at once. Means over 5 splits of the rows, bands of ± one
standard deviation.
"""
METHODS = (AMF, ALGORITHMS, MF, RF, ET)
RIVALS = (MF, RF, ET)
N_TREES = (1, 2, 5, 10, 20, 50)


@dataclass(frozen=True, eq=False)
class Found:
    """The curves by data set and method."""

    curves: dict[str, dict[str, Curves]]

    def margin(self, name: str, method: str, n_trees: int) -> float:
        """Return by how much a method's mean AUC is above the best of the others."""
        aucs = {m: self.curves[name][m].at(n_trees) for m in (AMF, *RIVALS)}
        return aucs.pop(method) - max(aucs.values())

    def gain(self, name: str, method: str) -> float:
        """Return what the AUC gains from the smallest forest to the largest."""
        mean = self.curves[name][method].mean
        return float(mean[-1] - mean[0])


def compute(run: Run) -> Found:
    """Grow all forests, for several splits."""
    n_seeds = run.choose(full=5, quick=2, tiny=1)
    n_trees = run.choose(full=N_TREES, quick=N_TREES, tiny=(1, 2, 4))
    rows = (run.choose(full=None, quick=2000, tiny=200), must_stand_in(run))
    cells = [
        (method, name, seed, n, *rows)
        for name, method, seed, n in product(DATASETS, METHODS, range(n_seeds), n_trees)
    ]
    results = run.cells(auc_after_all, cells, "Figure 12: numbers of trees")
    shape = (len(DATASETS), len(METHODS), n_seeds, len(n_trees))
    aucs = np.reshape([float(result["auc"]) for result in results], shape)
    return Found(
        {
            name: {
                method: Curves(np.array(n_trees), values)
                for method, values in zip(METHODS, of_name, strict=True)
            }
            for name, of_name in zip(DATASETS, aucs, strict=True)
        }
    )


def draw(found: Found) -> Figure:
    """Draw a panel for each data set."""
    figure = Figure(figsize=(9.5, 6.4), layout="constrained")
    for name, axes in panels(figure, 2, DATASETS).items():
        for method in reversed(METHODS):
            draw_curves(axes, method, found.curves[name][method], markersize=5)
        axes.set_xscale("log")
        axes.set_xticks(N_TREES, [str(n) for n in N_TREES])
        axes.minorticks_off()
    figure.supxlabel("trees", fontsize=9)
    figure.supylabel("AUC on the held-out rows", fontsize=9)
    legend(figure, METHODS)
    return figure


def tables(found: Found) -> list[Table]:
    """Return the AUC of the two smallest forests and of the largest."""
    rows = [
        [
            f"{name}, {found.curves[name][AMF].x[k]}",
            *(mean_text(found.curves[name][method].values[:, k]) for method in METHODS),
        ]
        for name, k in product(DATASETS, (0, 1, -1))
    ]
    return [Table(["AUC by trees", *METHODS], rows)]


def claims(found: Found) -> list[Claim]:
    """Check what the paper says of the figure."""
    few = [_few(found, n_trees, word) for n_trees, word in ((1, "one tree"), (2, "two trees"))]
    return [*few, _gaining(found), _best_with_many(found), _sensitive(found), _improving(found)]


def _few(found: Found, n_trees: int, word: str) -> Claim:
    margins = {name: found.margin(name, AMF, n_trees) for name in DATASETS}
    return Claim(
        f"With {word} AMF is better than MF, RF and ET",
        "above the best of them by " + _listed(margins),
        min(margins.values()) > 0,
    )


def _gaining(found: Found) -> Claim:
    ours, theirs = ([found.gain(name, method) for name in DATASETS] for method in (AMF, RF))
    return Claim(
        "RF gains much from more trees, everywhere more than AMF (from the fewest to the most)",
        f"RF {min(theirs):.3f} to {max(theirs):.3f}, AMF {min(ours):.3f} to {max(ours):.3f}",
        all(gain < of_rf for gain, of_rf in zip(ours, theirs, strict=True)),
    )


def _best_with_many(found: Found) -> Claim:
    margins = {name: found.margin(name, RF, N_TREES[-1]) for name in DATASETS}
    return Claim(
        "With 50 trees RF is the best",
        "above the best of the others by " + _listed(margins),
        min(margins.values()) > 0,
        "On default_cb AMF is ahead of it, by less than AMF's own standard deviation over the"
        " splits, and on spambase ET, by next to nothing.",
    )


def _sensitive(found: Found) -> Claim:
    margins = {
        name: min(found.gain(name, rival) for rival in RIVALS) - found.gain(name, AMF)
        for name in DATASETS
    }
    return Claim(
        "AMF depends the least on the number of trees (AUC with the most less AUC with the fewest)",
        "below the least of the others by " + _listed(margins),
        min(margins.values()) > 0,
        "On spambase AMF and MF gain the same, to a fraction of the standard deviation over the"
        " splits; AMF has the larger AUC with 1 tree and with 50.",
    )


def _improving(found: Found) -> Claim:
    gains = {name: found.gain(name, AMF) for name in DATASETS}
    return Claim(
        "AMF, too, is better with more trees",
        "with the most above the fewest by " + _listed(gains),
        min(gains.values()) > 0,
    )


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{value:.4f} ({name})" for name, value in values.items())
