"""The figures of the report, as SVG with the colours and the font of the page around it."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
from amforest.inspection import Explanation
from amforest.inspection.terms import select_output
from amforest.plotting import (
    plot_contribution_swarm,
    plot_memory_weights,
    plot_predictions,
    plot_progress,
    plot_reliability,
)
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
BROAD = 9.2  # inches: as wide as two figures and the gap between them
PROGRESS = 2.4  # inches: the height of a metric over the rows
LEFT, RIGHT = 0.7, 0.9  # inches beside figures over the rows, so that their axes are aligned
MEMORIES, BELOW = 3.4, 0.5  # inches: the height of the memories, and of what is below an axis
LINE, ABOVE = 0.36, 0.4  # inches for a line of the swarm, and for its legend
MOST_POINTS = 2_000
ROWS_IN_BAND = 200  # the last rows, whose intervals are drawn
GROUPS = 20  # of predictions, each with its median residual
LONGEST_NAME = 30
NUMBERS = {"d", "x", "y", "width", "height", "transform"}  # attributes that hold numbers
REFERENCES = ("href", "clip-path")  # attributes that name another node


def draw_progress(
    progress: Progress,
    metric: str,
    title: str,
    *,
    nominal: float | None = None,
    drifts: Sequence[int] = (),
) -> str | None:
    """Draw a metric over all rows so far and over the last ones; None without enough points.

    `nominal` is the value that it should have; `drifts` are rows to mark.
    """
    values = np.concatenate([progress.curve[metric], progress.curve[f"{metric}_window"]])
    if np.isfinite(values).sum() <= 2:
        return None
    with _drawing(BROAD, PROGRESS) as ax:
        plot_progress(progress, metric, legend=False, ax=ax)
        ax.lines[0].set_linewidth(1.1)  # the dashed one: thinner lines fade on a phone
        low, high = _limits(progress, metric, ax)
        if nominal is not None:
            ax.axhline(nominal, color=RED, linewidth=1.0)
            low, high = min(low, nominal - 0.02), max(high, nominal + 0.02)
            ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        ax.set(xlim=(0, progress.curve["row"][-1]), ylim=(low, high), ylabel="")
        _mark(ax, drifts)
        _align(ax, above=0.1)
        last = f"{progress.metrics[metric]:.3g} over all rows"
        return _svg(ax, f"{title} against rows learned: {last} at the end", f"progress-{metric}")


def draw_memories(model: Any, *, drifts: Sequence[int] = ()) -> str | None:
    """Draw the weights of the memories over the rows; None without enough points.

    `drifts` are rows to mark.
    """
    rows, weights = model.memory_weights_history_
    if len(rows) <= 2:
        return None
    last = model.memory_names_[int(weights[-1].argmax())]
    with _drawing(BROAD, MEMORIES) as ax:
        plot_memory_weights(model, ax=ax)
        ax.set_ylabel("")
        _mark(ax, drifts)
        _align(ax, above=0.1)
        label = f"Weights of the memories against rows learned: {last} has the largest at the end"
        return _svg(ax, label, "memories")


def draw_swarm(explanation: Explanation) -> str:
    """Draw the contributions of features to the predictions of some rows."""
    explanation = _without_control_characters(_without_zeros(select_output(explanation)))
    with _drawing(BROAD, HEIGHT) as ax:
        plot_contribution_swarm(explanation, ax=ax)
        n_lines = len(ax.get_yticks())
        figure: Any = ax.figure
        figure.set_size_inches(BROAD, LINE * n_lines + BELOW + ABOVE)
        largest = ax.get_yticklabels()[0].get_text()
        label = f"Contributions of features to {len(explanation)} predictions"
        return _svg(ax, f"{label}: those of {largest} are the largest", "swarm")


def _without_zeros(explanation: Explanation) -> Explanation:
    """Return an explanation without the features that contribute nothing to any row."""
    used = np.flatnonzero(explanation.values.any(axis=0))
    if not len(used):
        return explanation
    return replace(
        explanation,
        values=explanation.values[:, used],
        data=explanation.data[:, used],
        feature_names=[explanation.feature_names[j] for j in used.tolist()],
    )


def _without_control_characters(explanation: Explanation) -> Explanation:
    """Return an explanation whose words may stand in XML."""
    data = explanation.data.astype(object)
    for place, value in np.ndenumerate(data):
        if isinstance(value, str):
            data[place] = plain(value)
    names = [plain(name, LONGEST_NAME) for name in explanation.feature_names]
    label = explanation.output_names
    label = label if label is None else plain(label, LONGEST_NAME)
    return replace(explanation, data=data, feature_names=names, output_names=label)


def _mark(ax: Axes, rows: Sequence[int]) -> None:
    """Mark rows at which there was drift."""
    for row in rows:
        ax.axvline(row, color=RED, linewidth=1.2, linestyle=(0, (1, 1.5)))


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


def draw_intervals(
    labels: Floats,
    predictions: Floats,
    intervals: Floats,
    last_row: int,
    *,
    drifts: Sequence[int] = (),
) -> str:
    """Draw labels, predictions and intervals of the last rows, which end with row `last_row`."""
    last = slice(-ROWS_IN_BAND, None)
    rows = np.arange(last_row - len(labels), last_row)[last] + 1
    with _drawing(BROAD, HEIGHT) as ax:
        shown = labels[last], predictions[last], intervals[last]
        plot_predictions(*shown, rows=rows, legend=False, ax=ax)
        ax.set_xlim(rows[0] - 0.5, rows[-1] + 0.5)
        _mark(ax, [row for row in drifts if row >= rows[0]])
        is_inside = (intervals[last, 0] <= labels[last]) & (labels[last] <= intervals[last, 1])
        label = f"Labels, predictions and intervals of the last {len(rows)} rows"
        return _svg(ax, f"{label}: {is_inside.mean():.1%} of the labels are inside", "intervals")


def draw_residuals(
    labels: Floats, predictions: Floats, last_row: int, *, drifts: Sequence[int] = ()
) -> tuple[str, str, str]:
    """Draw residuals against rows, with drift, and against predictions, and their histogram."""
    errors = labels - predictions
    about = f"median {np.median(errors):.3g}, standard deviation {errors.std():.3g}"
    rows = np.arange(last_row - len(labels), last_row) + 1
    with _drawing(WIDTH, HEIGHT) as ax:
        _scatter(ax, rows.astype(np.float64), errors)
        ax.set(xlabel="row", ylabel="label − prediction")
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        _mark(ax, [row for row in drifts if row >= rows[0]])
        over_rows = _svg(ax, f"Residuals against rows: {about}", "residuals-rows")
    with _drawing(WIDTH, HEIGHT) as ax:
        _scatter(ax, predictions, errors)
        ax.set(xlabel="prediction", ylabel="label − prediction")
        scatter = _svg(ax, f"Residuals against predictions: {about}", "residuals")
    with _drawing(WIDTH, HEIGHT) as ax:
        ax.hist(errors, bins=40, range=_middle(errors), color=BLUE, alpha=0.8)
        ax.axvline(0, color=INK, linewidth=0.6)
        ax.set(xlabel="label − prediction", ylabel="rows")
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.yaxis.set_major_formatter("{x:,.0f}")
        histogram = _svg(ax, f"Histogram of residuals: {about}", "histogram")
    return over_rows, scatter, histogram


def _scatter(ax: Axes, x: Floats, errors: Floats) -> None:
    """Draw residuals, and the medians of groups of them."""
    every = -(-len(errors) // MOST_POINTS)
    ax.scatter(x[::every], errors[::every], s=6, alpha=0.35, color=BLUE, linewidth=0)
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.plot(*_medians(x, errors), color=RED, linewidth=1.6)


def _medians(x: Floats, errors: Floats) -> tuple[list[float], list[float]]:
    """Return the medians of groups of equal size, by rising x."""
    parts = np.array_split(np.argsort(x, kind="stable"), min(GROUPS, len(errors)))
    of_x, of_errors = ([float(np.median(v[part])) for part in parts] for v in (x, errors))
    return of_x, of_errors


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
