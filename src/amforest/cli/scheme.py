"""How the columns of a stream become the features and labels of a model; saved with the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest.cli.errors import CommandError, nearest
from amforest.cli.scaling import RunningScale
from amforest.reading import Batch, expand_dates

CLASSIFICATION, REGRESSION = "classification", "regression"
MOST_CLASSES = 20  # different whole numbers that are taken for classes


@dataclass
class Scheme:
    """What a model is about.

    Attributes
    ----------
    target : str
        The column of the labels.
    task : str
        "classification" or "regression".
    whole : bool
        Whether labels are whole numbers: they are classes, then.
    kinds : dict of str to str
        The columns that are read, and what they hold.
    numbers, categories : list of str
        The features. Of dates, they are the year, month, day, weekday and hour.
    scale : RunningScale or None
        Of the numbers; None if they are taken as they are.
    """

    target: str
    task: str
    whole: bool
    kinds: dict[str, str]
    numbers: list[str]
    categories: list[str]
    scale: RunningScale | None

    @classmethod
    def found(
        cls,
        table: Any,
        labels: NDArray[Any],
        target: str,
        kinds: dict[str, str],
        *,
        task: str | None = None,
        scaled: bool = True,
    ) -> Scheme:
        """Look at the first rows of a stream, and their labels."""
        whole = labels.dtype.kind == "f" and bool((labels == np.rint(labels)).all())
        if task is None:
            few = whole and len(np.unique(labels)) <= MOST_CLASSES
            task = CLASSIFICATION if labels.dtype.kind == "O" or few else REGRESSION
        if task == REGRESSION and labels.dtype.kind != "f":
            raise CommandError(f"column {target!r} holds {labels[0]!r}, which is no number")
        if task == CLASSIFICATION and labels.dtype.kind == "f" and not whole:
            raise CommandError(f"column {target!r} holds fractions, which are no classes")
        schema = expand_dates(table).schema
        categories = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        others = (name for name in schema.names if name not in categories)
        # The time in days would be beyond all that was seen before, row after row.
        left = {f"{name}.{part}" for name in kinds for part in ("time", "minute", "second")}
        numbers = [name for name in others if name in kinds or name not in left]
        if not numbers and not categories:
            raise CommandError("there is no column beside the target to learn from")
        scale = RunningScale(len(numbers)) if scaled else None
        whole = task == CLASSIFICATION and whole
        return cls(target, task, whole, kinds, numbers, categories, scale)

    def features(self, batch: Batch, *, learn: bool = True) -> pa.Table:
        """Return the features of some rows; with `learn`, their scales may change."""
        table = expand_dates(batch.table)
        for name in (*self.numbers, *self.categories):
            if name not in table.schema.names:
                raise CommandError(
                    f"{batch.file} has no column {name!r}, which the model was learnt with"
                    + nearest(name, table.schema.names)
                )
        if self.numbers:
            rows = np.column_stack([_floats(table.column(name)) for name in self.numbers])
        else:
            rows = np.empty((len(table), 0))
        if self.scale is not None:
            rows = self.scale.transform(rows) if learn else self.scale.apply(rows)
        columns = [pa.array(rows[:, j], from_pandas=True) for j in range(rows.shape[1])]
        columns += [table.column(name) for name in self.categories]
        return pa.table(columns, names=[*self.numbers, *self.categories])

    def labels(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return labels as the model learns them."""
        if self.task == REGRESSION:
            return y.astype(np.float64)
        return y.astype(np.int64) if self.whole else y.astype(str)

    def to_json(self) -> dict[str, Any]:
        """Return it in values of JSON, for a model file."""
        scale = None if self.scale is None else self.scale.to_json()
        return {**vars(self), "scale": scale}

    def fresh_scale(self) -> dict[str, Any] | None:
        """Return scales of which nothing is known, for a stream that begins anew."""
        return None if self.scale is None else RunningScale(len(self.numbers)).to_json()

    @classmethod
    def from_json(cls, state: Any) -> Scheme:
        """Undo `to_json`; `CommandError` if it is nothing that it gives."""
        try:
            scale = state["scale"]
            scheme = cls(**state)
            if scale is not None:
                scheme.scale = RunningScale.from_json(scale)
            if not all(isinstance(name, str) for name in scheme.numbers + scheme.categories):
                raise TypeError
        except (TypeError, KeyError, ValueError) as error:
            raise CommandError(
                "the model was not saved by `amforest run`: it does not say which columns it is of"
            ) from error
        return scheme


def _floats(column: Any) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values
