"""The contributions of features to many predictions: a dot for each row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea
from numpy.typing import NDArray
from scipy.stats import rankdata

from amforest.inspection import Explanation
from amforest.inspection.terms import (
    describe_output,
    describe_value,
    is_missing,
    name_features,
    select_output,
    shorten,
)
from amforest.plotting._model_data import Floats, check_count, get_axes
from amforest.plotting.colours import GREY, LOW_TO_HIGH, get_colour, get_ink

MOST_ROWS = 2_000
INCHES = 0.42  # for a feature
COLUMNS = 120  # over the width: dots in one are spread
MOST_NAMED = 4  # categories with a colour of their own
LONGEST = 12  # characters of a category


@dataclass(frozen=True)
class Line:
    """The dots of a feature, and the categories that have a colour."""

    contributions: Floats
    colours: NDArray[Any]
    categories: list[str]
    n_others: int = 0


def plot_contribution_swarm(
    explanation: Explanation,
    *,
    positive: Any = None,
    max_features: int = 10,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the contributions to many predictions: a line for each feature, a dot for each row.

    Parameters
    ----------
    explanation : Explanation
        What `explain` returns, of many rows.
    positive : class, default=None
        The class to draw. None means the second of two; of more, the one that is predicted for most
        rows.
    max_features : int, default=10
        How many features have a line of their own: those with the largest contributions, on
        average. The sums of the rest have one together.
    legend : bool, default=True
        Whether there is a legend for the colours.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes
        Dots are coloured by the rank of the feature's value, from low to high. Of a feature with
        categories, the most frequent ones have colours, named on the right. Missing values and
        other categories are grey. At most 2,000 rows are drawn, evenly spaced.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> from amforest.plotting import plot_contribution_swarm
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = AMFClassifier(random_state=0).fit(X, y)
    >>> ax = plot_contribution_swarm(forest.explain(X), positive=2)
    >>> plt.close(ax.figure)
    """
    explanation = select_output(_check_rows(explanation), positive)
    explanation = explanation[:: -(-len(explanation) // MOST_ROWS)]
    names, lines = _lines(explanation, check_count(max_features, "max_features", 1))
    ax = get_axes(ax, (8.0, INCHES * len(lines) + 1.1))
    ax.axvline(0, color=get_ink(), linewidth=0.6)
    every = np.concatenate([line.contributions for line in lines])
    width = float(np.ptp(every)) or 1.0
    for place, line in enumerate(lines):
        y = place + _spread(line.contributions, width)
        ax.scatter(line.contributions, y, s=9, c=line.colours, linewidths=0, zorder=2)
        if line.categories:
            _name_categories(ax, place, line)
    ax.set_yticks(range(len(lines)), names, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(len(lines) - 0.45, -0.55))
    ax.set_xlabel(f"contribution to the {describe_output(explanation)}", parse_math=False)
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    if legend:
        _add_legend(ax)
    return ax


def _check_rows(explanation: Explanation) -> Explanation:
    if not isinstance(explanation, Explanation):
        raise TypeError(f"explanation is {explanation!r}; it must be what `explain` returns")
    if explanation.axes[:2] != ("rows", "features"):
        raise ValueError(
            "explanation is of one row or feature; a swarm needs all: slice it with lists, as in "
            "explanation[[0]]"
        )
    if not len(explanation):
        raise ValueError("explanation has no rows; a swarm needs at least one")
    return explanation


def _lines(explanation: Explanation, max_features: int) -> tuple[list[str], list[Line]]:
    """Return the lines with their names, the largest first."""
    values = explanation.values
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable").tolist()
    if len(order) == max_features + 1:
        max_features += 1  # a line for the rest would take as much room
    own, rest = order[:max_features], order[max_features:]
    all_names = name_features(explanation)
    names = [shorten(all_names[j]) for j in own]
    lines = [_colour(values[:, j], explanation.data[:, j]) for j in own]
    if rest:
        names.append(f"{len(rest):,} other features")
        lines.append(
            Line(values[:, rest].sum(axis=1), np.tile(to_rgba(GREY), (len(values), 1)), [])
        )
    return names, lines


def _colour(contributions: Floats, data: NDArray[Any]) -> Line:
    """Colour the dots of a feature by its values."""
    known = np.array([not is_missing(value) for value in data.tolist()], dtype=bool)
    colours = np.tile(to_rgba(GREY), (len(data), 1))
    if any(isinstance(value, str) for value in data.tolist()):
        words = np.array([describe_value(value) for value in data.tolist()])
        counts = Counter(words[known].tolist())
        named = [word for word, _ in counts.most_common(MOST_NAMED)]
        for k, word in enumerate(named):
            colours[known & (words == word)] = to_rgba(get_colour(k))
        return Line(contributions, colours, named, len(counts) - len(named))
    if known.any():
        ranks = rankdata(data[known].astype(np.float64), "dense") - 1
        colours[known] = LOW_TO_HIGH(ranks / ranks.max() if ranks.any() else ranks + 0.5)
    return Line(contributions, colours, [])


def _spread(contributions: Floats, width: float) -> Floats:
    """Return how far each dot is moved up or down, so that few cover each other."""
    columns = np.floor(contributions / width * COLUMNS).astype(np.int64)
    offsets = np.zeros(len(columns))
    for column in np.unique(columns):
        inside = np.flatnonzero(columns == column)
        places = np.arange(len(inside))
        offsets[inside] = np.where(places % 2, 1, -1) * ((places + 1) // 2)
    most = np.abs(offsets).max(initial=0.0)
    spread: Floats = offsets * min(0.07, 0.4 / max(most, 1.0))
    return spread


def _name_categories(ax: Axes, place: int, line: Line) -> None:
    """Write the names of categories on the right, in their colours."""
    words = [shorten(word, LONGEST) for word in line.categories]
    colours = [get_colour(k) for k in range(len(words))]
    if line.n_others:
        words, colours = [*words, f"+ {line.n_others:,}"], [*colours, GREY]
    areas: list[Any] = [
        TextArea(word, textprops={"color": colour, "size": 8, "parse_math": False})
        for word, colour in zip(words, colours, strict=True)
    ]
    box = HPacker(children=areas, pad=0, sep=5)
    ax.add_artist(
        AnnotationBbox(
            box,
            (1.01, place),
            xycoords=ax.get_yaxis_transform(),
            box_alignment=(0, 0.5),
            frameon=False,
            pad=0,
        )
    )


def _add_legend(ax: Axes) -> None:
    """Explain the colours above the axes."""
    shades = [LOW_TO_HIGH(place) for place in (0.0, 0.5, 1.0)]
    dots = [ax.scatter([], [], s=16, color=colour, linewidths=0) for colour in [*shades, GREY]]
    names = ["low value", "middle", "high value", "missing, or other"]
    ax.legend(
        dots,
        names,
        ncols=4,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        handletextpad=0.1,
        columnspacing=1.2,
        borderaxespad=0.2,
    )
