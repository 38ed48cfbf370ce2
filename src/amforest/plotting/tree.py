"""A tree with time on the vertical axis, as in the paper's Figure 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, get_args

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from numpy.typing import NDArray
from sklearn.base import is_classifier

from amforest._forest.estimator import Estimator
from amforest.inspection import SplitWords, learns_residuals
from amforest.plotting._model_data import (
    Floats,
    add_class_legend,
    check_count,
    check_forest,
    check_tree,
    get_axes,
    get_feature_names,
)
from amforest.plotting._tree_layout import (
    FONT_SIZE,
    Layout,
    Place,
    Scale,
    compute_reach,
    lay_out,
    place_labels,
)
from amforest.plotting.colours import DARK, get_colour, get_marker
from amforest.theory import MondrianPartition

ToRaw = Callable[[int, float], float]
INK = ListedColormap(mpl.colormaps["Greys"](np.linspace(0.4, 1, 256)))  # nothing vanishes


def plot_tree(
    model: Any,
    tree: int = 0,
    *,
    max_depth: int | None = None,
    scale: Scale = "auto",
    legend: bool = True,
    to_raw: ToRaw | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a tree: time runs downwards, and a node lives from its birth to its split.

    Parameters
    ----------
    model : forest, or MondrianPartition
    tree : int, default=0
        Which tree of the forest.
    max_depth : int, default=None
        How deep the tree is drawn; what is below becomes a triangle. None means as deep as 24 ends
        of branches allow.
    scale : {"auto", "linear", "log"}, default="auto"
        The scale of time. "log" is linear from 0 to the first split, and logarithmic from there;
        "auto" is "log" if the last split drawn is more than 20 times as late as the first.
    legend : bool, default=True
        Whether there is a legend of classes and lines beside the axes.
    to_raw : callable, default=None
        Converts a threshold of a feature, given by its index, to the unit to show, if X was scaled.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes
        A split is labelled, where there is room, with what is true on its left. Below a leaf, or
        what is cut off, is the number of its samples, and in regression the mean of their labels,
        or of the residuals of a linear regression. The darker and broader a line, the
        larger the weight of the prunings that reach the node: those that end above it predict
        without it.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> from amforest.plotting import plot_tree
    >>> data = load_iris(as_frame=True)
    >>> ax = plot_tree(AMFClassifier(random_state=0).fit(data.data, data.target), max_depth=3)
    >>> plt.close(ax.figure)
    """
    if scale not in get_args(Scale):
        raise ValueError(f"scale is {scale!r}; it must be one of {get_args(Scale)}")
    if max_depth is not None:
        check_count(max_depth, "max_depth", 0)
    forest = None if isinstance(model, MondrianPartition) else check_forest(model)
    if forest is None:
        layout = lay_out(model.table, max_depth, scale, model.lifetime)
    else:
        tree = check_tree(forest, tree)
        table = forest.tree_table(tree)
        layout = lay_out(table, max_depth, scale)
    ax = get_axes(ax, (float(np.clip(2.5 + 0.3 * len(layout.ends), 6, 8)), 4.8))
    _set_axes(ax, layout)
    _draw_lines(ax, layout, forest, legend=legend)
    _draw_ends(ax, layout, forest, legend=legend)
    ax.set_xlabel(_explanation(layout, forest, tree))
    lines = [line for path in _paths(layout) for line in pairwise(path)]
    place_labels(ax, _split_labels(layout, forest, tree, to_raw), lines)
    return ax


def _set_axes(ax: Axes, layout: Layout) -> None:
    if layout.linear_until is not None:
        ax.set_yscale("symlog", linthresh=layout.linear_until, linscale=0.3)
        ax.set_yticks(_log_ticks(layout.linear_until, layout.bottom))
        ax.minorticks_off()
    ax.set(xlim=(-0.7, len(layout.ends) - 0.3), ylim=(layout.bottom, 0))
    ax.set_ylabel("time")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.spines[["top", "right", "bottom"]].set_visible(False)


def _log_ticks(first: float, last: float) -> Floats:
    """Return 0 and round times from the first to the last: powers of ten if there are enough."""
    decades = 10.0 ** np.arange(np.floor(np.log10(first)), np.ceil(np.log10(last)) + 1)
    for digits in ([1], [1, 3], [1, 2, 5]):
        ticks = np.outer(decades, digits).ravel()
        ticks = ticks[(ticks > first) & (ticks <= last)]
        if len(ticks) >= 3:
            break
    return np.append(0.0, ticks)


def _paths(layout: Layout) -> list[list[tuple[float, float]]]:
    """Return the line of each node: from its parent's split across, then down to its own."""
    x, parents = layout.x, layout.table["parent"]
    paths = []
    for v in layout.shown:
        start = x[v] if parents[v] < 0 else x[parents[v]]
        begin, end = layout.begin[v], layout.end[v]
        paths.append([(start, begin), (x[v], begin), (x[v], end)])
    return paths


