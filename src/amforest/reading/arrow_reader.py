"""Rows of Parquet and Arrow: the types are the file's, and what is damaged is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from amforest.reading._arrow import Array, RecordBatch, pa
from amforest.reading.arrow_files import open_file
from amforest.reading.arrow_types import as_kind, as_text, check_type, find_column, kind_of
from amforest.reading.batches import Reject, row_text
from amforest.reading.columns import Column
from amforest.reading.names import EmptyFileError, StreamError, repeated
from amforest.reading.rows import Stretch
from amforest.reading.sources import File
from amforest.reading.text_reader import SAMPLE_ROWS, is_text


class ArrowReader:
    """One file of Parquet or Arrow.

    Parameters
    ----------
    file : File
    block_bytes : int

    Attributes
    ----------
    names : list of str
    notes : list of str
    """

    def __init__(self, file: File, block_bytes: int) -> None:
        self.file = file.name
        self.notes: list[str] = []
        self._block_bytes = block_bytes
        self._is_pipe = not file.is_regular
        if file.size == 0:
            raise EmptyFileError(f"{self.file} is empty")
        with self._errors(f"is not {file.format.title()}"):
            self._opened = open_file(file)
        self.names: list[str] = self._opened.schema.names
        if (name := repeated(self.names)) is not None:
            raise StreamError(f"{self.file} has several columns {name!r}")
        self._sample: list[Stretch] = []
        self._rest: Iterator[Stretch] | None = None

    @property
    def n_read(self) -> int:
        """How many bytes of the file were read, as far as one can tell."""
        return self._opened.n_read

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def find_columns(
        self, names: Sequence[str], types: Mapping[str, str]
    ) -> tuple[list[Column], list[str]]:
        """Find what the columns hold."""
        self._rest = self._read(names)
        n_rows = 0
        for stretch in self._rest:
            self._sample.append(stretch)
            n_rows += len(stretch.lines)
            if n_rows >= SAMPLE_ROWS or (self._is_pipe and n_rows):
                break
        columns = []
        for j, name in enumerate(names):
            empty = _plain(pa.array([], self._opened.schema.field(name).type))
            values = pa.concat_arrays([stretch.values[j] for stretch in self._sample] or [empty])
            columns.append(find_column(name, types.get(name), values[:SAMPLE_ROWS]))
        return columns, []

    def stretches(self, columns: Sequence[Column]) -> Iterator[Stretch]:
        """Yield all rows."""
        rest = self._rest or self._read([column.name for column in columns])
        for stretch in chain(self._sample, rest):
            values = [as_kind(v, c.kind) for v, c in zip(stretch.values, columns, strict=True)]
            yield replace(stretch, values=values)

    def _read(self, names: Sequence[str]) -> Iterator[Stretch]:
        """Yield all rows, with the types of the file."""
        for name in names:
            check_type(self.file, name, self._opened.schema.field(name).type)
        batches = self._opened.batches(names, self._block_bytes)
        n_done = 0
        while True:
            with self._errors(f"is damaged after row {n_done:,}"):
                batch = next(batches, None)
                if batch is None:
                    return
                batch = batch.select(list(names))
                is_bad = _bad_text(batch)
            numbers = np.arange(n_done + 1, n_done + 1 + len(batch))
            rejects = [
                Reject(self.file, int(numbers[row]), "not UTF-8 text", row_text(batch, row))
                for row in np.flatnonzero(is_bad).tolist()
            ]
            n_done += len(batch)
            if rejects:
                batch, numbers = batch.filter(pa.array(~is_bad)), numbers[~is_bad]
            values = [_plain(column) for column in batch.columns]
            yield Stretch(self.file, numbers, values, partial(row_text, batch), rejects)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Say which file it was, in one line."""
        try:
            yield
        except (pa.ArrowException, EOFError) as error:
            raise StreamError(f"{self.file} {what}: {str(error).splitlines()[0]}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise StreamError(f"{self.file} {what}: {str(error).splitlines()[0]}") from error


def _plain(values: Array) -> Array:
    """Return text of all types as strings: parts can then be put together."""
    return as_text(values) if kind_of(values.type) == "category" else values


def _bad_text(batch: RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Check all values, and mark the rows with strings that are not UTF-8.

    Raises
    ------
    pyarrow.ArrowInvalid
        If anything else is wrong, such as an index beyond its dictionary.
    """
    is_bad = np.zeros(len(batch), dtype=bool)
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for values in batch.columns:
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                is_large = pa.types.is_large_string(values.type)
                raw = values.view(pa.large_binary() if is_large else pa.binary())
                raw.validate(full=True)
                is_bad |= [not is_text(value or b"") for value in raw.to_pylist()]
            else:
                values.validate(full=True)
    return is_bad
