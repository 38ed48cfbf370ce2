"""Writes that fail, at each call: the old files are intact, and the error says which file it was.

One process, with the shim `tests/model_io/faulty_io.c` before the system's calls, loads amforest
and then forks for each fault. It is this file, run as a program.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from result import Report, Result

sys.path.append(str(Path(__file__).resolve().parents[1] / "model_io"))
import test_atomic_write
from test_atomic_write import CALLS, every_fault, says

from amforest import AMFClassifier, Checkpoint, load, save

TITLE = "failing writes"
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT, "EROFS": errno.EROFS}
AGAIN = {"open", "write", "fsync"}  # calls that are made again after EINTR
# In a name space of its own, so that the disk goes with the process, however it ends.
MOUNT = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
MOUNT += ['mount -t tmpfs -o size=256k tmpfs "$0" && exec "$@"']
BAR = "old file intact, clear error"
N_OLD, N_NEW, N_LAST = 150, 160, 170  # rows


# Models


def grown(model: Any, n_rows: int) -> Any:
    """Let a model learn the rows of a stream that it has not learned yet."""
    n_learned = model.n_samples_seen_ if hasattr(model, "classes_") else 0
    for i in range(n_learned, n_rows):
        model.learn_one([i * 0.618 % 1, i * 0.414 % 1], "abc"[i % 3])
    return model


def fresh() -> Any:
    return AMFClassifier(2, random_state=0)


OLD, NEW, LAST = (grown(fresh(), n).to_bytes() for n in (N_OLD, N_NEW, N_LAST))


# What fails: a file that is replaced, and a checkpoint that is added


class Saving:
    """`save` over a model that is there already."""

    name = "save"

    def prepare(self, folder: Path) -> None:
        save(grown(fresh(), N_OLD), folder / "model.amf")

    def target(self, folder: Path) -> Path:
        return folder / "model.amf"

    def act(self, folder: Path, begin: Callable[[], None]) -> None:
        model = grown(fresh(), N_NEW)
        begin()
        save(model, self.target(folder))

    def check_old(self, folder: Path) -> None:
        assert self.target(folder).read_bytes() == OLD
        check_names(folder, {"model.amf"}, False)

    def check(self, folder: Path, *, is_new: bool, may_leave: bool) -> None:
        path = self.target(folder)
        assert path.read_bytes() == (NEW if is_new else OLD)
        assert grown(load(path), N_LAST).to_bytes() == LAST
        check_names(folder, {"model.amf"}, may_leave)


class Checkpointing:
    """A step that is due, in a folder that has a checkpoint."""

    name = "Checkpoint"
    old, new = (f"checkpoint-{n:012}.amf" for n in (N_OLD, N_NEW))

    def prepare(self, folder: Path) -> None:
        with Checkpoint(fresh(), folder) as checkpoint:
            grown(checkpoint.model, N_OLD)

    def target(self, folder: Path) -> Path:
        return folder / self.new

    def act(self, folder: Path, begin: Callable[[], None]) -> None:
        with Checkpoint(fresh(), folder, every=N_NEW - N_OLD) as checkpoint:
            grown(checkpoint.model, N_NEW)
            begin()
            try:
                checkpoint.step()
            except OSError as error:
                print_error(error)
            finally:
                leave()  # without saving again

    def check_old(self, folder: Path) -> None:
        assert (folder / self.old).read_bytes() == OLD
        check_names(folder, {self.old}, False)

    def check(self, folder: Path, *, is_new: bool, may_leave: bool) -> None:
        assert (folder / self.old).read_bytes() == OLD
        names = {self.old, self.new} if is_new else {self.old}
        check_names(folder, names, may_leave)
        if is_new:
            assert (folder / self.new).read_bytes() == NEW
        with Checkpoint(fresh(), folder) as checkpoint:
            assert checkpoint.position == (N_NEW if is_new else N_OLD)
            assert grown(checkpoint.model, N_LAST).to_bytes() == LAST
        assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


TARGETS: list[Any] = [Saving(), Checkpointing()]


def check_names(folder: Path, names: set[str], may_leave: bool) -> None:
    """Only a process that was killed may leave a temporary file."""
    others = set(os.listdir(folder)) - names
    assert names <= set(os.listdir(folder))
    assert not others or (may_leave and all(name.endswith(".tmp") for name in others)), others


# A fault, in a process of its own


def print_error(error: OSError) -> None:
    print(error.errno, error, flush=True)


def leave() -> None:
    sys.stdout.flush()
    os._exit(0)


class Outcome:
    """How a process ended, what it printed, and its calls on the folder."""

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        self.stdout, self.calls = stdout, stderr.split()


def forked(target: Any, folder: Path, begin: Callable[[], None]) -> Outcome:
    """Act in a child, with the fault from `begin` on."""
    pipes = [os.pipe(), os.pipe()]  # which no limit of files concerns
    child = os.fork()
    if child == 0:
        for number, (_, end) in enumerate(pipes, start=1):
            os.dup2(end, number)
        try:
            target.act(folder, begin)
        except OSError as error:
            print_error(error)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        finally:
            leave()
    texts = []
    for start, end in pipes:
        os.close(end)
        with open(start, encoding="utf-8") as file:
            texts.append(file.read())
    return Outcome(os.waitpid(child, 0)[1], *texts)


def attempt(
    target: Any, begin: Callable[[Path], None], check: Callable[[Outcome, Path], None]
) -> Outcome:
    """Act on a new folder, and check what comes of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target.prepare(folder)
        outcome = forked(target, folder, lambda: begin(folder))
        check(outcome, folder)
    return outcome


