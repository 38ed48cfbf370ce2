"""How deep into the trees forecasts reach."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from amforest._forest.estimator import Estimator
from amforest.plotting._common import (
    Floats,
    axes_for,
    box_of,
    check_count,
    check_numeric,
    colour,
    column,
    feature_names,
    grown_forest,
    no_names_needed,
    rows_of,
)
from amforest.plotting.decision import around, draw_field, grid

LABEL = "weighted depth"


def plot_weighted_depth(
    model: Any,
    X: ArrayLike | None = None,
    *,
    resolution: int | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean depth, over all prunings by their weights, at which forecasts are made.

    Parameters
    ----------
    model : forest
        It must have one feature or two, which are numbers.
    X : array-like of shape (n_samples,) or (n_samples, n_features), default=None
        Where to look: at these values of a single feature, and in the range of these rows of two.
        None means the range that the model has seen.
    resolution : int, default=None
        How many values are asked for along each side; None means 1000 for one feature, unless X is
        given, and 200 for two.
    legend : bool, default=True
        Whether lines or colours are explained.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a figure.

    Returns
    -------
    matplotlib Axes
        For one feature with a faint line for each tree and a strong one for their mean, for two
        with the mean as a field.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot as plt
    >>> from amforest import AMFRegressor
    >>> from amforest.plotting import plot_weighted_depth
    >>> x = np.random.default_rng(0).uniform(size=(200, 1))
    >>> ax = plot_weighted_depth(AMFRegressor(random_state=0).fit(x, np.sign(x[:, 0] - 0.3)))
    >>> plt.close(ax.figure)
    """
    forest = grown_forest(model)
    check_numeric(forest, 1, 2)
    if resolution is not None:
        check_count(resolution, "resolution", 2)
    if forest.n_features_in_ == 1:
        return _plot_lines(forest, _places(forest, X, resolution), legend, ax)
    sides, rows = grid(*around(*box_of(forest, rows_of(forest, X))), resolution or 200)
    depths = _depths(forest, rows)
    field = depths.mean(axis=1).reshape(len(sides[1]), len(sides[0]))
    ax = axes_for(ax, (6.4, 4.6))
    image = draw_field(ax, sides, field, cmap="viridis")
    if legend:
        label = f"{LABEL}, mean of {depths.shape[1]} trees"
        ax.figure.colorbar(image, ax=ax, label=label, pad=0.02)
    names = feature_names(forest)
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def _places(forest: Estimator, X: ArrayLike | None, resolution: int | None) -> Floats:
    """Return values of the only feature in their order."""
    if X is not None and resolution is None:
        return np.sort(column(X, "X"))
    lower, upper = box_of(forest, None if X is None else column(X, "X")[:, None])
    return np.linspace(lower[0], upper[0], resolution or 1000)


def _plot_lines(forest: Estimator, x: Floats, legend: bool, ax: Axes | None) -> Axes:
    depths = _depths(forest, x[:, None])
    ax = axes_for(ax, (7.0, 3.2))
    faint = float(np.clip(5 / depths.shape[1], 0.08, 0.5))
    trees = ax.plot(x, depths, color=colour(5), alpha=faint, linewidth=0.7)
    (mean,) = ax.plot(x, depths.mean(axis=1), color=colour(0), linewidth=1.8)
    if legend:
        trees[0].set_label(f"each of {depths.shape[1]} trees")
        mean.set_label("their mean")
        key = ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        key.get_lines()[0].set_alpha(0.7)
    ax.set(xlabel=feature_names(forest)[0], ylabel=LABEL)
    ax.set_ylim(bottom=0)
    return ax


def _depths(forest: Estimator, rows: Floats) -> Floats:
    with no_names_needed():
        return forest.weighted_depth(rows)
