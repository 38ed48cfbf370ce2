"""How the contributions of features lead from the base value to a prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.special import expit

from amforest.inspection import Explanation
from amforest.inspection.terms import describe_output, list_terms, select_output
from amforest.plotting._model_data import check_count, get_axes
from amforest.plotting.colours import get_colour, get_ink

HEIGHT = 0.64  # of a bar; bars are 1 apart
INCHES = 0.3  # between two bars
ROOM = 0.17  # on both sides of the bars, for their values


def plot_contributions(
    explanation: Explanation,
    *,
    positive: Any = None,
    max_features: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw how the contributions of features lead from the base value to a prediction.

    Parameters
    ----------
    explanation : Explanation
        What `explain` returns, of one row: `explanation[0]`.
    positive : class, default=None
        The class to draw. None means the second of two; of more, the one that is predicted.
    max_features : int, default=10
        How many features have a bar of their own. The rest have one together.
    ax : matplotlib Axes, default=None
        Axes to draw into. None means a new figure.

    Returns
    -------
    matplotlib Axes
        The largest contribution is at the top. Each bar begins where the one above it ends.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> from amforest.plotting import plot_contributions
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = AMFClassifier(random_state=0).fit(X, y)
    >>> ax = plot_contributions(forest.explain(X)[0])
    >>> ax.get_xlabel()
    'probability of 0'
    >>> plt.close(ax.figure)
    """
    of_row = select_output(_check_row(explanation), positive)
    sums = list_terms(of_row, check_count(max_features, "max_features", 1))
    n_bars = len(sums.terms)
    ax = get_axes(ax, (7.0, INCHES * (n_bars + 2) + 0.7))
    ink = get_ink()
    values = np.array([term.value for term in sums.terms])
    ends = sums.base + np.cumsum(values)
    starts = np.append(sums.base, ends[:-1])
    places = np.arange(1, n_bars + 1)
    colours = [get_colour(0 if value >= 0 else 1) for value in values]
    ax.barh(places, values, HEIGHT, left=starts, color=colours)
    # From the end of each row to the beginning of the next.
    passed = np.append(starts, sums.prediction)
    ax.vlines(passed, np.arange(n_bars + 1), [*places, n_bars + 1], ink, lw=0.7, alpha=0.6)
    ax.plot([sums.base, sums.prediction], [0, n_bars + 1], "D", color=ink, markersize=5)
    low, high = min(passed), max(passed)

    def write(first: float, last: float, place: int, words: str, **style: Any) -> None:
        # On the left only where half of the axis is free: names are beyond its end.
        is_left = min(first, last) > (low + high) / 2
        _write(ax, (min if is_left else max)(first, last), place, words, is_left=is_left, **style)

    write(sums.base, sums.base, 0, _rounded(sums.base))
    for k, term in enumerate(sums.terms):
        write(starts[k], ends[k], k + 1, _signed(term.value))
    words = _rounded(sums.prediction)
    if of_row.unit == "log-odds":
        words += f" (probability {expit(sums.prediction):.3g})"
    write(sums.prediction, sums.prediction, n_bars + 1, words, weight="bold")
    names = ["base value", *(term.words for term in sums.terms), "prediction"]
    ax.set_yticks(range(n_bars + 2), names, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(n_bars + 1.6, -0.6))
    ax.set_xlabel(describe_output(of_row), parse_math=False)
    room = ROOM * (high - low or 1.0)
    ax.set_xlim(low - room, high + room)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def _check_row(explanation: Explanation) -> Explanation:
    """Return an explanation of one row, without the axis of rows."""
    if not isinstance(explanation, Explanation):
        raise TypeError(f"explanation is {explanation!r}; it must be what `explain` returns")
    if "features" not in explanation.axes:
        raise ValueError("explanation has one feature only; slice it by rows, as in explanation[0]")
    if "rows" not in explanation.axes:
        return explanation
    if len(explanation) != 1:
        raise ValueError(
            f"explanation has {len(explanation):,} rows; select one, as in explanation[0]"
        )
    return explanation[0]


def _write(ax: Axes, x: float, y: float, words: str, *, is_left: bool, **style: Any) -> None:
    """Write beside a point."""
    how: dict[str, Any] = {"va": "center", "fontsize": "small", "color": get_ink(), **style}
    how["ha"] = "right" if is_left else "left"
    ax.annotate(
        words, (x, y), (-5 if is_left else 5, 0), textcoords="offset points", in_layout=True, **how
    )


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "\N{MINUS SIGN}")


def _rounded(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")
