"""Figure 8: the weighted depth of AMF's trees follows the roughness of a signal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import rankdata

from amforest import AMFRegressor
from amforest.datasets import SIGNALS, make_signal, roughness, signal
from experiments.paper._findings import Claim, Table
from experiments.paper._methods import AMF, ET, STYLES
from experiments.paper._run import Found, Run

TITLE = "Weighted depths where a signal is smooth and where it is rough"
ABOUT = """Two of the four signals of Donoho and Johnstone, with 5,000 samples of Gaussian noise σ =
0.03; what AMF with 100 trees and the step η = 10 of the authors' script makes of them; the weighted
depth of each tree and the mean of all; and the roughness, which is the mean absolute slope within
±0.025. The table has the means over all seeds on all four signals: Spearman's rank correlation ρ of
mean depth and roughness over 1,001 places; p, the share of the circular shifts of the roughness
that correlate as much (neighbours are alike, so places are not shuffled one by one); the smallest
and the largest mean depth; and the root mean squared error between the places. From the labels,
which lie around [0, 1], 1/2 is subtracted, so that the first prediction of Algorithms 5–6, 0, is in
the middle of the signal; one row of the table shows what happens otherwise. It makes no difference
to AMF, which is not charged for it."""

Floats = NDArray[np.float64]

NOISE = 0.03
DRAWN = ("bumps", "doppler")
_TEXT = {"charge_first": True, "predict_extends": True}
SHOWN, STEEP = "AMF, η = 10", "AMF, η = 1/σ²"
TEXT, OFF_CENTRE = "Algorithms 5–6, η = 10", "Algorithms 5–6, η = 10, labels as they are"
SETTINGS: dict[str, dict[str, Any]] = {
    SHOWN: {"step": 10.0},
    "AMF, η = 1": {"step": 1.0},
    STEEP: {"step": NOISE**-2},
    TEXT: {"step": 10.0, **_TEXT},
    OFF_CENTRE: {"step": 10.0, **_TEXT},
    "Algorithms 5–6, η = 1/σ²": {"step": NOISE**-2, **_TEXT},
}
PLACES = np.linspace(0, 1, 1001)  # all peaks and jumps are among them
BETWEEN = (PLACES[:-1] + PLACES[1:]) / 2  # at a jump itself there is no right prediction
LEAST_RHO, MOST_P = 0.5, 0.05


@dataclass(frozen=True, eq=False)
class Depths:
    """The cells by signal and setting, one for each seed, and samples of the first seed."""

    cells: dict[tuple[str, str], list[Found]]
    samples: dict[str, tuple[Floats, Floats]]

    def mean(self, name: str, setting: str, measure: str) -> float:
        """Return the mean of a measure over the seeds."""
        return float(np.mean([cell[measure] for cell in self.cells[name, setting]]))


def compute(run: Run) -> Depths:
    """Learn all signals with all settings."""
    n_seeds, *sizes = run.choose(full=(5, 5_000, 100), quick=(1, 5_000, 100), tiny=(1, 400, 10))
    pairs = [(name, setting) for name in SIGNALS for setting in SETTINGS]
    cells = [(*pair, seed, *sizes) for pair in pairs for seed in range(n_seeds)]
    found = run.cells(depths_on_signal, cells, "Figure 8")
    by_pair = {p: found[i * n_seeds : (i + 1) * n_seeds] for i, p in enumerate(pairs)}
    return Depths(by_pair, {name: _samples(name, sizes[0], 0) for name in DRAWN})


def _samples(name: str, n_samples: int, seed: int) -> tuple[Floats, Floats]:
    return make_signal(name, n_samples, noise=NOISE, random_state=seed)


def depths_on_signal(name: str, setting: str, seed: int, n_samples: int, n_trees: int) -> Found:
    """Learn a signal, and compare its roughness with the weighted depths."""
    X, y = _samples(name, n_samples, seed)
    centre = 0.0 if setting == OFF_CENTRE else 0.5
    forest = AMFRegressor(n_trees, random_state=seed, **SETTINGS[setting]).fit(X, y - centre)
    predictions, between = (forest.predict(x[:, None]) + centre for x in (PLACES, BETWEEN))
    depths = forest.weighted_depth(PLACES[:, None])
    mean = depths.mean(axis=1)
    rho, p = _rank_correlation(mean, roughness(PLACES, name))
    numbers = {
        "rho": rho,
        "p": p,
        "shallowest": mean.min(),
        "deepest": mean.max(),
        "error": np.sqrt(np.mean((between - signal(BETWEEN, name)) ** 2)),
    }
    found = {measure: np.array(number) for measure, number in numbers.items()}
    if seed == 0 and setting == SHOWN and name in DRAWN:
        found |= {"predictions": predictions, "depths": depths.astype(np.float32)}
    return found


def _rank_correlation(a: Floats, b: Floats) -> tuple[float, float]:
    """Return Spearman's ρ, and the share of all shifts of b around a circle with as large a ρ."""
    ranks = [rankdata(values) for values in (a, b)]
    u, v = ((r - r.mean()) / r.std() for r in ranks)
    by_shift = np.array([np.mean(u * np.roll(v, k)) for k in range(len(v))])
    return float(by_shift[0]), float(np.mean(by_shift >= by_shift[0]))


