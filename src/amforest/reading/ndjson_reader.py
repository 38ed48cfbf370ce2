"""JSON, one object a line: read by pyarrow where it is clean, else by Python, to the same result.

pyarrow takes or refuses a block as a whole. One that it refuses is halved until the lines that are
guilty are among few, which Python then reads one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from amforest.reading._arrow import Array, DataType, pa, pa_json
from amforest.reading.batches import Reject
from amforest.reading.columns import Column, found
from amforest.reading.json_lines import Literal, Object, decoded, is_plain, text_of
from amforest.reading.names import EmptyFileError, StreamError, nearest
from amforest.reading.records import Records, Splitter
from amforest.reading.rows import Stretch
from amforest.reading.sources import Bytes
from amforest.reading.text_reader import RecordReader, TextReader, first_line, without_bad_text

ROWS_BY_PYTHON = 256
_TYPES = {"number": pa.float64(), "bool": pa.bool_()}  # of pyarrow's; others are text


class NdjsonReader(TextReader):
    """One file of JSON objects.

    Parameters
    ----------
    source : Bytes
    types : mapping
        What the user says of columns; they need not be in the first rows.
    block_bytes, max_record : int
    previous : NdjsonReader or None
        The file before, whose columns this one has.

    Attributes
    ----------
    names : list of str
        The keys of the first rows, and those of `types`.
    notes : list of str
    """

    def __init__(
        self,
        source: Bytes,
        types: Mapping[str, str],
        block_bytes: int,
        max_record: int,
        previous: NdjsonReader | None = None,
    ) -> None:
        super().__init__(source)
        first = first_line(source, block_bytes, max_record)
        if not first.strip():
            raise EmptyFileError(f"{self.file} is empty")
        if first.lstrip().startswith(b"["):
            raise StreamError(f"{self.file} is a JSON array; one object a line is needed")
        splitter = Splitter(self.file, None, max_record)
        self._records = RecordReader(source, splitter, block_bytes, first)
        self._sample: list[Object] = []
        self.names: list[str] = []
        self._types: dict[str, DataType] = {}  # of all keys
        self._is_watching = True  # for keys that the first rows have not
        if previous is not None:
            self.names, self._types = previous.names, previous._types
            self._is_watching = previous._is_watching
            return
        self._sample = list(self._sampled())
        while not self._sample and self._records.read_more():
            self._sample = list(self._sampled())
        if not self._sample:
            raise StreamError(f"{self.file} has no JSON object in its first rows")
        self.names = list(dict.fromkeys(key for row in self._sample for key in row))
        self._add(types)

    def find_columns(
        self, names: Sequence[str], types: Mapping[str, str]
    ) -> tuple[list[Column], list[str]]:
        """Find what the columns hold, and what should be noted of them."""
        columns, notes = [], []
        for name in self.names:
            if self._is_nested(name):
                if name in names:
                    raise StreamError(f"{self.file}: column {name!r} is nested; leave it out")
                self._is_watching = False
                continue
            text, is_quoted = self._sample_of(name)
            column, note = found(name, text, types.get(name), is_quoted)
            self._types[name] = _TYPES.get(column.kind, pa.string())
            if name in names:
                columns.append(column)
                notes += [note] if note else []
        self._sample = []
        return columns, notes

    def stretches(self, columns: Sequence[Column]) -> Iterator[Stretch]:
        """Yield all rows."""
        self._types |= {column.name: _TYPES.get(column.kind, pa.string()) for column in columns}
        for block in self._records:
            yield from self._halves(without_bad_text(block, self.file), columns)

    def _halves(self, records: Records, columns: Sequence[Column]) -> Iterator[Stretch]:
        """Let pyarrow parse what it can, and Python the rest."""
        values = self._by_arrow(records, columns) if len(records) else None
        if values is not None:
            yield Stretch(self.file, records.lines, values, records.text, records.rejects)
        elif len(records) <= ROWS_BY_PYTHON:
            yield self._by_python(records, columns)
        else:
            for half in records.halves():
                yield from self._halves(half, columns)

    def _by_arrow(self, records: Records, columns: Sequence[Column]) -> list[Array] | None:
        """Parse all records; None if one of them could be bad."""
        body = records.body()
        if not is_plain(records, body):
            return None
        if self._is_watching:
            try:
                return _parse(records, body, columns, self._types, "error")
            except pa.ArrowInvalid as error:
                if "unexpected field" in str(error):
                    self._note_new_key(records)
        types = {column.name: _TYPES.get(column.kind, pa.string()) for column in columns}
        try:
            return _parse(records, body, columns, types, "ignore")
        except pa.ArrowInvalid:
            return None

    def _by_python(self, records: Records, columns: Sequence[Column]) -> Stretch:
        rows: list[list[str | None]] = []
        rejects = list(records.rejects)
        is_good = np.zeros(len(records), dtype=bool)
        for k, record in enumerate(records):
            line = int(records.lines[k])
            try:
                row = decoded(record)
                if row is None:
                    continue
                self._watch(row, line)
                rows.append([text_of(row.get(column.name), column.name) for column in columns])
                is_good[k] = True
            except ValueError as error:
                rejects.append(Reject(self.file, line, str(error), records.text(k)))
        records = records.keep(is_good, rejects)
        values = [pa.array([row[j] for row in rows], pa.string()) for j in range(len(columns))]
        return Stretch(self.file, records.lines, values, records.text, rejects)

    def _sampled(self) -> Iterator[Object]:
        for block in self._records.sample():
            for record in without_bad_text(block, self.file):
                try:
                    row = decoded(record)
                except ValueError:
                    continue  # will be a reject
                if row is not None:
                    yield row

    def _sample_of(self, name: str) -> tuple[Array, Any]:
        """Return the values of a key as text, and which of them were strings."""
        texts: list[str | None] = []
        is_quoted = []
        for row in self._sample:
            value = row.get(name)
            try:
                texts.append(text_of(value, name))
            except ValueError:  # will be a reject
                continue
            is_quoted.append(isinstance(value, str) and not isinstance(value, Literal))
        return pa.array(texts, pa.string()), np.array(is_quoted, dtype=bool)

    def _is_nested(self, name: str) -> bool:
        """Tell whether all values of a key are lists or objects."""
        values = [row[name] for row in self._sample if row.get(name) is not None]
        return bool(values) and all(isinstance(value, list | dict) for value in values)

    def _add(self, names: Iterable[str]) -> None:
        """Add columns that the user knows of."""
        new = [name for name in names if name not in self.names]
        for name in new:
            advice = nearest(name, self.names)
            self.notes.append(f"{self.file}: no key {name!r} in the first rows; {advice}")
        self.names += new

    def _note_new_key(self, records: Records) -> None:
        """Find the first key that is not known."""
        for record, line in zip(records, records.lines.tolist(), strict=True):
            try:
                self._watch(decoded(record) or {}, line)
            except ValueError:
                continue
            if not self._is_watching:
                return

    def _watch(self, row: Object, line: int) -> None:
        """Note the first key that is not known; one note is enough."""
        new = (
            next((key for key in row if key not in self.names), None) if self._is_watching else None
        )
        if new is not None:
            self._is_watching = False
            self.notes.append(
                f"{self.file}:{line}: key {new!r} is not in the first rows: it and others that are "
                "new are left out"
            )


def _parse(
    records: Records,
    body: bytes | memoryview,
    columns: Sequence[Column],
    types: Mapping[str, DataType],
    unexpected: str,
) -> list[Array] | None:
    """Parse by pyarrow; None if there is not one object on each line."""
    table = pa_json.read_json(
        pa.BufferReader(body),
        pa_json.ReadOptions(use_threads=False, block_size=len(body) + 1),
        pa_json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior=unexpected
        ),
    )
    if table.num_rows != len(records):
        return None
    values = [table.column(column.name).combine_chunks() for column in columns]
    return [value.cast(pa.float64()) if value.type == pa.bool_() else value for value in values]
