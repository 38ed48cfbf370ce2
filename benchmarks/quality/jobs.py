"""Runs of contenders on streams: cached, two at a time, with progress."""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import mean

from benchmarks.quality.contenders import CONTENDERS
from benchmarks.quality.kept import FOLDER, slug
from benchmarks.quality.scores import Scores, read, score
from benchmarks.quality.streams import STREAMS
from benchmarks.quality.variants import load


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

    def run(self) -> Scores:
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
    max_seeds: int = 3,
    variant: str = "",
) -> Iterator[Job]:
    """Yield the runs, as many seeds and rows as the contender is given."""
    for name in streams:
        for contender in (CONTENDERS[key] for key in contenders):
            if contender.only_drift and not STREAMS[name].has_drift:
                continue
            for seed in range(min(contender.n_seeds, max_seeds)):
                yield Job(name, contender.name, seed, min(max_rows, contender.max_rows), variant)


def _run(job: Job) -> Scores:
    return job.run()


def run_all(todo: Sequence[Job], n_workers: int) -> Iterator[tuple[Job, Scores | None]]:
    """Yield each job with its scores as they are done, None if it failed; cached ones first."""
    missing = []
    for job in todo:
        known = read(job.path)
        if known is None:
            missing.append(job)
        else:
            yield job, known
    if not missing:
        return
    # A Java machine does not survive a fork.
    with ProcessPoolExecutor(n_workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(_run, job): job for job in missing}
        for future in as_completed(futures):
            error = future.exception()
            if error is not None:
                print(f"{futures[future]} failed: {error!r}", flush=True)
            yield futures[future], None if error else future.result()


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


def write_summary(path: Path, results: dict[str, dict[str, Mean]]) -> None:
    """Write means by stream and contender as JSON."""
    content = {
        stream: {name: vars(result) for name, result in row.items()}
        for stream, row in results.items()
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
