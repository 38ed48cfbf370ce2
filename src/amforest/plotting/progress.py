"""How models do while they learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from amforest.plotting._common import colour, marker

NAMES = {"auc": "AUC", "crps": "CRPS", "mae": "MAE", "mse": "MSE", "r2": "R²"}
Log = Literal["", "x", "y", "xy"]


def plot_progress(
    progress: Any,
    metrics: str | Sequence[str] | None = None,
    *,
    log: Log = "",
    legend: bool = True,
    ax: Axes | Sequence[Axes] | NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Draw the curves of progressive validation, a panel for each metric.

    Parameters
    ----------
    progress : result of `amforest.evaluation.progressive_validation`, or dict of such results
        A dict has the models' names as keys; each model has its colour and marker in all panels.
    metrics : str or sequence of str, default=None
        Which metrics. None means all that the first model has.
    log : {"", "x", "y", "xy"}, default=""
        Which axes are logarithmic.
    legend : bool, default=True
        Whether there is a legend, in the first panel.
    ax : matplotlib Axes or sequence of such, default=None
        Where to draw: one for each metric. None makes a figure.

    Returns
    -------
    ndarray of matplotlib Axes, of shape (n_metrics,)
        Solid lines are over all rows so far, thin dashed ones over the last rows.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from sklearn.datasets import make_moons
    >>> from amforest import AMFClassifier
    >>> from amforest.evaluation import progressive_validation
    >>> from amforest.plotting import plot_progress
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> progress = progressive_validation(AMFClassifier(random_state=0), X, y, window=100)
    >>> axes = plot_progress(progress, ["log_loss", "accuracy"])
    >>> plt.close(axes[0].figure)
    """
    results = dict(progress) if isinstance(progress, Mapping) else {"": progress}
    names = _metric_names(results, metrics)
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"log is {log!r}; it must be '', 'x', 'y' or 'xy'")
    axes = _panels(ax, len(names))
    for panel, metric in zip(axes, names, strict=True):
        for k, result in enumerate(results.values()):
            _draw(panel, result.curve, metric, k, several=len(results) > 1)
        panel.set(xlabel="rows learnt", ylabel=NAMES.get(metric, metric.replace("_", " ")))
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if "x" in log:
            panel.set_xscale("log")
        if "y" in log:
            panel.set_yscale("log")
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.grid(alpha=0.25, linewidth=0.6)
    if legend:
        _explain(axes[0], results, names[0])
    return axes


def _metric_names(results: Mapping[Any, Any], metrics: str | Sequence[str] | None) -> list[str]:
    """Return the metrics to draw; all models must have them."""
    if not results:
        raise ValueError("progress is empty; it must hold at least one result")
    for name, result in results.items():
        if not isinstance(getattr(result, "curve", None), Mapping):
            raise TypeError(
                f"progress{f'[{name!r}]' if name else ''} is {result!r}; it must be a result of "
                "amforest.evaluation.progressive_validation, or a dict of such results"
            )
    if metrics is None:
        metrics = list(next(iter(results.values())).metrics)
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise ValueError("metrics is empty; it must name at least one metric")
    for metric in names:
        for result in results.values():
            if metric not in result.metrics:
                raise ValueError(f"metrics has {metric!r}; there are {list(result.metrics)}")
    return names


def _panels(ax: Any, n_panels: int) -> NDArray[Any]:
    """Return as many axes as there are panels, in a row or two of a new figure if need be."""
    if ax is None:
        n_columns = min(n_panels, 3)
        n_rows = -(-n_panels // n_columns)
        size = 1.2 + 3.4 * n_columns, 3.2 * n_rows
        grid = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)[1]
        for unused in grid.flat[n_panels:]:
            unused.remove()
        return np.asarray(grid.flat[:n_panels])
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if not all(isinstance(panel, Axes) for panel in axes):
        raise TypeError(f"ax is {ax!r}; it must hold matplotlib Axes")
    if len(axes) != n_panels:
        raise ValueError(f"ax has {len(axes)} axes; {n_panels} metrics need as many")
    return axes


def _draw(panel: Axes, curve: Mapping[str, Any], metric: str, k: int, *, several: bool) -> None:
    """Draw a model's curves: over all rows, and over the last ones if they were counted."""
    style: dict[str, Any] = {"color": colour(k)}
    if f"{metric}_window" in curve:
        window = curve[f"{metric}_window"]
        panel.plot(curve["row"], window, linestyle=(0, (3, 1.5)), linewidth=0.8, **style)
    if several:  # in grey, only markers tell models apart
        style |= {"marker": marker(k), "markersize": 4.5, "markevery": (0.05 + 0.03 * k, 0.2)}
    panel.plot(curve["row"], curve[metric], linewidth=1.6, **style)


def _explain(panel: Axes, results: Mapping[Any, Any], metric: str) -> None:
    several = len(results) > 1
    handles = []
    for k, name in enumerate(results):
        style: dict[str, Any] = {"color": colour(k), "marker": marker(k) if several else ""}
        line = Line2D([], [], linewidth=1.6, markersize=4.5, **style)
        line.set_label(str(name) or "all rows so far")
        handles.append(line)
    first = next(iter(results.values()))
    if f"{metric}_window" in first.curve:
        size = getattr(first, "window_size", None)
        label = "last rows" if size is None else f"last {size:,} rows"
        grey = "0.4" if several else colour(0)
        dashes = Line2D([], [], color=grey, linestyle=(0, (3, 1.5)), linewidth=0.8, label=label)
        handles.append(dashes)
    panel.legend(handles=handles, frameon=False)
