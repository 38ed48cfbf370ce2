"""Runs of experiments: cell by cell, in parallel processes, with each result kept on disk.

A cell is a function of this package with its arguments, such as a method, a data set and a seed.
The name of its file is a digest of these, of the code of the package and of the library's version:
so an interrupted run continues where it stopped, and a changed experiment is computed again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

import amforest

Found = dict[str, NDArray[Any]]
Size = Literal["full", "quick", "tiny"]
Report = Callable[[str, int, int], None]
"""Called with what is being done, how many cells of it are done, and how many there are."""
T = TypeVar("T")


def ignore_progress(label: str, done: int, total: int) -> None:
    """Report nothing."""


class Run:
    """One reproduction of the paper: its size, its folder of results, and its processes.

    Parameters
    ----------
    folder : path-like
        Where results are kept.
    size : {"full", "quick", "tiny"}, default="full"
        "full" is what the report shows, "quick" takes minutes, and "tiny" is for tests: where the
        data sets are absent, generated ones of their shapes stand in.
    n_jobs : int, default=1
        The number of processes.
    report : callable, optional
        Called with the progress.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        size: Size = "full",
        n_jobs: int = 1,
        report: Report = ignore_progress,
    ) -> None:
        self.folder = Path(folder)
        self.size: Size = size
        self.n_jobs = n_jobs
        self.report = report
        self._pool: ProcessPoolExecutor | None = None

    def choose(self, *, full: T, quick: T, tiny: T) -> T:
        """Return the value for the size of this run."""
        return {"full": full, "quick": quick, "tiny": tiny}[self.size]

    def cells(
        self, work: Callable[..., Found], cells: Sequence[tuple[Any, ...]], label: str
    ) -> list[Found]:
        """Return what ``work(*cell)`` gives for each cell, from disk where it is there.

        `work` is a function at the top of a module; a cell consists of JSON's values.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = [self.folder / f"{name_of(work, cell)}.npz" for cell in cells]
        missing = [i for i, path in enumerate(paths) if not path.exists()]
        done = len(cells) - len(missing)
        self.report(label, done, len(cells))
        # In a thread, which Ctrl-C does not interrupt: half a zip file gives errors of its own. The
        # thread is started first: the executor does not wait for one that is just starting.
        with ThreadPoolExecutor(1) as writer:
            writer.submit(int).result()
            for i, found in self._computed(work, cells, missing):
                writer.submit(_write, paths[i], found).result()
                done += 1
                self.report(label, done, len(cells))
        return [_read(path) for path in paths]

    def _computed(
        self, work: Callable[..., Found], cells: Sequence[tuple[Any, ...]], missing: list[int]
    ) -> Iterator[tuple[int, Found]]:
        """Yield the missing cells as they are done."""
        if self.n_jobs == 1 or len(missing) < 2:
            for i in missing:
                yield i, work(*cells[i])
            return
        pool = self._processes()
        futures: dict[Future[Found], int] = {pool.submit(work, *cells[i]): i for i in missing}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:  # not forked: this process may have threads
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.n_jobs, context, _leave_interrupts)
        return self._pool

    @contextmanager
    def open(self) -> Iterator[Run]:
        """End the processes in the end, whatever they are doing."""
        try:
            yield self
        finally:
            if self._pool is not None:
                for process in list((self._pool._processes or {}).values()):
                    process.terminate()
                self._pool.shutdown()
                self._pool = None


def _leave_interrupts() -> None:
    """Ignore Ctrl-C: the main process handles it, and ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def name_of(work: Callable[..., Found], cell: tuple[Any, ...]) -> str:
    """Return the name under which a cell is kept."""
    code = hashlib.sha256()
    for name in sorted(_used_by(work.__module__)):
        code.update(Path(str(sys.modules[name].__file__)).read_bytes())
    what = [amforest.__version__, code.hexdigest(), work.__name__, cell]
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
    return f"{work.__module__.rpartition('.')[2]}-{work.__name__}-{digest[:24]}"


@cache
def _used_by(module: str) -> frozenset[str]:
    """Return a module and those of this package from which it has something."""
    values = vars(sys.modules[module]).values()
    others = {getattr(value, "__module__", None) for value in values} - {module, __name__, None}
    others = {name for name in others if str(name).startswith(f"{__package__}._")}
    return frozenset({module}).union(*map(_used_by, others))


def _write(path: Path, found: Found) -> None:
    """Write a file that is whole or not there."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            arrays: dict[str, Any] = found  # numpy 2.0 would save allow_pickle as one of them
            np.savez_compressed(file, **arrays)
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink()
            raise


def _read(path: Path) -> Found:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
