"""The verdict of the report, in words: how good the predictions are, and whether there is drift."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.cli.report.markup import count, name, number, paragraph, rounded, section, table
from amforest.cli.run import Outcome, percent
from amforest.evaluation import Progress
from amforest.inspection import importances
from amforest.reading import CLASSIFICATION

CLEARLY, SLIGHTLY = 0.1, 0.01  # parts of the loss of the best baseline
MOST_NAMED, LEAST_NAMED = 3, 0.01  # features, and their part in the importance of all
METRICS = {
    "log_loss": "log-loss",
    "accuracy": "accuracy",
    "rmse": "RMSE",
    "mae": "MAE",
}


def build_verdict(outcome: Outcome) -> str:
    """Return the section; empty without predictions or without records of the run."""
    session, progress = outcome.session, outcome.progress
    if session.records is None or progress.n_rows == progress.n_skipped:
        return ""
    baselines = session.records.baselines.results()
    loss = "log_loss" if session.scheme.task == CLASSIFICATION else "rmse"
    last = f"the last {count(min(progress.window_size, progress.n_rows))} rows"
    n_alone = _count_alone(outcome)
    is_apart = n_alone > 0, n_alone > max(progress.n_rows - progress.window_size, 0)
    others = ({} if apart else baselines for apart in is_apart)
    overall = _judge(loss, progress.metrics, {k: v.metrics for k, v in next(others).items()})
    now = _judge(loss, progress.window, {k: v.window for k, v in next(others).items()})
    sentences = [f"Over all rows the model is {overall}.", f"Over {last} it is {now}."]
    if session.coverage is not None:
        inside = percent(float(f"{progress.metrics['coverage']:.3g}"))
        sentences.append(f"The {percent(session.coverage)} intervals hold {inside} of the labels.")
    words = paragraph(" ".join(sentences)) + paragraph(_describe_drift(outcome))
    words += _describe_features(outcome)
    return section("verdict", "Verdict", words, _compare(outcome, baselines))


def _count_alone(outcome: Outcome) -> int:
    """Return how many rows the model has predicted without the baselines, before a resume."""
    return outcome.session.n_unrecorded - outcome.session.n_unmeasured


def _judge(metric: str, own: dict[str, float], others: dict[str, dict[str, float]]) -> str:
    """Return how the model compares with the best baseline."""
    losses = {k: v[metric] for k, v in others.items() if math.isfinite(v.get(metric, math.nan))}
    loss = own[metric]
    shown = f"its {METRICS[metric]} is {rounded(loss)}"
    if not losses or not math.isfinite(loss):
        return f"not compared with a baseline: {shown}"
    best = min(losses, key=losses.__getitem__)
    gain = 1 - loss / losses[best] if losses[best] else -math.inf * (loss > 0) if loss else 0.0
    against = f"the best baseline ({best}): {shown} instead of {rounded(losses[best])}"
    if gain >= CLEARLY:
        return f"clearly better than {against}"
    if gain >= SLIGHTLY:
        return f"slightly better than {against}"
    return f"{'no better' if gain > -SLIGHTLY else 'worse'} than {against}"


def _describe_drift(outcome: Outcome) -> str:
    drifts = outcome.session.watch.drifts
    if not drifts:
        return "No drift was detected: there is no row after which the loss is clearly higher."
    rows = ", ".join(
        f"{count(drift.since)} (detected at row {count(drift.row)})" for drift in drifts
    )
    words = f"Drift was detected {'once' if len(drifts) == 1 else f'{len(drifts)} times'}: "
    words += f"the loss rose after row {rows}. Dotted red lines mark it in the figures."
    changed = dict.fromkeys(change.feature for drift in drifts for change in drift.changed)
    if changed:
        words += f" The importance of {_join([name(feature) for feature in changed])} changed."
    return words


def _join(words: list[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _describe_features(outcome: Outcome) -> str:
    """Return the most important features in words; nothing for models of keys."""
    session = outcome.session
    if session.scheme.key is not None:
        return ""
    found = importances(session.model)
    spans = ["In the long term", ""]
    if found.recent_rows is not None:
        spans[1] = f"over the last {count(found.recent_rows)} rows"
    parts = [found.long_term(), found.recent()]
    sentences = [
        f"{span} the most important features are {listed}"
        for span, some in zip(spans, parts, strict=True)
        if some is not None and (listed := _list_largest(found.names, some))
    ]
    return paragraph("; ".join(sentences) + ".") if sentences else ""


def _list_largest(names: list[Any], parts: NDArray[np.float64]) -> str:
    order = np.argsort(-parts, kind="stable")[:MOST_NAMED].tolist()
    return ", ".join(f"{name(names[j])} ({parts[j]:.0%})" for j in order if parts[j] >= LEAST_NAMED)


def _compare(outcome: Outcome, baselines: dict[str, Progress]) -> str:
    """Return the metrics of the model and of the baselines, over all rows and over the last."""
    progress = outcome.progress
    shown = [metric for metric in METRICS if metric in progress.metrics]
    heads = ["Model", *(f"{METRICS[m]}, {span}" for m in shown for span in ("all", "last"))]
    rows = [
        [
            name(model),
            *(number(some.get(m)) for m in shown for some in (result.metrics, result.window)),
        ]
        for model, result in {type(outcome.session.model).__name__: progress, **baselines}.items()
    ]
    rows[0][0] = re.sub("(Classifier|Regressor)", r"<wbr>\1", rows[0][0])  # too wide for a phone
    caption = (
        "Each row is predicted before it is learned. “All” is over all rows, “last” over the last "
        f"{count(progress.window_size)}."
    )
    if _count_alone(outcome):
        caption += " “All” of the baselines is over the rows since the run was resumed."
    if outcome.settings.delay:
        caption += " The baselines learn each label at once, without the delay."
    return table(caption, heads, rows, "verdict")
