"""What a run records for its report: baselines, the worst rows and the last ones."""

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
from amforest.model_io.json_values import from_json, to_json
from amforest.reading import Batch, Scheme

N_WORST = 10
N_LAST = 200  # rows whose predictions are explained


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
    worst : list of WorstRow
        By falling loss.
    """

    def __init__(self, scheme: Scheme) -> None:
        self._scheme, self._target = scheme, scheme.target
        self.baselines = Baselines(scheme)
        self.worst: list[WorstRow] = []
        self._last: deque[pa.Table] = deque()
        self._piece: Batch | None = None
        self._first_row = 0  # of the piece

    def begin(self, piece: Batch, first_row: int, table: pa.Table, labels: NDArray[Any]) -> None:
        """Take rows that are predicted next: as read, and as the model gets them."""
        self._piece, self._first_row = piece, first_row
        self.baselines.update(table, labels)
        self._last.append(table)
        while sum(map(len, self._last)) - len(self._last[0]) >= N_LAST:
            self._last.popleft()

    def record(self, first_row: int, labels: NDArray[Any], prediction: Prediction) -> None:
        """Take predictions of rows that `begin` was given."""
        values, classes = prediction.values, prediction.classes
        losses = measure_losses(labels, values, classes)
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

    def last_rows(self) -> pa.Table:
        """Return the last rows, as the model got them."""
        table = pa.concat_tables(self._last).unify_dictionaries()
        return table.slice(max(len(table) - N_LAST, 0))

    def to_json(self) -> dict[str, Any]:
        """Return the records in values of JSON."""
        return {
            "baselines": self.baselines.to_json(),
            "worst": [_worst_to_json(row) for row in self.worst],
            "last": self._scheme.rows_of(self.last_rows()) if self._last else [],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `to_json`."""
        self.baselines.restore(state["baselines"])
        self.worst = [WorstRow(*from_json(row)) for row in state["worst"]]
        self._last.clear()
        if state["last"]:
            self._last.append(self._scheme.table_of(state["last"]))

    def _describe(self, loss: float, row: int, label: Any, predicted: Any) -> WorstRow:
        assert self._piece is not None
        i = row - self._first_row
        (values,) = self._piece.table.slice(i, 1).to_pylist()
        features = {k: v for k, v in values.items() if k != self._target and v is not None}
        place = self._piece.file, int(self._piece.lines[i])
        return WorstRow(loss, row, label, predicted, *place, features)


def _worst_to_json(row: WorstRow) -> Any:
    """Return a row as a list; values that are not text or number, such as times, as text."""
    features = {
        key: value if isinstance(value, str | int | float) else str(value)
        for key, value in row.features.items()
    }
    values = [row.loss, row.row, row.label, row.predicted, row.file, row.line, features]
    return to_json(values, "worst")


def _is_known(
    labels: NDArray[Any], values: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.bool_]:
    """Return which rows are of classes that had a probability: a new class is not a mistake."""
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
