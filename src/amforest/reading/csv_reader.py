"""CSV and its kin: one header, then records of as many fields, parsed by pyarrow block by block."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from amforest.reading._arrow import Array, pa, pa_csv
from amforest.reading.batches import Reject
from amforest.reading.columns import Column, found
from amforest.reading.names import EmptyFileError, StreamError, repeated
from amforest.reading.records import Records, Splitter
from amforest.reading.rows import Stretch
from amforest.reading.sources import Bytes
from amforest.reading.text_reader import (
    RecordReader,
    TextReader,
    first_line,
    is_text,
    without_bad_text,
)


class CsvReader(TextReader):
    """One file of CSV or TSV.

    Parameters
    ----------
    source : Bytes
    delimiter : str or None
        What separates fields. None means a comma; or, if the header has none, the first of
        semicolon, tab and bar that it has.
    block_bytes, max_record : int

    Attributes
    ----------
    names : list of str
        The columns; those without a name are called after their places.
    notes : list of str
    """

    def __init__(
        self, source: Bytes, delimiter: str | None, block_bytes: int, max_record: int
    ) -> None:
        super().__init__(source)
        first = first_line(source, block_bytes, max_record)
        self._delimiter = delimiter or _find_delimiter(first)
        splitter = Splitter(self.file, self._delimiter.encode(), max_record)
        self._records = RecordReader(source, splitter, block_bytes, first)
        header = self._records.take_first()
        if header is None:
            raise EmptyFileError(f"{self.file} is empty")
        self.names = self._read_header(header)
        if all(re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?", name) for name in self.names):
            self.notes.append(f"{self.file}: the names of columns are numbers; is there no header?")

    def find_columns(
        self, names: Sequence[str], types: Mapping[str, str]
    ) -> tuple[list[Column], list[str]]:
        """Find what the columns hold, and what should be noted of them."""
        parts = [self._parse(block, names)[1] for block in self._records.sample()]
        columns, notes = [], []
        for j, name in enumerate(names):
            text = pa.concat_arrays([part[j] for part in parts] or [pa.array([], pa.string())])
            column, note = found(name, text, types.get(name))
            columns.append(column)
            notes += [note] if note else []
        return columns, notes

    def stretches(self, columns: Sequence[Column]) -> Iterator[Stretch]:
        """Yield all rows."""
        names = [column.name for column in columns]
        for block in self._records:
            records, values = self._parse(block, names)
            yield Stretch(self.file, records.lines, values, records.text, records.rejects)

    def _read_header(self, header: bytes) -> list[str]:
        if b"\0" in header or not is_text(header):
            raise StreamError(f"{self.file} is not CSV: its first line is not UTF-8 text")
        text = io.StringIO(header.decode(), newline="")
        (fields,) = csv.reader(text, delimiter=self._delimiter)
        names = [field.strip() or f"column {k}" for k, field in enumerate(fields, 1)]
        if (name := repeated(names)) is not None:
            raise StreamError(f"{self.file} has several columns {name!r}")
        return names

    def _parse(self, records: Records, names: Sequence[str]) -> tuple[Records, list[Array]]:
        """Return the records that have the right number of fields, and these as text."""
        records = without_bad_text(records, self.file)
        if not len(records):
            return records, [pa.array([], pa.string()) for _ in names]
        body = records.body()
        wrong: list[tuple[int, int]] = []

        def note(row: Any) -> str:
            wrong.append((row.number - 1, row.actual_columns))
            return "skip"

        table = pa_csv.read_csv(
            pa.BufferReader(body),
            pa_csv.ReadOptions(
                use_threads=False, block_size=len(body) + 1, column_names=self.names
            ),
            pa_csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=note
            ),
            pa_csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.binary()),
                check_utf8=False,
            ),
        )
        if table.num_rows + len(wrong) != len(records):
            raise StreamError(f"{self.file}: cannot be cut into records near {records.lines[0]}")
        values = [table.column(name).combine_chunks().view(pa.string()) for name in names]
        return self._without(records, wrong), values

    def _without(self, records: Records, wrong: list[tuple[int, int]]) -> Records:
        """Reject the records whose number of fields is wrong."""
        if not wrong:
            return records
        rejects = [
            Reject(self.file, int(records.lines[row]), self._count(n), records.text(row))
            for row, n in wrong
        ]
        is_good = np.ones(len(records), dtype=bool)
        is_good[[row for row, _ in wrong]] = False
        return records.keep(is_good, [*records.rejects, *rejects])

    def _count(self, n_fields: int) -> str:
        return f"{n_fields} field{'s' * (n_fields != 1)} instead of {len(self.names)}"


def _find_delimiter(first: bytes) -> str:
    line = re.sub(rb'"[^"]*"', b"", re.split(rb"[\r\n]", first.lstrip(b"\r\n"), maxsplit=1)[0])
    return next((mark for mark in ",;\t|" if mark.encode() in line), ",")
