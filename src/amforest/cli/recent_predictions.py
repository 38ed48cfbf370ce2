"""The last predictions of a run, of which its report shows errors and calibration."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.evaluation.blocks import as_list
from amforest.model_io.json_values import floats_from_json, floats_to_json

MOST_ROWS = 10_000
MOST_SAVED = 1_000_000  # numbers: fewer rows are saved if there are many classes


@dataclass(frozen=True)
class LabelledPredictions:
    """Labels, and their predictions: numbers, or probabilities of classes."""

    labels: NDArray[Any]
    values: NDArray[Any]
    classes: NDArray[Any] | None
    intervals: NDArray[np.float64] | None = None  # lower and upper ends, for numbers

    def last(self, n_rows: int) -> LabelledPredictions:
        """Return the last rows."""
        ends = None if self.intervals is None else self.intervals[-n_rows:]
        return LabelledPredictions(self.labels[-n_rows:], self.values[-n_rows:], self.classes, ends)


class RecentPredictions:
    """The last rows that were predicted."""

    def __init__(self) -> None:
        self._parts: deque[LabelledPredictions] = deque()
        self._n_rows = 0

    def add(self, latest: LabelledPredictions) -> None:
        """Append rows; the oldest ones are dropped."""
        self._parts.append(latest)
        self._n_rows += len(latest.labels)
        while self._n_rows - len(self._parts[0].labels) >= MOST_ROWS:
            self._n_rows -= len(self._parts.popleft().labels)

    def joined(self, classes: NDArray[Any] | None) -> LabelledPredictions:
        """Return the rows, with a column for each of these classes; None: they are numbers."""
        if not self._parts:
            shape = (0,) if classes is None else (0, len(classes))
            return LabelledPredictions(np.empty(0), np.empty(shape), classes)
        labels = np.concatenate([part.labels for part in self._parts])
        parts = [part.values for part in self._parts]
        if classes is not None:
            parts = [_widen(part, classes) for part in self._parts]
        ends = [part.intervals for part in self._parts if part.intervals is not None]
        intervals = np.concatenate(ends) if ends else None
        joined = LabelledPredictions(labels, np.concatenate(parts), classes, intervals)
        return joined.last(MOST_ROWS)

    def to_json(self, classes: NDArray[Any] | None) -> dict[str, Any]:
        """Return the last rows in values of JSON."""
        joined = self.joined(classes)
        if joined.values.ndim == 2:
            joined = joined.last(max(MOST_SAVED // joined.values.shape[1], 1))
        ends = joined.intervals
        return {
            "labels": as_list(joined.labels),
            "values": floats_to_json(joined.values),
            "classes": None if classes is None else as_list(classes),
            "intervals": None if ends is None else floats_to_json(ends),
        }

    def restore(self, state: dict[str, Any], convert: Callable[[list[Any]], NDArray[Any]]) -> None:
        """Continue from the result of `to_json`; `convert` turns labels into an array."""
        labels, classes, ends = state["labels"], state["classes"], state["intervals"]
        n_rows = len(labels)
        self._parts.clear()
        self._n_rows = 0
        if not n_rows:
            return
        shape = (n_rows,) if classes is None else (n_rows, len(classes))
        self.add(
            LabelledPredictions(
                convert(labels),
                floats_from_json(state["values"], shape),
                None if classes is None else convert(classes),
                None if ends is None else floats_from_json(ends, (n_rows, 2)),
            )
        )


def _widen(part: LabelledPredictions, classes: NDArray[Any]) -> NDArray[Any]:
    is_known = np.isin(classes, [] if part.classes is None else part.classes)
    wide = np.zeros((len(part.labels), len(classes)))
    wide[:, is_known] = part.values
    return wide