def draw(found: Depths) -> Figure:
    """Draw a column for each signal."""
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    how: dict[str, Any] = {"sharex": True, "height_ratios": (1.2, 1.2, 1.5, 0.7)}
    axes = figure.subplots(4, len(DRAWN), **how)
    for column, name in zip(axes.T, DRAWN, strict=True):
        _draw_signal(column, found, name)
    labels = ("signal and samples", "reconstruction", "weighted depth", "roughness")
    for ax, label in zip(axes[:, 0], labels, strict=True):
        ax.set_ylabel(label, fontsize=9)
    for ax in axes[:3, 0]:
        key = ax.legend(loc="upper right", fontsize=8, frameon=False, ncols=2, markerscale=4)
        for line in key.get_lines():
            line.set(alpha=1, linewidth=1.5)
    figure.align_ylabels(axes[:, 0])
    return figure


def _draw_signal(axes: Any, found: Depths, name: str) -> None:
    """Draw the four panels of a signal from top to bottom."""
    cell, (X, y) = found.cells[name, SHOWN][0], found.samples[name]
    blue, fine, depths = STYLES[AMF].color, np.linspace(0, 1, 5_001), cell["depths"]
    axes[0].scatter(X[:, 0], y, s=2, color="0.65", linewidth=0, label="samples")
    for ax, linestyle in zip(axes, ("-", ":"), strict=False):
        style: dict[str, Any] = {"color": "black", "linewidth": 0.9, "linestyle": linestyle}
        ax.plot(fine, signal(fine, name), label="signal", **style)
        ax.set_ylim(-0.12, 1.3)  # room for the legend
    axes[1].plot(PLACES, cell["predictions"], color=blue, linewidth=1.1, label="AMF")
    trees = axes[2].plot(PLACES, depths, color="0.6", linewidth=0.4, alpha=0.25)
    trees[0].set_label(f"each of {depths.shape[1]} trees")
    axes[2].plot(PLACES, depths.mean(axis=1), color=blue, linewidth=1.8, label="their mean")
    axes[2].set_ylim(0, 1.2 * depths.max())
    axes[3].fill_between(PLACES, roughness(PLACES, name), color=STYLES[ET].color, linewidth=0)
    axes[3].set_ylim(bottom=0)
    axes[0].set_title(f"{name}: ρ = {cell['rho']:.2f}", fontsize=10)
    axes[3].set_xlabel("x", fontsize=9)
    for ax in axes:
        ax.set_xlim(0, 1)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)


def claims(found: Depths) -> list[Claim]:
    """Check that depths follow roughness, for the authors' settings and for the paper's text."""
    errors = [found.mean(name, SHOWN, "error") for name in SIGNALS]
    ratios = [
        found.mean(name, SHOWN, "deepest") / found.mean(name, SHOWN, "shallowest")
        for name in SIGNALS
    ]
    required = f"(required: ρ of {LEAST_RHO}, p of {MOST_P})"
    return [
        Claim(
            "Trees are deeper where the signal is rough, and shallower where it is smooth",
            f"{_texts(found, SHOWN)} {required}",
            _follows(found, SHOWN),
            _why_not(found),
        ),
        Claim(
            "So they are with Algorithms 5–6 exactly",
            f"{_texts(found, TEXT)} {required}. This needs labels around 0, the first prediction; "
            f"as they are: {_texts(found, OFF_CENTRE)}",
            _follows(found, TEXT),
            _why_not(found),
        ),
        Claim(
            "Weighted depths vary strongly over the interval",
            "the largest mean depth is "
            + ", ".join(f"{r:.1f} ({name})" for r, name in zip(ratios, SIGNALS, strict=True))
            + " times the smallest",
            min(ratios) >= 2,
        ),
        Claim(
            "The signals are found in the noise",
            "root mean squared error "
            + ", ".join(f"{e:.4f} ({name})" for e, name in zip(errors, SIGNALS, strict=True))
            + f"; the noise is {NOISE}",
            max(errors) < NOISE,
        ),
    ]


def _follows(found: Depths, setting: str) -> bool:
    rho, p = ([found.mean(name, setting, what) for name in SIGNALS] for what in ("rho", "p"))
    return min(rho) >= LEAST_RHO and max(p) <= MOST_P


def _texts(found: Depths, setting: str) -> str:
    texts = [
        f"ρ = {found.mean(name, setting, 'rho'):.2f}, p = {found.mean(name, setting, 'p'):.3f} "
        f"({name})"
        for name in SIGNALS
    ]
    return "; ".join(texts)


def _why_not(found: Depths) -> str:
    """Say how the step matters."""
    rho = ", ".join(f"{found.mean(name, STEEP, 'rho'):.2f}" for name in SIGNALS)
    return (
        "The step decides: too small a one gives all prunings nearly the same weight, and one of "
        "1/σ² rewards leaves of a single sample everywhere unless they are charged for their first "
        f"label (ρ = {rho})."
    )


def tables(found: Depths) -> list[Table]:
    """Give all means."""
    formats = {"rho": ".2f", "p": ".3f", "shallowest": ".1f", "deepest": ".1f", "error": ".4f"}
    rows = [
        (
            f"{name}: {setting}",
            *(format(found.mean(name, setting, what), how) for what, how in formats.items()),
        )
        for name, setting in found.cells
    ]
    return [Table(("", "ρ", "p", "smallest depth", "largest depth", "error"), rows)]
