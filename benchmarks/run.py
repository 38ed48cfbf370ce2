"""A run: all sections, on the same streams, with the installed libraries."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Protocol, TypeVar

from amforest import datasets
from benchmarks import (
    batch,
    categories,
    cold_start,
    growth,
    limit,
    memory,
    one_row,
    overhead,
    threads,
)
from benchmarks.data import Stream, stream, uniform
from benchmarks.figures import Tables
from benchmarks.peers import LIBRARIES, NewForest, warmed_up
from benchmarks.plan import Plan
from benchmarks.timing import one_core

T = TypeVar("T")


class Progress(Protocol):
    """Shows the progress of a run."""

    def over(self, title: str, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, one step each."""

    def say(self, line: str) -> None:
        """Show a permanent line."""


class Run:
    """The streams and libraries of a run, and its sections as methods that return tables."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.plan = plan
        self._over = progress.over
        with one_core():
            self.libraries = _installed(progress)
            titles = progress.over("data sets", list(datasets.NAMES))
            self.streams = [stream(name, plan.max_rows) for name in titles]

    def batch(self) -> Tables:
        """Batch learning and batch predicting."""
        streams = self._over("batch learning and predicting", self.streams)
        return batch.measure(streams, self._with_batches(), self.plan)

    def one_row(self) -> Tables:
        """One-row learning and predicting, and test-then-train."""
        streams = self._over("one row at a time", self._one_row_streams())
        return one_row.measure(streams, self.libraries, self.plan)

    def overhead(self) -> Tables:
        """Overhead of a call."""
        return {"overhead": overhead.measure()}

    def categories(self) -> Tables:
        """Categorical features compared with explicit one-hot columns."""
        names = self._over("categories", list(categories.DATA))
        return categories.measure(names, self.plan.max_rows, self.plan.repetitions)

    def memory(self) -> Tables:
        """Memory growth on whole data sets, and on their first rows if river is installed."""
        if not memory.is_possible():
            return {}
        whole = self._over("memory", self.streams)
        tables = {
            "memory growth": memory.measure(
                whole, self._with_batches(), self.plan.memory_repetitions
            )
        }
        if "river" in self.libraries:
            first = [s.first(self.plan.grown_rows) for s in self._one_row_streams()]
            first_rows = self._over("memory, first rows", first)
            tables["memory growth, first rows"] = memory.measure(first_rows, self.libraries, 1)
        return tables

    def cold_start(self) -> Tables:
        """Import, first fit and first predict in new processes."""
        repetitions = self._over("cold start", range(self.plan.cold_starts))
        return {"cold start": cold_start.measure(repetitions, self.libraries)}

    def stream(self) -> Tables:
        """Cost per sample over a long stream."""
        repetitions = self._over("a growing stream", range(self.plan.stream_repetitions))
        return growth.measure(repetitions, self._with_batches(), self.plan)

    def limit(self) -> Tables:
        """Learning time divided by the time of reading the nodes."""
        if not limit.is_possible():
            return {}
        streams = [*self.streams, uniform(self.plan.limit_rows, seed=0)]
        titled = self._over("the machine's limit", streams)
        return {"learning": limit.measure(titled, self.plan.limit_timed)}

    def threads(self) -> Tables:
        """Two threads compared with one."""
        large = [s for s in (*self.streams, uniform(30_000, seed=0)) if len(s.y) >= 10_000]
        streams = self._over("two threads", large)
        return {"learning with 2 threads": threads.measure(streams, self.plan.repetitions)}

    def _with_batches(self) -> dict[str, NewForest]:
        return {name: new for name, new in self.libraries.items() if name != "river"}

    def _one_row_streams(self) -> list[Stream]:
        selected = self.plan.one_row_data
        return [s for s in self.streams if selected is None or s.name in selected]


# Threads last: a process that has started threads must not fork.
SECTIONS: dict[str, Callable[[Run], Tables]] = {
    "batch": Run.batch,
    "one-row": Run.one_row,
    "overhead": Run.overhead,
    "categories": Run.categories,
    "memory": Run.memory,
    "cold-start": Run.cold_start,
    "stream": Run.stream,
    "limit": Run.limit,
    "threads": Run.threads,
}


def measure(plan: Plan, progress: Progress, sections: Iterable[str]) -> Tables:
    """Return the tables of the requested sections."""
    run = Run(plan, progress)
    tables: Tables = {}
    for name in (name for name in SECTIONS if name in sections):
        with nullcontext() if name == "threads" else one_core():
            tables |= SECTIONS[name](run)
    return tables


def _installed(progress: Progress) -> dict[str, NewForest]:
    """Return the libraries that can be imported, after using each once."""
    libraries = {}
    for name in progress.over("imports and first calls (onelearn: 45 s)", list(LIBRARIES)):
        if warmed_up(name):
            libraries[name] = LIBRARIES[name]
        else:
            progress.say(f"{name} is not installed: its figures are omitted")
    return libraries
