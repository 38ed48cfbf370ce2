"""The result of a run: as JSON, or as lines that name its files."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console

from amforest.cli.console import print_json, print_line
from amforest.cli.run import Outcome, size_of


def show_outcome(outcome: Outcome, console: Console, *, report: str | None, as_json: bool) -> None:
    """Print the result as JSON to standard output, or the names of the files to the console."""
    settings = outcome.settings
    if as_json:
        print_json(_summarize(outcome) | {"report": report})
        return
    if outcome.status:
        console.print("Stopped early; everything learned is kept.", highlight=False)
    files = {
        "Model": settings.save,
        "Predictions": None if settings.predictions == "-" else settings.predictions,
        "Rejected rows": settings.rejects,
        "Report": None if report is None else f"{report}/index.html",
    }
    for what, path in files.items():
        if path is not None:
            print_line(console, f"{what}: {path}")


def _summarize(outcome: Outcome) -> dict[str, Any]:
    """Return the result of a run in values of JSON."""
    session, progress, settings = outcome.session, outcome.progress, outcome.settings
    return {
        "task": session.scheme.task,
        "rows": session.n_rows,
        "rejected": session.n_rejected,
        "rejected_by_reason": session.reject_summary.to_json(),
        "notes": outcome.notes,
        "interrupted": outcome.status != 0,
        "unknown_class_rows": session.evaluator.n_unknown_classes,
        "metrics": {name: _finite(value) for name, value in progress.metrics.items()},
        "last_rows": {name: _finite(value) for name, value in progress.window.items()},
        "window": progress.window_size,
        "requested_coverage": session.coverage,
        "seconds": round(progress.seconds, 6),
        "samples": session.model.stats()["samples"],
        **size_of(session.model),
        "model": settings.save,
        "predictions": settings.predictions,
        "rejects": settings.rejects,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
