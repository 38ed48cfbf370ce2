"""Rows of requests to rows of a model: by the kinds of its columns, as everywhere in amforest."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import nan
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest._forest.limits import LARGEST_FEATURE, LARGEST_LABEL
from amforest.reading import CLASSIFICATION, Column, Scheme, StreamError, expand_dates
from amforest.reading.arrow_reader import ArrowReader
from amforest.reading.batches import convert_block
from amforest.reading.conversion import MISSING
from amforest.reading.sources import File
from amforest.serving.arrow_messages import check_messages
from amforest.serving.limits import Limits
from amforest.serving.problems import Problem, invalid_rows

JsonRow: TypeAlias = dict[str, Any]
Values: TypeAlias = list[Any]  # of one row, in the order of the model's columns
Errors: TypeAlias = list[tuple[str, str]]

BLOCK_BYTES = 2**22
_DATES = ("date", "datetime")
_NUMBERS = frozenset({int, float, type(None)})
_BOOLS = frozenset({bool, type(None)})
_TEXTS = frozenset({str, type(None)})
_MISSING = frozenset(MISSING)


class RowConverter:
    """Converts rows to a table with the columns of a model, and labels to what it learns.

    Columns are matched by name: others are ignored, absent ones are missing values.

    Parameters
    ----------
    scheme : Scheme
    limits : Limits

    Attributes
    ----------
    ignored : dict
        The names of columns that were ignored so far; the keys are in order.
    """

    def __init__(self, scheme: Scheme, limits: Limits) -> None:
        self.scheme, self._limits, self._text_length = scheme, limits, limits.text_length
        kinds = {name: kind for name, kind in scheme.kinds.items() if name != scheme.target}
        self._columns = [Column(name, kind) for name, kind in kinds.items()]
        self._known = scheme.kinds.keys() | {scheme.target}
        self._target = Column(scheme.target, scheme.kinds[scheme.target])
        self._is_date = {name: kind in _DATES for name, kind in kinds.items()}
        # A model that was saved without a scheme gets dates as they are.
        self._expands = any(self._is_date.values()) and not any(
            self._is_date.get(name, False) for name in scheme.numbers
        )
        self._simple = (
            None if any(self._is_date.values()) else [(name, kinds[name]) for name in scheme.names]
        )
        self.ignored: dict[str, None] = {}

    # Many rows

    def convert_rows(self, rows: Sequence[JsonRow]) -> pa.RecordBatch:
        """Convert rows of JSON; `Problem` names the values that do not fit."""
        self._note_ignored(dict.fromkeys(name for row in rows for name in row))
        arrays: list[pa.Array] = []
        errors: dict[tuple[int, str], str] = {}
        for column in self._columns:
            values = [row.get(column.name) for row in rows]
            array, faults = self._convert(column, values)
            arrays.append(array)
            errors |= {(i, column.name): text for i, text in faults}
        if errors:
            raise invalid_rows(
                [(f"rows[{i}].{name}", errors[i, name]) for i, name in sorted(errors)]
            )
        table = pa.RecordBatch.from_arrays(arrays, names=[c.name for c in self._columns])
        return self._select(table)

    def convert_arrow(
        self, body: bytes, *, has_labels: bool
    ) -> tuple[pa.RecordBatch, NDArray[Any] | None]:
        """Convert a stream of Arrow; with labels, one of its columns is the target."""
        with opened_arrow(body, self._limits) as reader:
            self._limits.check_columns(len(reader.names))
            target = self.scheme.target if has_labels else None
            if has_labels and target not in reader.names:
                raise _no_target(self.scheme.target, reader.names)
            self._note_ignored(dict.fromkeys(reader.names))
            columns = [*self._columns, *([self._target] if has_labels else [])]
            tables: list[pa.RecordBatch] = []
            errors: Errors = []
            n_rows = 0
            for block in reader.blocks(columns):
                batch = convert_block(block, columns, target)
                errors += [(f"rows[{r.line - 1}]", r.reason) for r in batch.rejects]
                tables.append(batch.table)
                n_rows += len(batch) + len(batch.rejects)
                self._limits.check_rows(n_rows)
        if errors:
            raise invalid_rows(errors)
        self._limits.check_rows(n_rows)
        table = pa.Table.from_batches(tables).unify_dictionaries().combine_chunks()
        whole = table.to_batches()[0]
        labels = None
        if has_labels:
            given = whole.column(self.scheme.target)
            labels = self._finish_labels(given.to_numpy(zero_copy_only=False))
        return self._select(whole.select([c.name for c in self._columns])), labels

    def convert_labels(self, values: Sequence[Any], field: str = "labels[{}]") -> NDArray[Any]:
        """Convert labels of JSON; `field` says where they are in the request."""
        array, faults = self._convert(self._target, values)
        is_null = np.asarray(array.is_null())
        missing = [(i, "the label is missing") for i in np.flatnonzero(is_null).tolist()]
        known = {i for i, _ in faults}
        faults += [fault for fault in missing if fault[0] not in known]
        if faults:
            raise invalid_rows([(field.format(i), text) for i, text in sorted(faults)])
        return self._finish_labels(array.to_numpy(zero_copy_only=False), field)

    def _finish_labels(self, labels: NDArray[Any], field: str = "labels[{}]") -> NDArray[Any]:
        scheme = self.scheme
        if scheme.task != CLASSIFICATION:
            large = np.flatnonzero(np.abs(labels) > LARGEST_LABEL)
            if len(large):
                raise invalid_rows([(field.format(i), f"{labels[i]} is too large") for i in large])
        elif scheme.whole:
            is_bad = (labels != np.rint(labels)) | (np.abs(labels) > 2**53)
            bad = np.flatnonzero(is_bad).tolist()
            if bad:
                text = "{} is not a whole number; the classes are whole numbers"
                raise invalid_rows([(field.format(i), text.format(labels[i])) for i in bad])
        return scheme.labels(labels)

    def _convert(
        self, column: Column, values: Sequence[Any]
    ) -> tuple[pa.Array, list[tuple[int, str]]]:
        """Return a column, with null for values that do not fit; and what is wrong with these."""
        types = set(map(type, values))
        array = None
        if column.kind == "number" and types <= _NUMBERS:
            array = pa.array([None if v is None else float(v) for v in values], pa.float64())
        elif column.kind == "bool" and types <= _BOOLS:
            array = pa.array(values, pa.bool_()).cast(pa.float64())
        faults: list[tuple[int, str]] = []
        texts: list[str | None] = []
        if array is None:
            if types <= _TEXTS:
                texts = list(values)
            else:
                for i, value in enumerate(values):
                    if isinstance(value, list | dict):
                        faults.append((i, "its value is nested; expected a single value"))
                    texts.append(_as_text(value))
            if column.kind == "category":
                limit = self._text_length
                too_long = [i for i, text in enumerate(texts) if text and len(text) > limit]
                faults += [(i, f"its text has more than {limit:,} characters") for i in too_long]
            array = pa.array(texts, pa.string())
        converted, is_misfit = column.convert(array)
        if is_misfit is not None:
            for i in np.flatnonzero(is_misfit).tolist():
                text = texts[i] if texts else str(values[i])
                faults.append((i, column.explain(text or "")[0]))
        return converted, faults

    def _select(self, table: pa.RecordBatch) -> pa.RecordBatch:
        return (expand_dates(table) if self._expands else table).select(self.scheme.names)

    def _note_ignored(self, given: dict[str, None]) -> None:
        if len(self.ignored) < 100:
            self.ignored |= {name: None for name in given if name not in self._known}

    # One row

    def convert_row(self, row: JsonRow) -> Values:
        """Convert one row of JSON."""
        values = None if self._simple is None else self._convert_simple(row)
        if values is not None:
            return values
        return self.values_of(self.convert_rows([row]))[0]

    def _convert_simple(self, row: JsonRow) -> Values | None:
        """Convert a row of plain values; None if it has others."""
        values: Values = []
        n_found = 0
        for name, kind in self._simple or ():
            value = row.get(name)
            given = type(value)
            if value is None:
                n_found += name in row
                values.append(None if kind == "category" else nan)
                continue
            n_found += 1
            if kind == "number":
                if given is not float and given is not int:
                    return None
                if not -LARGEST_FEATURE <= value <= LARGEST_FEATURE:
                    return None
                values.append(float(value))
            elif kind == "bool":
                if given is not bool:
                    return None
                values.append(float(value))
            elif (
                given is not str
                or value in _MISSING
                or len(value) > self._text_length
                or value[0].isspace()
                or value[-1].isspace()
            ):
                return None
            else:
                values.append(value)
        if n_found < len(row):
            self._note_ignored(dict.fromkeys(row))
        return values

    def values_of(self, table: pa.RecordBatch) -> list[Values]:
        """Return the rows of a table that this converter has made; missing numbers are NaN."""
        columns = []
        for values, name in zip(table.columns, table.schema.names, strict=True):
            column = values.to_pylist()
            if name in self.scheme.numbers and not pa.types.is_temporal(values.type):
                column = [nan if value is None else value for value in column]
            columns.append(column)
        return [list(row) for row in zip(*columns, strict=True)]

    def table_of(self, rows: Sequence[Values]) -> pa.RecordBatch:
        """Undo `values_of`."""
        arrays = []
        for name, values in zip(self.scheme.names, zip(*rows, strict=True), strict=True):
            if name in self.scheme.categories:
                arrays.append(pa.array(values, pa.string()).dictionary_encode())
            elif self._is_date.get(name, False):
                kind = pa.date32() if self.scheme.kinds[name] == "date" else pa.timestamp("us")
                arrays.append(pa.array(values, kind))
            else:
                arrays.append(pa.array(values, pa.float64(), from_pandas=True))
        return pa.RecordBatch.from_arrays(arrays, names=self.scheme.names)


class opened_arrow:  # noqa: N801  # used as a function
    """A reader of a stream of Arrow, whose errors are problems."""

    def __init__(self, body: bytes, limits: Limits) -> None:
        self._body, self._limits = body, limits

    def __enter__(self) -> ArrowReader:
        if not self._body:
            raise Problem(422, "the body is empty: give at least one row", field="rows")
        check_messages(self._body, self._limits)
        file = File("the body", io.BytesIO(self._body), "arrow")
        try:
            # UTF-8 has up to four bytes for a character.
            self._reader = ArrowReader(file, BLOCK_BYTES, 4 * self._limits.text_length)
        except StreamError as error:
            raise Problem(400, str(error)) from error
        return self._reader

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._reader.close()
        if isinstance(error, StreamError | MemoryError | pa.ArrowException):
            raise Problem(400, str(error).splitlines()[0]) from error


def _no_target(target: str, names: Sequence[str]) -> Problem:
    given = ", ".join(map(repr, names[:20]))
    return Problem(
        422,
        f"there is no column {target!r}, which holds the labels; the columns are {given}",
        field=target,
    )


def _as_text(value: Any) -> str | None:
    """Return a value of JSON as text; None for what is missing or nested."""
    if value is None or isinstance(value, list | dict):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
