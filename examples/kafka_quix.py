"""Learn a Kafka topic with Quix Streams: ``python examples/kafka_quix.py --broker HOST:9092``.

Messages are JSON: ``{"row": {"size": 3, "colour": "red"}, "label": "apple"}``; the label may be
missing or null. Each row is predicted, to another topic; rows with a label are learned. Each
partition of the topic has a forest of its own: give the rows that belong together the same key.

It needs ``quixstreams>=3.20`` and ``amforest[river]``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from quixstreams import Application, message_context
from quixstreams.sinks import BatchingSink, SinkBatch

from amforest.model_io import extra_of, from_bytes, save
from amforest.river import AdaptiveAMFClassifier

Place = tuple[str, int]  # a topic and a partition


class ForestSink(BatchingSink):
    """A forest for each partition, in a file together with the offset of the next message.

    Quix calls `write` before it commits offsets to Kafka. If the process dies in between, Kafka
    sends the messages again; their offsets are below that of the file, and they are skipped.

    Parameters
    ----------
    folder : Path
        The folder of the files. All workers must see it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._forests: dict[Place, Any] = {}

    def write(self, batch: SinkBatch) -> None:
        """Learn the messages since the last checkpoint, and save the forest with their offset.

        The forest is that of the file: another worker may have had the partition meanwhile.
        """
        place = batch.topic, batch.partition
        forest, next_offset = self._load(place)
        for item in batch:
            if item.offset >= next_offset:
                learn(forest, item.value)
                next_offset = item.offset + 1
        save(forest, self._path(place), extra={"next_offset": next_offset})
        self._forests[place] = forest

    def predict(self, message: dict[str, Any]) -> dict[str, Any]:
        """Predict a row by what was learned until the last checkpoint."""
        place = message_context().topic, message_context().partition
        if place not in self._forests:
            self._forests[place], _ = self._load(place)
        probabilities = self._forests[place].predict_proba_one(message["row"])
        return {**message, "probabilities": {str(k): p for k, p in probabilities.items()}}

    def _load(self, place: Place) -> tuple[Any, int]:
        """Return the forest of a partition, and the offset of the next message to learn."""
        path = self._path(place)
        if not path.exists():
            return AdaptiveAMFClassifier(seed=0), 0
        data = path.read_bytes()
        return from_bytes(data), extra_of(data)["next_offset"]

    def _path(self, place: Place) -> Path:
        topic, partition = place
        return self._folder / f"{topic}-{partition}.amf"


def learn(forest: Any, message: dict[str, Any]) -> None:
    """Learn a message that has a label."""
    if message.get("label") is not None:
        forest.learn_one(message["row"], message["label"])


def build(broker: str, folder: Path, *, source: str, to: str, **options: Any) -> Application:
    """Return the application: predictions go to a topic, and rows with labels are learned."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "consumer_group": "amforest",
        "auto_offset_reset": "earliest",  # a new group starts with the first message
        "processing_guarantee": "exactly-once",  # of the predictions
        "commit_interval": 5.0,  # seconds between two checkpoints
    }
    app = Application(broker, **(settings | options))
    rows = app.dataframe(app.topic(source, value_deserializer="json"))
    sink = ForestSink(folder)
    rows.apply(sink.predict).to_topic(app.topic(to, value_serializer="json"))
    rows.sink(sink)
    return app


def main() -> None:
    """Learn until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="localhost:9092")
    parser.add_argument("--source", default="rows")
    parser.add_argument("--predictions", default="predictions")
    parser.add_argument("--to", type=Path, default=Path("build/kafka"))
    arguments = parser.parse_args()
    topics = {"source": arguments.source, "to": arguments.predictions}
    build(arguments.broker, arguments.to, **topics).run()


if __name__ == "__main__":
    main()
