"""``amforest paper``: the paper's figures and tables, and a report."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from amforest.cli.errors import EXIT_INTERRUPTED, CommandError

if TYPE_CHECKING:
    from experiments.paper import Finding
    from experiments.paper._run import Report


def reproduce(
    folder: str,
    *,
    only: list[str] | None,
    quick: bool,
    processes: int | None,
    kept: str | None,
    quiet: bool,
    console: Console,
) -> int:
    """Write the report, and print how many claims hold; return the exit status."""
    if find_spec("matplotlib") is None:
        raise CommandError("amforest paper needs matplotlib: pip install 'amforest[cli,plot]'")
    from experiments import paper  # noqa: PLC0415  # imports take seconds

    terminated = signal.signal(signal.SIGTERM, _end)  # otherwise, the processes would stay
    try:
        with nullcontext(_say_nothing) if quiet else _progress(console) as report:
            findings = paper.reproduce(
                folder,
                only=only or paper.NAMES,
                size="quick" if quick else "full",
                n_jobs=processes or os.cpu_count() or 1,
                kept=kept,
                report=report,
            )
    except KeyboardInterrupt:
        console.print("Interrupted. The same command goes on where this one was.")
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, terminated)
    _show(findings, Path(folder))
    return 0


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _say_nothing(label: str, done: int, total: int) -> None:
    pass


@contextmanager
def _progress(console: Console) -> Iterator[Report]:
    """Show bars on a terminal, and otherwise a line for each cell."""
    if not console.is_terminal:
        yield lambda label, done, total: console.print(f"{label}: {done} of {total}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        tasks = {}

        def report(label: str, done: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = progress.add_task(label, total=total)
            progress.update(tasks[label], completed=done)

        yield report


def _show(findings: list[Finding], folder: Path) -> None:
    table = Table(title="The paper's claims", title_justify="left")
    for heading in ("", "claim", "found here", "agrees"):
        table.add_column(heading)
    for finding in findings:
        for claim in finding.claims:
            style = None if claim.holds else "bold"
            agrees = "yes" if claim.holds else "no"
            table.add_row(finding.name, claim.text, claim.found, agrees, style=style)
    console = Console()
    console.print(table)
    console.print(f"The report: {folder / 'paper.md'}, {folder / 'paper.html'}", soft_wrap=True)
