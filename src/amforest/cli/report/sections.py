"""The sections of the report."""

from __future__ import annotations

import math
import platform
import shlex
import sys
from dataclasses import fields
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.cli.model_summary import summarize_memories
from amforest.cli.recent_predictions import LabelledPredictions
from amforest.cli.report import figures
from amforest.cli.report.markup import (
    NOTHING,
    as_read,
    bar,
    bytes_of,
    count,
    duration,
    facts,
    figure,
    name,
    number,
    paragraph,
    rounded,
    section,
    side_by_side,
    table,
    text,
    timing,
)
from amforest.cli.report.verdict import build_verdict
from amforest.cli.report_records import WorstRow
from amforest.cli.run import INTERVAL_METRICS, Outcome, Session, percent
from amforest.cli.settings import Settings
from amforest.evaluation import Progress
from amforest.inspection import importances
from amforest.plotting.curves import METRIC_LABELS
from amforest.reading import CLASSIFICATION

MOST_FEATURES = 50
LEAST_IMPORTANCE = 0.001  # of all features
LEAST_WEIGHT = 0.0005  # of a memory
MOST_VALUES = 12  # of a worst row
MOST_CLASSES = 20  # with rows and columns of their own
UPRIGHT_CLASSES = 8  # with more, names are written vertically
LONGEST_CLASS = 40  # characters of a class in the head of a column
PACKAGES = ("amforest", "numpy", "scikit-learn", "pyarrow", "matplotlib")


def build_content(outcome: Outcome, folder: Path) -> dict[str, str]:
    """Return the title and the body of the page."""
    session = outcome.session
    is_fitted = session.model.__sklearn_is_fitted__()
    has_trees = is_fitted and session.scheme.key is None  # of its own, not of each key
    recent = session.recent() if count_predictions(outcome) else None
    parts = [
        _head(outcome),
        build_verdict(outcome),
        _metrics(outcome),
        "" if recent is None else _intervals(outcome, recent),
        "" if recent is None else _predictions(outcome, recent),
        _features(outcome) if has_trees else "",
        _rows(outcome),
        _run(outcome, folder, session.model.stats() if is_fitted else None),
        _details(session.model),
    ]
    title = f"{session.scheme.target} · {outcome.settings.source_names()}"
    return {"title": text(title), "body": "\n".join(part for part in parts if part)}


# The run


def _head(outcome: Outcome) -> str:
    session = outcome.session
    parts = [
        f"<h1>Predictions of {name(session.scheme.target)}</h1>",
        paragraph(f"{count(session.n_rows)} rows, {session.scheme.task}", "lead"),
    ]
    if outcome.status:
        how = "by SIGTERM" if outcome.status == 143 else "by Ctrl-C"
        words = f"The run was stopped early {how}. The report covers the rows before."
        parts.append(paragraph(words, "notice"))
    if session.n_resumed:
        parts.append(paragraph(_describe_resume(session), "notice"))
    return "<header>\n" + "\n".join(parts) + "\n</header>"


def _describe_resume(session: Session) -> str:
    """Tell what the report has of the rows before the run was resumed."""
    words = f"The run was resumed after row {count(session.n_resumed)}."
    if session.n_unmeasured:
        return (
            f"{words} The first {count(session.n_unmeasured)} rows are not in the metrics, figures "
            "and tables below: the checkpoint has none, or those of another --coverage."
        )
    if session.n_unrecorded:
        return (
            f"{words} Metrics and their curves cover all rows. The first "
            f"{count(session.n_unrecorded)} rows are not in the baselines, the worst rows and the "
            "figures of the last rows: they were learned without --report."
        )
    return f"{words} Metrics, figures and tables continue those of the rows before."


