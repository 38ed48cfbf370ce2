"""How the columns of a stream become the features and labels of a model; saved with the model.

The random splits of AMF depend on the scales of its features, and a stream cannot be inspected
beforehand. So each column of numbers is standardised by the mean and the spread of its values so
far. If both changed with every value, nodes would lose their meaning; if they never changed, a
column that drifts would outgrow all others. So they are updated when the number of values doubles.
The adaptive forest, which scales features itself, gets them as they are.
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
from amforest.cli.console import CommandError, suggest
from amforest.distributed import KeyedForests
from amforest.distributed.keyed_state import holds_models
from amforest.model_io import atomic_write, model_file
from amforest.reading import Column

Floats = NDArray[np.float64]

CLASSIFICATION, REGRESSION = "classification", "regression"
MOST_CLASSES = 20  # different whole numbers that are taken for classes
FIRST_UPDATE = 100  # values; scales are updated at 100, 200, 400, …
_KEYS = ("first", "count", "sum", "squares", "mean", "spread")


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
            raise CommandError(f"column {target!r} holds {labels[0]!r}, which is not a number")
        if task == CLASSIFICATION and labels.dtype.kind == "f" and not whole:
            raise CommandError(f"column {target!r} holds fractions, which are not classes")
        schema = table.schema
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        unused = {f"{name}.{part}" for name in kinds for part in UNUSED} - kinds.keys()
        numbers = [name for name in schema.names if name not in {*texts, *unused}]
        categories = [name for name in texts if name != key and name in kinds]
        if not numbers and not categories:
            raise CommandError("there is no column beside the target to learn from")
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
        for name in [*self.names, *keys]:
            if name not in table.schema.names:
                raise CommandError(
                    f"{file} has no column {name!r}, which the model was trained with"
                    + suggest(name, table.schema.names)
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
        """Restore the result of `to_json`; `CommandError` if `state` is nothing like it."""
        try:
            scale = state["scale"]
            scheme = cls(**state)
            if scale is not None:
                scheme.scale = RunningScale.from_json(scale)
            if not all(isinstance(name, str) for name in scheme.numbers + scheme.categories):
                raise TypeError
        except (TypeError, KeyError, ValueError) as error:
            raise CommandError(
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


def load_with_scheme(path: str) -> tuple[Any, dict[str, Any], Scheme]:
    """Load a model that `amforest run` has saved, the state saved with it, and its scheme.

    The models of keys are in a folder.
    """
    if holds_models(path):
        model: Any = KeyedForests.load(path)
        state = model.extra_
    else:
        data = atomic_write.read_all(path)
        try:
            model, state = model_file.from_bytes(data), model_file.extra_of(data)
        except model_file.ModelFormatError as error:
            raise CommandError(f"{path}: {error}") from error
    is_state = isinstance(state, dict) and "scheme" in state
    scheme = Scheme.from_json(state["scheme"] if is_state else None)
    return model, state, scheme


class RunningScale:
    """The scales of some columns. The result does not depend on how rows are cut into batches.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self._first = np.full(n_columns, np.nan)  # subtracted from all, so that sums stay exact
        self._count, self._sum, self._squares = np.zeros((3, n_columns))
        self._mean, self._spread = np.zeros((2, n_columns))  # in force, of values minus the first

    def transform(self, rows: Floats) -> Floats:
        """Update the scales by rows, NaN where values are missing, and return the rows scaled."""
        out = np.full_like(rows, np.nan)
        for j, column in enumerate(rows.T):
            is_known = ~np.isnan(column)
            if is_known.any():
                out[is_known, j] = self._update(j, column[is_known])
        return out

    def apply(self, rows: Floats) -> Floats:
        """Return rows scaled by the scales in force, without updating these."""
        return np.where(
            np.isnan(rows), np.nan, _ratio(rows - self._first - self._mean, self._spread)
        )

    def restore(self, j: int, value: float) -> float:
        """Return the value of column j that `apply` scales to this one."""
        return float(self._first[j] + self._mean[j] + value * self._spread[j])

    def _update(self, j: int, values: Floats) -> Floats:
        """Scale each value by the values up to it, or up to the last update."""
        if np.isnan(self._first[j]):
            self._first[j] = values[0]
        values = values - self._first[j]
        before = int(self._count[j])
        counts = before + np.arange(1, len(values) + 1)
        # In order, from the sums before: so they do not depend on how rows are cut.
        sums = np.cumsum(np.append(self._sum[j], values))[1:]
        squares = np.cumsum(np.append(self._squares[j], values**2))[1:]
        self._count[j], self._sum[j], self._squares[j] = counts[-1], sums[-1], squares[-1]

        means = np.append(self._mean[j], sums / counts)
        spreads = np.append(self._spread[j], _spread(counts, sums, squares))
        updated = np.maximum(_last_update(counts) - before, 0)  # 0: before this batch
        self._mean[j], self._spread[j] = means[updated[-1]], spreads[updated[-1]]
        return _ratio(values - means[updated], spreads[updated])

    def to_json(self) -> dict[str, list[Any]]:
        """Return the state in values of JSON."""
        columns = (self._first, self._count, self._sum, self._squares, self._mean, self._spread)
        lists = [[None if np.isnan(x) else x for x in column.tolist()] for column in columns]
        return dict(zip(_KEYS, lists, strict=True))

    @classmethod
    def from_json(cls, state: dict[str, list[Any]]) -> RunningScale:
        """Restore the result of `to_json`; ValueError if `state` is nothing like it."""
        first, *rest = (np.array(state[key], dtype=np.float64) for key in _KEYS)
        if any(values.shape != first.shape or first.ndim != 1 for values in rest):
            raise ValueError("scales must be lists of one length")
        if not all(np.isfinite(values).all() for values in rest):
            raise ValueError("scales must be finite")
        scale = cls(len(first))
        scale._first = first
        scale._count, scale._sum, scale._squares, scale._mean, scale._spread = rest
        return scale


def _last_update(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of values at the last update."""
    doublings = np.log2(np.maximum(counts, FIRST_UPDATE) / FIRST_UPDATE).astype(np.int64)
    return np.where(counts < FIRST_UPDATE, counts, FIRST_UPDATE << doublings)


def _spread(counts: NDArray[np.int64], sums: Floats, squares: Floats) -> Floats:
    variance = squares / counts - (sums / counts) ** 2
    # A variance within the rounding error is 0.
    return np.where(variance > 1e-12 * squares / counts, np.sqrt(np.maximum(variance, 0)), 0.0)


def _ratio(values: Floats, spreads: Floats) -> Floats:
    return np.divide(values, spreads, out=np.zeros_like(values), where=spreads > 0)


def _as_floats(column: Any) -> Floats:
    values: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values
