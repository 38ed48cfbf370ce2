"""What the report says of a run, section by section."""

from __future__ import annotations

import platform
import shlex
import sys
import time
from dataclasses import fields
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amforest.cli.features import feature_uses
from amforest.cli.report.markup import (
    NOTHING,
    bar,
    bytes_of,
    count,
    duration,
    facts,
    name,
    number,
    paragraph,
    section,
    side_by_side,
    table,
    text,
    timing,
)
from amforest.cli.report.quality import judgement, metrics, n_forecasts
from amforest.cli.run import Outcome, Settings, target_of
from amforest.cli.scheme import CLASSIFICATION

MOST_FEATURES = 50
PACKAGES = ("amforest", "numpy", "scikit-learn", "pyarrow", "matplotlib")


def content(outcome: Outcome, folder: Path) -> dict[str, str]:
    """Return the title and the body of the page."""
    session = outcome.session
    is_fitted = session.model.__sklearn_is_fitted__()
    recent = session.recent() if n_forecasts(outcome) else None
    parts = [
        _head(outcome),
        _what_ran(outcome, folder, session.model.stats() if is_fitted else None),
        metrics(outcome),
        judgement(session.scheme.task, recent),
        _features(session.model) if is_fitted else "",
        _rows(outcome),
        _details(session.model),
    ]
    title = f"{session.scheme.target} · {_source(outcome.settings)}"
    return {"title": text(title), "body": "\n".join(part for part in parts if part)}


# What ran


def _head(outcome: Outcome) -> str:
    session = outcome.session
    parts = [
        f"<h1>Forecasts of {name(session.scheme.target)}</h1>",
        paragraph(f"{count(session.account.n_rows)} rows, {session.scheme.task}", "lead"),
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
        ("Target", name(session.scheme.target)),
        ("Task", session.scheme.task),
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


# Features, and single rows


def _features(model: Any) -> str:
    uses = feature_uses(model)
    most_splits = max(use.n_splits for use in uses) or 1
    most_met = max(use.reach for use in uses) or 1.0
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
    caption = (
        "Splits of all trees, how many of them a row meets on its way down one, and how early: the "
        "root has depth 0."
    )
    if len(uses) > MOST_FEATURES:
        caption += f" {count(len(uses) - MOST_FEATURES)} more features are met by fewer rows."
    heads = ["Feature", "splits", "per row", "first depth", "mean depth"]
    return section("features", "Features", table(caption, heads, rows, "features"))


def _rows(outcome: Outcome) -> str:
    account = outcome.session.account
    is_class = outcome.session.scheme.task == CLASSIFICATION
    worst = [
        [count(row), _value(label, is_class), _value(forecast, is_class), number(loss)]
        for loss, row, label, forecast in account.worst
    ]
    slowest = [[count(row), timing(f"{1e3 * seconds:.3g} ms")] for seconds, row in account.slowest]
    measure = "−log of the probability that the label was given" if is_class else "squared error"
    blocks = []
    if worst:
        caption = f"The worst forecasts. The loss is the {measure}."
        blocks.append(table(caption, ["Row", "label", "forecast", "loss"], worst))
    if slowest:
        caption = (
            "The slowest rows. Those that come together are learnt together: the time is their "
            "mean, and the row the last of them."
        )
        blocks.append(table(caption, ["Row", "time"], slowest, "slowest"))
    return section("rows", "Worst and slowest rows", side_by_side(*blocks)) if blocks else ""


def _value(words: str, is_class: bool) -> str:
    return name(words) if is_class else number(float(words))


# How to get it again


def _details(model: Any) -> str:
    parameters = [[text(key), text(value)] for key, value in sorted(model.get_params().items())]
    versions = [[package, text(version(package))] for package in PACKAGES]
    versions += [["Python", platform.python_version()], ["system", text(_system())]]
    blocks = (
        table(f"Parameters of {type(model).__name__}.", ["Parameter", "value"], parameters, "text"),
        table("Versions.", ["Of", "version"], versions, "text"),
    )
    return section("details", "Parameters and versions", side_by_side(*blocks))


def _system() -> str:
    return f"{platform.system()}, {platform.machine()}, {sys.byteorder}-endian"