def _run(outcome: Outcome, folder: Path, stats: dict[str, Any] | None) -> str:
    session, progress = outcome.session, outcome.progress
    settings = outcome.settings
    rejected = count(session.n_rejected)
    if settings.rejects is not None:
        rejected += f", written to {name(settings.rejects)}"
    pairs = [
        ("Source", name(settings.source_names())),
        ("Target", name(session.scheme.target)),
        ("Task", session.scheme.task),
        ("Rows", count(session.n_rows) + (", stopped early" if outcome.status else "")),
        *([("Rejected rows", rejected)] if session.n_rejected else []),
        ("Time", timing(_times(outcome))),
        ("Speed", timing(f"{_rate(progress.n_rows, progress.seconds)} rows per second")),
    ]
    if stats is not None:
        if "keys" in stats:
            size = f"{count(stats['keys'])} keys, {bytes_of(stats['bytes_in_memory'])} in memory"
        else:
            nodes = f"{count(stats['nodes'])} nodes, depth {stats['depth']}"
            size = f"{nodes}, {bytes_of(stats['bytes'])}"
        learned = f"{size}, {count(stats['samples'])} rows learned"
        pairs.append(("Model", f"{type(session.model).__name__}: {learned}"))
    files = (("Model file", settings.save), ("Predictions", settings.predictions))
    pairs += [(what, name(path)) for what, path in files if path is not None]
    pairs.append(("Command", f"<code>{text(build_command(settings, folder), 2_000)}</code>"))
    return section("run", "Run", facts(pairs))


def _times(outcome: Outcome) -> str:
    whole = outcome.session.seconds
    model = duration(outcome.progress.seconds)
    now = datetime.now().astimezone()
    words = f"{duration(whole)}, of which {model} for predicting and learning; finished at "
    return f'{words}<time datetime="{now.isoformat()}">{now:%Y-%m-%d %H:%M}</time>'


def _rate(n_rows: int, seconds: float) -> str:
    return rounded(n_rows / seconds) if seconds > 0 else NOTHING


def build_command(settings: Settings, folder: Path) -> str:
    """Return a command that repeats the run."""
    words = ["amforest", "run", *settings.source, "--target", settings.target_column()]
    for field in fields(Settings):
        value, option = getattr(settings, field.name), f"--{field.name.replace('_', '-')}"
        if field.name in ("source", "target") or value == field.default:
            continue
        if field.name == "all_classes":
            words += ["--proba", "all"]
        elif isinstance(value, bool):
            option = "--json" if field.name == "as_json" else option
            words.append(option if value else option.replace("--", "--no-"))
        else:
            for item in value if isinstance(value, tuple) else (value,):
                words += [option, str(item)]
    return shlex.join([*words, "--report", str(folder)])


# Metrics and predictions


def count_predictions(outcome: Outcome) -> int:
    """Return the number of rows with a prediction, usually all but the first."""
    return outcome.progress.n_rows - outcome.progress.n_skipped


def _title(metric: str, coverage: float | None = None) -> str:
    if metric in INTERVAL_METRICS and coverage is not None:
        what = "Coverage" if metric == "coverage" else "Mean width"
        return f"{what} of {percent(coverage)} intervals"
    words = METRIC_LABELS.get(metric, metric.replace("_", " "))
    return words[0].upper() + words[1:]


def _metrics(outcome: Outcome) -> str:
    """Return the metrics over all rows and over the last ones, and their curves."""
    progress = outcome.progress
    if not count_predictions(outcome):
        words = "No row has a prediction: a model predicts only after it has learned a row."
        return section("metrics", "Metrics", paragraph(words))
    last = f"last {count(progress.window_size)} rows"
    caption = "Each row is predicted before it is learned."
    if progress.n_skipped:
        caption += f" Rows without a prediction, which do not count: {count(progress.n_skipped)}."
    rows = [
        (_title(m, outcome.session.coverage), number(v), number(progress.window[m]))
        for m, v in progress.metrics.items()
    ]
    drifts = _drift_rows(outcome)
    curves = [
        figure(svg, "", title=_title(m), is_broad=True)
        for m in progress.metrics
        if m not in INTERVAL_METRICS
        and (svg := figures.draw_progress(progress, m, _title(m), drifts=drifts))
    ]
    key = paragraph(_line_styles(progress), "key")
    shown = table(caption, ["Metric", "all rows", last], rows, "narrow")
    pictures = key + side_by_side(*curves, *_memories(outcome)) if curves else ""
    return section("metrics", "Metrics", shown, pictures)


def _drift_rows(outcome: Outcome) -> list[int]:
    """Return the rows at which figures mark drift."""
    return [drift.since for drift in outcome.session.watch.drifts]


