"""The figures of the report, as SVG with the colours and the font of the page around it."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from amforest.cli.report.markup import plain
from amforest.evaluation import Progress
from amforest.plotting import plot_progress, plot_reliability
from amforest.plotting.colours import COLOURS

Floats = NDArray[np.float64]

INK = "#010203"  # replaced by the colour of the text around
BLUE, RED = COLOURS[0].lower(), COLOURS[1].lower()
INKS = {INK: "currentColor", BLUE: "var(--blue)", RED: "var(--red)"}
STYLE: dict[Any, Any] = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "grid.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "amforest",
    "text.parse_math": False,  # a class may be called $x$
}
WIDTH, HEIGHT = 4.4, 3.0  # inches
LEFT, RIGHT = 0.8, 0.3  # inches beside figures over the rows, so that their axes are aligned
STRIP, BELOW = 0.3, 0.5  # inches for each memory, and for the axis below
MOST_POINTS = 2_000
GROUPS = 20  # of predictions, each with its median residual
LONGEST_NAME = 30
NUMBERS = {"d", "x", "y", "width", "height", "transform"}  # attributes that hold numbers
REFERENCES = ("href", "clip-path")  # attributes that name another node


def draw_progress(progress: Progress, metric: str, title: str) -> str | None:
    """Draw a metric over all rows so far and over the last ones; None without enough points."""
    values = np.concatenate([progress.curve[metric], progress.curve[f"{metric}_window"]])
    if np.isfinite(values).sum() <= 2:
        return None
    with _drawing(WIDTH, HEIGHT) as ax:
        plot_progress(progress, metric, legend=False, ax=ax)
        ax.lines[0].set_linewidth(1.1)  # the dashed one: thinner lines fade on a phone
        ax.set(xlim=(0, progress.curve["row"][-1]), ylim=_limits(progress, metric, ax), ylabel="")
        _align(ax, above=0.1)
        last = f"{progress.metrics[metric]:.5g} over all rows"
        return _svg(ax, f"{title} against rows learned: {last} at the end", f"progress-{metric}")


def draw_memories(history: Mapping[str, NDArray[Any]]) -> str | None:
    """Draw the weights of the memories over the rows as strips; None without enough points.

    Parameters
    ----------
    history : mapping
        Numbers of rows under "row", and the weights of each memory under its name.
    """
    rows, weights = history["row"], {k: v for k, v in history.items() if k != "row"}
    if len(rows) <= 2:
        return None
    most = max(float(np.abs(values).max()) for values in weights.values()) or 1.0
    last = max(weights, key=lambda memory: weights[memory][-1])
    with _drawing(WIDTH, STRIP * (len(weights) + 1) + BELOW) as ax:
        for k, values in enumerate(weights.values()):
            heights = 0.9 * values / most
            ax.axhline(-k, color=INK, linewidth=0.4, alpha=0.4)
            ax.fill_between(rows, -k, -k + np.maximum(heights, 0), color=BLUE, linewidth=0)
            if heights.min() < 0:
                ax.fill_between(rows, -k, -k + np.minimum(heights, 0), color=RED, linewidth=0)
        ax.set_yticks(-np.arange(len(weights)) + 0.3, [plain(name) for name in weights])
        ax.tick_params(axis="y", length=0, labelsize=8)
        ax.spines["left"].set_visible(False)
        ax.set(xlim=(0, rows[-1]), ylim=(-len(weights) + 0.7, 1.05), xlabel="rows learned")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.grid(axis="x", alpha=0.25, linewidth=0.6)
        _align(ax, above=0.05)
        label = f"Weights of the memories against rows learned: {last} has the largest at the end"
        return _svg(ax, label, "memories")


def _align(ax: Axes, *, above: float) -> None:
    """Set the margins, instead of choosing them by the widths of labels."""
    figure: Any = ax.figure
    width, height = figure.get_size_inches()
    figure.set_layout_engine(None)
    figure.subplots_adjust(
        left=LEFT / width, right=1 - RIGHT / width, bottom=BELOW / height, top=1 - above / height
    )


def _limits(progress: Progress, metric: str, ax: Axes) -> tuple[float, float]:
    """Ignore the start of both curves, whose values are those of a few rows."""
    rows = progress.curve["row"]
    late = rows >= 0.02 * rows[-1]
    pair = [progress.curve[metric][late], progress.curve[f"{metric}_window"][late]]
    values = np.concatenate(pair)
    values = values[np.isfinite(values)]
    if not len(values) or not _are_apart(values.min(), values.max()):
        return ax.get_ylim()
    room = 0.06 * (values.max() - values.min())
    return values.min() - room, values.max() + room


def _are_apart(low: float, high: float) -> bool:
    """Tell whether two numbers are far enough apart for an axis."""
    return high - low > 1e-9 * max(abs(low), abs(high))


def draw_reliability(occurred: NDArray[np.bool_], p: Floats, event: str) -> str:
    """Draw the frequency of an event against its predicted probability."""
    shown = plain(event, LONGEST_NAME)
    with _drawing(WIDTH, 3.9) as ax:
        plot_reliability(occurred.astype(int), p, ax=ax)
        ax.set_ylabel(f"frequency of {shown}")
        ax.child_axes[0].set_xlabel(f"predicted probability of {shown}")
        gap = f"{p.mean():.1%} predicted and {occurred.mean():.1%} observed on average"
        label = f"Frequency against predicted probability of {plain(event)}: {gap}"
        return _svg(ax, label, "reliability")


def draw_residuals(labels: Floats, predictions: Floats) -> tuple[str, str]:
    """Draw residuals against predictions, and their histogram."""
    errors = labels - predictions
    about = f"median {np.median(errors):.5g}, standard deviation {errors.std():.5g}"
    with _drawing(WIDTH, HEIGHT) as ax:
        every = -(-len(errors) // MOST_POINTS)
        ax.scatter(predictions[::every], errors[::every], s=6, alpha=0.35, color=BLUE, linewidth=0)
        ax.axhline(0, color=INK, linewidth=0.6)
        ax.plot(*_medians(predictions, errors), color=RED, linewidth=1.6)
        ax.set(xlabel="prediction", ylabel="label − prediction")
        scatter = _svg(ax, f"Residuals against predictions: {about}", "residuals")
    with _drawing(WIDTH, HEIGHT) as ax:
        ax.hist(errors, bins=40, range=_middle(errors), color=BLUE, alpha=0.8)
        ax.axvline(0, color=INK, linewidth=0.6)
        ax.set(xlabel="label − prediction", ylabel="rows")
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.yaxis.set_major_formatter("{x:,.0f}")
        histogram = _svg(ax, f"Histogram of residuals: {about}", "histogram")
    return scatter, histogram


def _medians(predictions: Floats, errors: Floats) -> tuple[list[float], list[float]]:
    """Return the median prediction and residual of groups of equal size."""
    parts = np.array_split(np.argsort(predictions, kind="stable"), min(GROUPS, len(errors)))
    x, y = ([float(np.median(v[part])) for part in parts] for v in (predictions, errors))
    return x, y


def _middle(errors: Floats) -> tuple[float, float]:
    """Return limits without the outer 1 % of the residuals, which would dwarf all others."""
    low, high = np.quantile(errors, [0.005, 0.995]).tolist()
    room = 0.0 if _are_apart(low, high) else 0.5 * max(abs(low), 1.0)
    return low - room, high + room


def count_outside(errors: Floats) -> int:
    """Return the number of residuals outside the histogram."""
    low, high = _middle(errors)
    return int(((errors < low) | (errors > high)).sum())


# From matplotlib to the page


@contextmanager
def _drawing(width: float, height: float) -> Iterator[Axes]:
    """Yield the axes of a figure; the user's own style does not apply."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        # The browser has other fonts; here only the widths of characters are needed.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield Figure(figsize=(width, height), layout="constrained").add_subplot()


