"""Clocks, one core, and medians of alternating contenders."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

Clock = Callable[[], float]
Table = dict[str, dict[str, float]]
"""Measurements by data set (or another case), then by contender."""


@contextmanager
def one_core() -> Iterator[None]:
    """Pin this process and its children to one core, if the system supports it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def seconds(
    work: Callable[..., object], *arguments: object, clock: Clock = time.process_time
) -> float:
    """Return the time of a call: by default the CPU time of this process.

    Garbage collection is off: it would collect the garbage of all contenders.
    """
    gc.disable()
    try:
        start = clock()
        work(*arguments)
        return clock() - start
    finally:
        gc.enable()


class OtherProcesses:
    """Counts how many cores other processes keep busy within a ``with`` block."""

    busy_cores = 0.0

    def __enter__(self) -> "OtherProcesses":
        self._start = time.monotonic(), _cpu_of_others()
        return self

    def __exit__(self, *error: object) -> None:
        start, cpu = self._start
        self.busy_cores = max(0.0, (_cpu_of_others() - cpu) / (time.monotonic() - start))


def _cpu_of_others() -> float:
    """Return the CPU seconds of all processes except ours and its children; 0 if unknown."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    # user, nice, system, idle, iowait, irq, softirq, steal: in ticks
    ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
    busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])


class Medians:
    """Collects measurements and computes the median of each contender and case."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[str, list[float]]] = {}

    def add(self, case: str, contender: str, value: float) -> None:
        """Add one measurement."""
        self._samples.setdefault(case, {}).setdefault(contender, []).append(value)

    def table(self) -> Table:
        """Return the medians."""
        return {
            case: {contender: median(values) for contender, values in row.items()}
            for case, row in self._samples.items()
        }