def _line_styles(progress: Progress) -> str:
    last = f"last {count(progress.window_size)} rows"
    return f"Solid lines: all rows so far. Dashed lines: {last}."


def _memories(outcome: Outcome) -> list[str]:
    """Return a picture of the weights of an adaptive forest's memories, and a table of them."""
    session = outcome.session
    if session.scheme.key is not None or not session.model.is_adaptive:
        return []
    if not session.model.__sklearn_is_fitted__():
        return []
    svg = figures.draw_memories(session.model, drifts=_drift_rows(outcome))
    if svg is None:
        return []
    memories = summarize_memories(session.model)
    most = max(memory["weight"] for memory in memories)
    rows = [
        [
            name(memory["memory"]),
            _weight(memory["weight"], most),
            NOTHING if memory["regrows"] is None else count(memory["regrows"]),
        ]
        for memory in memories
    ]
    words = (
        "Weights of groups of trees, stacked, by the number of rows that they remember: the longer "
        "a memory is, the darker is its area; negative weights are red, below 0. They shift to "
        "short memories when the stream changes."
    )
    if session.scheme.task != CLASSIFICATION:
        words += (
            " “Linear” groups learn the residuals of a linear regression; the last four are three "
            "linear regressions and the mean of all labels."
        )
    caption = "Memories at the end: weights, and how many trees were regrown."
    return [
        figure(svg, words, title="Memories", is_broad=True),
        table(caption, ["Memory", "weight", "regrows"], rows, "memories"),
    ]


def _weight(weight: float, most: float) -> str:
    if abs(weight) < LEAST_WEIGHT:
        return NOTHING
    return bar(f"{weight:.3f}".replace("-", "−"), max(weight, 0) / most if most > 0 else 0)


def _intervals(outcome: Outcome, recent: LabelledPredictions) -> str:
    """Return the intervals of the last rows, and their coverage and width over all rows."""
    session, progress = outcome.session, outcome.progress
    if recent.intervals is None or session.coverage is None:
        return ""
    asked = percent(session.coverage)
    drifts = _drift_rows(outcome)
    svg = figures.draw_intervals(
        recent.labels, recent.values, recent.intervals, session.n_rows, drifts=drifts
    )
    words = (
        f"Band: {asked} intervals. Line: predictions. Dots: labels; red triangles are outside "
        "their interval."
    )
    n_shown = min(len(recent.labels), figures.ROWS_IN_BAND)
    title = f"The last {count(n_shown)} rows"
    blocks = [figure(svg, words, title=title, is_broad=True)]
    curve = figures.draw_progress(
        progress, "coverage", "Coverage", nominal=session.coverage, drifts=drifts
    )
    if curve is not None:
        words = f"The red line is {asked}, as requested. {_line_styles(progress)}"
        blocks.append(figure(curve, words, title="Coverage", is_broad=True))
    return section("intervals", "Intervals", side_by_side(*blocks))


def _predictions(outcome: Outcome, recent: LabelledPredictions) -> str:
    """Return the confusion matrix and reliability, or the residuals, of the last rows."""
    span = f"The last {count(len(recent.labels))} rows with a prediction."
    if outcome.session.scheme.task == CLASSIFICATION:
        return section("classes", "Classes", paragraph(span, "key"), *_classes(recent))
    span += f" Red lines: medians of up to {figures.GROUPS} groups of equal size."
    if len(recent.labels) > figures.MOST_POINTS:
        span += f" At most {count(figures.MOST_POINTS)} points are drawn, evenly spaced in time."
    blocks = _residuals(recent, outcome.session.n_rows, _drift_rows(outcome))
    return section("residuals", "Residuals", paragraph(span, "key"), blocks)


def _classes(recent: LabelledPredictions) -> list[str]:
    """Return the confusion matrix and the reliability diagram, side by side if there is room."""
    names, counts, n_others = count_confusion(recent)
    blocks = [_confusion(names, counts, n_others), _reliability(recent)]
    return blocks if len(counts) > UPRIGHT_CLASSES else [side_by_side(*blocks)]


