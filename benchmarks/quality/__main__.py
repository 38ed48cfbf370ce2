"""The command: measure, print the figures with their targets, and write the page."""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import machine
from benchmarks.quality.checks import checks
from benchmarks.quality.measuring import GROUPS, SECTIONS, sections_of
from benchmarks.quality.page import write_page
from benchmarks.quality.plan import FULL, QUICK, Plan
from benchmarks.quality.regression_contenders import EVERYONE
from benchmarks.quality.regression_streams import REGRESSION_STREAMS
from benchmarks.quality.results import Results, read_results
from benchmarks.quality.session import Session, wanted_streams
from benchmarks.quality.streams import STREAMS
from benchmarks.quality.targets import Check
from benchmarks.terminal import Bars

_RESULTS = Path(__file__).with_name("results.json")
_QUICK_FOLDER = Path("build/quality-quick")


def main() -> int:
    options = _parse()
    plan = QUICK if options.quick else FULL
    if options.contenders:
        plan = replace(plan, contenders=tuple(options.contenders))
    folder = options.to or (_QUICK_FOLDER if options.quick else Path("docs"))
    # A full run continues from the last one: what it does not measure again stays on the page.
    path = folder / "results.json" if options.quick else _RESULTS
    results = Results() if options.quick else read_results(path)
    console = Console()
    start = time.monotonic()
    with Bars(console) as bars:
        streams = wanted_streams(plan, options.streams, bars.say)
        is_partial = bool(options.streams or options.contenders)
        session = Session(plan, bars, results, *streams, is_partial, options.again, options.workers)
        for name in sections_of(options.only or []):
            SECTIONS[name](session)
            _describe_run(results, plan, session)
            results.write(path)
            write_page(folder, results)
    _show(
        console, checks(results), f"{plan.name} run, {(time.monotonic() - start) / 60:.1f} minutes"
    )
    console.print(f"{folder / 'quality.md'} is written")
    return 0


def _describe_run(results: Results, plan: Plan, session: Session) -> None:
    results.run = {
        "plan": plan.name,
        "max_rows": plan.max_rows,
        "n_seeds": plan.n_seeds,
        "latency_rows": plan.latency_rows,
        "skipped": session.skipped,
        "machine": machine.describe() | _versions(),
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    found = {}
    for package in ("capymoa", "lightgbm"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _show(console: Console, figures: Sequence[Check], title: str) -> None:
    """Print the figures with their targets."""
    table = RichTable(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("figure")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("of")
    table.add_column("target", justify="right", no_wrap=True)
    table.add_column("")
    for check in figures:
        color = "green" if check.is_met else "red"
        verdict = f"[{color}]{check.verdict}[/]"
        table.add_row(check.name, check.value_text, check.case, check.target_text, verdict)
    console.print(table)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer streams, rows and seeds")
    parser.add_argument(
        "--to", type=Path, help="folder of quality.md; docs, or build/quality-quick if quick"
    )
    parser.add_argument(
        "--only", action="append", choices=[*SECTIONS, *GROUPS], help="only this section, or group"
    )
    parser.add_argument(
        "--streams",
        type=partial(_names, [*STREAMS, *REGRESSION_STREAMS]),
        default=[],
        help="only these streams, with commas between; the others' last results stay on the page",
    )
    parser.add_argument(
        "--contenders",
        type=partial(_names, EVERYONE),
        default=[],
        help="only these contenders, in the same way",
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="processes of the sections that do not measure time"
    )
    parser.add_argument("--again", action="store_true", help="do not use the kept long run")
    return parser.parse_args()


def _names(known_names: Iterable[str], text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in known_names]
    if unknown:
        known = ", ".join(known_names)
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; expected some of {known}")
    return names


if __name__ == "__main__":
    sys.exit(main())
