"""Everything that can go wrong, made to go wrong: `python tests/torture [--quick] [--only NAME]`.

Each module here defines `TITLE` and `run(report, quick)`, which returns the rows of the summary.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from result import Report, Result
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

HERE = Path(__file__).resolve().parent
# The quick ones first.
ORDER = ["continuing", "streams", "writes", "kills", "memory", "adaptive", "damage", "threads"]
COLUMNS = ["fault", "how many", "bar", "passed", "details"]


def names() -> list[str]:
    """The modules of this folder: those with a place in the order, then all others."""
    found = {path.stem for path in HERE.glob("*.py")} - {"__main__"}
    found = {name for name in found if "def run(" in (HERE / f"{name}.py").read_text("utf-8")}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


@contextmanager
def bars(console: Console) -> Iterator[Callable[[str], Report]]:
    """Show how far each module is: a bar on a terminal, otherwise a line every ten seconds."""
    if not console.is_terminal:
        yield lambda title: _lines(console, title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        yield lambda title: _bar(progress, title)


def _bar(progress: Progress, title: str) -> Report:
    tasks = {}

    def report(label: str, done: int, total: int) -> None:
        if label not in tasks:
            tasks[label] = progress.add_task(f"{title}: {label}", total=total)
        progress.update(tasks[label], completed=done, total=total)

    return report


def _lines(console: Console, title: str) -> Report:
    last: dict[str, float] = {}

    def report(label: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - last.get(label, -10) < 10:
            return
        last[label] = now
        console.print(f"{title}: {label}: {done:,} of {total:,}", highlight=False)

    return report


def run(name: str, report_of: Callable[[str], Report], quick: bool) -> list[Result]:
    """Run a module; whatever it raises is a row of the summary, too."""
    title = name
    try:
        module = importlib.import_module(name)
        title = module.TITLE
        return list(module.run(report_of(title), quick))
    except Exception as error:
        traceback.print_exc()
        return [Result(title, 0, "runs to its end", False, f"{type(error).__name__}: {error}")]


def row(result: Result) -> list[str]:
    passed = "yes" if result.passed else "NO"
    return [result.fault, f"{result.count:,}", result.bar, passed, result.details]


def as_markdown(results: list[Result]) -> str:
    rows = [COLUMNS, ["---"] * len(COLUMNS), *map(row, results)]
    cells = [[cell.replace("|", "\\|").replace("\n", "<br>") for cell in line] for line in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def as_table(results: list[Result]) -> Table:
    table = Table(title="torture", show_lines=True)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column == "how many" else "left")
    for result in results:
        table.add_row(*row(result), style=None if result.passed else "bold red")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/torture", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the short form")
    parser.add_argument("--only", nargs="+", choices=names(), metavar="NAME", help="some modules")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn at random")
    parser.add_argument("--summary", type=Path, help="a file for the summary, in Markdown")
    options = parser.parse_args()
    os.environ["TORTURE_SEED"] = str(options.seed)  # the modules' processes read it, too
    sys.path += [str(HERE.parent), str(HERE.parent / "forest")]  # helpers, and the state machine
    console, results = Console(), list[Result]()
    if not console.is_terminal:
        console.width = 160
    with bars(console) as report_of:
        for name in options.only or names():
            results += run(name, report_of, options.quick)
    console.print(as_table(results))
    if options.summary:
        options.summary.write_text(as_markdown(results), encoding="utf-8")
    return 0 if results and all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