def _residuals(recent: LabelledPredictions, last_row: int, drifts: list[int]) -> str:
    drawn = figures.draw_residuals(recent.labels, recent.values, last_row, drifts=drifts)
    over_rows, scatter, histogram = drawn
    outside = figures.count_outside(recent.labels - recent.values)
    rest = f"{count(outside)} rows with larger residuals are not shown." if outside else ""
    return side_by_side(
        figure(over_rows, "", title="Residuals over the rows"),
        figure(scatter, "", title="Residuals against predictions"),
        figure(histogram, rest, title="Histogram of residuals"),
    )


def _reliability(recent: LabelledPredictions) -> str:
    classes = recent.classes
    assert classes is not None
    if len(classes) == 2:
        occurred, p, event = recent.labels == classes[1], recent.values[:, 1], str(classes[1])
        words = f"Observed frequency of {name(event)} against its predicted probability."
    else:
        best = recent.values.argmax(axis=1)
        occurred, p = recent.labels == classes[best], recent.values.max(axis=1)
        event = "the most probable class"
        words = "Observed frequency of the most probable class against its predicted probability."
    words += " Error bars are 95 % intervals."
    return figure(figures.draw_reliability(occurred, p, event), words, title="Reliability")


def count_confusion(recent: LabelledPredictions) -> tuple[list[str], NDArray[np.int64], int]:
    """Count labels (rows) against most probable classes (columns).

    Returns
    -------
    names : list of str
        The classes that have a row and a column.
    counts : ndarray
        The last row and column hold all other classes, if there are any.
    n_others : int
        The number of other classes.
    """
    assert recent.classes is not None
    predicted = recent.classes[recent.values.argmax(axis=1)]
    known, codes = np.unique(np.append(recent.labels, predicted), return_inverse=True)
    frequent = np.argsort(-np.bincount(codes), kind="stable")[:MOST_CLASSES]
    place = np.full(len(known), MOST_CLASSES)
    place[np.sort(frequent)] = np.arange(len(frequent))
    labels, columns = np.split(place[codes], 2)
    n_others = len(known) - len(frequent)
    size = len(frequent) + (n_others > 0)
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (labels, columns), 1)
    return [str(label) for label in known[np.sort(frequent)]], counts, n_others


def _confusion(names: list[str], counts: NDArray[np.int64], n_others: int) -> str:
    heads = [name(label, LONGEST_CLASS) for label in names]
    if n_others:
        heads.append(f"<i>{count(n_others)} others</i>")
    totals = counts.sum(axis=1)
    rows = []
    for i, head in enumerate(heads):
        cells = [_heat(int(n), n / max(totals[i], 1)) for n in counts[i]]
        recall = counts[i, i] / totals[i] if totals[i] and i < len(names) else math.nan
        rows.append([head, *cells, NOTHING if math.isnan(recall) else f"{recall:.1%}"])
    caption = "<strong>Confusion matrix</strong> Rows are labels, columns are predicted classes."
    if n_others:
        caption += f" The {len(names)} most frequent classes are shown."
    css = "confusion upright" if len(heads) > UPRIGHT_CLASSES else "confusion"
    return table(caption, ["label", *heads, "recall"], rows, css)


def _heat(n: int, fraction: float) -> str:
    if not n:
        return "<td></td>"
    return f'<td style="--fraction: {fraction:.3f}">{count(n)}</td>'


# Features, and single rows


def _features(outcome: Outcome) -> str:
    """Return the importances of the features, and their contributions to the last predictions."""
    session = outcome.session
    found = importances(session.model)
    long_term, recent = found.long_term(), found.recent()
    columns = [long_term] if recent is None else [long_term, recent]
    is_shown = np.max(columns, axis=0) >= LEAST_IMPORTANCE
    order = np.argsort(-long_term, kind="stable")
    used = [j for j in order.tolist() if is_shown[j]][:MOST_FEATURES]
    if not used:
        words = "No feature has saved any loss yet: predictions do not depend on them."
        return section("features", "Features that matter", paragraph(words))
    loss = "log-loss" if session.scheme.task == CLASSIFICATION else "squared error"
    caption = (
        f"What the splits on each feature have saved of the {loss}, learned online: parts of what "
        "all features saved"
    )
    heads = ["Feature", "importance"]
    if recent is not None:
        caption += ", by the groups of trees that remember everything, and by those that remember "
        caption += f"{count(found.recent_rows or 0)} rows"
        heads = ["Feature", "long-term", f"last {count(found.recent_rows or 0)} rows"]
    rows = [
        [name(found.names[j]), *(_part(parts[j], parts.max()) for parts in columns)] for j in used
    ]
    others = [name(found.names[j]) for j in order.tolist() if not is_shown[j]]
    rest = f"Features with less than {LEAST_IMPORTANCE:.1%}: {', '.join(others[:MOST_FEATURES])}."
    return section(
        "features",
        "Features that matter",
        table(f"{caption}.", heads, rows, "features"),
        paragraph(rest) if others else "",
        _contributions(session),
    )


