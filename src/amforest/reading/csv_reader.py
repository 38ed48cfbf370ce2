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
from amforest.reading.dialect import Decimals, Dialect, find_decimals, find_delimiter
from amforest.reading.records import (
    RecordReader,
    Records,
    TextDecoder,
    TextSource,
    is_utf8,
    read_first_lines,
)
from amforest.reading.schema import Column, check_unique, infer_column
from amforest.reading.sources import EmptyFileError, StreamError


class CsvReader:
    """Read one file of CSV or TSV.

    Parameters
    ----------
    source : TextSource
    dialect : Dialect
        The delimiter and the decimal mark; what is None is detected.
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
        self, source: TextSource, dialect: Dialect, block_bytes: int, max_record: int
    ) -> None:
        self.file = source.name
        self.notes = source.notes
        self._source = source
        self._decoder = TextDecoder(source)
        first = read_first_lines(source, 2, block_bytes, max_record)
        self._delimiter = dialect.delimiter or find_delimiter(first)
        self._decimal = dialect.decimal
        self._decimals: Decimals | None = None  # until the first rows are sampled
        separator = self._delimiter.encode()
        self._records = RecordReader(source, separator, block_bytes, max_record, first)
        header = self._records.pop_header()
        if header is None:
            raise EmptyFileError(f"{self.file} is empty")
        is_binary = re.search(rb"[\0-\x08\x0e-\x1f]", header) and not is_utf8(header)
        if is_binary or b"\0" in header:
            raise StreamError(f"{self.file} is not CSV: its first line is not UTF-8 text")
        self.names = self._parse_header(self._decoder.decode_header(header))
        if dialect.delimiter is None and self._delimiter != ",":
            mark = {"\t": "a tab"}.get(self._delimiter, repr(self._delimiter))
            self.notes.append(f"{self.file}: the delimiter is {mark}")
        if all(re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?", name) for name in self.names):
            self.notes.append(f"{self.file}: the column names are numbers; is the header missing?")

    @property
    def n_read(self) -> int:
        """The number of bytes read from the file."""
        return self._source.n_read

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def infer_columns(self, names: Sequence[str], types: Mapping[str, str]) -> list[Column]:
        """Infer the kinds of columns from the first rows."""
        texts = self._sample_text(names)
        may_be_numbers = [name for name in names if types.get(name, "number") == "number"]
        decimals = self._find_decimals({name: texts[name] for name in may_be_numbers})
        columns = []
        for name, text in texts.items():
            read = decimals.convert(name, text) if name in may_be_numbers else text
            columns.append(infer_column(name, read, types.get(name)))
        return columns

    def blocks(self, columns: Sequence[Column]) -> Iterator[RawBlock]:
        """Yield all rows, with each value as text; null in columns that the file lacks."""
        names = [column.name for column in columns]
        numbers = [column.name for column in columns if column.kind == "number"]
        decimals = self._decimals or self._find_decimals(self._sample_text(numbers))
        for block in self._records:
            records, values = self._parse(self._decoder.decode(block), names)
            for j, column in enumerate(columns):
                if column.kind == "number":
                    values[j] = decimals.convert(column.name, values[j])
            yield RawBlock(
                self.file, records.lines, values, records.show, records.rejects, records.position
            )

    def texts(self, name: str) -> Iterator[pa.Array]:
        """Yield all values of a column as text, with decimal points."""
        decimals = self._find_decimals(self._sample_text(self.names))
        for block in self._records:
            _, (text,) = self._parse(self._decoder.decode(block), [name])
            yield decimals.convert(name, text)

    def _sample_text(self, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return the first values of some columns as text."""
        sample = self._decoder.decode_sample(self._records.sample())
        parts = [self._parse(block, names)[1] for block in sample]
        nothing = pa.array([], pa.string())
        return {
            name: pa.concat_arrays([part[j] for part in parts] or [nothing])
            for j, name in enumerate(names)
        }

    def _find_decimals(self, texts: Mapping[str, pa.Array]) -> Decimals:
        """Return how decimals are written: as given, or as the first values show."""
        if self._decimal is not None:
            self._decimals = Decimals(self._decimal == ",")
        else:
            self._decimals = find_decimals(texts, self._delimiter)
        self.notes += [f"{self.file}: {note}" for note in self._decimals.notes]
        return self._decimals

    def _parse_header(self, header: bytes) -> list[str]:
        if not is_utf8(header):
            raise StreamError(f"{self.file} is not CSV: its first line is not UTF-8 text")
        text = io.StringIO(header.decode(), newline="")
        (fields,) = csv.reader(text, delimiter=self._delimiter)
        names = [field.strip() or f"column {k}" for k, field in enumerate(fields, 1)]
        check_unique(names, self.file)
        return names

    def _parse(self, records: Records, names: Sequence[str]) -> tuple[Records, list[pa.Array]]:
        """Return the records with the expected number of fields, and their values as text."""
        if not len(records):
            return records, [pa.array([], pa.string()) for _ in names]
        present = [name for name in names if name in self.names] or self.names[:1]
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
                include_columns=present,
                column_types=dict.fromkeys(present, pa.binary()),
                check_utf8=False,
            ),
        )
        if table.num_rows + len(reasons) != len(records):
            line = records.lines[0]
            raise StreamError(f"{self.file}: cannot be split into records near line {line}")
        absent = pa.nulls(table.num_rows, pa.string())
        values = [
            table.column(name).combine_chunks().view(pa.string()) if name in self.names else absent
            for name in names
        ]
        return records.reject(reasons, self.file), values
