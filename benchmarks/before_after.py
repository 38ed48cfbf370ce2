"""Two versions of amforest in one run, as ratios after/before.

``python -m benchmarks.before_after --before PYTHON --after PYTHON`` takes the interpreters of two
environments, each with a version of amforest installed. Both versions learn the same rows with the
same seed, so both grow the same forests, and every repetition does the same work. The rows are
divided into short turns that the versions take alternately, on one core; the cost of a turn is its
least CPU time over all repetitions, and the cost of a data set is the sum over its turns. Each
round starts new processes, because the addresses that a process happens to get cost up to a few
percent.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from amforest import datasets
from benchmarks.data import Stream, stream
from benchmarks.memory import is_possible, peak_growth
from benchmarks.peers import Amforest, warmed_up
from benchmarks.timing import Table, one_core, seconds

BEFORE, AFTER = "before", "after"
BATCH = 2_000  # rows of a turn
GROWN, BLOCK, BLOCKS = 3_000, 100, 5  # rows learned before one-row calls, and those timed
LEARN, PREDICT = "batch learning", "batch predicting"
LEARN_ONE, PREDICT_ONE = "one-row learning", "one-row predicting"
BYTES, PEAK = "model bytes", "peak growth"
FIGURES = (LEARN, PREDICT, LEARN_ONE, PREDICT_ONE, BYTES, PEAK)
_ROOT = Path(__file__).parents[1]


class Worker:
    """Does what the commands ask with the amforest of its own interpreter."""

    def load(self, folder: str, n_classes: int) -> None:
        """Load the rows of a data set."""
        self._X = np.load(Path(folder) / "X.npy")
        self._y = np.load(Path(folder) / "y.npy")
        self._n_classes = n_classes

    def start(self, n_rows: int) -> None:
        """Start a new forest, and learn the first rows."""
        self._forest = Amforest(self._n_classes, seed=0)
        if n_rows:
            self._forest.learn(self._X[:n_rows], self._y[:n_rows])

    def learn(self, start: int, stop: int) -> dict[str, float]:
        """Return the CPU time of learning a batch."""
        return {LEARN: seconds(self._forest.learn, self._X[start:stop], self._y[start:stop])}

    def predict(self, start: int, stop: int) -> dict[str, float]:
        """Return the CPU time of predicting a batch."""
        return {PREDICT: seconds(self._forest.predict, self._X[start:stop])}

    def one_row(self, start: int, stop: int) -> dict[str, float]:
        """Return the CPU time of predicting rows one by one, and of learning them."""
        block = self._forest.block(self._X[start:stop], self._y[start:stop])
        self._forest.predict_rows(block)  # loads the caches
        return {
            PREDICT_ONE: seconds(self._forest.predict_rows, block),
            LEARN_ONE: seconds(self._forest.learn_rows, block),
        }

    def memory(self) -> dict[str, float]:
        """Return the memory of a forest that has learned all rows, and the peak meanwhile."""
        forest = Amforest(self._n_classes, seed=0)
        learn = partial(forest.learn, self._X, self._y)
        peak = {PEAK: peak_growth(learn, partial(warmed_up, "amforest"))} if is_possible() else {}
        learn()
        return {BYTES: forest.model.stats()["bytes"]} | peak


def serve() -> None:
    """Execute the commands of standard input, one JSON list a line."""
    worker = Worker()
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, method)(*arguments)), flush=True)


class Side:
    """A process that runs one version."""

    def __init__(self, python: str) -> None:
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.before_after", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            env=environment,
        )

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def call(self, *command: Any) -> dict[str, float]:
        """Execute a command and return its costs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process has ended at {command}; its error is above")
        costs: dict[str, float] = json.loads(answer) or {}
        return costs


class Minima:
    """The least cost of each turn, by figure, data set and side."""

    def __init__(self) -> None:
        self._turns: defaultdict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)

    def add(self, case: str, side: str, turn: int, costs: dict[str, float]) -> None:
        """Add one measurement of each figure."""
        for figure, cost in costs.items():
            turns = self._turns[figure, case, side]
            turns[turn] = min(cost, turns.get(turn, cost))

    def ratios(self) -> Table:
        """Return after/before by data set and figure."""
        sums = {key: sum(turns.values()) for key, turns in self._turns.items()}
        table: Table = defaultdict(dict)
        for (figure, case, side), cost in sums.items():
            if side == AFTER:
                table[case][figure] = cost / sums[figure, case, BEFORE]
        return table


