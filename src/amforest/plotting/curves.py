"""Curves of metrics while models learn, and of calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.utils import check_array

from amforest.plotting._model_data import Floats, check_column, check_count, get_axes
from amforest.plotting.colours import get_colour, get_marker

METRIC_LABELS = {
    "auc": "AUC",
    "crps": "CRPS",
    "mae": "MAE",
    "mse": "MSE",
    "r2": "R²",
    "rmse": "RMSE",
}
STRIP = "amforest: counts"  # the label by which the axes of the histogram are recognised
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
        Axes to draw into: one for each metric. None means a new figure.

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
            _draw_metric(panel, result.curve, metric, k, several=len(results) > 1)
        panel.set(xlabel="rows learned", ylabel=METRIC_LABELS.get(metric, metric.replace("_", " ")))
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if "x" in log:
            panel.set_xscale("log")
        if "y" in log:
            panel.set_yscale("log")
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.grid(alpha=0.25, linewidth=0.6)
    if legend:
        _add_legend(axes[0], results, names[0])
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


def _draw_metric(
    panel: Axes, curve: Mapping[str, Any], metric: str, k: int, *, several: bool
) -> None:
    """Draw a model's curves: over all rows, and over the last ones if they were counted."""
    style: dict[str, Any] = {"color": get_colour(k)}
    if f"{metric}_window" in curve:
        window = curve[f"{metric}_window"]
        panel.plot(curve["row"], window, linestyle=(0, (3, 1.5)), linewidth=0.8, **style)
    if several:  # in grey, only markers distinguish models
        style |= {"marker": get_marker(k), "markersize": 4.5, "markevery": (0.05 + 0.03 * k, 0.2)}
    panel.plot(curve["row"], curve[metric], linewidth=1.6, **style)


def _add_legend(panel: Axes, results: Mapping[Any, Any], metric: str) -> None:
    several = len(results) > 1
    handles = []
    for k, name in enumerate(results):
        style: dict[str, Any] = {"color": get_colour(k), "marker": get_marker(k) if several else ""}
        line = Line2D([], [], linewidth=1.6, markersize=4.5, **style)
        line.set_label(str(name) or "all rows so far")
        handles.append(line)
    first = next(iter(results.values()))
    if f"{metric}_window" in first.curve:
        size = getattr(first, "window_size", None)
        label = "last rows" if size is None else f"last {size:,} rows"
        grey = "0.4" if several else get_colour(0)
        dashes = Line2D([], [], color=grey, linestyle=(0, (3, 1.5)), linewidth=0.8, label=label)
        handles.append(dashes)
    panel.legend(handles=handles, frameon=False)


