"""Rows of a file of predictions: their columns, and the values of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from amforest.cli.console import CommandError
from amforest.cli.row_file import FORMATS, PARQUET, ParquetRowFile, RowFile, RowWriter, is_parquet
from amforest.evaluation.adapters import Prediction
from amforest.reading import CLASSIFICATION, Batch, Scheme

OTHER_CLASSES = "probability_of_other_classes"


@dataclass(frozen=True)
class PredictionRows:
    """The columns of a file of predictions.

    Parameters
    ----------
    scheme : Scheme
    coverage : float or None
        The part of the labels that intervals are to hold; None means no intervals.
    id_column : str or None
        A column of the stream that is passed through.
    classes : list or None
        Classes whose probability has a column; None means no such columns.
    has_labels : bool
        Whether there is a column of labels, and one for classes that come later.
    """

    scheme: Scheme
    coverage: float | None
    id_column: str | None = None
    classes: list[Any] | None = None
    has_labels: bool = True

    def kinds(self) -> dict[str, pa.DataType]:
        """Return the columns, and their types in Parquet."""
        scheme = self.scheme
        is_class = scheme.task == CLASSIFICATION
        numbers = pa.float64()
        label = (
            pa.string() if is_class and not scheme.whole else pa.int64() if is_class else numbers
        )
        columns = [("row", pa.int64())]
        if self.id_column is not None:
            columns.append((self.id_column, pa.string()))
        if self.has_labels:
            columns.append(("label", label))
        columns.append(("prediction", label))
        if is_class:
            columns += [("probability", numbers), ("probabilities", pa.string())]
            columns += [(f"probability_{name}", numbers) for name in self.classes or ()]
            if self.classes is not None and self.has_labels:
                columns.append((OTHER_CLASSES, numbers))
        elif self.coverage is not None:
            columns += [("lower", numbers), ("upper", numbers)]
        kinds = dict(columns)
        if len(kinds) < len(columns):
            raise CommandError(
                f"--id-column is {self.id_column!r}, which is the name of a column of predictions: "
                f"{', '.join(name for name, _ in columns if name != self.id_column)}; rename it"
            )
        return kinds

    def open(self, path: str, *, size: int = 0) -> RowWriter:
        """Open a file; keep the first bytes of one of text."""
        if is_parquet(path):
            return ParquetRowFile(path, self.kinds())
        return RowFile(path, list(self.kinds()), size=size, endings=(*FORMATS, PARQUET))

    def values(
        self,
        start: int,
        n_rows: int,
        prediction: Prediction | None,
        *,
        labels: NDArray[Any] | None = None,
        ids: Sequence[Any] | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each row, in the order of the columns; `start` is the first row."""
        n_own = 1 + (ids is not None) + self.has_labels
        unknown = (None,) * (len(self.kinds()) - n_own)
        predicted = repeat(unknown, n_rows) if prediction is None else self._predicted(prediction)
        names = repeat(()) if ids is None else ((name,) for name in ids)
        own = repeat(()) if labels is None else ((label,) for label in labels.tolist())
        for i, some, name, label in zip(range(n_rows), predicted, names, own, strict=False):
            yield start + i, *name, *label, *some

    def _predicted(self, prediction: Prediction) -> Iterator[tuple[Any, ...]]:
        predictions, classes, intervals = prediction
        if classes is None:
            numbers = predictions.tolist()
            ends: Any = repeat(()) if intervals is None else intervals.tolist()
            yield from ((number, *pair) for number, pair in zip(numbers, ends, strict=False))
            return
        names = classes.tolist()
        places = {name: k for k, name in enumerate(names)}
        for probabilities in predictions:
            p, best = probabilities.tolist(), int(probabilities.argmax())
            possible = {str(name): value for name, value in zip(names, p, strict=True) if value > 0}
            of_classes: list[float] = []
            if self.classes is not None:
                of_classes = [p[places[k]] if k in places else 0.0 for k in self.classes]
                if self.has_labels:
                    others = places.keys() - set(self.classes)
                    of_classes.append(sum((p[places[k]] for k in sorted(others)), 0.0))
            yield names[best], p[best], possible, *of_classes


def ids_of(batch: Batch, column: str) -> list[str | None]:
    """Return the values of a column of a batch as text."""
    return [
        None if value is None else str(value) for value in batch.table.column(column).to_pylist()
    ]
