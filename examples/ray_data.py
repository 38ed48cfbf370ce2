"""Learn a Ray Data set with a RayForest: ``python examples/ray_data.py --to build/run FILES``.

Each batch of the Parquet files is predicted, then learned. A run that was stopped resumes from its
last checkpoint. Without files, a stream with drift is generated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import ray.data

from amforest import AdaptiveAMFClassifier
from amforest.datasets import make_drift
from amforest.distributed import RayForest
from amforest.evaluation import Progress, progressive_validation

BATCH_SIZE = 1_000


def open_forest(directory: Path, n_shards: int = 2) -> RayForest:
    """Return the forest of the last checkpoint, or a new one."""
    if (directory / "latest.json").exists():
        return RayForest.resume(directory)
    return RayForest(AdaptiveAMFClassifier(random_state=0), n_shards, directory=directory)


def learn(forest: RayForest, dataset: ray.data.Dataset, target: str) -> Progress:
    """Predict and learn the rows that the forest has not learned yet; return the metrics of these.

    The rows must have the same order in each run, so Ray Data must not use its blocks as they come.
    """
    options = ray.data.DataContext.get_current().execution_options
    options.preserve_order = True
    n_learned = getattr(forest, "n_samples_seen_", 0)
    batches = dataset.iter_batches(batch_format="pyarrow", batch_size=BATCH_SIZE)
    progress = progressive_validation(
        forest, skip_rows(batches, n_learned), target=target, batch_size=BATCH_SIZE
    )
    forest.checkpoint()
    return progress


def skip_rows(batches: Iterable[pa.Table], n_rows: int) -> Iterator[pa.Table]:
    """Yield batches without their first rows."""
    for batch in batches:
        if n_rows < batch.num_rows:
            yield batch.slice(n_rows)
        n_rows = max(n_rows - batch.num_rows, 0)


def generate(n_rows: int = 10_000) -> pa.Table:
    """Return a stream with drift."""
    X, y = make_drift(n_rows, random_state=0)
    return pa.table({f"x{j}": column for j, column in enumerate(X.T)} | {"label": y})


def main() -> None:
    """Learn the files, print the metrics, and save the model for use without Ray."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="Parquet files, read in this order")
    parser.add_argument("--target", default="label")
    parser.add_argument("--to", type=Path, default=Path("build/ray_data"))
    arguments = parser.parse_args()
    if arguments.files:
        dataset = ray.data.read_parquet(arguments.files)
    else:
        dataset = ray.data.from_arrow(generate())
    with open_forest(arguments.to) as forest:
        print(learn(forest, dataset, arguments.target))
        forest.save(arguments.to / "forest.amf")


if __name__ == "__main__":
    main()
