"""Where the nodes of a tree are drawn, and where there is room for labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from amforest.plotting._model_data import Floats, Table

Rows = NDArray[np.intp]
Scale = Literal["auto", "linear", "log"]
Place = tuple[float, float]
MOST_ENDS = 24  # of branches that are drawn by default
FONT_SIZE = 7.5
# In points from the place that is labelled, in the order of preference.
PLACES = ((5, 3, "left", "bottom"), (-5, 3, "right", "bottom"), (0, -5, "center", "top"))


@dataclass(frozen=True)
class Layout:
    """Where nodes are drawn; `x`, `begin` and `end` have an entry for each row of the table.

    Attributes
    ----------
    table : structured ndarray
        The tree.
    shown : ndarray
        The rows that are drawn, parents first and left before right.
    ends : ndarray
        Those at the bottom: leaves, and nodes whose children are cut off.
    x : ndarray
        Ends are at 0, 1, 2, …, other nodes in the middle of their children.
    begin, end : ndarray
        When nodes are born, and split. Ends are drawn to `bottom`.
    bottom : float
        The time at the lower edge.
    linear_until : float or None
        Where a logarithmic scale of time begins; None means nowhere.
    depth, full_depth : int
        Of what is drawn, and of the tree.
    """

    table: Table
    shown: Rows
    ends: Rows
    x: Floats
    begin: Floats
    end: Floats
    bottom: float
    linear_until: float | None
    depth: int
    full_depth: int

    @property
    def splits(self) -> Rows:
        """The rows whose split is drawn."""
        return self.shown[~np.isin(self.shown, self.ends)]

    @property
    def is_cut(self) -> NDArray[np.bool_]:
        """Which of the ends have children."""
        return np.asarray(self.table["left"][self.ends] >= 0)


def lay_out(
    table: Table, max_depth: int | None, scale: Scale, lifetime: float | None = None
) -> Layout:
    """Place the nodes of a tree, down to a depth, or as deep as there is room for."""
    depth, is_leaf = _depths(table), table["left"] < 0
    full_depth = int(depth.max())
    if max_depth is None:
        max_depth = _fitting_depth(depth, is_leaf)
    is_end = is_leaf | (depth >= max_depth)
    shown = _preorder(table, is_end)
    splits, ends = shown[~is_end[shown]], shown[is_end[shown]]
    x, end = np.full((2, len(table)), np.nan)
    x[ends] = np.arange(len(ends))
    for v in splits[::-1]:  # children first
        x[v] = (x[table["left"][v]] + x[table["right"][v]]) / 2
    end[splits] = table["birth_time"][table["left"][splits]]
    linear_until, bottom = _time(end[splits], scale)
    end[ends] = bottom = lifetime or bottom
    return Layout(
        table=table,
        shown=shown,
        ends=ends,
        x=x,
        begin=table["birth_time"].astype(np.float64),
        end=end,
        bottom=bottom,
        linear_until=linear_until,
        depth=min(max_depth, full_depth),
        full_depth=full_depth,
    )


def _time(splits: Floats, scale: Scale) -> tuple[float | None, float]:
    """Return where a logarithmic scale begins, if any, and a time a little after the last split."""
    if not len(splits):
        return None, 1.0
    first, last = float(splits.min()), float(splits.max())
    if scale == "linear" or first == 0 or (scale == "auto" and last <= 20 * first):
        return None, 1.1 * last
    return first, last * max((last / first) ** 0.1, 1.1)


def _preorder(table: Table, is_end: NDArray[np.bool_]) -> Rows:
    shown, stack = [], [0]
    while stack:
        v = stack.pop()
        shown.append(v)
        if not is_end[v]:
            stack += [int(table["right"][v]), int(table["left"][v])]
    return np.array(shown)


def _depths(table: Table) -> Rows:
    if "depth" in (table.dtype.names or ()):
        return table["depth"].astype(np.intp)
    depth = np.zeros(len(table), dtype=np.intp)
    for v, parent in enumerate(table["parent"].tolist()[1:], start=1):  # parents come first
        depth[v] = depth[parent] + 1
    return depth


def _fitting_depth(depth: Rows, is_leaf: NDArray[np.bool_]) -> int:
    """Return the largest depth at which not too many branches end, be they leaves or cut."""
    at = np.bincount(depth)
    leaves_above = np.cumsum(np.append(0, np.bincount(depth[is_leaf], minlength=len(at))))[:-1]
    return int(np.flatnonzero(at + leaves_above <= MOST_ENDS)[-1])


def compute_reach(layout: Layout) -> Floats:
    """Return the weight of the prunings that reach each node drawn, in the order of `shown`.

    It is Π (1 - share) over the nodes above.
    """
    table, weights = layout.table, np.ones(len(layout.table))
    for v in layout.shown[1:]:
        parent = table["parent"][v]
        weights[v] = weights[parent] * (1 - table["share"][parent])
    return weights[layout.shown]


def place_labels(
    ax: Axes, labels: Iterable[tuple[Place, str]], lines: Iterable[tuple[Place, Place]]
) -> None:
    """Write labels, the most important first, unless they would cover a line or another label.

    Lines run along the axes.
    """
    ax.figure.figure.draw_without_rendering()  # only now the size of the axes is known
    ends = ax.transData.transform(np.array(list(lines)).reshape(-1, 2)).reshape(-1, 2, 2)
    taken = [*np.hstack([ends.min(axis=1) - 1, ends.max(axis=1) + 1])]
    frame = ax.get_window_extent()
    for place, text in labels:
        for dx, dy, ha, va in PLACES:
            label = ax.annotate(text, place, (dx, dy), textcoords="offset points")
            label.set(fontsize=FONT_SIZE, ha=ha, va=va, annotation_clip=False)
            box = np.array(label.get_window_extent().extents)
            # Saved at another resolution, text may become a tenth wider: letters have whole pixels.
            room = 0.1 * (box[2] - box[0])
            box += [-room * (ha != "left"), 0, room * (ha != "right"), 0]
            inside = frame.x0 < box[0] and box[2] <= frame.x1 and frame.y0 <= box[1]
            if inside and not _overlaps(box, np.array(taken)):
                taken.append(box)
                break
            label.remove()


def _overlaps(box: Floats, others: Floats) -> bool:
    """Return whether a box (left, bottom, right, top) has a point in common with one of others."""
    apart = (others[:, 2:] < box[:2]) | (others[:, :2] > box[2:])
    return bool((~apart.any(axis=1)).any())
