"""The report's sections on how good the forecasts were."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from amforest.cli.report import figures
from amforest.cli.report.markup import (
    NOTHING,
    count,
    figure,
    name,
    number,
    paragraph,
    section,
    side_by_side,
    table,
)
from amforest.cli.run import Outcome
from amforest.cli.scheme import CLASSIFICATION
from amforest.cli.session import Forecasts
from amforest.plotting.progress import NAMES

MOST_CLASSES = 20  # with rows and columns of their own
UPRIGHT_CLASSES = 8  # more names are written upwards
LONGEST_CLASS = 40  # letters of a class as the head of a column


def n_forecasts(outcome: Outcome) -> int:
    """Return how many rows had a forecast: all but the first, as a rule."""
    return outcome.progress.n_rows - outcome.progress.n_skipped


def _called(metric: str) -> str:
    words = NAMES.get(metric, metric.replace("_", " "))
    return words[0].upper() + words[1:]


def metrics(outcome: Outcome) -> str:
    """Return the metrics of all and of the last rows, and their curves."""
    progress = outcome.progress
    if not n_forecasts(outcome):
        words = "No row had a forecast: a model that has learnt nothing gives none."
        return section("metrics", "How well it did", paragraph(words))
    last = f"last {count(progress.window_size)} rows"
    caption = "Each row is forecast before it is learnt."
    if progress.n_skipped:
        caption += f" Rows without a forecast do not count: {count(progress.n_skipped)}."
    rows = [
        (_called(m), number(v), number(progress.window[m])) for m, v in progress.metrics.items()
    ]
    curves = [
        figure(svg, "", title=_called(m))
        for m in progress.metrics
        if (svg := figures.progress_curve(progress, m, _called(m)))
    ]
    key = paragraph(f"Solid lines: over all rows so far. Dashed: over the {last}.", "key")
    shown = table(caption, ["Metric", "all rows", last], rows, "narrow")
    pictures = key + side_by_side(*curves) if curves else ""
    return section("metrics", "How well it did", shown, pictures)


def judgement(task: str, recent: Forecasts | None) -> str:
    """Return where the last forecasts went wrong, and whether their probabilities hold."""
    if recent is None:
        return ""
    span = f"Of the last {count(len(recent.labels))} rows with a forecast."
    if task == CLASSIFICATION:
        return section("classes", "Classes", paragraph(span, "key"), *_classes(recent))
    return section("residuals", "Residuals", paragraph(span, "key"), _residuals(recent))


def _classes(recent: Forecasts) -> list[str]:
    """Return the confusion matrix and the reliability diagram, side by side if there is room."""
    names, counts, n_others = confusion(recent)
    blocks = [_confusion(names, counts, n_others), _reliability(recent)]
    return blocks if len(counts) > UPRIGHT_CLASSES else [side_by_side(*blocks)]


def _residuals(recent: Forecasts) -> str:
    scatter, histogram = figures.residuals(recent.labels, recent.forecasts)
    beyond = figures.n_beyond(recent.labels - recent.forecasts)
    groups = f"The line joins the medians of up to {figures.GROUPS} groups of equal size."
    if len(recent.labels) > figures.MOST_POINTS:
        groups += f" At most {count(figures.MOST_POINTS)} points are drawn, evenly spaced in time."
    rest = f"{count(beyond)} rows with larger residuals are not shown." if beyond else ""
    return side_by_side(
        figure(scatter, groups, title="Residuals against forecasts"),
        figure(histogram, rest, title="Histogram of residuals"),
    )


def _reliability(recent: Forecasts) -> str:
    classes = recent.classes
    assert classes is not None
    if len(classes) == 2:
        came, p, event = recent.labels == classes[1], recent.forecasts[:, 1], str(classes[1])
        words = f"How often {name(event)} came, against the probability that was forecast."
    else:
        best = recent.forecasts.argmax(axis=1)
        came, p = recent.labels == classes[best], recent.forecasts.max(axis=1)
        event = "the most probable class"
        words = "How often the most probable class came, against its forecast probability."
    words += " Bars are 95 % intervals."
    return figure(figures.reliability(came, p, event), words, title="Reliability")


def confusion(recent: Forecasts) -> tuple[list[str], NDArray[np.int64], int]:
    """Count labels (rows) against most probable classes (columns).

    Returns
    -------
    names : list of str
        Of the classes that have a row and a column.
    counts : ndarray
        The last row and column are of all other classes, if there are any.
    n_others : int
        How many these are.
    """
    assert recent.classes is not None
    said = recent.classes[recent.forecasts.argmax(axis=1)]
    known, codes = np.unique(np.append(recent.labels, said), return_inverse=True)
    often = np.argsort(-np.bincount(codes), kind="stable")[:MOST_CLASSES]
    place = np.full(len(known), MOST_CLASSES)
    place[np.sort(often)] = np.arange(len(often))
    labels, forecasts = np.split(place[codes], 2)
    n_others = len(known) - len(often)
    size = len(often) + (n_others > 0)
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (labels, forecasts), 1)
    return [str(label) for label in known[np.sort(often)]], counts, n_others


def _confusion(names: list[str], counts: NDArray[np.int64], n_others: int) -> str:
    heads = [name(label, LONGEST_CLASS) for label in names]
    if n_others:
        heads.append(f"<i>{count(n_others)} others</i>")
    totals = counts.sum(axis=1)
    rows = []
    for i, head in enumerate(heads):
        cells = [_heat(int(n), n / max(totals[i], 1)) for n in counts[i]]
        right = counts[i, i] / totals[i] if totals[i] and i < len(names) else math.nan
        rows.append([head, *cells, NOTHING if math.isnan(right) else f"{right:.1%}"])
    caption = "<strong>Confusion</strong> Rows are labels, columns the most probable classes."
    if n_others:
        caption += f" The {len(names)} classes that came most often are shown."
    upright = len(heads) > UPRIGHT_CLASSES
    css = "confusion upright" if upright else "confusion"
    return table(caption, ["label", *heads, "right"], rows, css)


def _heat(n: int, share: float) -> str:
    return f'<td style="--share: {share:.3f}">{count(n)}</td>' if n else '<td class="zero">0</td>'
