"""Decision functions on the toys of the plane: how smooth they are, and their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from experiments.paper._methods import AMF, MF, STYLES

Floats = NDArray[np.float64]

# Low and high of each feature: all seeds are shown, and compared, in the same box.
BOXES = {
    "moons": ((-1.8, 2.8), (-1.4, 1.9)),
    "circles": ((-1.5, 1.5), (-1.5, 1.5)),
    "linear": ((-3.2, 3.2), (-3.2, 3.2)),
}
SIDE = 120  # places along each side of a box
CLASSES = ((STYLES[AMF].color, "o"), (STYLES[MF].color, "^"))
FIELD: dict[str, Any] = {"cmap": "cividis", "vmin": 0, "vmax": 1, "alpha": 0.6}


def field_of(model: Any, toy: str) -> Floats:
    """Return the probability of class 1 on a grid over the toy's box."""
    sides = [np.linspace(*ends, SIDE) for ends in BOXES[toy]]
    rows = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    return np.asarray(model.predict_proba(rows)[:, 1].reshape(SIDE, SIDE))


def variation(field: Floats) -> float:
    """Return how far the field goes up and down along a line of the grid, on average."""
    return _along_lines(np.abs, field)


def jumps(field: Floats) -> float:
    """Return the sum of the squared steps along a line: near 0 for what is continuous."""
    return _along_lines(np.square, field)


def _along_lines(cost: Any, field: Floats) -> float:
    return float(np.mean([cost(np.diff(f, axis=0)).sum(axis=0).mean() for f in (field, field.T)]))


def draw_field(ax: Axes, toy: str, field: Floats, note: str) -> None:
    """Draw a field, the border between its classes, and a note in a corner."""
    ends = BOXES[toy]
    ax.imshow(field, extent=(*ends[0], *ends[1]), origin="lower", aspect="auto", **FIELD)
    sides = [np.linspace(*side, SIDE) for side in ends]
    if field.min() < 0.5 < field.max():
        ax.contour(*sides, field, [0.5], colors="0.15", linewidths=0.7)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
    corner: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 8, "linespacing": 1.1}
    ax.text(0.985, 0.02, note, transform=ax.transAxes, bbox=box, zorder=4, **corner)
    _frame(ax, toy)


def draw_samples(ax: Axes, toy: str, X: Floats, y: NDArray[np.int64]) -> None:
    """Draw the samples of both classes."""
    size = float(np.clip(2_000 / len(X), 4, 22))
    style: dict[str, Any] = {"s": size, "edgecolor": "white", "linewidth": 0.3, "zorder": 3}
    for k, (color, marker) in enumerate(CLASSES):
        ax.scatter(*X[y == k].T, color=color, marker=marker, **style)
    _frame(ax, toy)


def _frame(ax: Axes, toy: str) -> None:
    ax.set(xlim=BOXES[toy][0], ylim=BOXES[toy][1], xticks=[], yticks=[])


def explain(figure: Figure | SubFigure, axes: Any) -> None:
    """Put the scale of the fields and the classes below some panels."""
    scale = ScalarMappable(Normalize(0, 1), FIELD["cmap"])
    place: dict[str, Any] = {"location": "bottom", "fraction": 0.05, "aspect": 50, "pad": 0.02}
    bar = figure.colorbar(scale, ax=axes, alpha=FIELD["alpha"], **place)
    bar.set_label("predicted probability of class 1", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    signs = [
        Line2D([], [], linestyle="", color=color, marker=marker, label=f"class {k}")
        for k, (color, marker) in enumerate(CLASSES)
    ]
    above: dict[str, Any] = {"loc": "outside upper right", "ncols": 2, "frameon": False}
    figure.legend(handles=signs, fontsize=9, handletextpad=0.1, **above)
