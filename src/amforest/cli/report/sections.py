"""What the report says of a run, section by section."""

from __future__ import annotations

import math
import platform
import shlex
import sys
import time
from dataclasses import fields
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.cli.features import feature_uses
from amforest.cli.report import figures
from amforest.cli.report.markup import (
    NOTHING,
    bar,
    bytes_of,
    count,
    duration,
    facts,
    figure,
    name,
    number,
    paragraph,
    section,
    side_by_side,
    table,
    text,
    timing,
)
from amforest.cli.run import Outcome, Settings, target_of
from amforest.cli.scheme import CLASSIFICATION
from amforest.cli.session import Forecasts
from amforest.plotting.progress import NAMES

MOST_CLASSES = 20  # with rows and columns of their own
MOST_FEATURES = 50
UPRIGHT_CLASSES = 8  # more names are written upwards
PACKAGES = ("amforest", "numpy", "scikit-learn", "pyarrow", "matplotlib")


def content(outcome: Outcome, folder: Path) -> dict[str, str]:
    """Return the title and the body of the page."""
    session = outcome.session
    is_fitted = session.model.__sklearn_is_fitted__()
    recent = session.recent() if n_forecasts(outcome) else None
    parts = [
        _head(outcome),
        _what_ran(outcome, folder, session.model.stats() if is_fitted else None),
        _metrics(outcome),
        _judgement(session.scheme.task, recent),
        _features(session.model) if is_fitted else "",
        _rows(outcome),
        _details(session.model),
    ]
    title = f"{session.scheme.target} · {_source(outcome.settings)}"
    return {"title": text(title), "body": "\n".join(part for part in parts if part)}


def n_forecasts(outcome: Outcome) -> int:
    """Return how many rows had a forecast: all but the first, as a rule."""
    return outcome.progress.n_rows - outcome.progress.n_skipped


# What ran


def _head(outcome: Outcome) -> str:
    session = outcome.session
    parts = [
        f"<h1>Forecasts of {name(session.scheme.target)}</h1>",
        paragraph(f"{name(_source(outcome.settings))} · {session.scheme.task}", "lead"),
    ]
    if outcome.status:
        how = "by SIGTERM" if outcome.status == 143 else "by Ctrl-C"
        words = f"The run was ended early {how}: this is about the rows until then."
        parts.append(paragraph(words, "notice"))
    if earlier := session.account.n_rows - outcome.progress.n_rows:
        words = f"The run was resumed: {count(earlier)} rows that were learnt before are not in "
        parts.append(paragraph(f"{words}the measures, pictures and lists below.", "notice"))
    return "<header>\n" + "\n".join(parts) + "\n</header>"


def _source(settings: Settings) -> str:
    if not settings.source:
        return "the embedded stream, a shop’s visits"
    names = ["standard input" if path == "-" else path for path in settings.source[:3]]
    more = len(settings.source) - len(names)
    return ", ".join(names) + (f" and {count(more)} more" if more else "")


def _what_ran(outcome: Outcome, folder: Path, stats: dict[str, Any] | None) -> str:
    session, progress = outcome.session, outcome.progress
    account, settings = session.account, outcome.settings
    rejected = count(account.n_rejected)
    if settings.rejects is not None:
        rejected += f", written to {name(settings.rejects)}"
    pairs = [
        ("Source", name(_source(settings))),
        ("Target", f"{name(session.scheme.target)}, {session.scheme.task}"),
        ("Rows", count(account.n_rows) + (", ended early" if outcome.status else "")),
        ("Rejected rows", rejected),
        ("Time", timing(_times(outcome))),
        ("Speed", timing(f"{_rate(progress.n_rows, progress.seconds)} rows per second")),
    ]
    if stats is not None:
        size = f"{count(stats['nodes'])} nodes, depth {stats['depth']}, {bytes_of(stats['bytes'])}"
        pairs.append(("Model", f"{size}, {count(stats['samples'])} rows learnt"))
    files = (("Model file", settings.save), ("Forecasts", settings.forecasts))
    pairs += [(what, name(path)) for what, path in files if path is not None]
    pairs.append(("Command", f"<code>{text(command(settings, folder), 2_000)}</code>"))
    return section("run", "What ran", facts(pairs))


def _times(outcome: Outcome) -> str:
    whole = time.monotonic() - outcome.session.account.started
    model = duration(outcome.progress.seconds)
    now = datetime.now().astimezone()
    words = f"{duration(whole)}, of which {model} of forecasting and learning; ended at about "
    return f'{words}<time datetime="{now.isoformat()}">{now:%Y-%m-%d %H:%M}</time>'


def _rate(n_rows: int, seconds: float) -> str:
    return f"{n_rows / seconds:,.0f}" if seconds > 0 else NOTHING


def command(settings: Settings, folder: Path) -> str:
    """Return a command that would do the same again."""
    words = ["amforest", "run", *settings.source, "--target", target_of(settings)]
    for field in fields(Settings):
        value, option = getattr(settings, field.name), f"--{field.name.replace('_', '-')}"
        if field.name in ("source", "target") or value == field.default:
            continue
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-"))
        else:
            for item in value if isinstance(value, tuple) else (value,):
                words += [option, str(item)]
    return shlex.join([*words, "--report", str(folder)])


# How well


def _called(metric: str) -> str:
    words = NAMES.get(metric, metric.replace("_", " "))
    return words[0].upper() + words[1:]