class Match:
    """Two sides that take turns on one data set."""

    def __init__(self, case: str, sides: dict[str, Side], minima: Minima) -> None:
        self._case, self._sides, self._minima = case, sides, minima
        self._order = list(sides)

    def swap(self) -> None:
        """Let the other side go first, as in every other repetition."""
        self._order.reverse()

    def both(self, *command: Any) -> None:
        """Let both sides execute a command that is not measured."""
        for name in self._order:
            self._sides[name].call(*command)

    def turns(self, method: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Let the sides take turns; the first in a turn is the second in the next one."""
        order = list(self._order)
        for start, stop in ranges:
            for name in order:
                costs = self._sides[name].call(method, start, stop)
                self._minima.add(self._case, name, start, costs)
            order.reverse()

    def memory(self) -> None:
        """Measure the memory of both sides."""
        for name, side in self._sides.items():
            self._minima.add(self._case, name, 0, side.call("memory"))


def measure_round(
    pythons: dict[str, str], streams: dict[Path, Stream], minima: Minima, repetitions: int
) -> None:
    """Measure every data set in two new processes."""
    with ExitStack() as stack, one_core():
        sides = {name: stack.enter_context(Side(python)) for name, python in pythons.items()}
        for folder, rows in streams.items():
            match = Match(rows.name, sides, minima)
            match.both("load", str(folder), rows.n_classes)
            match.memory()
            n_rows = len(rows.y)
            # Small data sets take milliseconds: they are repeated more often.
            for _ in range(max(repetitions, min(5 * repetitions, 20_000 // n_rows))):
                match.swap()
                match.both("start", 0)
                match.turns("learn", _ranges(0, n_rows, BATCH))
            for _ in range(max(2 * repetitions, min(10 * repetitions, 100_000 // n_rows))):
                match.swap()
                match.turns("predict", _ranges(0, n_rows, BATCH))
            first = min(GROWN, n_rows - BLOCK * BLOCKS)
            for _ in range(5 * repetitions):
                match.swap()
                match.both("start", first)
                match.turns("one_row", _ranges(first, first + BLOCK * BLOCKS, BLOCK))


def _ranges(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    return [(first, min(first + step, stop)) for first in range(start, stop, step)]


def report(table: Table) -> str:
    """Return the ratios as text, with their geometric means."""
    figures = [figure for figure in FIGURES if any(figure in row for row in table.values())]
    means = {figure: geometric_mean(row[figure] for row in table.values()) for figure in figures}
    lines = [["after/before", *figures]]
    for case, row in [*table.items(), ("geometric mean", means)]:
        lines.append([case, *(f"{row[figure]:.3f}" for figure in figures)])
    return "\n".join(
        f"{name:<16}" + "".join(f"{cell:>20}" for cell in cells) for name, *cells in lines
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.before_after",
        description="Compare two installed versions of amforest.",
    )
    parser.add_argument("--before", metavar="PYTHON", help="interpreter with the old version")
    parser.add_argument("--after", metavar="PYTHON", help="interpreter with the new version")
    parser.add_argument("--rounds", type=int, default=8, help="with new processes each")
    parser.add_argument(
        "--minutes", type=float, default=7.5, help="no round starts that would end later"
    )
    parser.add_argument("--repetitions", type=int, default=2, help="in each round")
    parser.add_argument("--only", nargs="+", choices=datasets.NAMES, default=datasets.NAMES)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    if not (options.before and options.after):
        parser.error("--before and --after are required")
    minima = Minima()
    with tempfile.TemporaryDirectory() as folder:
        streams = {}
        for name in options.only:
            rows = stream(name, max_rows=None)
            streams[_save(rows, Path(folder) / name)] = rows
        pythons = {BEFORE: options.before, AFTER: options.after}
        start, n_done = time.monotonic(), 0
        while n_done < options.rounds:
            measure_round(pythons, streams, minima, options.repetitions)
            n_done += 1
            minutes = (time.monotonic() - start) / 60
            print(f"round {n_done} of {options.rounds}: {minutes:.1f} min", file=sys.stderr)
            if minutes * (n_done + 1) / n_done > options.minutes:
                break
    print(report(minima.ratios()))
    return None


def _save(rows: Stream, folder: Path) -> Path:
    folder.mkdir()
    np.save(folder / "X.npy", np.ascontiguousarray(rows.X, dtype=np.float32))
    np.save(folder / "y.npy", rows.y)
    return folder


if __name__ == "__main__":
    main()
