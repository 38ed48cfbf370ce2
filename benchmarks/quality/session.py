"""One run of the command: its size, its processes and its results."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from benchmarks.quality.jobs import Task, new_pool, run_all
from benchmarks.quality.plan import Plan
from benchmarks.quality.regression_contenders import EVERYONE
from benchmarks.quality.regression_streams import (
    REGRESSION_STREAMS,
    available_regression_streams,
)
from benchmarks.quality.results import Results
from benchmarks.quality.streams import STREAMS, available_streams
from benchmarks.terminal import Bars
from benchmarks.timing import one_core


@dataclass
class Session:
    """One run: its size, where it reports, and what it has measured so far."""

    plan: Plan
    bars: Bars
    results: Results
    streams: list[str]
    regression_streams: list[str]
    is_partial: bool  # some streams only: keep the others' results
    is_again: bool = False
    n_workers: int = 2
    skipped: dict[str, str] = field(default_factory=dict)

    @cached_property
    def pool(self) -> ProcessPoolExecutor:
        """The processes of all sections that do not measure time."""
        return new_pool(self.n_workers)

    def able(self, names: Iterable[str]) -> list[str]:
        """Return those contenders that can run here, and that the plan wants."""
        wanted = [name for name in names if name in (self.plan.contenders or EVERYONE)]
        obstacles = {name: EVERYONE[name].obstacle for name in wanted}
        for name, obstacle in obstacles.items():
            if obstacle and name not in self.skipped:
                self.skipped[name] = obstacle
                self.bars.say(f"skipped: {name}: {obstacle}")
        return [name for name in wanted if not obstacles[name]]

    def run(self, title: str, tasks: Sequence[Task]) -> list[Any]:
        """Return the results of tasks in their order; None for those that fail."""
        return self._run(title, tasks, self.pool)

    def run_alone(self, title: str, tasks: Sequence[Task]) -> list[Any]:
        """Do so one by one in a process that is pinned to one core, with all its threads."""
        with one_core(), new_pool(1) as pool:
            return self._run(title, tasks, pool)

    def _run(self, title: str, tasks: Sequence[Task], pool: ProcessPoolExecutor) -> list[Any]:
        results: list[Any] = [None] * len(tasks)
        done = run_all(pool, tasks)
        for _ in self.bars.over(title, tasks):
            i, result = next(done)
            if isinstance(result, BaseException):
                self.bars.say(f"failed: {tasks[i]}: {result!r}")
            else:
                results[i] = result
        return results


def wanted_streams(
    plan: Plan, names: Collection[str], say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """Return the streams of a run, of classes and of numbers, and say which ones have no file."""
    classes = _requested(STREAMS, plan.streams, names)
    numbers = _requested(REGRESSION_STREAMS, plan.regression_streams, names)
    wanted = available_streams(classes), available_regression_streams(numbers)
    for name in sorted({*classes, *numbers}.difference(*wanted)):
        say(f"skipped: {name}: its file does not exist; set AMFOREST_DATA")
    return wanted


def _requested(
    known: Mapping[str, object], planned: Sequence[str], names: Collection[str]
) -> list[str]:
    return [name for name in known if name in names] if names else [*(planned or known)]
