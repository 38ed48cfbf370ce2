"""How the columns of a stream become the features and labels of a model; saved with the model.

AMF gets columns of numbers on a common scale. The adaptive forest, which scales features itself,
gets them as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from amforest._forest.date_parts import UNUSED
from amforest._forest.unique_text import is_nearly_unique
from amforest.reading.running_scale import Floats, RunningScale
from amforest.reading.schema import Column
from amforest.reading.sources import StreamError, suggest

CLASSIFICATION = "classification"
"""The task of a stream whose labels are classes."""

REGRESSION = "regression"
"""The task of a stream whose labels are numbers."""

MOST_CLASSES = 20  # different whole numbers that are taken for classes


@dataclass
class Scheme:
    """The columns of a stream, and their use in a model.

    Attributes
    ----------
    target : str
        The column of the labels.
    task : str
        "classification" or "regression".
    whole : bool
        Whether the labels are whole numbers that are classes.
    kinds : dict of str to str
        The columns that are read, and their kinds.
    numbers, categories : list of str
        The features. A date becomes its year, month, day, weekday and hour.
    scale : RunningScale or None
        The scale of the numbers; None if they are used as they are.
    key : str or None
        The column whose values have a model each.
    """

    target: str
    task: str
    whole: bool
    kinds: dict[str, str]
    numbers: list[str]
    categories: list[str]
    scale: RunningScale | None
    key: str | None = None

    @classmethod
    def infer(
        cls,
        table: pa.RecordBatch,
        labels: NDArray[Any],
        target: str,
        kinds: dict[str, str],
        *,
        task: str | None = None,
        key: str | None = None,
    ) -> Scheme:
        """Infer it from the first rows of a stream, and their labels."""
        whole = labels.dtype.kind == "f" and bool((labels == np.rint(labels)).all())
        if task is None:
            few = whole and len(np.unique(labels)) <= MOST_CLASSES
            task = CLASSIFICATION if labels.dtype.kind == "O" or few else REGRESSION
        if task == REGRESSION and labels.dtype.kind != "f":
            raise StreamError(f"column {target!r} holds {labels[0]!r}, which is not a number")
        if task == CLASSIFICATION and labels.dtype.kind == "f" and not whole:
            raise StreamError(f"column {target!r} holds fractions, which are not classes")
        schema = table.schema
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        unused = {f"{name}.{part}" for name in kinds for part in UNUSED} - kinds.keys()
        numbers = [name for name in schema.names if name not in {*texts, *unused}]
        categories = [name for name in texts if name != key and name in kinds]
        if not numbers and not categories:
            raise StreamError("there is no column beside the target to learn from")
        whole = task == CLASSIFICATION and whole
        scale = RunningScale(len(numbers))
        return cls(target, task, whole, kinds, numbers, categories, scale, key)

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return [*self.numbers, *self.categories]

    def features(self, table: pa.RecordBatch, file: str, *, learn: bool = True) -> pa.Table:
        """Return the features of some rows; with `learn`, their scales are updated."""
        keys = [] if self.key is None else [self.key]
        given = table.schema.names  # a new list each time
        known = set(given)
        for name in [*self.names, *keys]:
            if name not in known:
                raise StreamError(
                    f"{file} has no column {name!r}, which the model was trained with; "
                    + suggest(name, given)
                )
        columns = [table.column(name) for name in self.names]
        if self.scale is not None and self.numbers:
            rows = np.column_stack([_as_floats(column) for column in columns[: len(self.numbers)]])
            rows = self.scale.transform(rows) if learn else self.scale.apply(rows)
            columns[: len(self.numbers)] = [pa.array(column, from_pandas=True) for column in rows.T]
        # Rows without a key have one in common.
        columns += [pc.fill_null(table.column(name).cast(pa.string()), "") for name in keys]
        return pa.table(columns, names=[*self.names, *keys])

    def labels(self, y: Any) -> NDArray[Any]:
        """Convert an array of labels to the type that the model learns."""
        dtype = np.float64 if self.task == REGRESSION else np.int64 if self.whole else str
        return np.asarray(y).astype(dtype)

    @staticmethod
    def rows_of(table: pa.Table) -> list[list[Any]]:
        """Return the rows of a table of features in values of JSON."""
        columns = [column.to_pylist() for column in table.columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def table_of(self, rows: list[list[Any]]) -> pa.Table:
        """Return the result of `rows_of` as a table, as `features` does."""
        texts = self.categories if self.key is None else [*self.categories, self.key]
        names = [*self.numbers, *texts]
        columns: Any = zip(*rows, strict=True) if rows else [[] for _ in names]
        kinds = [pa.float64()] * len(self.numbers) + [pa.string()] * len(texts)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        for k in range(len(self.numbers), len(self.names)):
            arrays[k] = arrays[k].dictionary_encode()
        return pa.table(arrays, names=names)

    def restarted(self) -> Scheme:
        """Return the same scheme with the scales of a stream that begins."""
        scale = None if self.scale is None else RunningScale(len(self.numbers))
        return Scheme(**{**vars(self), "scale": scale})

    def to_json(self) -> dict[str, Any]:
        """Return it in values of JSON, for a model file."""
        scale = None if self.scale is None else self.scale.to_json()
        return {**vars(self), "scale": scale}

    @classmethod
    def from_json(cls, state: Any) -> Scheme:
        """Restore the result of `to_json`; `StreamError` if `state` is nothing like it."""
        try:
            scale = state["scale"]
            scheme = cls(**state)
            if scale is not None:
                scheme.scale = RunningScale.from_json(scale)
            if not all(isinstance(name, str) for name in scheme.numbers + scheme.categories):
                raise TypeError
        except (TypeError, KeyError, ValueError) as error:
            raise StreamError(
                "the model was not saved by `amforest run`: its columns are not known"
            ) from error
        return scheme


def drop_unique_text(
    columns: Sequence[Column], kept: Collection[str | None]
) -> tuple[dict[str, str], list[str]]:
    """Return the kinds of columns without text that names rows, and a note on each of these.

    If no other column is left to learn from, all are kept, as are those in `kept`.
    """
    unique = [
        column
        for column in columns
        if column.kind == "category"
        and column.name not in kept
        and is_nearly_unique(column.n_distinct, column.n_known)
    ]
    kinds = {column.name: column.kind for column in columns}
    rest = {name: kind for name, kind in kinds.items() if name not in {c.name for c in unique}}
    if len(rest) <= 1:  # the target
        return kinds, []
    return rest, [
        f"column {column.name!r} is dropped: {column.n_distinct:,} of its first "
        f"{column.n_known:,} values differ; --types {column.name}=category keeps it"
        for column in unique
    ]


def _as_floats(column: Any) -> Floats:
    values: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values
