"""Figure 10: the average losses of the online methods on ten data sets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from amforest import datasets
from experiments.paper._curves import Curves, draw_curves, legend, mean_text, panels
from experiments.paper._findings import Claim, Table
from experiments.paper._losses import SMALLEST, average_loss
from experiments.paper._methods import ALGORITHMS, AMF, DUMMY, MF, ONELEARN, SGD
from experiments.paper._onelearn import is_installed
from experiments.paper._run import Run
from experiments.paper._streams import must_stand_in

TITLE = "Average losses of the online methods"
ABOUT = """
Log-loss, averaged over the rows so far: each row is predicted, then learned. 10 trees, η = 1; SGD
is a logistic regression with the constant rate 0.1 and scikit-learn's ridge penalty 1e-4; Dummy is
the Krichevsky–Trofimov rule. Means over 5 orders of the rows, bands of ± one standard deviation;
onelearn, which is slow, has one order. As in the authors' experiments a prediction counts as 1e-15
at least, which MF needs a few times: the last column omits these rows. MF is the original forest
with its smoothing; the paper ran scikit-garden's, which has none.
"""
METHODS = (AMF, ALGORITHMS, MF, SGD, DUMMY)
RIVALS = (MF, SGD, DUMMY)
NEAR = 0.1  # a loss that is above the best by this part of it is competitive
EARLY = (
    "In the full run SGD is ahead on adult, because of two orders of five: they begin with 4 and 7"
    " rows of one class. AMF does not split nodes of one class, so these rows share a box that is"
    " never cut later: after 8,000 rows the largest leaf of a tree holds 20 % of them where the"
    " first 7 are alike, and 14 % where the second differs from the first. With `split_pure=True`,"
    " measured on 8 orders, those with long first runs are as good as the others."
)


@dataclass(frozen=True, eq=False)
class Found:
    """The curves by data set and method, and how many predictions of MF were below 1e-15."""

    curves: dict[str, dict[str, Curves]]
    n_clipped: dict[str, int]  # in all orders together

    def best(self, name: str, t: float = np.inf) -> str:
        """Return the one of AMF and its rivals with the smallest loss up to t."""
        curves = self.curves[name]
        return min((AMF, *RIVALS), key=lambda method: curves[method].at(min(t, curves[AMF].x[-1])))

    def excess(self, name: str, method: str) -> float:
        """Return by which part of it the last loss is above the best."""
        curves = self.curves[name]
        return curves[method].last / curves[self.best(name)].last - 1

    def without_clipped(self, name: str) -> float:
        """Return MF's last loss without its predictions below 1e-15."""
        curves = self.curves[name][MF]
        n, clipped = curves.x[-1] * len(curves.values), self.n_clipped[name]
        return float((n * curves.last + clipped * np.log(SMALLEST)) / (n - clipped))


def compute(run: Run) -> Found:
    """Run each method on each data set, in several orders."""
    n_seeds = run.choose(full=5, quick=2, tiny=2)
    max_rows, stands_in = run.choose(full=None, quick=5000, tiny=200), must_stand_in(run)
    seeds = dict.fromkeys(METHODS, n_seeds)
    if is_installed() and run.size != "tiny":  # it takes minutes to compile
        seeds[ONELEARN] = 1
    groups = list(product(datasets.NAMES, seeds))
    cells = [
        (method, name, seed, max_rows, stands_in)
        for name, method in groups
        for seed in range(seeds[method])
    ]
    results = iter(run.cells(average_loss, cells, "Figure 10: average losses"))
    curves: dict[str, dict[str, Curves]] = {name: {} for name in datasets.NAMES}
    n_clipped = {}
    for name, method in groups:
        parts = [next(results) for _ in range(seeds[method])]
        curves[name][method] = Curves(parts[0]["t"], np.stack([part["loss"] for part in parts]))
        if method == MF:
            n_clipped[name] = sum(int(part["n_clipped"]) for part in parts)
    return Found(curves, n_clipped)


