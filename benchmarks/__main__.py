"""The command: measure, print, and write the results."""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks import data, machine, threads
from benchmarks.document import write_document
from benchmarks.figures import figures
from benchmarks.plan import FULL, QUICK
from benchmarks.result import Result
from benchmarks.run import SECTIONS, measure
from benchmarks.terminal import Bars, show


def main() -> int:
    options = _parse()
    plan = QUICK if options.quick else FULL
    console = Console()
    start = time.monotonic()
    try:
        with Bars(console) as bars:
            if not data.are_real():
                bars.say("AMFOREST_DATA is not set: using generated data of the same shapes")
            tables = measure(plan, bars, options.only or SECTIONS)
    except KeyboardInterrupt:
        console.print("interrupted; nothing was written")
        return 130
    minutes = (time.monotonic() - start) / 60
    result = Result(plan, data.are_real(), minutes, machine.describe(), figures(tables), tables)
    show(console, result.figures, f"{plan.name} run of {minutes:.1f} minutes")
    busy = [row[threads.OTHERS] for row in tables.get("learning with 2 threads", {}).values()]
    if max(busy, default=0) > 0.2:
        console.print(
            f"other processes disturbed two threads: {threads.OTHERS} up to {max(busy):.1f}"
        )
    result.write_json(options.json)
    console.print(f"written: {options.json}")
    if options.docs:
        write_document(options.docs, result)
        console.print(f"written: {options.docs / 'benchmarks.md'} and its images")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare amforest with its peers."
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer rows and repetitions: three minutes"
    )
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"))
    parser.add_argument(
        "--docs",
        type=Path,
        help="folder for benchmarks.md and its images; docs by default in a full run",
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="only these sections")
    options = parser.parse_args()
    if options.only and options.docs:
        parser.error("--docs needs all sections: remove --only")
    if not options.quick and not options.only and options.docs is None:
        options.docs = Path("docs")
    return options


if __name__ == "__main__":
    sys.exit(main())
