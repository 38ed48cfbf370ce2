"""JSON with one object per line; the columns are the keys of the first rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from amforest.reading.batches import RawBlock
from amforest.reading.conversion import Mask
from amforest.reading.ndjson_parser import (
    JsonObject,
    Literal,
    ParseError,
    arrow_type,
    find_regular,
    parse_by_arrow,
    parse_by_python,
    parse_lines,
    parse_object,
    to_text,
)
from amforest.reading.records import (
    RecordReader,
    Records,
    TextDecoder,
    TextSource,
    read_first_lines,
)
from amforest.reading.schema import Column, infer_column
from amforest.reading.sources import EmptyFileError, StreamError, join_names, suggest


class NdjsonReader:
    """Read one file of JSON objects.

    Parameters
    ----------
    source : TextSource
    types : mapping
        The kinds that the user requests, also of columns that are not in the first rows.
    block_bytes, max_record : int
    previous : NdjsonReader or None
        The file before, whose columns this one has.

    Attributes
    ----------
    file : str
        The name of the file.
    names : list of str
        The keys of the first rows, and those of `types`.
    notes : list of str
    """

    def __init__(
        self,
        source: TextSource,
        types: Mapping[str, str],
        block_bytes: int,
        max_record: int,
        previous: NdjsonReader | None = None,
    ) -> None:
        self.file = source.name
        self.notes = source.notes
        self._source = source
        self._decoder = TextDecoder(source)
        first = read_first_lines(source, 1, block_bytes, max_record)
        if not first.strip():
            raise EmptyFileError(f"{self.file} is empty")
        if first.lstrip().startswith(b"["):
            raise StreamError(f"{self.file} is a JSON array; write one object per line instead")
        self._records = RecordReader(source, None, block_bytes, max_record, first)
        self._sample: list[JsonObject] = []
        self.names: list[str] = []
        self._types: dict[str, pa.DataType] = {}  # of all keys
        self._watches_keys = True  # until a key is seen that the first rows do not have
        if previous is not None:
            self.names, self._types = previous.names, previous._types
            self._watches_keys = previous._watches_keys
            self._note_absent(self._parse_sample())
            return
        self._sample = list(self._parse_sample())
        while not self._sample and self._records.extend_sample():
            self._sample = list(self._parse_sample())
        if not self._sample:
            raise StreamError(f"{self.file} has no JSON object in its first rows")
        self.names = list(dict.fromkeys(key for row in self._sample for key in row))
        self._add_names(types)

    @property
    def n_read(self) -> int:
        """The number of bytes read from the file."""
        return self._source.n_read

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def infer_columns(self, names: Sequence[str], types: Mapping[str, str]) -> list[Column]:
        """Infer the kinds of columns from the first rows."""
        columns = []
        for name in self.names:
            if self._is_nested(name):
                if name in names:
                    raise StreamError(f"{self.file}: column {name!r} is nested; drop it")
                self._watches_keys = False
                continue
            text, is_quoted = self._sample_text(name)
            column = infer_column(name, text, types.get(name), is_quoted)
            self._types[name] = arrow_type(column)
            if name in names:
                columns.append(column)
        self._sample = []
        absent = (Column(name, "number") for name in names if name not in self.names)
        return [*columns, *absent]

    def blocks(self, columns: Sequence[Column]) -> Iterator[RawBlock]:
        """Yield all rows: numbers and bools as float64, the rest as text."""
        wanted = {column.name: arrow_type(column) for column in columns}
        self._types |= wanted

        def parse(records: Records) -> list[pa.Array]:
            if self._watches_keys:
                try:
                    return parse_lines(records, columns, self._types, "error")
                except ParseError as error:
                    if error.is_new_key:
                        self._find_new_key(records)
                    elif self._types.keys() == wanted.keys():
                        raise
            return parse_lines(records, columns, wanted, "ignore")

        for block in self._records:
            yield self._parse_block(self._decoder.decode(block), columns, parse)

    def texts(self, name: str) -> Iterator[pa.Array]:
        """Yield all values of a key as text."""
        for block in self.blocks([Column(name, "category")]):
            yield block.values[0]

    def _parse_block(
        self,
        records: Records,
        columns: Sequence[Column],
        parse: Callable[[Records], list[pa.Array]],
    ) -> RawBlock:
        """Parse by pyarrow as many lines as possible, and the others by Python."""
        is_regular = find_regular(records)
        regular = records if is_regular.all() else records.select(is_regular, [])
        parts, is_left = parse_by_arrow(regular, parse)
        by_arrow = np.flatnonzero(is_regular)[~is_left]
        order = None
        if len(by_arrow) < len(records) or not parts:
            by_python = np.setdiff1d(np.arange(len(records)), by_arrow)
            others = records.select(by_python, [])
            values, is_good, rejects = parse_by_python(others, columns, self.file, self._watch)
            parts.append(values)
            rows = np.concatenate((by_arrow, by_python[is_good]))
            records = records.select(np.sort(rows), records.rejects + rejects)
            order = pa.array(np.argsort(rows))
        values = [pa.concat_arrays([part[j] for part in parts]) for j in range(len(columns))]
        if order is not None:
            values = [value.take(order) for value in values]
        return RawBlock(
            self.file, records.lines, values, records.show, records.rejects, records.position
        )

    def _parse_sample(self) -> Iterator[JsonObject]:
        for block in self._decoder.decode_sample(self._records.sample()):
            for record in block:
                row = None
                with suppress(ValueError):  # the row is rejected later
                    row = parse_object(record)
                if row is not None:
                    yield row

    def _sample_text(self, name: str) -> tuple[pa.Array, Mask]:
        """Return the values of a key as text, and which of them are strings."""
        texts: list[str | None] = []
        is_quoted = []
        for row in self._sample:
            value = row.get(name)
            with suppress(ValueError):  # the row is rejected later
                texts.append(to_text(value, name))
                is_quoted.append(isinstance(value, str) and not isinstance(value, Literal))
        return pa.array(texts, pa.string()), np.array(is_quoted, dtype=bool)

    def _is_nested(self, name: str) -> bool:
        """Return whether all values of a key are lists or objects."""
        values = [row[name] for row in self._sample if row.get(name) is not None]
        return bool(values) and all(isinstance(value, list | dict) for value in values)

    def _add_names(self, names: Iterable[str]) -> None:
        """Add columns that the user names, but the first rows do not have."""
        new = [name for name in names if name not in self.names]
        for name in new:
            advice = suggest(name, self.names)
            self.notes.append(f"{self.file}: no key {name!r} in the first rows; {advice}")
        self.names += new

    def _note_absent(self, rows: Iterable[JsonObject]) -> None:
        """Note the columns of the file before that the first rows of this one do not have."""
        keys = {key for row in rows for key in row}
        if absent := [name for name in self.names if name not in keys]:
            names = join_names(absent)
            self.notes.append(f"{self.file}: no key {names} in the first rows: missing values")

    def _find_new_key(self, records: Records) -> None:
        """Note the first unknown key."""
        for record, line in zip(records, records.lines.tolist(), strict=True):
            with suppress(ValueError):
                self._watch(parse_object(record) or {}, line)
            if not self._watches_keys:
                return
        self._watches_keys = False  # the key is in a line that is rejected

    def _watch(self, row: JsonObject, line: int) -> None:
        """Note the first unknown key; one note is enough."""
        if not self._watches_keys:
            return
        new = next((key for key in row if key not in self.names), None)
        if new is not None:
            self._watches_keys = False
            self.notes.append(
                f"{self.file}:{line}: key {new!r} is not in the first rows; new keys are ignored"
            )
