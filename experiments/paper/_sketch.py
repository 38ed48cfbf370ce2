"""Drawings of small trees and of their cells in the unit square, as in Figures 3 to 6."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from experiments.paper._trees import Tree

# Each colour has a sign of its own too, for print in grey: broad, dashed, dotted.
NEW: dict[str, Any] = {"color": "#D55E00", "linewidth": 2.0}
MOVED: dict[str, Any] = {"color": "#0072B2", "linewidth": 1.2, "linestyle": (0, (4, 2))}
RANGE: dict[str, Any] = {"color": "#009E73", "linewidth": 1.4, "linestyle": (0, (1, 1))}
PLAIN: dict[str, Any] = {"color": "0.15", "linewidth": 1.0}
BOLD, FONT_SIZE = 3.0, 9


def draw_cells(ax: Axes, tree: Tree, styles: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Draw the splits, each through its node's cell; `styles` is by the node's name."""
    lower, upper = tree.cells()
    for v in np.flatnonzero(~tree.is_leaf):
        j = int(tree.table["feature"][v])
        ends = np.stack([lower[v], upper[v]])
        ends[:, j] = tree.table["threshold"][v]
        style = PLAIN | dict((styles or {}).get(tree.names[v], {}))
        ax.add_collection(LineCollection([ends], capstyle="butt", **style))
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])


def draw_points(ax: Axes, tree: Tree, *, red: Sequence[int] = ()) -> None:
    """Draw the samples x_1, x_2, …; red ones are diamonds.

    Their names are on the outer sides, or on the inner ones where a split is near.
    """
    lower, upper = (corner[tree.leaves] for corner in tree.cells())
    outer = np.where(tree.X.mean(axis=0) <= tree.X, 1, -1)
    room = np.where(outer > 0, upper - tree.X, tree.X - lower)
    signs = np.where(room > 0.12, outer, -outer)
    for i, (place, (right, up)) in enumerate(zip(tree.X, signs, strict=True)):
        is_red = i in red
        colour = NEW["color"] if is_red else "black"
        style: dict[str, Any] = {"color": colour, "marker": "D" if is_red else "o"}
        ax.plot(*([u] for u in place), linestyle="", markersize=5.5, zorder=4, **style)
        where: dict[str, Any] = {"xytext": (6 * right, 7 * up), "textcoords": "offset points"}
        text = ax.annotate(sample(i), tuple(place), **where, fontsize=FONT_SIZE + 1)
        text.set(color=colour, ha="left" if right > 0 else "right", va="center")


def draw_range(ax: Axes, tree: Tree, name: str) -> None:
    """Draw R_v, the box of the samples of a node."""
    node = tree.table[tree.row[name]]
    size = node["upper"] - node["lower"]
    ax.add_patch(Rectangle(node["lower"], *size, fill=False, zorder=3, **RANGE))


def mark_node(ax: Axes, tree: Tree, name: str) -> None:
    """Mark a node of a tree that is drawn whole by a green square."""
    place = places(tree, np.flatnonzero(tree.is_leaf).tolist())[tree.row[name]]
    ax.plot(*([u] for u in place), marker="s", markersize=8, color=RANGE["color"], zorder=5)


def write_times(ax: Axes, tree: Tree) -> None:
    """Write beside each split of a tree that is drawn whole when it came."""
    for v, place in places(tree, np.flatnonzero(tree.is_leaf).tolist()).items():
        if not tree.is_leaf[v]:
            time = tree.table["birth_time"][tree.table["left"][v]]
            is_left = tree.names[v].endswith("0")  # the line from above is on the right
            where: dict[str, Any] = {"xytext": (-8 if is_left else 8, 3)}
            text = ax.annotate(f"τ = {time:.2f}", place, **where, textcoords="offset points")
            text.set(fontsize=FONT_SIZE, ha="right" if is_left else "left")


def sample(i: int) -> str:
    """Return the name of a sample, counted from 0, as it is written in a drawing."""
    return f"$x_{i + 1}$"


def places(tree: Tree, ends: Collection[int]) -> dict[int, tuple[float, float]]:
    """Return where nodes are drawn: ends at 0, 1, 2, …, others above them; depth downwards."""
    place: dict[int, tuple[float, float]] = {}

    def put(v: int) -> float:
        if v in ends:
            x = float(sum(u in ends for u in place))
        else:
            x = (put(int(tree.table["left"][v])) + put(int(tree.table["right"][v]))) / 2
        place[v] = x, -float(tree.table["depth"][v])
        return x

    put(0)
    return place


def draw_tree(
    ax: Axes,
    tree: Tree,
    *,
    ends: Collection[int] | None = None,
    path: Sequence[str] = (),
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    names: bool = True,
) -> dict[int, tuple[float, float]]:
    """Draw the tree, or the pruning that has the given ends; return where its nodes are.

    `path` is bold, and `styles` are those of the lines above nodes, by name.
    """
    ends = np.flatnonzero(tree.is_leaf).tolist() if ends is None else ends
    place = places(tree, ends)
    for v, (x, y) in place.items():
        parent = int(tree.table["parent"][v])
        if parent < 0:
            continue
        style = PLAIN | dict((styles or {}).get(tree.names[v], {}))
        style["linewidth"] = BOLD if tree.names[v] in path else 1.0
        ax.plot([place[parent][0], x], [place[parent][1], y], zorder=2, **style)
    for v in ends:
        _draw_end(ax, tree, v, place[v], names=names)
    xs, ys = zip(*place.values(), strict=True)
    ax.set(xlim=(min(xs) - 0.6, max(xs) + 0.6), ylim=(min(ys) - 0.6, 0.3))
    ax.set_axis_off()
    return place


def _draw_end(ax: Axes, tree: Tree, v: int, place: tuple[float, float], *, names: bool) -> None:
    """Draw a leaf, filled unless it is empty, and the names of its samples below."""
    fill = "white" if tree.is_empty[v] else "black"
    style: dict[str, Any] = {"markeredgecolor": "black", "markerfacecolor": fill, "zorder": 4}
    ax.plot(*([u] for u in place), marker="o", markersize=6, **style)
    if names:
        inside = [i for i, leaf in enumerate(tree.leaves) if leaf == v]
        where: dict[str, Any] = {"xytext": (0, -6), "textcoords": "offset points"}
        text = ax.annotate(", ".join(map(sample, inside)), place, **where, fontsize=FONT_SIZE + 1)
        text.set(ha="center", va="top")
