"""The weights of the memories of an adaptive forest over the rows that it has learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from amforest.inspection import importances
from amforest.plotting._model_data import check_forest, get_axes
from amforest.plotting.colours import get_colour, get_ink

LEAST_LAYER = 0.045  # part of the height from which an area has room for its name


def plot_memory_weights(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the weights of the memories over the rows learned, as stacked areas.

    Parameters
    ----------
    model : fitted AdaptiveAMFClassifier or AdaptiveAMFRegressor, or their models for river
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes
        The longer a memory is, the darker is its area, and the nearer to 0; the lightest are the
        regressions of an adaptive regressor. Negative weights are below 0, in another colour. Names
        are on the right, of areas that have room for one.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot as plt
    >>> from amforest import AdaptiveAMFClassifier
    >>> from amforest.plotting import plot_memory_weights
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> forest = AdaptiveAMFClassifier(random_state=0).fit(X, X[:, 0] > 0)
    >>> ax = plot_memory_weights(forest)
    >>> plt.close(ax.figure)
    """
    forest: Any = check_forest(model)
    if not forest.is_adaptive:
        raise ValueError(
            f"model is {type(model).__name__}, which has no memories; an adaptive forest has"
        )
    rows, weights = forest.memory_weights_history_
    names, layers = forest.memory_names_, _layers(forest)
    ax = get_axes(ax, (8.0, 3.4))
    ends: list[tuple[float, float, str]] = []  # of the layers at the last row
    for sign in (1, -1):
        base = np.zeros(len(rows))
        colour = get_colour(0 if sign > 0 else 1)
        for k, alpha in layers:
            top = base + np.maximum(sign * weights[:, k], 0)
            ax.fill_between(rows, sign * base, sign * top, color=colour, alpha=alpha, linewidth=0)
            border = np.where(top > base, sign * top, np.nan)
            ax.plot(rows, border, color=get_ink(), linewidth=0.3, alpha=0.5)
            if top[-1] > base[-1]:
                ends.append((sign * base[-1], sign * top[-1], names[k]))
            base = top
    ax.axhline(0, color=get_ink(), linewidth=0.6)
    ax.set(xlim=(0, rows[-1]), xlabel="rows learned", ylabel="weight")
    low, high = ax.get_ylim()
    for one, other, name in ends:
        if abs(other - one) > (high - low) * LEAST_LAYER:
            place = (1 + 0.006, (one + other) / 2)
            ax.text(*place, name, transform=ax.get_yaxis_transform(), va="center", size=8)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)
    return ax


def _layers(forest: Any) -> list[tuple[int, float]]:
    """Return the numbers of the memories, the longest first, and how dark they are."""
    rows = importances(forest).memory_rows
    rows = np.append(rows, np.zeros(len(forest.memory_names_) - len(rows)))  # of regressions
    _, levels = np.unique(-rows, return_inverse=True)
    opacities = 0.9 - 0.75 * levels / max(levels.max(), 1)
    return [(k, float(opacities[k])) for k in np.argsort(levels, kind="stable").tolist()]
