"""Two threads compared with one: wall seconds per row of learning a batch, on all cores.

Other processes affect wall time, and two threads more than one. So there are more tries than
needed, and those with the least other activity count.
"""

import time
from collections.abc import Iterable

from benchmarks.data import Stream
from benchmarks.peers import Amforest
from benchmarks.timing import Medians, OtherProcesses, Table, seconds

ONE, TWO = "1 thread", "2 threads"
OTHERS = "cores busy with other processes"
TRIES = 3  # for each repetition that counts


def measure(streams: Iterable[Stream], repetitions: int) -> Table:
    medians = Medians()
    for stream in streams:
        tries = [_try(stream, seed) for seed in range(TRIES * repetitions)]
        for measured in sorted(tries, key=lambda measured: measured[OTHERS])[:repetitions]:
            for name, value in measured.items():
                medians.add(stream.name, name, value)
    return medians.table()


def _try(stream: Stream, seed: int) -> dict[str, float]:
    taken = {}
    with OtherProcesses() as others:
        for name, n_jobs in ((ONE, 1), (TWO, 2)):
            forest = Amforest(stream.n_classes, seed, n_jobs)
            total = seconds(forest.learn, stream.X, stream.y, clock=time.perf_counter)
            taken[name] = total / len(stream.y)
    return taken | {OTHERS: others.busy_cores}
