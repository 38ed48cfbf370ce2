"""Runs of contenders on streams, and tasks in several processes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.quality.contenders import CONTENDERS
from benchmarks.quality.kept import FOLDER, slug
from benchmarks.quality.scores import Scores, read, score
from benchmarks.quality.streams import STREAMS
from benchmarks.quality.variants import load

Task = Callable[[], Any]


@dataclass(frozen=True)
class Job:
    """One run: a stream, perhaps changed, a contender and a seed."""

    stream: str
    contender: str
    seed: int
    max_rows: int
    variant: str = ""

    @property
    def path(self) -> Path:
        """The file of the result."""
        contender = CONTENDERS[self.contender]
        case = "-".join(filter(None, (self.stream, self.variant)))
        folder = FOLDER / "runs" / slug(f"{contender.name} {contender.version}") / slug(case)
        return folder / f"{self.max_rows}-{self.seed}.json"

    def __call__(self) -> Scores:
        """Return the scores; they are computed only once."""
        known = read(self.path)
        if known is not None:
            return known
        stream = load(self.stream, self.max_rows, self.variant, self.seed)
        predictions, seconds = CONTENDERS[self.contender].test_then_train(stream, self.seed)
        scores = score(predictions, stream.y, seconds)
        scores.write(self.path)
        return scores


def jobs(
    streams: Iterable[str],
    contenders: Iterable[str],
    *,
    max_rows: int,
    n_seeds: int = 3,
    variant: str = "",
) -> Iterator[Job]:
    """Yield the runs: as many seeds and rows as the contender has time for."""
    names = list(streams)
    for contender in (CONTENDERS[key] for key in contenders):
        for name in names:
            if contender.only_drift and not STREAMS[name].has_drift:
                continue
            for seed in range(min(contender.n_seeds, n_seeds)):
                yield Job(name, contender.name, seed, min(max_rows, contender.max_rows), variant)


def new_pool(n_workers: int) -> ProcessPoolExecutor:
    """Return processes that start anew: a Java machine does not survive a fork."""
    return ProcessPoolExecutor(n_workers, mp_context=get_context("spawn"))


def run_all(pool: ProcessPoolExecutor, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
    """Yield the number of each task and its result as they are done, or the error of the task."""
    numbers = {pool.submit(task): i for i, task in enumerate(tasks)}
    for future in as_completed(numbers):
        error = future.exception()
        yield numbers[future], error if error is not None else future.result()


@dataclass(frozen=True)
class Mean:
    """The mean over seeds."""

    log_loss: float
    accuracy: float
    us_per_row: float
    n_rows: int
    n_seeds: int


def averaged(runs: Sequence[Scores]) -> Mean:
    """Return the mean over seeds."""
    return Mean(
        mean(run.log_loss for run in runs),
        mean(run.accuracy for run in runs),
        mean(run.us_per_row for run in runs),
        runs[0].n_rows,
        len(runs),
    )
