"""What a run says at its end."""

from __future__ import annotations

import json
import math
from typing import Any

import typer
from rich.console import Console

from amforest.cli.run import Outcome


def summary(outcome: Outcome) -> dict[str, Any]:
    """Return the result of a run in values of JSON."""
    session, progress, settings = outcome.session, outcome.progress, outcome.settings
    stats = session.model.stats()
    return {
        "task": session.scheme.task,
        "rows": session.account.n_rows,
        "rejected": session.account.n_rejected,
        "interrupted": outcome.status != 0,
        "metrics": {name: _finite(value) for name, value in progress.metrics.items()},
        "last_rows": {name: _finite(value) for name, value in progress.window.items()},
        "window": progress.window_size,
        "seconds": round(progress.seconds, 6),
        "samples": stats["samples"],
        "nodes": stats["nodes"],
        "depth": stats["depth"],
        "bytes": stats["bytes"],
        "model": settings.save,
        "forecasts": settings.forecasts,
        "rejects": settings.rejects,
    }


def show(outcome: Outcome, console: Console, *, report: str | None, as_json: bool) -> None:
    """Print the result: as JSON to standard output, or where the files are to the console."""
    settings = outcome.settings
    if as_json:
        text = json.dumps(summary(outcome) | {"report": report}, indent=2, ensure_ascii=False)
        typer.echo(text)
        return
    if settings.quiet:
        return
    if outcome.status:
        console.print("Ended early; everything learnt is kept.", highlight=False)
    files = {
        "The model is in": settings.save,
        "The forecasts are in": None if settings.forecasts == "-" else settings.forecasts,
        "Rejected rows are in": settings.rejects,
        "The report is": None if report is None else f"{report}/index.html",
    }
    for words, path in files.items():
        if path is not None:
            console.print(f"{words} {path}", highlight=False, markup=False)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
