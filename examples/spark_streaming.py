"""One forest per key in Spark: ``python examples/spark_streaming.py --to build/spark FOLDER``.

The Parquet files in the folder are the stream, in the order of their times. Each row has a ``key``,
a number ``position`` that grows within its key, numeric features, and a ``label`` that may be null.
Each row is predicted; if it has a label, it is then learned by the forest of its key.

It needs ``pyspark>=4``, Java, pandas and pyarrow.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery
from pyspark.sql.types import StructType

from amforest import AdaptiveAMFClassifier
from amforest.model_io import from_bytes

CLASSES = (0, 1)
PREDICTIONS = "key string, position long, label long, probability double"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class KeyedForest(StatefulProcessor):
    """The forest of each key; its state is the bytes of the model file."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._state = handle.getValueState("forest", "model binary")

    def handleInputRows(  # noqa: N802  # Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Predict the rows of a key in this batch, learn those with a label, and keep the forest.

        After a shuffle rows have no order: their positions give it back, in each attempt the same.
        """
        table = pd.concat(rows).sort_values("position", ignore_index=True)
        state = self._state.get()
        forest = new_forest() if state is None else from_bytes(bytes(state[0]))
        probabilities = predict_then_learn(forest, table)
        self._state.update((forest.to_bytes(),))
        yield table[["key", "position", "label"]].assign(probability=probabilities)

    def close(self) -> None:
        """Do nothing: there is nothing open."""


def new_forest() -> AdaptiveAMFClassifier:
    """Return the forest of a new key, small enough for many of them."""
    return AdaptiveAMFClassifier(
        n_estimators=2, memories=(None, 250), max_bytes=4_000_000, classes=CLASSES, random_state=0
    )


def predict_then_learn(forest: AdaptiveAMFClassifier, table: pd.DataFrame) -> list[float]:
    """Return the probability of the second class for each row; learn rows that have a label."""
    X = table.drop(columns=["key", "position", "label"])
    probabilities: list[float] = []
    is_known = table["label"].notna()
    # Rows with and without a label, in turn: a row is predicted after all rows before it.
    for _, part in table.groupby(is_known.ne(is_known.shift()).cumsum(), sort=False):
        if is_known[part.index[0]]:
            y = part["label"].to_numpy(dtype=int)
            predicted = forest.partial_fit_predict_proba(X.loc[part.index], y)
        else:
            predicted = forest.predict_proba(X.loc[part.index])
        probabilities.extend(predicted[:, 1].tolist())
    return probabilities


def start_session() -> SparkSession:
    """Start Spark with the state store that `transformWithStateInPandas` needs.

    Its Python processes need amforest and pandas: they run the Python of this one, unless the
    environment names another.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: SparkSession.Builder = SparkSession.builder
    return (
        builder.appName("amforest")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.shuffle.partitions", 2)  # fixed in the first run: at least the cores
        .getOrCreate()
    )


def predict_stream(rows: DataFrame) -> DataFrame:
    """Return the predictions of a stream of rows."""
    return rows.groupBy("key").transformWithStateInPandas(
        statefulProcessor=KeyedForest(),
        outputStructType=StructType.fromDDL(PREDICTIONS),
        outputMode="Append",
        timeMode="None",
    )


def run(spark: SparkSession, files: Path, schema: StructType, folder: Path) -> StreamingQuery:
    """Start a query over the files that earlier runs have not read; it ends after the last one."""
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    return (
        predict_stream(rows)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(folder / "predictions"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    """Predict and learn the files in a folder, then print the accuracy of each key."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, help="folder of Parquet files")
    parser.add_argument("--to", type=Path, default=Path("build/spark"))
    arguments = parser.parse_args()
    spark = start_session()
    schema = spark.read.parquet(str(arguments.files)).schema
    run(spark, arguments.files, schema, arguments.to).awaitTermination()
    predictions = spark.read.parquet(str(arguments.to / "predictions"))
    is_right = "avg(cast((probability > 0.5) = (label = 1) as double)) as accuracy"
    predictions.where("label is not null").createOrReplaceTempView("predictions")
    spark.sql(f"select key, count(*) as n_rows, {is_right} from predictions group by key").show()
    spark.stop()


if __name__ == "__main__":
    main()
