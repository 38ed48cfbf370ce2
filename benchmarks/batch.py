"""Batch learning and batch predicting of the data sets: CPU seconds per row."""

from collections.abc import Iterable

from benchmarks.data import Stream
from benchmarks.peers import NewForest
from benchmarks.plan import Plan
from benchmarks.timing import Medians, Table, seconds


def measure(
    streams: Iterable[Stream], libraries: dict[str, NewForest], plan: Plan
) -> dict[str, Table]:
    learning, predicting = Medians(), Medians()
    for stream in streams:
        n_rows = len(stream.y)
        for seed in range(max(plan.repetitions, plan.batch_rows // n_rows)):
            for name, new_forest in libraries.items():
                forest = new_forest(stream.n_classes, seed)
                learned = seconds(forest.learn, stream.X, stream.y)
                predicted = seconds(forest.predict, stream.X)
                learning.add(stream.name, name, learned / n_rows)
                predicting.add(stream.name, name, predicted / n_rows)
    return {"batch learning": learning.table(), "batch predicting": predicting.table()}
