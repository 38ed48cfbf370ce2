"""The importances of features: recent ones beside long-term ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from amforest.inspection import importances
from amforest.inspection.terms import shorten
from amforest.plotting._model_data import check_count, check_forest, get_axes
from amforest.plotting.colours import get_colour

INCHES = 0.34  # for a feature


def plot_importances(
    model: Any, *, max_features: int = 15, legend: bool = True, ax: Axes | None = None
) -> Axes:
    """Draw the importance of each feature: recent beside long-term.

    Parameters
    ----------
    model : fitted forest, or one of `amforest.river`'s
    max_features : int, default=15
        How many features are drawn: those with the largest bars.
    legend : bool, default=True
        Whether there is a legend, if there are two bars for each feature.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes
        Bars are parts of what all features save of the loss. Of an adaptive forest, the upper bars
        are by the trees that remember everything, the lower ones by those that remember up to
        1,000 rows. Other forests have one bar for each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot as plt
    >>> from amforest import AdaptiveAMFClassifier
    >>> from amforest.plotting import plot_importances
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> forest = AdaptiveAMFClassifier(random_state=0).fit(X, X[:, 1] > 0)
    >>> ax = plot_importances(forest)
    >>> [label.get_text() for label in ax.get_yticklabels()][0]
    'feature 1'
    >>> plt.close(ax.figure)
    """
    found = importances(check_forest(model))
    bars = [("long-term", found.long_term())]
    recent = found.recent()
    if recent is not None:
        bars.append((f"last {found.recent_rows:,} rows", recent))
    largest = np.max([parts for _, parts in bars], axis=0)
    shown = np.argsort(-largest, kind="stable")[: check_count(max_features, "max_features", 1)]
    ax = get_axes(ax, (7.0, INCHES * len(shown) + 0.9))
    height = 0.8 / len(bars)
    for k, (label, parts) in enumerate(bars):
        places = np.arange(len(shown)) + height * (k - (len(bars) - 1) / 2)
        how: dict[str, Any] = {"color": get_colour(3 * k), "label": label}
        ax.barh(places, parts[shown], height, **how)
    names = [f"feature {name}" if isinstance(name, int) else str(name) for name in found.names]
    ax.set_yticks(range(len(shown)), [shorten(names[j]) for j in shown], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(len(shown) - 0.4, -0.6), xlabel="part of what all features save of the loss")
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if legend and len(bars) > 1:
        ax.legend(frameon=False, loc="lower right")
    return ax
