"""Memory growth while learning: bytes per row, of the peak resident set, on Linux.

Each measurement runs in its own process, forked from this one after all libraries are imported and
compiled. The peak includes the forest and temporary copies.
"""

import ctypes
import os
import re
import struct
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from benchmarks.data import Stream
from benchmarks.peers import NewForest, warmed_up
from benchmarks.timing import Medians, Table

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")  # writing 5 resets the peak to the current resident set


def is_possible() -> bool:
    """Return whether this system reports the peak of a process."""
    return _STATUS.exists() and _RESET.exists()


def measure(streams: Iterable[Stream], libraries: dict[str, NewForest], repetitions: int) -> Table:
    medians = Medians()
    for stream in streams:
        for seed in range(repetitions):
            for name, new_forest in libraries.items():
                learn = new_forest(stream.n_classes, seed).learner(stream.X, stream.y)
                grown = peak_growth(learn, partial(warmed_up, name))
                medians.add(stream.name, name, grown / len(stream.y))
    return medians.table()


def peak_growth(work: Callable[[], object], warm_up: Callable[[], object]) -> float:
    """Return the maximum growth of the resident set of a forked process, in bytes.

    It warms up first, to load the pages of the programs.
    """
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            warm_up()
            _release_free_memory()
            _RESET.write_text("5")
            before = _resident("VmRSS")
            work()
            os.write(writable, struct.pack("d", _resident("VmHWM") - before))
        finally:
            os._exit(0)
    os.close(writable)
    with open(readable, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        raise RuntimeError("the process whose memory was measured has failed")
    return float(struct.unpack("d", answer)[0])


def _resident(field: str) -> int:
    """Return VmRSS, the resident set now, or VmHWM, its peak so far, in bytes."""
    match = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    assert match is not None
    return 1024 * int(match[1])


def _release_free_memory() -> None:
    """Return free memory to the system, so that the forest does not reuse it (glibc only)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
