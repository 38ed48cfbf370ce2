"""What Figures 10 to 12 share: curves over seeds, how they are drawn, and their panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from experiments.paper._methods import STYLES

Floats = NDArray[np.float64]
HELD = (
    "It held in the full run when this was written: here are fewer rows, or something has changed."
)


@dataclass(frozen=True, eq=False)
class Curves:
    """One curve for each seed, at the same places."""

    x: NDArray[Any]
    values: Floats  # of shape (n_seeds, n_places)

    @property
    def mean(self) -> Floats:
        """The mean over the seeds."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def last(self) -> float:
        """The mean at the last place."""
        return float(self.mean[-1])

    def at(self, x: float) -> float:
        """Return the mean at the place nearest to x."""
        return float(self.mean[np.argmin(np.abs(self.x - x))])


def mean_text(values: Floats) -> str:
    """Return a mean over seeds, ± its standard deviation if there are several."""
    spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"


def draw_curves(axes: Axes, method: str, curves: Curves, **options: Any) -> None:
    """Draw the mean of the seeds and a band of ± one standard deviation."""
    style, mean = STYLES[method], curves.mean
    how: dict[str, Any] = {
        "color": style.color,
        "linestyle": style.linestyle,
        "marker": style.marker,
    }
    axes.plot(curves.x, mean, **how, **{"linewidth": 1.3, "markersize": 4, **options})
    if len(curves.values) > 1:
        deviation = curves.values.std(axis=0, ddof=1)
        band: dict[str, Any] = {"color": style.color, "alpha": 0.18, "linewidth": 0}
        axes.fill_between(curves.x, mean - deviation, mean + deviation, **band)


def panels(figure: Figure, n_rows: int, names: Sequence[str]) -> dict[str, Axes]:
    """Return a panel for each data set, by its name."""
    grid = figure.subplots(n_rows, len(names) // n_rows).ravel()
    for axes, name in zip(grid, names, strict=True):
        axes.set_title(name, fontsize=10)
        axes.tick_params(labelsize=8)
        axes.grid(color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    return dict(zip(names, grid, strict=True))


def legend(figure: Figure, methods: Iterable[str]) -> None:
    """Name the methods above all panels."""
    lines = [
        Line2D([], [], color=style.color, linestyle=style.linestyle, marker=style.marker, ms=5)
        for style in map(STYLES.__getitem__, methods)
    ]
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": len(lines), "frameon": False}
    figure.legend(lines, list(methods), fontsize=9, handlelength=3, **place)
