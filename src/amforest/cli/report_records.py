"""What a run records for its report: baselines, drift, the worst rows and the last ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest._forest.losses import log_losses, squared_errors
from amforest.cli.run_baselines import Baselines
from amforest.evaluation.adapters import Prediction
from amforest.evaluation.drift import DriftDetector
from amforest.reading import CLASSIFICATION, Batch, Scheme

N_WORST = 10
N_LAST = 1_000  # rows on which the importance of features is measured


@dataclass(frozen=True)
class WorstRow:
    """A row with a large loss: its number, its place in a file, and its values as read."""

    loss: float
    row: int
    label: Any
    predicted: Any
    file: str
    line: int
    features: dict[str, Any]


class ReportRecords:
    """The records of a run for its report; their size is bounded.

    Parameters
    ----------
    scheme : Scheme

    Attributes
    ----------
    baselines : Baselines
    drift : DriftDetector
        Of 1 - p(y), or of the absolute errors.
    worst : list of WorstRow
        By falling loss.
    """

    def __init__(self, scheme: Scheme) -> None:
        self._is_class, self._target = scheme.task == CLASSIFICATION, scheme.target
        self.baselines = Baselines(scheme)
        self.drift = DriftDetector(is_bounded=self._is_class)
        self.worst: list[WorstRow] = []
        self._last: deque[tuple[pa.Table, NDArray[Any]]] = deque()
        self._piece: Batch | None = None
        self._first_row = 0  # of the piece

    def begin(self, piece: Batch, first_row: int, table: pa.Table, labels: NDArray[Any]) -> None:
        """Take rows that are predicted next: as read, and as the model gets them."""
        self._piece, self._first_row = piece, first_row
        self.baselines.update(table, labels)
        self._last.append((table, labels))
        while sum(len(part) for _, part in self._last) - len(self._last[0][1]) >= N_LAST:
            self._last.popleft()

    def record(self, first_row: int, labels: NDArray[Any], prediction: Prediction) -> None:
        """Take predictions of rows that `begin` was given."""
        values, classes = prediction.values, prediction.classes
        losses = measure_losses(labels, values, classes)
        self.drift.update(-np.expm1(-losses) if self._is_class else np.sqrt(losses))
        lowest = self.worst[-1].loss if len(self.worst) == N_WORST else 0.0
        ranked = (
            losses if classes is None else np.where(_is_known(labels, values, classes), losses, 0)
        )
        for i in np.argsort(-ranked, kind="stable")[:N_WORST].tolist():
            if ranked[i] > lowest:
                predicted = values[i] if classes is None else classes[values[i].argmax()]
                row = first_row + i
                self.worst.append(self._describe(float(losses[i]), row, labels[i], predicted))
        self.worst.sort(key=lambda worst: (-worst.loss, worst.row))
        del self.worst[N_WORST:]

    @property
    def has_rows(self) -> bool:
        """Whether any row was read."""
        return bool(self._last)

    def last_rows(self) -> tuple[pa.Table, NDArray[Any]]:
        """Return the last rows, as the model got them, and their labels."""
        table = pa.concat_tables([part for part, _ in self._last]).unify_dictionaries()
        labels = np.concatenate([part for _, part in self._last])
        return table.slice(max(len(table) - N_LAST, 0)), labels[-N_LAST:]

    def _describe(self, loss: float, row: int, label: Any, predicted: Any) -> WorstRow:
        assert self._piece is not None
        i = row - self._first_row
        (values,) = self._piece.table.slice(i, 1).to_pylist()
        features = {k: v for k, v in values.items() if k != self._target and v is not None}
        place = self._piece.file, int(self._piece.lines[i])
        return WorstRow(loss, row, label, predicted, *place, features)


def _is_known(
    labels: NDArray[Any], values: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.bool_]:
    """Tell which rows are of classes that had a probability: those of a new one are no mistakes."""
    columns = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    has_any: NDArray[np.bool_] = values[np.arange(len(labels)), columns] > 0
    is_known: NDArray[np.bool_] = has_any & (classes[columns] == labels)
    return is_known


def measure_losses(labels: NDArray[Any], values: NDArray[Any], classes: Any) -> NDArray[np.float64]:
    """Return the log-loss of each row, or its squared error if there are no classes."""
    if classes is None:
        return squared_errors(values, labels)
    columns = np.searchsorted(classes, labels)
    return log_losses(values, np.where(np.isin(labels, classes), columns, len(classes)))
