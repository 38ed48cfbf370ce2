"""What Figures 4 and 6 share: a tree before and after a sample, drawn and compared node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.paper._findings import Table
from experiments.paper._sketch import FONT_SIZE, draw_cells, draw_points, draw_tree
from experiments.paper._trees import Tree

Styles = Mapping[str, Mapping[str, Any]]
KEPT = ("feature", "threshold", "counts", "odds", "odds_scale", "lower", "upper", "birth_time")
HEADINGS = ("node", "w", "w̄", "ŷ(1)")


def origins(before: Tree, after: Tree) -> dict[str, str | None]:
    """Return the last sample's path: for each node, that whose weights it had before the label.

    A node that is split hands its weights down to the part with its samples; the new leaf has none.
    """
    old, new = before.path(after.X[-1]), after.path(after.X[-1])
    above = {name: name if name in old else old[-1] for name in new[:-1]}
    return {**above, new[-1]: None}


def same_nodes(before: Tree, after: Tree, names: Mapping[str, str], *, but: str = "") -> bool:
    """Return whether nodes, given with their new names, are equal in all fields but one."""
    old = before.table[[before.row[name] for name in names]]
    new = after.table[[after.row[name] for name in names.values()]]
    return all(np.array_equal(old[name], new[name]) for name in KEPT if name != but)


def weights_error(before: Tree, after: Tree) -> float:
    """Return the largest relative error of the weights after the update.

    On the path w must be w exp(-loss) = w ŷ(y); w̄ and the odds that the core keeps follow from w.
    """
    y, error = int(after.y[-1]), after.odds_error()
    for name, origin in origins(before, after).items():
        w, _, prediction = _start(before, origin)
        likelihood = prediction if y == 1 else 1 - prediction
        error = max(error, abs(w * likelihood / float(after.w[after.row[name]]) - 1))
    return error


def _start(before: Tree, origin: str | None) -> tuple[float, float, float]:
    """Return w, w̄ and ŷ(1) before the label; a new leaf has 1, 1 and h(∅)."""
    if origin is None:
        return 1.0, 1.0, 0.5
    v = before.row[origin]
    return float(before.w[v]), float(before.w_bar[v]), float(before.predictions[v, 1])


def _changes(before: Tree, after: Tree) -> dict[str, list[tuple[float, float]]]:
    """Return w, w̄ and ŷ(1) before and after the label, for each node of the path."""
    changes = {}
    for name, origin in origins(before, after).items():
        v = after.row[name]
        end = float(after.w[v]), float(after.w_bar[v]), float(after.predictions[v, 1])
        changes[name] = list(zip(_start(before, origin), end, strict=True))
    return changes


def path_table(before: Tree, after: Tree) -> Table:
    """Return weights and predictions on the path of the last sample, before and after its label."""
    headings = [
        "node",
        *(f"{what} {when}" for what in HEADINGS[1:] for when in ("before", "after")),
    ]
    rows = [
        [name or "root", *(f"{number:.4f}" for pair in pairs for number in pair)]
        for name, pairs in _changes(before, after).items()
    ]
    return Table(headings, rows)


@dataclass(frozen=True)
class Look:
    """How splits are drawn in the square, and in the tree the lines above nodes, by names."""

    splits: Styles = field(default_factory=dict)
    nodes: Styles = field(default_factory=dict)


def draw_update(before: Tree, after: Tree, looks: tuple[Look, Look]) -> Figure:
    """Draw cells and tree before and after, and what changes on the path of the last sample.

    The axes are, row by row: cells, tree, nothing; cells, tree, numbers.
    """
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    axes = figure.subplots(2, 3, width_ratios=[2.5, 3.0, 4.1])
    last = len(after.X) - 1
    for row, tree, look, path in zip(
        axes, (before, after), looks, ([], after.path(after.X[-1])), strict=True
    ):
        draw_cells(row[0], tree, look.splits)
        draw_points(row[0], tree, red=[last])
        draw_tree(row[1], tree, path=path, styles=look.nodes)
    for ax in axes[:, 1:].flat:  # levels are equally high in all of them
        ax.set_ylim(axes[1, 1].get_ylim()[0], 0.6)
    _write_numbers(axes[1, 2], before, after)
    for ax, when in zip(axes[:, 0], ("Before", "After"), strict=True):
        ax.set_title(f"{when} sample {last + 1}", fontsize=11)
    return figure


def _write_numbers(ax: Axes, before: Tree, after: Tree) -> None:
    """Write what changes on the path, each node at its height in the tree."""
    columns = (0.08, 0.28, 0.58, 0.87)
    how: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FONT_SIZE}
    for x, heading in zip(columns, HEADINGS, strict=True):
        ax.text(x, 0.5, heading, weight="bold", **how)
    for depth, (name, pairs) in enumerate(_changes(before, after).items()):
        changes = [f"{old:.3f} → {new:.3f}" for old, new in pairs]
        for x, text in zip(columns, [name or "root", *changes], strict=True):
            ax.text(x, -depth, text, **how)
    ax.set_title("Updates along the path", fontsize=11)
    ax.set_xlim(0, 1)
    ax.set_axis_off()


def explain(ax: Axes, handles: Sequence[Line2D]) -> None:
    """Explain the signs of a drawing in axes of their own."""
    ax.set_axis_off()
    ax.legend(handles=handles, loc="center left", frameon=False, fontsize=FONT_SIZE)


def sign(label: str, **style: Any) -> Line2D:
    """Return an entry for `explain`."""
    return Line2D([], [], label=label, **{"color": "black"} | style)