def _draw_lines(ax: Axes, layout: Layout, forest: Estimator | None, *, legend: bool) -> None:
    hidden = layout.ends[layout.is_cut]
    styles = ["--" if v in hidden else "-" for v in layout.shown]
    lines = LineCollection(_paths(layout), linestyles=styles, zorder=1)
    if getattr(forest, "use_aggregation", False):
        weights = compute_reach(layout)
        lines.set(array=weights, cmap=INK, norm=Normalize(0, 1))
        lines.set_linewidth((0.7 + 1.3 * weights).tolist())
        if legend:
            beside = ax.inset_axes((1.01, 0.0, 0.02, 0.6))
            label = "weight of the prunings\nthat reach a node"
            ax.figure.colorbar(lines, cax=beside, label=label)
    else:
        lines.set(color=DARK, linewidth=1.0)
    ax.add_collection(lines, autolim=False)
    splits = layout.splits
    ax.plot(layout.x[:1], [0.0], "o", color="black", markersize=5, clip_on=False)
    style: dict[str, Any] = {"markersize": 4.5, "markerfacecolor": "white"}
    ax.plot(layout.x[splits], layout.end[splits], "o", markeredgecolor=DARK, **style)


def _draw_ends(ax: Axes, layout: Layout, forest: Estimator | None, *, legend: bool) -> None:
    """Draw leaves, by class if there are classes, and triangles where the tree goes on."""
    nodes, cut = layout.table[layout.ends], layout.is_cut

    def draw(some: NDArray[np.bool_], **style: Any) -> None:
        x = layout.x[layout.ends[some]]
        y = np.full(len(x), layout.bottom)
        if len(x):  # a line without points would have its place in the corner of the figure
            ax.plot(x, y, linestyle="", clip_on=False, zorder=3, **style)

    draw(cut, marker="v", color=DARK, markersize=7)
    ax.set_xticks([])
    if forest is None:
        return
    is_empty = nodes["n_samples"] == 0
    draw(is_empty & ~cut, marker="o", color=DARK, markersize=4, markerfacecolor="white")
    if is_classifier(forest):
        best = nodes["counts"].argmax(axis=1)
        for k in range(len(forest.classes_)):
            draw(
                (best == k) & ~is_empty & ~cut,
                marker=get_marker(k),
                color=get_colour(k),
                markersize=5.5,
            )
        if legend:
            add_class_legend(ax, forest.classes_)
    else:
        draw(~is_empty & ~cut, marker="o", color=DARK, markersize=4)
    labels = [_end_label(node) for node in nodes]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    inches = ax.get_window_extent().width / ax.figure.dpi
    upright = len(nodes) * (longest + 1) * FONT_SIZE <= 90 * inches  # a letter is about 0.6 high
    if not upright:
        labels = [label.replace("\n", " ") for label in labels]
    ax.set_xticks(layout.x[layout.ends], labels)
    rotation = 0 if upright else 90
    ax.tick_params(axis="x", length=0, pad=7, labelsize=FONT_SIZE, labelrotation=rotation)


def _end_label(node: Any) -> str:
    """Return the number of samples in a node, and the mean of their labels if they have one."""
    count = f"{node['n_samples']:,.6g}"
    if "mean" not in node.dtype.names or not node["n_samples"]:
        return count
    return f"{_number(node['mean'])}\n({count})"


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _explanation(layout: Layout, forest: Estimator | None, tree: int) -> str:
    """Say what the labels below the tree are, and how much of it is drawn."""
    parts = []
    if forest is not None:
        mean = "mean residual" if learns_residuals(forest, tree) else "mean"
        parts.append("samples" if is_classifier(forest) else f"{mean} and number of samples")
    if layout.is_cut.any():
        parts.append(
            f"▼ goes on: depth {layout.depth} of {layout.full_depth}, "
            f"{len(layout.shown):,} of {len(layout.table):,} nodes"
        )
    return "      ".join(parts)


def _split_labels(
    layout: Layout, forest: Estimator | None, tree: int, to_raw: ToRaw | None
) -> Iterator[tuple[Place, str]]:
    """Yield the places of the splits, the earliest first, and what is true on their left."""
    width = layout.table["lower"].shape[1]
    names = [f"feature {j}" for j in range(width)] if forest is None else get_feature_names(forest)
    splits = layout.splits
    words = None if forest is None else SplitWords(forest, tree, to_raw)
    for v in splits[np.argsort(layout.end[splits], kind="stable")]:
        node = layout.table[v]
        name = names[int(node["feature"])]
        if words is None:
            text = f"{name} ≤ {_number(node['threshold'])}"
        else:
            text = words.sides(node, name)[0]
        yield (float(layout.x[v]), float(layout.end[v])), text