def faults_of(target: Any, call: str, action: Any, said: Callable[[Path], str] | None) -> int:
    """Let each such call fail in turn; return how many there were. None: the process is killed."""

    def check(outcome: Outcome, folder: Path) -> None:
        is_fault = f"{call}!" in outcome.calls
        if said is None:
            assert outcome.killed_by == (signal.SIGKILL if is_fault else 0)
        else:
            assert outcome.stdout == (said(target.target(folder)) if is_fault else "")
        target.check(folder, is_new="rename" in outcome.calls, may_leave=said is None)

    def faulty(call: str, at: int, action: Any) -> tuple[Outcome, list[str]]:
        def begin(folder: Path) -> None:
            faults = {"CALL": call, "AT": at, "ACTION": action, "FOLDER": folder}
            os.environ.update({f"FAULTY_{name}": str(value) for name, value in faults.items()})

        outcome = attempt(target, begin, check)
        return outcome, outcome.calls

    return sum(1 for _ in every_fault(faulty, call, action))


def nothing(path: Path) -> str:
    return ""


def too_large(target: Any) -> int:
    """Let files be of no more than so many bytes."""
    limits = range(0, len(NEW), 97)

    def check(outcome: Outcome, folder: Path) -> None:
        assert outcome.stdout == says(errno.EFBIG, target.target(folder))
        target.check(folder, is_new=False, may_leave=False)

    for limit in limits:
        both = (limit, limit)
        attempt(target, lambda _, both=both: resource.setrlimit(resource.RLIMIT_FSIZE, both), check)
    return len(limits)


def full_disk(target: Any, disk: Path) -> int:
    """Leave more and more room on a disk, until the file fits."""
    folder, filler, count = disk / target.name, disk / "filler", 0
    folder.mkdir()
    target.prepare(folder)
    with open(filler, "wb", buffering=0) as file:
        fill(file)
        while (outcome := forked(target, folder, lambda: None)).stdout:
            assert outcome.stdout == says(errno.ENOSPC, target.target(folder))
            target.check_old(folder)
            file.truncate(os.fstat(file.fileno()).st_size - 4096)
            count += 1
    filler.unlink()
    target.check(folder, is_new=True, may_leave=False)
    shutil.rmtree(folder)
    return count


def fill(file: Any) -> None:
    with suppress(OSError):
        while True:
            file.write(bytes(4096))


# All of them


def faults(target: Any) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield the name of each fault, and what makes it at each place and counts the places."""

    def each(calls: Iterable[str], action: Any, said: Any) -> Callable[[], int]:
        return lambda: sum(faults_of(target, call, action, said) for call in calls)

    for name, number in ERRORS.items():
        yield name, each(CALLS, number, partial(says, number))
    yield "EINTR", each(AGAIN, errno.EINTR, nothing)
    yield "EINTR, reported", each(set(CALLS) - AGAIN, errno.EINTR, partial(says, errno.EINTR))
    yield "short writes", each(["write"], "short", nothing)
    yield "writes of nothing", each(["write"], "none", partial(says, errno.EIO))
    yield "kill -9 before a call", each(CALLS, "kill", None)
    yield "RLIMIT_FSIZE", lambda: too_large(target)


def program(disk: str | None = None) -> None:
    """Print a line for each fault: what it was, at how many places it was made, and what failed."""
    for target in TARGETS:
        on_disk = "full disk", partial(full_disk, target, Path(disk or ""))
        for name, make in faults(target) if disk is None else [on_disk]:
            count, failure = 0, ""
            try:
                count = make()
                failure = "" if count else f"{target.name}: no fault was made"
            except Exception as error:
                text = "".join(traceback.format_exception(error)[-3:])
                failure = f"{target.name}: {text}"
            print(json.dumps([name, count, failure]), flush=True)


def lines_of(command: list[str], **environment: str) -> Iterator[tuple[str, int, str]]:
    """Run the program and yield what it prints."""
    environment = os.environ | environment
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
    if process.returncode:
        yield "the process", 0, f"ended with {process.returncode}"


def run(report: Report, quick: bool) -> list[Result]:
    """The quick form is the long one."""
    total = len(TARGETS) * (1 + len(list(faults(TARGETS[0]))))
    counts, failures = Counter[str](), dict[str, list[str]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for done, (fault, count, failure) in enumerate(all_lines(folder), start=1):
            counts[fault] += count
            failures.setdefault(fault, []).extend([failure] if failure else [])
            report("faults", done, total)
    report("faults", total, total)
    about = " and ".join(target.name for target in TARGETS)
    return [
        Result(f"failing writes: {fault}", counts[fault], BAR, not wrong, "\n".join(wrong) or about)
        for fault, wrong in failures.items()
    ]


def all_lines(folder: Path) -> Iterator[tuple[str, int, str]]:
    program, disk = [sys.executable, __file__], folder / "disk"
    yield from lines_of(program, LD_PRELOAD=str(compiled(folder)))
    disk.mkdir()
    mount = [*MOUNT, str(disk)]
    subprocess.run([*mount, "true"], check=True)
    yield from lines_of([*mount, *program, str(disk)])


def compiled(folder: Path) -> Path:
    """Return the library that makes calls fail."""
    source = Path(test_atomic_write.__file__).with_name("faulty_io.c")
    library = folder / "faulty_io.so"
    compiler = shutil.which("gcc") or shutil.which("cc") or "cc"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


if __name__ == "__main__":
    program(*sys.argv[1:])
