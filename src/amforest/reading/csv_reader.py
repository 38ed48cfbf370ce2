"""CSV and TSV: one header, then records with equally many fields, parsed by pyarrow in blocks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from amforest.reading.batches import RawBlock
from amforest.reading.records import RecordReader, Records, is_utf8, read_first_line
from amforest.reading.schema import Column, check_unique, infer_column
from amforest.reading.sources import ByteReader, EmptyFileError, StreamError


class CsvReader:
    """Read one file of CSV or TSV.

    Parameters
    ----------
    source : ByteReader
    delimiter : str or None
        The separator of fields. None means a comma; or, if the header has none, the first of
        semicolon, tab and bar that it has.
    block_bytes, max_record : int

    Attributes
    ----------
    file : str
        The name of the file.
    names : list of str
        The columns; those without a name are named after their positions.
    notes : list of str
    """

    def __init__(
        self, source: ByteReader, delimiter: str | None, block_bytes: int, max_record: int
    ) -> None:
        self.file = source.name
        self.notes: list[str] = []
        self._source = source
        first = read_first_line(source, block_bytes, max_record)
        self._delimiter = delimiter or _find_delimiter(first)
        separator = self._delimiter.encode()
        self._records = RecordReader(source, separator, block_bytes, max_record, first)
        header = self._records.pop_header()
        if header is None:
            raise EmptyFileError(f"{self.file} is empty")
        self.names = self._parse_header(header)
        if all(re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?", name) for name in self.names):
            self.notes.append(f"{self.file}: the column names are numbers; is the header missing?")

    @property
    def n_read(self) -> int:
        """The number of bytes read from the file."""
        return self._source.n_read

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def infer_columns(
        self, names: Sequence[str], types: Mapping[str, str]
    ) -> tuple[list[Column], list[str]]:
        """Infer the kinds of columns from the first rows; return them, and notes."""
        parts = [self._parse(block, names)[1] for block in self._records.sample()]
        columns, notes = [], []
        for j, name in enumerate(names):
            text = pa.concat_arrays([part[j] for part in parts] or [pa.array([], pa.string())])
            column, note = infer_column(name, text, types.get(name))
            columns.append(column)
            notes += [note] if note else []
        return columns, notes

    def blocks(self, columns: Sequence[Column]) -> Iterator[RawBlock]:
        """Yield all rows, with each value as text."""
        names = [column.name for column in columns]
        for block in self._records:
            records, values = self._parse(block, names)
            yield RawBlock(self.file, records.lines, values, records.show, records.rejects)

    def _parse_header(self, header: bytes) -> list[str]:
        if b"\0" in header or not is_utf8(header):
            raise StreamError(f"{self.file} is not CSV: its first line is not UTF-8 text")
        text = io.StringIO(header.decode(), newline="")
        (fields,) = csv.reader(text, delimiter=self._delimiter)
        names = [field.strip() or f"column {k}" for k, field in enumerate(fields, 1)]
        check_unique(names, self.file)
        return names

    def _parse(self, records: Records, names: Sequence[str]) -> tuple[Records, list[pa.Array]]:
        """Return the records with the expected number of fields, and their values as text."""
        records = records.reject_bad_text(self.file)
        if not len(records):
            return records, [pa.array([], pa.string()) for _ in names]
        body = records.join()
        reasons: dict[int, str] = {}

        def reject(row: Any) -> str:
            n = row.actual_columns
            reasons[row.number - 1] = f"{n} field{'s' * (n != 1)} instead of {len(self.names)}"
            return "skip"

        table = arrow_csv.read_csv(
            pa.BufferReader(body),
            arrow_csv.ReadOptions(
                use_threads=False, block_size=len(body) + 1, column_names=self.names
            ),
            arrow_csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=reject
            ),
            arrow_csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.binary()),
                check_utf8=False,
            ),
        )
        if table.num_rows + len(reasons) != len(records):
            line = records.lines[0]
            raise StreamError(f"{self.file}: cannot be split into records near line {line}")
        values = [table.column(name).combine_chunks().view(pa.string()) for name in names]
        return records.reject(reasons, self.file), values


def _find_delimiter(first: bytes) -> str:
    line = re.sub(rb'"[^"]*"', b"", re.split(rb"[\r\n]", first.lstrip(b"\r\n"), maxsplit=1)[0])
    return next((mark for mark in ",;\t|" if mark.encode() in line), ",")