def plot_reliability(
    y: ArrayLike,
    probabilities: ArrayLike,
    *,
    bins: int = 10,
    classes: ArrayLike | None = None,
    positive: Any = None,
    level: float = 0.95,
    label: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often a class occurred against the probability with which it was predicted.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        The labels.
    probabilities : array-like of shape (n_samples,) or (n_samples, n_classes)
        Of the class `positive`, or of all classes, in the order of `classes`.
    bins : int, default=10
        The number of bins of equal width.
    classes : array-like of shape (n_classes,), default=None
        The classes, as in `classes_` of a model. None means the labels in y, sorted.
    positive : class, default=None
        The class to draw. None means the second of two; it is needed for more.
    level : float, default=0.95
        The level of Wilson's confidence intervals for the fractions, drawn as bars.
    label : str, default=None
        The label in the legend, beside the expected calibration error: the mean distance between
        fraction and prediction over all rows, by bins.
    legend : bool, default=True
        Whether there is a legend.
    ax : matplotlib Axes, default=None
        Axes to draw into: a further call with the same axes adds another model, in another colour.
        None means a new figure.

    Returns
    -------
    matplotlib Axes
        The counts are in axes below, the first of its `child_axes`.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot as plt
    >>> from amforest.plotting import plot_reliability
    >>> p = np.random.default_rng(0).uniform(size=1000)
    >>> y = np.random.default_rng(1).uniform(size=1000) < p
    >>> ax = plot_reliability(y, p)
    >>> plt.close(ax.figure)
    """
    check_count(bins, "bins", 1)
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it must lie between 0 and 1")
    p, came, name = _event(np.asarray(y), probabilities, classes, positive)
    groups = group_rows(p, came, bins)
    is_new = ax is None or not _strips(ax)
    ax = get_axes(ax, (5.2, 4.8))
    strip = _new_strip(ax, bins) if is_new else _strips(ax)[0]
    k = len(ax.containers)  # as many models are here
    short = "expected calibration error" if label is None else f"{label}: ECE"
    _draw_curve(ax, groups, level, f"{short} {groups.error:.3f}", k)
    _draw_counts(strip, groups, k)
    if legend:
        ax.legend(frameon=False)
    if is_new:
        ax.set_ylabel(f"fraction of {name}, with {100 * level:.3g} % intervals")
        strip.set_xlabel(f"predicted probability of {name}")
    return ax


@dataclass(frozen=True)
class Groups:
    """Rows in bins of equal width, those that are not empty.

    Attributes
    ----------
    edges, counts : ndarray
        The edges of all bins, and how many rows each has.
    prediction, fraction : ndarray
        The mean prediction, and how often the event came, in each bin that is not empty.
    """

    edges: Floats
    counts: NDArray[np.intp]
    prediction: Floats
    fraction: Floats

    @property
    def error(self) -> float:
        """The expected calibration error, Σ n_b / n |fraction_b - prediction_b|."""
        weights = self.counts[self.counts > 0] / self.counts.sum()
        return float(weights @ np.abs(self.fraction - self.prediction))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return Wilson's interval for the fractions.

        It holds all probabilities q with |fraction - q| <= z √(q (1 - q) / n).
        """
        n, z2 = self.counts[self.counts > 0], ndtri((1 + level) / 2) ** 2
        centre = (self.fraction + z2 / (2 * n)) / (1 + z2 / n)
        half = np.sqrt(z2 * self.fraction * (1 - self.fraction) / n + (z2 / (2 * n)) ** 2) / (
            1 + z2 / n
        )
        return centre - half, centre + half


def group_rows(p: Floats, came: NDArray[np.bool_], bins: int) -> Groups:
    """Sort predictions into bins, as scikit-learn's `calibration_curve` does."""
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.searchsorted(edges[1:-1], p)
    counts = np.bincount(bin_of, minlength=bins)
    n = counts[counts > 0]
    prediction = np.bincount(bin_of, p, bins)[counts > 0] / n
    fraction = np.bincount(bin_of, came, bins)[counts > 0] / n
    return Groups(edges, counts, prediction, fraction)


def _event(
    y: NDArray[Any], probabilities: ArrayLike, classes: ArrayLike | None, positive: Any
) -> tuple[Floats, NDArray[np.bool_], str]:
    """Return the probability of the event, whether it came, and its name."""
    if y.ndim != 1:
        raise ValueError(f"y has shape {y.shape}; it must have one dimension")
    known = _labels(y) if classes is None else np.asarray(classes)
    if len(strangers := y[~np.isin(y, known)]):
        raise ValueError(f"y holds {strangers[0]!r}; classes are {known.tolist()}")
    if positive is None:
        if len(known) != 2:
            raise ValueError(f"positive is None; it must be one of the classes {known.tolist()}")
        positive = known[1]
    elif positive not in known.tolist():
        raise ValueError(f"positive is {positive!r}; it must be one of {known.tolist()}")
    p = check_array(probabilities, ensure_2d=False, dtype=np.float64, input_name="probabilities")
    if p.ndim == 2:
        if p.shape[1] != len(known):
            raise ValueError(
                f"probabilities has {p.shape[1]} columns; there are {len(known)} classes, "
                f"{known.tolist()}: give classes, in the order of the columns"
            )
        p = p[:, known.tolist().index(positive)]
    p = check_column(p, "probabilities", len(y))
    if p.min() < 0 or p.max() > 1:
        bad = p.min() if p.min() < 0 else p.max()
        raise ValueError(f"probabilities holds {bad:g}; it must lie in [0, 1]")
    return p, y == positive, str(positive)


def _labels(y: NDArray[Any]) -> NDArray[Any]:
    """Return the labels; of 0 and 1 both are known, even if only one came."""
    labels = np.unique(y)
    binary = y.dtype.kind in "biuf" and np.isin(labels, [0, 1]).all()
    return np.array([0, 1]).astype(y.dtype) if binary else labels


# Drawing


def _strips(ax: Axes) -> list[Axes]:
    """Return the histogram's axes, if a call has made them."""
    return [child for child in getattr(ax, "child_axes", ()) if child.get_label() == STRIP]


def _new_strip(ax: Axes, bins: int) -> Axes:
    """Prepare the axes, and others for the counts below them."""
    ax.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, linestyle="--", zorder=1)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.tick_params(labelbottom=False)
    strip = ax.inset_axes((0, -0.26, 1, 0.22), sharex=ax, label=STRIP)
    strip.tick_params(labelbottom=True)
    strip.set_ylabel("rows")
    strip.yaxis.set_major_formatter("{x:,.0f}")
    strip.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
    return strip


def _draw_curve(ax: Axes, groups: Groups, level: float, label: str, k: int) -> None:
    lower, upper = groups.interval(level)
    bars = np.abs([lower - groups.fraction, upper - groups.fraction])
    ax.errorbar(
        groups.prediction,
        groups.fraction,
        bars,
        color=get_colour(k),
        marker=get_marker(k),
        markersize=5,
        linewidth=1.2,
        elinewidth=1,
        capsize=2.5,
        label=label,
    )


def _draw_counts(strip: Axes, groups: Groups, k: int) -> None:
    strip.stairs(groups.counts, groups.edges, color=get_colour(k), linewidth=1.2)
    if k == 0:
        strip.stairs(groups.counts, groups.edges, color=get_colour(0), alpha=0.25, fill=True)
