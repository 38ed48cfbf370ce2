"""Regression on one feature: data, forecasts, and how far the trees are apart."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from amforest.plotting._common import Floats, axes_for, colour, column

Band = tuple[ArrayLike, ArrayLike, ArrayLike]


def plot_interval(
    x: ArrayLike,
    y: ArrayLike | None,
    forecasts: ArrayLike | Band,
    *,
    level: float = 0.9,
    label: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw data, the mean forecast and a band around it.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The feature, in any order.
    y : array-like of shape (n_samples,) or None
        What was observed there.
    forecasts : array-like of shape (n_samples, n_estimators), or a tuple of three
        What each tree forecasts, as `AMFRegressor.predict_by_tree` tells; or (lower, mean, upper),
        each of shape (n_samples,).
    level : float, default=0.9
        The share of the trees in the band: it reaches from the quantile (1 - level) / 2 of the
        trees' forecasts to (1 + level) / 2. Of no meaning if the band is given.
    label : str, default=None
        What the legend calls the band. None says what it is: the spread of the trees, which is no
        confidence interval and does not hold a share of the data.
    legend : bool, default=True
        Whether there is a legend.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib import pyplot as plt
    >>> from amforest import AMFRegressor
    >>> from amforest.plotting import plot_interval
    >>> x = np.random.default_rng(0).uniform(size=(200, 1))
    >>> y = np.sin(6 * x[:, 0])
    >>> forest = AMFRegressor(random_state=0).fit(x, y)
    >>> ax = plot_interval(x, y, forest.predict_by_tree(x))
    >>> plt.close(ax.figure)
    """
    places = column(x, "x")
    observed = None if y is None else column(y, "y", len(places))
    if isinstance(forecasts, tuple):
        (lower, mean, upper), name = _given_band(forecasts, len(places)), "band"
        mean_name = "forecast"
    else:
        by_tree = _by_tree(forecasts, len(places))
        lower, mean, upper = _spread(by_tree, level)
        name = f"spread of the trees, {100 * level:.3g} %\n(no confidence interval)"
        mean_name = f"mean of {by_tree.shape[1]} trees"
    order = np.argsort(places, kind="stable")
    ax = axes_for(ax, (7.0, 3.6))
    if observed is not None:
        ax.scatter(places, observed, s=8, color="0.55", linewidth=0, label="data")
    band = places[order], lower[order], upper[order]
    name = name if label is None else label
    ax.fill_between(*band, color=colour(0), alpha=0.35, linewidth=0, label=name)
    ax.plot(places[order], mean[order], color=colour(0), linewidth=1.2, label=mean_name)
    if legend:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set(xlabel="x", ylabel="y")
    return ax


def _given_band(band: Band, length: int) -> tuple[Floats, Floats, Floats]:
    if len(band) != 3:
        raise ValueError(
            f"forecasts is a tuple of {len(band)}; it must be (lower, mean, upper), or an array "
            "with a column for each tree"
        )
    names = ("lower", "mean", "upper")
    lower, mean, upper = (
        column(values, f"forecasts' {name}", length)
        for name, values in zip(names, band, strict=True)
    )
    if (lower > upper).any():
        i = int((lower > upper).argmax())
        raise ValueError(
            f"forecasts' lower is {lower[i]:g} and upper {upper[i]:g} in row {i}; lower must not "
            "be above upper"
        )
    return lower, mean, upper


def _by_tree(forecasts: ArrayLike, length: int) -> Floats:
    by_tree: Floats = check_array(forecasts, dtype=np.float64, input_name="forecasts")
    if len(by_tree) != length:
        raise ValueError(f"forecasts has {len(by_tree)} rows; x has {length}")
    return by_tree


def _spread(by_tree: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    if not 0 < level <= 1:
        raise ValueError(f"level is {level}; it must be above 0 and at most 1")
    lower, upper = np.quantile(by_tree, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return lower, by_tree.mean(axis=1), upper
