"""Figure 7: AMF's decision function along the stream."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from amforest.datasets import make_toy
from experiments.paper._curves import Curves, draw_curves, mean_text
from experiments.paper._fields import (
    SIDE,
    Floats,
    draw_field,
    draw_samples,
    explain,
    field_of,
    jumps,
)
from experiments.paper._findings import Claim, Table
from experiments.paper._methods import ALGORITHMS, AMF, MF, new
from experiments.paper._run import Found, Run

TITLE = "The decision function along the stream"
ABOUT = f"""AMF with 10 trees, which splits pure nodes as in the authors' script, on two moons with
noise 0.25: what it predicts after its first samples, which are drawn, and the area under the ROC
curve on 4,000 further samples. On the right are mean and ± one standard deviation over all seeds,
also for Algorithms 5–6 and for MF; the table has AMF's trees without aggregation, too. *Change* is
by how much the sample learned last has changed the predictions, on average over the square, and
*jumps* is the sum of the squared steps of the predictions along a horizontal or vertical
line of {SIDE} places, as in Figure 9."""

TOY, NOISE = "moons", 0.25
TIMES = (5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
SHOWN = (5, 10, 30, 100, 300, 1000)
PLAIN = "AMF's trees without aggregation"
DRAWN = (AMF, ALGORITHMS, MF)
METHODS = (*DRAWN, PLAIN)
MEASURES = ("auc", "change", "jumps")
EARLY, GOOD = 30, 0.9  # when the AUC should be how large
SLACK = 0.005  # by how much a mean AUC may be below an earlier one


@dataclass(frozen=True, eq=False)
class Followed:
    """Each measure of each method over time, and fields and samples of the first seed."""

    curves: dict[tuple[str, str], Curves]
    fields: Floats
    samples: tuple[Floats, NDArray[np.int64]]


def compute(run: Run) -> Followed:
    """Follow the forests along the streams of some seeds."""
    n_seeds = run.choose(full=30, quick=5, tiny=1)
    n_test = run.choose(full=4_000, quick=4_000, tiny=500)
    cells = [(method, seed, n_test) for method in METHODS for seed in range(n_seeds)]
    found = run.cells(along_stream, cells, "Figure 7")
    curves = {
        (measure, method): Curves(np.array(TIMES), np.array([cell[measure] for cell in cells_of]))
        for i, method in enumerate(METHODS)
        for cells_of in [found[i * n_seeds : (i + 1) * n_seeds]]
        for measure in MEASURES
    }
    samples = make_toy(TOY, TIMES[-1], noise=NOISE, random_state=0)
    return Followed(curves, found[0]["fields"], samples)


def along_stream(method: str, seed: int, n_test: int) -> Found:
    """Learn a stream and measure the forest at all times."""
    model = new(AMF if method == PLAIN else method, n_classes=2, seed=seed)
    if method != MF:
        model.set_params(split_pure=True, use_aggregation=method != PLAIN)
    X, y = make_toy(TOY, TIMES[-1], noise=NOISE, random_state=seed)
    X_test, y_test = make_toy(TOY, n_test, noise=NOISE, random_state=10_000 + seed)
    aucs, before, after = [], [], []
    for start, end in pairwise((0, *TIMES)):
        model.partial_fit(X[start : end - 1], y[start : end - 1])
        before.append(field_of(model, TOY))
        model.partial_fit(X[end - 1 : end], y[end - 1 : end])
        after.append(field_of(model, TOY))
        aucs.append(roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]))
    change = np.abs(np.array(after) - np.array(before)).mean(axis=(1, 2))
    found = {"auc": np.array(aucs), "change": change, "jumps": np.array([*map(jumps, after)])}
    if seed == 0 and method == AMF:
        found["fields"] = np.array([after[TIMES.index(t)] for t in SHOWN], dtype=np.float32)
    return found


def draw(found: Followed) -> Figure:
    """Draw the decision function at six times, and the AUC over time beside them."""
    figure = Figure(figsize=(9.8, 4.6), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(2, 1))
    left, right = parts
    panels, (X, y) = left.subplots(2, 3), found.samples
    for ax, t, field in zip(panels.flat, SHOWN, found.fields, strict=True):
        auc = found.curves["auc", AMF].values[0, TIMES.index(t)]
        draw_field(ax, TOY, field, f"AUC {auc:.3f}")
        draw_samples(ax, TOY, X[:t], y[:t])
        ax.set_title(f"{t:,} samples", fontsize=10)
    explain(left, panels)
    _draw_aucs(right.subplots(), found)
    return figure


def _draw_aucs(ax: Axes, found: Followed) -> None:
    for method in DRAWN:
        draw_curves(ax, method, found.curves["auc", method], label=method)
    ax.set_xscale("log")
    ax.set_xticks(SHOWN, [f"{t:,}" for t in SHOWN])
    ax.minorticks_off()
    ax.set_title(f"{len(found.curves['auc', AMF].values)} seeds", fontsize=10)
    ax.set_xlabel("samples learned", fontsize=9)
    ax.set_ylabel("AUC on new samples", fontsize=9)
    ax.tick_params(labelsize=8)
    ax.grid(color="0.9", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="lower right", fontsize=8, frameon=False, handlelength=3)


def claims(found: Followed) -> list[Claim]:
    """Check that the AUC is good early and does not fall, and that the predictions are smooth."""
    auc, change = found.curves["auc", AMF], found.curves["change", AMF].mean
    falls = np.maximum.accumulate(auc.mean) - auc.mean
    ours, mf, plain = (found.curves["jumps", method].mean for method in (AMF, MF, PLAIN))
    return [
        Claim(
            "The AUC is good after a few samples",
            f"{mean_text(auc.values[:, TIMES.index(10)])} after 10, "
            f"{mean_text(auc.values[:, TIMES.index(EARLY)])} after {EARLY}, "
            f"{mean_text(auc.values[:, -1])} after {TIMES[-1]:,} (required: {GOOD} after {EARLY})",
            bool(auc.mean[TIMES.index(EARLY)] >= GOOD),
        ),
        Claim(
            "It grows from then on, and does not fall",
            f"the mean of the seeds is never more than {falls.max():.4f} below an earlier one; "
            f"{_n_grown(auc)} of {len(auc.values)} seeds end higher than after {EARLY}",
            bool(falls.max() <= SLACK),
        ),
        Claim(
            "The decision function moves smoothly along the stream: a further sample changes it "
            "little, and ever less",
            f"the predictions change by {change[TIMES.index(10)]:.5f} with the 10th sample, "
            f"{change[TIMES.index(100)]:.5f} with the 100th, {change[-1]:.5f} with the "
            f"{TIMES[-1]:,}th, on average over the square",
            bool(change[TIMES.index(10)] > change[TIMES.index(100)] > change[-1]),
        ),
        Claim(
            "It is smooth at all times: smoother than MF's",
            f"jumps are {_range(ours / mf)} of those of MF",
            bool((ours < mf).all()),
        ),
        Claim(
            "Aggregation is what makes it smooth: it is smoother than the mean of the same trees "
            "without",
            f"jumps are {_range(ours / plain)} of those without",
            bool((ours < plain).all()),
        ),
    ]


def _range(values: Floats) -> str:
    return f"between {values.min():.2f} and {values.max():.2f}"


def _n_grown(auc: Curves) -> int:
    return int((auc.values[:, -1] > auc.values[:, TIMES.index(EARLY)]).sum())


def tables(found: Followed) -> list[Table]:
    """Give means at all times."""
    names = {"auc": "AUC", "change": "change", "jumps": "jumps"}
    rows = [
        (f"{names[measure]}: {method}", *(f"{v:.5f}" for v in found.curves[measure, method].mean))
        for measure in MEASURES
        for method in METHODS
    ]
    return [Table(("samples", *(f"{t:,}" for t in TIMES)), rows)]
