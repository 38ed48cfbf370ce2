"""Whether what is forecast with probability p comes true in a share p of all cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.utils import check_array

from amforest.plotting._common import Floats, axes_for, check_count, colour, column, marker

STRIP = "amforest: counts"  # how the axes of the histogram are found again


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
    """Draw how often a class came against the probability with which it was forecast.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        The labels.
    probabilities : array-like of shape (n_samples,) or (n_samples, n_classes)
        Of the class `positive`, or of all classes, in the order of `classes`.
    bins : int, default=10
        Into how many bins of equal width the probabilities are sorted.
    classes : array-like of shape (n_classes,), default=None
        The classes, as in `classes_` of a model. None means the labels in y, sorted.
    positive : class, default=None
        The class to look at. None means the second of two; it is needed for more.
    level : float, default=0.95
        The level of Wilson's confidence intervals for the shares, drawn as bars.
    label : str, default=None
        What the legend calls it, beside the expected calibration error: the mean distance of share
        and forecast over all rows, by bins.
    legend : bool, default=True
        Whether there is a legend.
    ax : matplotlib Axes, default=None
        Where to draw: a further call with the same axes adds another model, in another colour.
        None makes a figure.

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
    groups = group(p, came, bins)
    is_new = ax is None or not _strips(ax)
    ax = axes_for(ax, (5.2, 4.8))
    strip = _new_strip(ax, bins) if is_new else _strips(ax)[0]
    k = len(ax.containers)  # as many models are here
    short = "expected calibration error" if label is None else f"{label}: ECE"
    _draw_curve(ax, groups, level, f"{short} {groups.error:.3f}", k)
    _draw_counts(strip, groups, k)
    if legend:
        ax.legend(frameon=False)
    if is_new:
        ax.set_ylabel(f"share of {name}, with {100 * level:.3g} % intervals")
        strip.set_xlabel(f"forecast probability of {name}")
    return ax


@dataclass(frozen=True)
class Groups:
    """Rows in bins of equal width, those that are not empty.

    Attributes
    ----------
    edges, counts : ndarray
        The edges of all bins, and how many rows each has.
    forecast, share : ndarray
        The mean forecast, and how often the event came, in each bin that is not empty.
    """

    edges: Floats
    counts: NDArray[np.intp]
    forecast: Floats
    share: Floats

    @property
    def error(self) -> float:
        """The expected calibration error, Σ n_b / n |share_b - forecast_b|."""
        weights = self.counts[self.counts > 0] / self.counts.sum()
        return float(weights @ np.abs(self.share - self.forecast))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return Wilson's interval for the shares.

        It holds all probabilities q with |share - q| <= z √(q (1 - q) / n).
        """
        n, z2 = self.counts[self.counts > 0], ndtri((1 + level) / 2) ** 2
        centre = (self.share + z2 / (2 * n)) / (1 + z2 / n)
        half = np.sqrt(z2 * self.share * (1 - self.share) / n + (z2 / (2 * n)) ** 2) / (1 + z2 / n)
        return centre - half, centre + half


def group(p: Floats, came: NDArray[np.bool_], bins: int) -> Groups:
    """Sort forecasts into bins, as scikit-learn's `calibration_curve` does."""
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.searchsorted(edges[1:-1], p)
    counts = np.bincount(bin_of, minlength=bins)
    n = counts[counts > 0]
    forecast = np.bincount(bin_of, p, bins)[counts > 0] / n
    share = np.bincount(bin_of, came, bins)[counts > 0] / n
    return Groups(edges, counts, forecast, share)


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
    p = column(p, "probabilities", len(y))
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
    bars = np.abs([lower - groups.share, upper - groups.share])
    ax.errorbar(
        groups.forecast,
        groups.share,
        bars,
        color=colour(k),
        marker=marker(k),
        markersize=5,
        linewidth=1.2,
        elinewidth=1,
        capsize=2.5,
        label=label,
    )


def _draw_counts(strip: Axes, groups: Groups, k: int) -> None:
    strip.stairs(groups.counts, groups.edges, color=colour(k), linewidth=1.2)
    if k == 0:
        strip.stairs(groups.counts, groups.edges, color=colour(0), alpha=0.25, fill=True)
