"""The features that matter: how much the loss grows if a column is shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest.cli.report_records import measure_losses

N_SHUFFLES = 5
MOST_PREDICTED = 100_000  # rows in all; of wide tables fewer rows are taken
FEWEST_ROWS = 100


@dataclass(frozen=True)
class Importance:
    """The growth of the loss if a column is shuffled: its mean over shuffles, and its error."""

    name: str
    growth: float
    error: float

    @property
    def is_positive(self) -> bool:
        """Whether the growth is more than chance."""
        return self.growth > 2 * self.error


def measure_importance(model: Any, table: pa.Table, labels: NDArray[Any]) -> list[Importance]:
    """Return the importance of each column, by falling growth of the loss.

    Parameters
    ----------
    model : fitted estimator
    table : pyarrow.Table
        Rows as the model learned them.
    labels : ndarray

    Returns
    -------
    list of Importance
        The loss is the log-loss, or the squared error.
    """
    n_rows = max(MOST_PREDICTED // (N_SHUFFLES * table.num_columns), FEWEST_ROWS)
    table, labels = table.slice(max(len(table) - n_rows, 0)), labels[-n_rows:]
    rng = np.random.default_rng(0)
    orders = [pa.array(rng.permutation(len(table))) for _ in range(N_SHUFFLES)]
    before = _measure(model, table, labels).mean()
    found = []
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        shuffled = [table.set_column(place, name, column.take(order)) for order in orders]
        losses = _measure(model, pa.concat_tables(shuffled), np.tile(labels, N_SHUFFLES))
        growths = losses.reshape(N_SHUFFLES, -1).mean(axis=1) - before
        error = growths.std(ddof=1) / np.sqrt(N_SHUFFLES)
        found.append(Importance(name, float(growths.mean()), float(error)))
    return sorted(found, key=lambda importance: -importance.growth)


def _measure(model: Any, table: pa.Table, labels: NDArray[Any]) -> NDArray[np.float64]:
    if hasattr(model, "predict_proba"):
        return measure_losses(labels, model.predict_proba(table), model.classes_)
    return measure_losses(labels, model.predict(table), None)
