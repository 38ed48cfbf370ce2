"""The cells of one tree in two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import ArrayLike

from amforest._forest.estimator import Estimator
from amforest.inspection import cells_of
from amforest.plotting._model_data import (
    Shades,
    Table,
    add_legend,
    check_forest,
    check_labelled,
    check_numeric,
    check_tree,
    draw_points,
    get_axes,
    get_feature_names,
    get_range,
    predict_shades,
)
from amforest.plotting.colours import DARK, get_colour
from amforest.theory import MondrianPartition
from amforest.theory.prunings import check_points


def plot_partition(
    model: Any,
    tree: int = 0,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    predictions: bool = True,
    ranges: bool = True,
    positive: Any = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the cells of a tree, coloured by what the tree predicts there.

    Parameters
    ----------
    model : forest, or MondrianPartition
        It must have two features, which are numbers.
    tree : int, default=0
        Which tree of the forest.
    X : array-like of shape (n_samples, 2), default=None
        Points to draw.
    y : array-like of shape (n_samples,), default=None
        Their labels.
    predictions : bool, default=True
        Whether cells are coloured: by the probability of the second of two classes, by the most
        probable of more, or by the mean.
    ranges : bool, default=True
        Whether the ranges of the nodes are drawn, if the partition is restricted to them: those of
        leaves as solid boxes, those of other nodes dotted.
    positive : class, default=None
        The class whose probability is shown instead.
    legend : bool, default=True
        Whether a scale and a legend of classes are drawn beside the axes.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    The cells of an unrestricted partition fill its box, those of a restricted one the range of the
    data: they are bounded by thresholds, and also contain points outside of all ranges.
    A cell's colour is the prediction within the leaf's range. Of models whose predictions change
    outside of it (`predict_extends`, `MondrianForestClassifier`), `plot_decision` draws all.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from sklearn.datasets import make_moons
    >>> from amforest import AMFClassifier
    >>> from amforest.plotting import plot_partition
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> ax = plot_partition(AMFClassifier(random_state=0).fit(X, y), X=X, y=y)
    >>> plt.close(ax.figure)
    """
    if isinstance(model, MondrianPartition):
        return _plot_mondrian(model, X, y, ax)
    forest = check_forest(model)
    check_numeric(forest, 2)
    tree = check_tree(forest, tree)
    points = check_labelled(forest, X, y)
    table = forest.tree_table(tree)
    cells, leaves = _replace_ranges(forest, table), table["left"] < 0
    # The upper corner belongs to the cell, and where there is one to the range.
    inside = np.where(np.isnan(table["upper"]), cells["upper"], table["upper"])[leaves]
    shades = predict_shades(forest, inside.astype(np.float64), tree, positive)
    ax = get_axes(ax, (6.4, 4.6))
    _draw_cells(ax, cells, shades if predictions else None)
    if ranges and not _is_unrestricted(forest):
        _draw_ranges(ax, table)
    if points is not None:
        draw_points(ax, points, forest, shades)
    if legend:
        add_legend(ax, shades if predictions else None, forest, points)
    names = get_feature_names(forest)
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def _plot_mondrian(
    partition: MondrianPartition, X: ArrayLike | None, y: ArrayLike | None, ax: Axes | None
) -> Axes:
    width = partition.table["lower"].shape[1]
    if width != 2:
        raise ValueError(f"model has {width} features; a partition with 2 can be drawn")
    if y is not None:
        raise ValueError(
            "y must be None: a MondrianPartition has no predictions to compare it with"
        )
    points = None if X is None else check_points(partition.table, X)
    ax = get_axes(ax, (4.8, 4.6))
    _draw_cells(ax, partition.table, None)
    if points is not None:
        ax.scatter(points[:, 0], points[:, 1], s=12, color=get_colour(0), zorder=3)
    return ax


def _replace_ranges(forest: Estimator, table: Table) -> Table:
    """Return the table with cells instead of ranges, within the range of the data."""
    cells = table.copy()
    if not _is_unrestricted(forest):
        columns = {name: table[name] for name in table.dtype.names or ()}
        for side, corners in cells_of(columns, np.stack(get_range(forest, None))).items():
            cells[side] = corners
    return cells


def _is_unrestricted(forest: Estimator) -> bool:
    return bool(getattr(forest, "partition", "restricted") == "unrestricted")


def _draw_cells(ax: Axes, cells: Table, shades: Shades | None) -> None:
    """Draw the leaves' cells, in colour or as lines."""
    MondrianPartition(cells, np.inf).draw(ax)
    artist = ax.collections[-1]
    artist.set(edgecolor=DARK, linewidth=_line_width(len(cells)))
    if shades is not None:
        artist.set(edgecolor="white", facecolor="white" if shades.is_scale else shades.values)
        if shades.is_scale:
            artist.set(array=shades.values, cmap=shades.cmap, norm=shades.norm)


def _draw_ranges(ax: Axes, table: Table) -> None:
    """Draw the boxes of the points that went through each node; a single point has none."""
    has_box = (table["upper"] > table["lower"]).any(axis=1)  # NaN is not a box either
    for is_leaf in (False, True):
        nodes = table[has_box & ((table["left"] < 0) == is_leaf)]
        a, b = nodes["lower"].T, nodes["upper"].T
        boxes = np.stack([[a[0], b[0], b[0], a[0]], [a[1], a[1], b[1], b[1]]]).T
        width = _line_width(len(table)) * (1.2 if is_leaf else 0.8)
        artist = PolyCollection(list(boxes), facecolor="none", edgecolor=DARK, linewidth=width)
        artist.set_linestyle("-" if is_leaf else ":")
        ax.add_collection(artist, autolim=False)


def _line_width(n_nodes: int) -> float:
    """Return a width in points: lines of large trees would hide all colours."""
    return float(np.clip(8 / np.sqrt(n_nodes), 0.15, 0.8))