def _part(part: float, most: float) -> str:
    return bar(f"{part:.1%}", part / most) if part >= LEAST_IMPORTANCE else NOTHING


def _contributions(session: Session) -> str:
    """Return a picture of the contributions to the predictions of the last rows."""
    if session.records is None or not session.records.has_rows:
        return ""
    explanation = session.model.explain(session.records.last_rows())
    words = (
        f"How far each feature moves the prediction of the final model: a dot for each of the last "
        f"{count(len(explanation))} rows, the features with the largest contributions first."
    )
    svg = figures.draw_swarm(explanation)
    return figure(svg, words, title="Contributions", is_broad=True, has_names=True)


def _rows(outcome: Outcome) -> str:
    session = outcome.session
    is_class = session.scheme.task == CLASSIFICATION
    has_files = outcome.settings.may_have_files()
    worst = [
        [
            count(row.row),
            _line_of(row, has_files=has_files),
            _value(str(row.label), is_class),
            _value(str(row.predicted), is_class),
            number(row.loss),
            f'<td class="values">{_describe(row.features)}</td>',
        ]
        for row in (session.records.worst if session.records else [])
    ]
    slowest = [[count(row), timing(f"{1e3 * seconds:.3g} ms")] for seconds, row in session.slowest]
    measure = "−log of the predicted probability of the label" if is_class else "squared error"
    blocks = []
    if worst:
        caption = f"The worst predictions. The loss is the {measure}."
        heads = ["Row", "line", "label", "prediction", "loss", "features"]
        blocks.append(table(caption, heads, worst, "worst"))
    if slowest:
        caption = (
            "The slowest rows. Rows are learned in blocks: the time is the mean of a block, the "
            "row is its last one."
        )
        blocks.append(table(caption, ["Row", "time"], slowest, "slowest"))
    return section("rows", "Worst and slowest rows", *blocks) if blocks else ""


def _line_of(row: WorstRow, *, has_files: bool) -> str:
    """Return where a row is: its line, and the name of its file if there are several."""
    if not has_files:
        return count(row.line)
    return f"{name(Path(row.file).name, LONGEST_CLASS)}, {count(row.line)}"


def _describe(features: dict[str, Any]) -> str:
    """Return the values of a row, those of its first columns if there are many."""
    pairs = [
        f"{name(key)} = {as_read(v) if isinstance(v, float) else text(v, LONGEST_CLASS)}"
        for key, v in list(features.items())[:MOST_VALUES]
    ]
    return ", ".join(pairs) + (", …" if len(features) > MOST_VALUES else "")


def _value(words: str, is_class: bool) -> str:
    if is_class:
        return name(words)
    return f'<data value="{float(words)!r}">{as_read(float(words))}</data>'


# Parameters


def _details(model: Any) -> str:
    parameters = [[text(key), text(value)] for key, value in sorted(model.get_params().items())]
    versions = [[package, text(version(package))] for package in PACKAGES]
    versions += [["Python", platform.python_version()], ["System", text(_system())]]
    blocks = (
        table(f"Parameters of {type(model).__name__}.", ["Parameter", "value"], parameters, "text"),
        table("Versions.", ["Package", "version"], versions, "text"),
    )
    return section("details", "Parameters and versions", side_by_side(*blocks))


def _system() -> str:
    return f"{platform.system()}, {platform.machine()}, {sys.byteorder}-endian"
