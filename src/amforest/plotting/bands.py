"""Labels and predictions row after row, with the intervals around these."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from amforest.plotting._model_data import Floats, check_column, get_axes
from amforest.plotting.colours import get_colour, get_ink


def plot_predictions(
    y: ArrayLike,
    predictions: ArrayLike,
    intervals: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw labels, predictions and intervals, row after row.

    Parameters
    ----------
    y, predictions : array-like of shape (n_rows,)
        The labels, and the numbers that were predicted for them.
    intervals : array-like of shape (n_rows, 2), default=None
        The lower and the upper end for each row.
    rows : array-like of shape (n_rows,), default=None
        Where the rows are on the horizontal axis. None means 1, 2, …
    legend : bool, default=True
        Whether there is a legend.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes
        Labels outside their intervals are triangles, in another colour. Intervals that are much
        wider than the spread of the labels are cut off.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot as plt
    >>> from amforest import AdaptiveAMFRegressor
    >>> from amforest.plotting import plot_predictions
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=500)
    >>> predicted = AdaptiveAMFRegressor(random_state=0).partial_fit_predict_dist(X, y)
    >>> ends = predicted.quantiles([0.05, 0.95])
    >>> last = slice(400, None)
    >>> ax = plot_predictions(y[last], predicted.mean()[last], ends[last])
    >>> plt.close(ax.figure)
    """
    labels = check_column(y, "y")
    means = check_column(predictions, "predictions", len(labels))
    x = np.arange(1, len(labels) + 1) if rows is None else check_column(rows, "rows", len(labels))
    ends = None if intervals is None else _check_intervals(intervals, len(labels))
    ax = get_axes(ax, (7.0, 3.6))
    is_outside = np.zeros(len(labels), dtype=bool)
    if ends is not None:
        lower, upper = ends.T
        is_outside = (labels < lower) | (labels > upper)
        ax.fill_between(
            x, lower, upper, color=get_colour(0), alpha=0.25, linewidth=0, label="interval"
        )
    ax.plot(x, means, color=get_colour(0), linewidth=1.2, label="prediction")
    ink = get_ink()
    inside = ~is_outside
    ax.plot(x[inside], labels[inside], ".", color=ink, markersize=3.5, label="label")
    if is_outside.any():
        style: dict[str, Any] = {"color": get_colour(1), "markersize": 4, "label": "label outside"}
        ax.plot(x[is_outside], labels[is_outside], "^", **style)
    ax.set(xlabel="row", ylim=_limits(labels, means, ends))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.grid(alpha=0.25, linewidth=0.6)
    if legend:
        ax.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return ax


def _check_intervals(intervals: ArrayLike, n_rows: int) -> Floats:
    ends: Floats = check_array(intervals, dtype=np.float64, input_name="intervals")
    if ends.shape != (n_rows, 2):
        raise ValueError(
            f"intervals has shape {ends.shape}; it must have 2 columns for {n_rows} rows"
        )
    return ends


def _limits(labels: Floats, means: Floats, ends: Floats | None) -> tuple[float, float]:
    """Show all labels and predictions, and intervals as far as they are not much wider."""
    values = np.concatenate([labels, means])
    low, high = float(values.min()), float(values.max())
    if ends is not None:
        spread = high - low
        low = max(min(float(ends.min()), low), low - spread)
        high = min(max(float(ends.max()), high), high + spread)
    room = 0.05 * (high - low)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # too close for an axis
        room = 0.5 * max(abs(low), 1.0)
    return low - room, high + room