def draw(found: Found) -> Figure:
    """Draw a panel for each data set; losses far above those of AMF and Dummy are cut off."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    for name, axes in panels(figure, 2, list(found.curves)).items():
        curves = found.curves[name]
        for method in reversed(curves):  # AMF on top
            draw_curves(axes, method, curves[method], markevery=0.25)
        low = min(curve.last for curve in curves.values())
        high = max(curves[DUMMY].last, *(curves[method].at(100) for method in (AMF, DUMMY)))
        margin = 0.1 * (high - low)
        axes.set(xscale="log", xlim=(50, None), ylim=(low - margin, high + margin))
    figure.supxlabel("rows seen, t", fontsize=9)
    figure.supylabel("average log-loss", fontsize=9)
    legend(figure, curves)
    return figure


def tables(found: Found) -> list[Table]:
    """Return the average losses over the whole streams, and beside onelearn's in its order."""
    methods = list(next(iter(found.curves.values())))
    rows = [
        [
            name,
            *(mean_text(curves[method].values[:, -1]) for method in methods),
            f"{found.without_clipped(name):.3f}",
        ]
        for name, curves in found.curves.items()
    ]
    all_orders = Table(["average loss", *methods, "MF without predictions < 1e-15"], rows)
    if ONELEARN not in methods:
        return [all_orders]
    last = {
        name: [f"{curves[method].values[0, -1]:.4f}" for method in (AMF, ONELEARN)]
        for name, curves in found.curves.items()
    }
    one_order = Table(
        ["average loss in the first order", AMF, ONELEARN],
        [[name, *losses] for name, losses in last.items()],
    )
    return [all_orders, one_order]


def claims(found: Found) -> list[Claim]:
    """Check what the paper says of the figure."""
    return [
        _smallest(found),
        _better_than_mf(found),
        _competitive(found),
        _varying(found),
        _early(found),
    ]


def _smallest(found: Found) -> Claim:
    best = {name: found.best(name) for name in found.curves}
    turned = [
        f"MF on {name} without its predictions below 1e-15"
        for name, curves in found.curves.items()
        if best[name] == AMF and found.without_clipped(name) < curves[AMF].last
    ]
    return Claim(
        "AMF nearly always has the smallest average loss (at least 8 of the ten data sets)",
        "; ".join([_won(best), *turned]),
        sum(method == AMF for method in best.values()) >= 8,
    )


def _better_than_mf(found: Found) -> Claim:
    losses = {name: (of[AMF].last, of[MF].last) for name, of in found.curves.items()}
    worse = {name: (ours, mf) for name, (ours, mf) in losses.items() if ours >= mf}
    texts = (f"{name}: AMF {ours:.3f}, MF {mf:.3f}" for name, (ours, mf) in worse.items())
    return Claim(
        "AMF has a smaller average loss than MF on each data set",
        "; ".join([f"{len(losses) - len(worse)} of {len(losses)}", *texts]),
        not worse,
        "It is not known why. The paper ran scikit-garden's MF, which does not smooth along the"
        " path. Such predictions of our trees, tried once, in one order and in blocks of rows, are"
        " about level with AMF on letter (0.73 each), but better than AMF on spambase and satimage:"
        " so this does not explain it.",
    )


def _competitive(found: Found) -> Claim:
    worst = max(found.curves, key=lambda name: found.excess(name, AMF))
    excess = found.excess(worst, AMF)
    return Claim(
        "AMF is always competitive (at most 10 % above the best)",
        f"at most {excess:.1%} above, on {worst}",
        excess <= NEAR,
    )


def _varying(found: Found) -> Claim:
    worst = {m: max(found.excess(name, m) for name in found.curves) for m in (AMF, MF, SGD)}
    texts = (f"{method} {excess:.0%}" for method, excess in worst.items())
    return Claim(
        "MF and SGD depend strongly on the data set (somewhere each is over 10 % above the best,"
        " and AMF is nowhere)",
        "at most above the best: " + ", ".join(texts),
        min(worst[MF], worst[SGD]) > NEAR >= worst[AMF],
    )


def _early(found: Found) -> Claim:
    curves = found.curves.items()
    best = {name: found.best(name, t=0.05 * curve[AMF].x[-1]) for name, curve in curves}
    return Claim(
        "Early in the stream AMF's average loss is always the smallest (after 5 % of the rows)",
        _won(best),
        set(best.values()) == {AMF},
        EARLY,
    )


def _won(best: dict[str, str]) -> str:
    """Return on how many data sets AMF is the best, and which method on the others."""
    others = [f"{method} on {name}" for name, method in best.items() if method != AMF]
    return "; ".join([f"{len(best) - len(others)} of {len(best)}", *others])
