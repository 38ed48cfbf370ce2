"""``python -m experiments.paper``: the paper's figures and tables, and a report."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments import paper
from experiments.paper._run import Report, ignore_progress

EXIT_ERROR, EXIT_INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report, and print which claims hold; return the exit status."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    default = signal.signal(signal.SIGTERM, _exit)  # otherwise the processes would stay
    try:
        with nullcontext(ignore_progress) if options.quiet else _progress(console) as report:
            findings = paper.reproduce(
                options.to,
                only=options.only or paper.NAMES,
                size="quick" if options.quick else "full",
                n_jobs=options.processes,
                kept=options.kept,
                report=report,
            )
    except KeyboardInterrupt:
        console.print("Interrupted. The same command continues from here.")
        return EXIT_INTERRUPTED
    except (OSError, ValueError) as error:
        if options.debug:
            raise
        console.print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        return EXIT_ERROR
    finally:
        signal.signal(signal.SIGTERM, default)
    _print_claims(findings, Path(options.to))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.paper",
        description="Reproduce the figures and tables of the paper, and report which of its claims "
        "hold. Data sets are read from the folder that AMFOREST_DATA names, or downloaded. An "
        "interrupted run continues when the command is repeated.",
    )
    add = parser.add_argument
    add("--to", default="paper", metavar="FOLDER", help="write the report here (default: paper)")
    add("--only", action="append", metavar="NAME",
        help="only this figure or table, such as figure_10; may be repeated")  # fmt: skip
    add("--quick", action="store_true", help="fewer samples and seeds: some minutes")
    add("--processes", type=_positive, default=os.cpu_count() or 1, metavar="N",
        help="number of processes (default: one for each core)")  # fmt: skip
    add("--kept", metavar="FOLDER", help="keep computed results here (default: TO/found)")
    add("--quiet", action="store_true", help="print no progress")
    add("--debug", action="store_true", help="print a traceback of errors")
    return parser


def _positive(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


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


def _print_claims(findings: list[paper.Finding], folder: Path) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
