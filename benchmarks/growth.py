"""Growth of the cost per sample over a uniform stream: CPU seconds per row at each size.

Learning is timed over the last tenth of the rows up to a checkpoint, predicting on new rows.
"""

from collections.abc import Iterable

from benchmarks.data import uniform
from benchmarks.peers import NewForest
from benchmarks.plan import Plan
from benchmarks.timing import Medians, Table, seconds

FRESH_ROWS = 2_000


def measure(
    repetitions: Iterable[int], libraries: dict[str, NewForest], plan: Plan
) -> dict[str, Table]:
    learning, predicting = Medians(), Medians()
    for seed in repetitions:
        stream = uniform(plan.checkpoints[-1], seed)
        fresh = uniform(FRESH_ROWS, seed + 1_000).X
        for name, new_forest in libraries.items():
            forest = new_forest(stream.n_classes, seed)
            n_learned = 0
            for checkpoint in plan.checkpoints:
                if name != "amforest" and checkpoint > plan.peer_stops_at:
                    break
                tenth = checkpoint * 9 // 10
                forest.learn(stream.X[n_learned:tenth], stream.y[n_learned:tenth])
                last = slice(tenth, checkpoint)
                taken = seconds(forest.learn, stream.X[last], stream.y[last])
                learning.add(str(checkpoint), name, taken / (checkpoint - tenth))
                predicting.add(str(checkpoint), name, seconds(forest.predict, fresh) / FRESH_ROWS)
                n_learned = checkpoint
    return {"stream, learning": learning.table(), "stream, predicting": predicting.table()}
