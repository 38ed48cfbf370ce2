"""Predictions and depths over one feature or two."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from amforest._forest.estimator import Estimator
from amforest.plotting._model_data import (
    Floats,
    add_legend,
    check_column,
    check_count,
    check_fitted,
    check_forest,
    check_labelled,
    check_numeric,
    check_rows,
    draw_points,
    get_axes,
    get_feature_names,
    get_range,
    ignoring_names,
    predict_shades,
)
from amforest.plotting.colours import DARK, get_colour

DEPTH = "weighted depth"
Band = tuple[ArrayLike, ArrayLike, ArrayLike]


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
    """Draw the predictions of a model with two features as a field.

    Parameters
    ----------
    model : estimator
        A model of amforest's or scikit-learn's with two features, which are numbers.
    X : array-like of shape (n_samples, 2), default=None
        Points to draw.
    y : array-like of shape (n_samples,), default=None
        Their labels.
    tree : int, default=None
        The tree that predicts, instead of the forest.
    positive : class, default=None
        The class whose probability is shown. None means the second of two; of more classes the
        most probable one is shown, paler where it is less probable.
    bounds : array-like of shape (2, 2), default=None
        Low and high of each feature, where the field ends. None means the range of X, or else what
        the model has seen, and a twentieth more on all sides.
    resolution : int, default=200
        The number of predictions along each side.
    legend : bool, default=True
        Whether a scale and a legend of classes are drawn beside the axes.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes
        Lines separate the most probable classes, unless `positive` is given.

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
    model = check_fitted(model)
    check_numeric(model, 2)
    check_count(resolution, "resolution", 2)
    points = check_labelled(model, X, y)
    box = (
        add_margin(*get_range(model, None if points is None else points.rows))
        if bounds is None
        else _checked(bounds)
    )
    sides, rows = make_grid(*box, resolution)
    shades = predict_shades(model, rows, tree, positive)
    field = shades.values.reshape(resolution, resolution, *shades.values.shape[1:])
    ax = get_axes(ax, (6.4, 4.6))
    draw_field(ax, sides, field, cmap=shades.cmap, norm=shades.norm)
    if shades.best is not None and positive is None:
        _draw_borders(ax, sides, shades.best.reshape(resolution, resolution))
    if points is not None:
        draw_points(ax, points, model, shades)
    if legend:
        add_legend(ax, shades, model, points)
    names = get_feature_names(model)
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def add_margin(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the corners of a box and a twentieth more on all sides."""
    room = np.where(upper > lower, 0.05 * (upper - lower), 0.5)
    return lower - room, upper + room


def make_grid(lower: Floats, upper: Floats, resolution: int) -> tuple[list[Floats], Floats]:
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
    """Draw lines around the most probable classes, whose grey values may be alike."""
    classes = np.unique(best)
    for k in classes[: len(classes) - 1]:  # the last has no border but with others
        ax.contour(*sides, (best == k).astype(float), [0.5], colors=DARK, linewidths=0.7)


def plot_weighted_depth(
    model: Any,
    X: ArrayLike | None = None,
    *,
    resolution: int | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean depth at which prunings predict, by their weights.

    Parameters
    ----------
    model : forest
        It must have one feature or two, which are numbers.
    X : array-like of shape (n_samples,) or (n_samples, n_features), default=None
        The places: these values of a single feature, or the range of these rows of two.
        None means the range that the model has seen.
    resolution : int, default=None
        The number of places along each side; None means 1000 for one feature, unless X is
        given, and 200 for two.
    legend : bool, default=True
        Whether there is a legend of lines or colours.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

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
    forest = check_forest(model)
    check_numeric(forest, 1, 2)
    if resolution is not None:
        check_count(resolution, "resolution", 2)
    if forest.n_features_in_ == 1:
        return _plot_lines(forest, _places(forest, X, resolution), legend, ax)
    sides, rows = make_grid(
        *add_margin(*get_range(forest, check_rows(forest, X))), resolution or 200
    )
    depths = _depths(forest, rows)
    field = depths.mean(axis=1).reshape(len(sides[1]), len(sides[0]))
    ax = get_axes(ax, (6.4, 4.6))
    image = draw_field(ax, sides, field, cmap="viridis")
    if legend:
        label = f"{DEPTH}, mean of {depths.shape[1]} trees"
        ax.figure.colorbar(image, ax=ax, label=label, pad=0.02)
    names = get_feature_names(forest)
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def _places(forest: Estimator, X: ArrayLike | None, resolution: int | None) -> Floats:
    """Return values of the only feature in their order."""
    if X is not None and resolution is None:
        return np.sort(check_column(X, "X"))
    lower, upper = get_range(forest, None if X is None else check_column(X, "X")[:, None])
    return np.linspace(lower[0], upper[0], resolution or 1000)


def _plot_lines(forest: Estimator, x: Floats, legend: bool, ax: Axes | None) -> Axes:
    depths = _depths(forest, x[:, None])
    ax = get_axes(ax, (7.0, 3.2))
    faint = float(np.clip(5 / depths.shape[1], 0.08, 0.5))
    trees = ax.plot(x, depths, color=get_colour(5), alpha=faint, linewidth=0.7)
    (mean,) = ax.plot(x, depths.mean(axis=1), color=get_colour(0), linewidth=1.8)
    if legend:
        trees[0].set_label(f"each of {depths.shape[1]} trees")
        mean.set_label("their mean")
        key = ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        key.get_lines()[0].set_alpha(0.7)
    ax.set(xlabel=get_feature_names(forest)[0], ylabel=DEPTH)
    ax.set_ylim(bottom=0)
    return ax


def _depths(forest: Estimator, rows: Floats) -> Floats:
    with ignoring_names():
        return forest.weighted_depth(rows)


def plot_interval(
    x: ArrayLike,
    y: ArrayLike | None,
    predictions: ArrayLike | Band,
    *,
    level: float = 0.9,
    label: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw data, the mean prediction and a band around it.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The feature, in any order.
    y : array-like of shape (n_samples,) or None
        The observed values.
    predictions : array-like of shape (n_samples, n_estimators), or a tuple of three
        The predictions of each tree, as `AMFRegressor.predict_by_tree` returns them; or
        (lower, mean, upper), each of shape (n_samples,).
    level : float, default=0.9
        The fraction of the trees in the band: it reaches from the quantile (1 - level) / 2 of the
        trees' predictions to (1 + level) / 2. Of no meaning if the band is given.
    label : str, default=None
        The label of the band in the legend. None means the spread of the trees, which is no
        confidence interval: it need not contain this part of the data.
    legend : bool, default=True
        Whether there is a legend.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

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
    places = check_column(x, "x")
    observed = None if y is None else check_column(y, "y", len(places))
    if isinstance(predictions, tuple):
        (lower, mean, upper), name = _given_band(predictions, len(places)), "band"
        mean_name = "prediction"
    else:
        by_tree = _by_tree(predictions, len(places))
        lower, mean, upper = _spread(by_tree, level)
        name = f"spread of the trees, {100 * level:.3g} %\n(no confidence interval)"
        mean_name = f"mean of {by_tree.shape[1]} trees"
    order = np.argsort(places, kind="stable")
    ax = get_axes(ax, (7.0, 3.6))
    if observed is not None:
        ax.scatter(places, observed, s=8, color="0.55", linewidth=0, label="data")
    band = places[order], lower[order], upper[order]
    name = name if label is None else label
    ax.fill_between(*band, color=get_colour(0), alpha=0.35, linewidth=0, label=name)
    ax.plot(places[order], mean[order], color=get_colour(0), linewidth=1.2, label=mean_name)
    if legend:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set(xlabel="x", ylabel="y")
    return ax


def _given_band(band: Band, length: int) -> tuple[Floats, Floats, Floats]:
    if len(band) != 3:
        raise ValueError(
            f"predictions is a tuple of {len(band)}; it must be (lower, mean, upper), or an array "
            "with a column for each tree"
        )
    names = ("lower", "mean", "upper")
    lower, mean, upper = (
        check_column(values, f"predictions' {name}", length)
        for name, values in zip(names, band, strict=True)
    )
    if (lower > upper).any():
        i = int((lower > upper).argmax())
        raise ValueError(
            f"predictions' lower is {lower[i]:g} and upper {upper[i]:g} in row {i}; lower must not "
            "be above upper"
        )
    return lower, mean, upper


def _by_tree(predictions: ArrayLike, length: int) -> Floats:
    by_tree: Floats = check_array(predictions, dtype=np.float64, input_name="predictions")
    if len(by_tree) != length:
        raise ValueError(f"predictions has {len(by_tree)} rows; x has {length}")
    return by_tree


def _spread(by_tree: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    if not 0 < level <= 1:
        raise ValueError(f"level is {level}; it must be above 0 and at most 1")
    lower, upper = np.quantile(by_tree, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return lower, by_tree.mean(axis=1), upper
