"""What a model forecasts, all over the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from amforest.plotting._common import (
    DARK,
    Floats,
    axes_for,
    box_of,
    check_count,
    check_numeric,
    feature_names,
    grown,
)
from amforest.plotting._forecasts import draw_points, explain, points_of, shades_of


def plot_decision(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    tree: int | None = None,
    positive: Any = None,
    bounds: ArrayLike | None = None,
    resolution: int = 200,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the forecasts of a model with two features as a field.

    Parameters
    ----------
    model : estimator
        A model of amforest's or scikit-learn's with two features, which are numbers.
    X : array-like of shape (n_samples, 2), default=None
        Points to be drawn.
    y : array-like of shape (n_samples,), default=None
        Their labels.
    tree : int, default=None
        Which tree is asked, instead of the forest.
    positive : class, default=None
        The class whose probability is shown. None means the second of two; of more classes the
        most probable one is shown, the paler the less sure.
    bounds : array-like of shape (2, 2), default=None
        Low and high of each feature, where the field ends. None means the range of X, or else what
        the model has seen, and a twentieth more on all sides.
    resolution : int, default=200
        How many forecasts are made along each side.
    legend : bool, default=True
        Whether scale and classes are explained beside the axes.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a figure.

    Returns
    -------
    matplotlib Axes
        Lines part the most probable classes, unless `positive` is given.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from sklearn.datasets import make_moons
    >>> from amforest import AMFClassifier
    >>> from amforest.plotting import plot_decision
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> ax = plot_decision(AMFClassifier(random_state=0).fit(X, y), X, y, resolution=50)
    >>> plt.close(ax.figure)
    """
    model = grown(model)
    check_numeric(model, 2)
    check_count(resolution, "resolution", 2)
    points = points_of(model, X, y)
    box = (
        around(*box_of(model, None if points is None else points.rows))
        if bounds is None
        else _checked(bounds)
    )
    sides, rows = grid(*box, resolution)
    shades = shades_of(model, rows, tree, positive)
    field = shades.values.reshape(resolution, resolution, *shades.values.shape[1:])
    ax = axes_for(ax, (6.4, 4.6))
    draw_field(ax, sides, field, cmap=shades.cmap, norm=shades.norm)
    if shades.best is not None and positive is None:
        _draw_borders(ax, sides, shades.best.reshape(resolution, resolution))
    if points is not None:
        draw_points(ax, points, model, shades)
    if legend:
        explain(ax, shades, model, points)
    names = feature_names(model)
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def around(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the corners of a box and a twentieth more on all sides."""
    room = np.where(upper > lower, 0.05 * (upper - lower), 0.5)
    return lower - room, upper + room


def grid(lower: Floats, upper: Floats, resolution: int) -> tuple[list[Floats], Floats]:
    """Return the sides of a grid over a box, and its places as rows."""
    sides = [np.linspace(*ends, resolution) for ends in zip(lower, upper, strict=True)]
    return sides, np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def _checked(bounds: ArrayLike) -> tuple[Floats, Floats]:
    box: Floats = check_array(bounds, dtype=np.float64, input_name="bounds")
    if box.shape != (2, 2) or (box[:, 0] >= box[:, 1]).any():
        raise ValueError(f"bounds is {bounds!r}; it must be [[low, high], [low, high]]")
    return box[:, 0], box[:, 1]


def draw_field(ax: Axes, sides: list[Floats], field: Floats, **style: Any) -> Any:
    """Draw numbers or colours, each a pixel around its place; return the image."""
    halves = [(side[1] - side[0]) / 2 for side in sides]
    ends = [(s[0] - half, s[-1] + half) for s, half in zip(sides, halves, strict=True)]
    return ax.imshow(
        field,
        extent=(*ends[0], *ends[1]),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        **style,
    )


def _draw_borders(ax: Axes, sides: list[Floats], best: NDArray[np.intp]) -> None:
    """Draw lines around the most probable classes, which may look alike in grey."""
    classes = np.unique(best)
    for k in classes[: len(classes) - 1]:  # the last has no border but with others
        ax.contour(*sides, (best == k).astype(float), [0.5], colors=DARK, linewidths=0.7)