def _metrics(outcome: Outcome) -> str:
    progress = outcome.progress
    if not n_forecasts(outcome):
        words = "No row had a forecast: a model that has learnt nothing gives none."
        return section("metrics", "How well it did", paragraph(words))
    last = f"last {count(progress.window_size)} rows"
    figures_of = {m: (progress.metrics[m], progress.window[m]) for m in progress.metrics}
    caption = "Each row is forecast before it is learnt."
    if progress.n_skipped:
        caption += f" {count(progress.n_skipped)} without forecast do not count."
    rows = [(_called(m), number(all_), number(late)) for m, (all_, late) in figures_of.items()]
    curves = [
        figure(svg, f"{_called(m)}")
        for m in progress.metrics
        if (svg := figures.progress_curve(progress, m, _called(m)))
    ]
    key = paragraph(f"Solid lines: over all rows so far. Dashed: over the {last}.", "key")
    shown = table(caption, ["Metric", "all rows", last], rows, "narrow")
    pictures = key + side_by_side(*curves) if curves else ""
    return section("metrics", "How well it did", shown, pictures)


def _judgement(task: str, recent: Forecasts | None) -> str:
    if recent is None:
        return ""
    span = f"Of the last {count(len(recent.labels))} rows with a forecast."
    if task == CLASSIFICATION:
        blocks = [_confusion(recent), _reliability(recent)]
        return section("classes", "Classes", paragraph(span, "key"), side_by_side(*blocks))
    return section("residuals", "Residuals", paragraph(span, "key"), _residuals(recent))


def _residuals(recent: Forecasts) -> str:
    drawn = figures.residuals(recent.labels, recent.forecasts)
    if drawn is None:
        return paragraph("The numbers are too large to be drawn.")
    beyond = figures.n_beyond(recent.labels - recent.forecasts)
    groups = "Residuals against forecasts; the line joins medians of groups of equal size."
    rest = f" {count(beyond)} rows lie beyond." if beyond else ""
    words = f"How many rows have which residual.{rest}"
    return side_by_side(figure(drawn[0], groups), figure(drawn[1], words))


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
    return figure(figures.reliability(came, p, event), f"{words} Bars are 95 % intervals.")


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


def _confusion(recent: Forecasts) -> str:
    names, counts, n_others = confusion(recent)
    heads = [name(label) for label in names]
    if n_others:
        heads.append(f"<i>{count(n_others)} others</i>")
    totals = counts.sum(axis=1)
    rows = []
    for i, head in enumerate(heads):
        cells = [_heat(int(n), n / max(totals[i], 1)) for n in counts[i]]
        right = counts[i, i] / totals[i] if totals[i] and i < len(names) else math.nan
        rows.append([head, *cells, NOTHING if math.isnan(right) else f"{right:.1%}"])
    caption = "Confusion: labels are rows, most probable classes are columns."
    if n_others:
        caption += f" The {len(names)} classes that came most often are shown."
    upright = len(heads) > UPRIGHT_CLASSES
    css = "confusion upright" if upright else "confusion"
    return table(caption, ["label", *heads, "right"], rows, css)


def _heat(n: int, share: float) -> str:
    return f'<td style="--share: {share:.3f}">{count(n)}</td>'


# Features, and single rows


def _features(model: Any) -> str:
    uses = feature_uses(model)
    most_splits = max(max(use.n_splits for use in uses), 1)
    most_met = max(max(use.reach for use in uses), 1e-9)
    rows = [
        [
            name(use.name),
            bar(count(use.n_splits), use.n_splits / most_splits),
            bar(f"{use.reach:.2f}", use.reach / most_met),
            NOTHING if use.first_depth is None else str(use.first_depth),
            NOTHING if use.mean_depth is None else f"{use.mean_depth:.1f}",
        ]
        for use in uses[:MOST_FEATURES]
    ]
    caption = "Splits of all trees. The root has depth 0: the earlier, the more rows they part."
    if len(uses) > MOST_FEATURES:
        caption += f" {count(len(uses) - MOST_FEATURES)} more features are met by fewer rows."
    heads = ["Feature", "splits", "met by a row, in a tree", "first depth", "mean depth"]
    return section("features", "Features", table(caption, heads, rows))


def _rows(outcome: Outcome) -> str:
    account = outcome.session.account
    is_class = outcome.session.scheme.task == CLASSIFICATION
    worst = [
        [count(row), _value(label, is_class), _value(forecast, is_class), number(loss)]
        for loss, row, label, forecast in account.worst
    ]
    slowest = [
        [count(row), timing(f"{1e3 * seconds:.3g} ms")] for seconds, row in account.slowest
    ]
    measure = "−log of the probability that the label was given" if is_class else "squared error"
    blocks = []
    if worst:
        caption = f"The worst forecasts. The loss is the {measure}."
        blocks.append(table(caption, ["Row", "label", "forecast", "loss"], worst))
    if slowest:
        caption = (
            "The slowest rows. Those that come together are learnt together: "
            "the time is the mean of the rows up to this one."
        )
        blocks.append(table(caption, ["Row", "time per row"], slowest, "slowest"))
    return section("rows", "Worst and slowest rows", side_by_side(*blocks)) if blocks else ""


def _value(words: str, is_class: bool) -> str:
    return name(words) if is_class else number(float(words))


# How to get it again


def _details(model: Any) -> str:
    parameters = [[text(key), text(value)] for key, value in sorted(model.get_params().items())]
    versions = [[package, text(version(package))] for package in PACKAGES]
    versions += [["Python", platform.python_version()], ["system", text(_system())]]
    blocks = (
        table(f"Parameters of {type(model).__name__}.", ["Parameter", "value"], parameters),
        table("Versions.", ["Of", "version"], versions),
    )
    return section("details", "Parameters and versions", side_by_side(*blocks))


def _system() -> str:
    return f"{platform.system()}, {platform.machine()}, {sys.byteorder}-endian"
