"""Runs that are killed (SIGKILL) while they learn and save: the newest checkpoint continues."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import re
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from result import Report, Result

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    Checkpoint,
    river,
)
from amforest.model_io.model_file import from_bytes

TITLE = "killed runs"
SEED = int(os.environ.get("TORTURE_SEED", "0"))
EVERY, KEEP = 7, 3
KILLS_PER_RUN = 8  # then another run begins, because models grow
SPAWN = multiprocessing.get_context("spawn")
WHOLE, PARTIAL = r"checkpoint-(\d{12})\.amf", r"\.checkpoint-.*\.tmp"


def row(i: int) -> list[float]:
    return [i * 0.618 % 1, i * 0.414 % 1, float("nan") if i % 11 == 0 else float(i % 3)]


def named(i: int) -> dict[str, Any]:
    return {"a": row(i)[0], "word": f"{i % 5}"} | ({"late": row(i)[1]} if i % 50 > 10 else {})


@dataclass(frozen=True)
class Kind:
    """A model, and the i-th row of an endless stream."""

    model: Callable[[], Any]
    x: Callable[[int], Any]
    y: Callable[[int], Any]

    def learn(self, model: Any, i: int) -> None:
        model.learn_one(self.x(i), self.y(i))


def label(i: int) -> str:
    return "abcd"[i % (2 + i // 100) % 4]


ADAPTIVE = {"n_estimators": 1, "memories": (None, 40, 8), "n_candidates": 300}
KINDS = [
    Kind(lambda: AMFClassifier(2, random_state=0), row, label),
    Kind(lambda: AdaptiveAMFClassifier(**ADAPTIVE, random_state=0), row, label),
    Kind(lambda: AMFRegressor(2, random_state=1), row, lambda i: i * 0.1 % 3),
    Kind(lambda: AdaptiveAMFRegressor(**ADAPTIVE, random_state=1), row, lambda i: i * 0.1 % 3),
    Kind(lambda: river.AMFClassifier(2, seed=2), named, lambda i: i % 3 == 0),
    Kind(lambda: river.AdaptiveAMFClassifier(**ADAPTIVE, seed=2), named, lambda i: i % 3 == 0),
]


def learn_until_killed(kind: Kind, folder: Path) -> None:
    with Checkpoint(kind.model(), folder, every=EVERY, keep=KEEP) as checkpoint:
        while True:
            kind.learn(checkpoint.model, checkpoint.position)
            checkpoint.step()


@dataclass
class Run:
    """A folder of checkpoints, what was in it when the last run was killed, and the true model."""

    kind: Kind
    folder: Path
    true: Any = None
    n_learned: int = 0
    before: dict[str, str] = field(default_factory=dict)  # digests of files by their names

    def kill_one(self, seconds: float) -> int:
        """Start a run, kill it, check what it left; return how many files it was about to write."""
        child = os.fork()
        if child == 0:
            try:
                warnings.simplefilter("error")
                learn_until_killed(self.kind, self.folder)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status), f"the run ended by itself: {status}"
        return self.check()

    def check(self) -> int:
        names = sorted(os.listdir(self.folder))
        whole = [name for name in names if re.fullmatch(WHOLE, name)]
        partial = [name for name in names if re.fullmatch(PARTIAL, name)]
        assert len(whole) + len(partial) == len(names), f"there are others: {names}"
        assert len(partial) <= 1, f"old ones were not removed: {names}"
        assert len(whole) <= KEEP + 1, f"too many: {names}"
        assert bool(whole) or not self.before, "all files are lost"
        contents = {name: (self.folder / name).read_bytes() for name in whole}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        for name in self.before.keys() & digests.keys():
            assert digests[name] == self.before[name], f"{name} has changed"
        for name, data in contents.items():
            assert from_bytes(data).n_samples_seen_ == number_of(name)
        if whole:
            assert whole[-1] >= max(self.before, default=""), "the newest file is lost"
            self.check_newest(whole[-1], contents[whole[-1]])
        self.before = digests
        return len(partial)

    def check_newest(self, name: str, data: bytes) -> None:
        """It is the model that has learned as many rows and was never stopped."""
        self.true = self.kind.model() if self.true is None else self.true
        for i in range(self.n_learned, number_of(name)):
            self.kind.learn(self.true, i)
        self.n_learned = number_of(name)
        assert self.true.to_bytes() == data, f"{name} is another model"


def lifetime() -> float:
    """Return in how many seconds a run has surely saved something, here and now."""
    longest = 0.0
    for kind in KINDS * 2:  # also loads all that is loaded when it is first needed
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            for _ in range(2):
                with Checkpoint(kind.model(), folder, every=EVERY) as checkpoint:
                    for i in range(checkpoint.position, checkpoint.position + 5 * EVERY):
                        kind.learn(checkpoint.model, i)
                        checkpoint.step()
            longest = time.perf_counter() - began
    return 2 * longest


def number_of(name: str) -> int:
    found = re.fullmatch(WHOLE, name)
    assert found is not None
    return int(found[1])


def kill_many(count: int, tick: Callable[[int, int, int], None]) -> None:
    """Call tick(kills, partial files, rows) after each; AssertionError if something is lost."""
    moments, longest, n_partial, n_rows = random.Random(SEED), lifetime(), 0, 0
    for first in range(0, count, KILLS_PER_RUN):
        kind = KINDS[first // KILLS_PER_RUN % len(KINDS)]
        with tempfile.TemporaryDirectory() as folder:
            run = Run(kind, Path(folder))
            for number in range(first, min(first + KILLS_PER_RUN, count)):
                n_partial += run.kill_one(moments.uniform(0, longest))
                tick(number + 1, n_partial, n_rows + run.n_learned)
            n_rows += run.n_learned


def work(count: int, tally: Any, answers: Any) -> None:
    """In a process without other threads, which may fork."""

    def tick(*numbers: int) -> None:
        tally[:] = numbers

    try:
        kill_many(count, tick)
        answers.put("")
    except Exception as error:
        answers.put(f"kill {tally[0] + 1}: {type(error).__name__}: {error}")


def run(report: Report, quick: bool) -> list[Result]:
    count = 40 if quick else 2_000
    tally, answers = SPAWN.Array("q", 3), SPAWN.SimpleQueue()
    process = SPAWN.Process(target=work, args=(count, tally, answers))
    process.start()
    while process.is_alive():
        process.join(0.5)
        report("kills", tally[0], count)
    failure = answers.get() if process.exitcode == 0 else f"process ended with {process.exitcode}"
    done, n_partial, n_rows = tally
    details = failure or f"{n_partial:,} while a file was being written; {n_rows:,} rows learned"
    passed = not failure and done == count and n_partial > 0
    bar = "the newest checkpoint loads, nothing else is lost"
    return [Result("kill -9 during a checkpoint loop", done, bar, passed, details)]