def _svg(ax: Axes, label: str, key: str) -> str:
    """Return the figure as an element of HTML; its ids begin with the key."""
    buffer = io.BytesIO()
    ax.figure.canvas.print_figure(buffer, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for node in root.iter():
        _simplify(node)
    used = {target for node in root.iter() for target in _targets(node)}
    for node in root.iter():
        _rename(node, key, used)
    inner = "".join(ElementTree.tostring(child, encoding="unicode") for child in root)
    box = root.attrib["viewBox"]
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(label)}">{inner}</svg>'


def _simplify(node: Any) -> None:
    """Remove namespaces and fonts, name colours by variables, and shorten numbers."""
    attributes = {name.rpartition("}")[2]: value for name, value in node.attrib.items()}
    style = re.sub(
        "#[0-9a-f]{6}", lambda ink: INKS.get(ink[0], ink[0]), attributes.get("style", "")
    )
    if style:
        style = re.sub(r"font-family: [^;]*(; |$)", "", style)
        attributes["style"] = re.sub(r"font: (\S+) [^;]*", r"font-size: \1", style)
    for name in NUMBERS.intersection(attributes):
        attributes[name] = re.sub(
            r"-?\d+\.\d{3,}", lambda digits: f"{float(digits[0]):.2f}", attributes[name]
        )
    node.tag = node.tag.rpartition("}")[2]
    node.attrib.clear()
    node.attrib.update(attributes)


def _targets(node: Any) -> list[str]:
    """Return the ids that a node refers to, as ``#id`` or ``url(#id)``."""
    values = [node.attrib[name] for name in REFERENCES if name in node.attrib]
    return [value.partition("#")[2].rstrip(")") for value in values]


def _rename(node: Any, key: str, used: set[str]) -> None:
    """Make ids unique in the page, and drop those that nothing refers to."""
    own = node.attrib.pop("id", None)
    if own in used:
        node.set("id", f"{key}-{own}")
    for name in REFERENCES:
        if name in node.attrib:
            node.set(name, node.get(name).replace("#", f"#{key}-"))
