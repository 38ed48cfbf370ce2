"""JSON, one object a line, with as many keys as the first rows have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from amforest.reading._arrow import Array, DataType, pa
from amforest.reading.columns import Column, found
from amforest.reading.json_blocks import (
    TYPES,
    Refused,
    are_plain,
    parse,
    read_one_by_one,
    read_plain,
)
from amforest.reading.json_lines import Literal, Object, decoded, text_of
from amforest.reading.names import EmptyFileError, StreamError, nearest
from amforest.reading.records import Records, Splitter
from amforest.reading.rows import Stretch
from amforest.reading.sources import Bytes
from amforest.reading.text_reader import RecordReader, TextReader, first_line, without_bad_text


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
            self._types[name] = TYPES.get(column.kind, pa.string())
            if name in names:
                columns.append(column)
                notes += [note] if note else []
        self._sample = []
        return columns, notes

    def stretches(self, columns: Sequence[Column]) -> Iterator[Stretch]:
        """Yield all rows."""
        wanted = {column.name: TYPES.get(column.kind, pa.string()) for column in columns}
        self._types |= wanted

        def attempt(records: Records) -> list[Array]:
            if self._is_watching:
                try:
                    return parse(records, columns, self._types, "error")
                except Refused as refused:
                    if refused.is_new_key:
                        self._find_new_key(records)
                    elif self._types.keys() == wanted.keys():
                        raise
            return parse(records, columns, wanted, "ignore")

        for block in self._records:
            yield self._read(without_bad_text(block, self.file), columns, attempt)

    def _read(
        self,
        records: Records,
        columns: Sequence[Column],
        attempt: Callable[[Records], list[Array]],
    ) -> Stretch:
        """Let pyarrow read what it can, and Python the rest."""
        is_plain = are_plain(records)
        plain = records if is_plain.all() else records.keep(is_plain, [])
        parts, is_odd = read_plain(plain, attempt)
        by_arrow = np.flatnonzero(is_plain)[~is_odd]
        if len(by_arrow) < len(records) or not parts:
            by_python = np.setdiff1d(np.arange(len(records)), by_arrow)
            odd = records.keep(by_python, [])
            values, is_good, rejects = read_one_by_one(odd, columns, self.file, self._watch)
            parts.append(values)
            rows = np.concatenate((by_arrow, by_python[is_good]))
            records = records.keep(np.sort(rows), records.rejects + rejects)
            order = pa.array(np.argsort(rows))
        else:
            order = None
        values = [pa.concat_arrays([part[j] for part in parts]) for j in range(len(columns))]
        if order is not None:
            values = [value.take(order) for value in values]
        return Stretch(self.file, records.lines, values, records.text, records.rejects)

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

    def _find_new_key(self, records: Records) -> None:
        """Note the first key that is not known."""
        for record, line in zip(records, records.lines.tolist(), strict=True):
            with suppress(ValueError):
                self._watch(decoded(record) or {}, line)
            if not self._is_watching:
                return
        self._is_watching = False  # it is in a line that is bad

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
