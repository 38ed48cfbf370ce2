"""Streams: files and pipes opened, and read as batches of typed rows at constant memory.

One batch: `Stream.__next__` → the reader of the file's format (bytes → records → a `RawBlock` of
unconverted arrow columns) → `convert_block` (columns of their final arrow types) → `Batch`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from amforest.reading.arrow_reader import ArrowReader
from amforest.reading.batches import Batch, RawBlock, RejectedRow, convert_block
from amforest.reading.csv_reader import CsvReader
from amforest.reading.dialect import Dialect, Utf8Source
from amforest.reading.ndjson_reader import NdjsonReader
from amforest.reading.records import MAX_RECORD
from amforest.reading.schema import (
    Column,
    check_column,
    check_kinds,
    infer_column,
    parse_types,
    sample_values,
    select_columns,
)
from amforest.reading.sources import (
    ByteReader,
    EmptyFileError,
    File,
    Source,
    StreamError,
    find_files,
    join_names,
)

BLOCK_BYTES = 2**22
_HEADER_BYTES = 2**16  # read at a time for the names of columns


class Reader(Protocol):
    """One open file: its columns, notes about it, and the number of bytes read from it."""

    file: str
    names: list[str]
    notes: list[str]

    @property
    def n_read(self) -> int:
        """The number of bytes read from the file."""

    def infer_columns(self, names: Sequence[str], types: Mapping[str, str]) -> list[Column]:
        """Return the columns with their kinds, and doubts about them."""

    def blocks(self, columns: Sequence[Column]) -> Iterator[RawBlock]:
        """Yield all rows."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True)
class _Options:
    """How files are read."""

    types: Mapping[str, str]
    block_bytes: int
    max_record: int
    follow: bool
    dialect: Dialect


def open_stream(
    source: Source,
    *,
    format: str | None = None,  # noqa: A002
    types: Mapping[str, str] | str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    target: str | None = None,
    strict: bool = False,
    block_bytes: int = BLOCK_BYTES,
    max_record: int = MAX_RECORD,
    follow: bool = False,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    may_be_absent: Collection[str] = (),
) -> Stream:
    r"""Open files or a pipe for reading, once.

    Parameters
    ----------
    source : path, folder, pattern, list of such, "-", None, file object or descriptor
        What to read; the files of a folder or pattern in the order of their names. "-" and None
        are the standard input.
    format : str or None
        "csv", "tsv", "ndjson", "parquet" or "arrow". None means by the names of files, and CSV for
        pipes.
    types : mapping, str or None
        The kinds of some columns, as a mapping or such as "age=number,zip=category". The others
        are those of the file, or inferred from the first 1,000 rows.
    columns, drop : sequence of str or None
        The columns to read, or not to read. None means all, or none.
    target : str or None
        The column of labels. Rows without a label are rejected. If the first rows have none, its
        kind is inferred from the first labels, which are searched for in files, not in pipes.
    strict : bool, default=False
        Whether a row that cannot be read raises an error. Otherwise it is a reject of its batch.
        Also whether the columns of all files must be those of the first. Otherwise those that a
        later file lacks are missing values, and those that it adds are ignored.
    block_bytes : int
        About how much is read at a time. It does not change the rows.
    max_record : int
        The largest size in bytes of a row of CSV or JSON.
    follow : bool, default=False
        Whether to wait for more at the end of a file, forever.
    delimiter : str or None
        The separator of fields in CSV, or "tab". None means a comma, a semicolon, a tab or a bar,
        as the header and the first row show.
    decimal : str or None
        The decimal mark in CSV, "." or ",". None means as the first rows show; a point where the
        delimiter is a comma.
    encoding : str or None
        The encoding of CSV and JSON. None means UTF-8, or UTF-16 if the first bytes show it, or
        cp1252 if the first text beyond ASCII is not UTF-8.
    may_be_absent : collection of str
        Columns of `types` that are missing values where the first file lacks them, with a note, as
        they are where a later file does; one of them at least must be there.

    Returns
    -------
    Stream

    Raises
    ------
    OSError
        If a file cannot be opened.
    StreamError
        If it cannot be read as requested.

    Examples
    --------
    >>> import io
    >>> source = io.BytesIO(b"size,colour,label\n1.5,red,a\nbig,blue,b\n,red,b\n")
    >>> stream = open_stream(source, types="size=number", target="label")
    >>> stream.schema
    {'size': 'number', 'colour': 'category', 'label': 'category'}
    >>> (batch,) = stream
    >>> batch.X.to_pylist()
    [{'size': 1.5, 'colour': 'red'}, {'size': None, 'colour': 'red'}]
    >>> batch.y
    array(['a', 'b'], dtype=object)
    >>> batch.lines
    array([2, 4])
    >>> print(*batch.rejects)
    <BytesIO>:3: column 'size': 'big' is not a number
    """
    types = parse_types(types) if isinstance(types, str) else dict(types or {})
    check_kinds(types)
    files = find_files(source, format)
    if follow and (len(files) > 1 or not files[0].can_grow):
        raise StreamError("follow needs a single file of CSV or JSON, not compressed")
    dialect = Dialect.parse(delimiter, decimal, encoding)
    options = _Options(types, block_bytes, max_record, follow, dialect)
    return Stream(
        files,
        options,
        columns=columns,
        drop=drop,
        target=target,
        strict=strict,
        may_be_absent=may_be_absent,
    )


class Stream:
    """An iterator over batches of typed rows, returned by `open_stream`.

    Each item is a `Batch`: ``batch.X`` is a `pyarrow.RecordBatch` of features that estimators take
    (float64 numbers, dictionary-encoded categories, dates as numbers, null where missing), with the
    same columns in each batch; ``batch.y`` is an array of labels, float64 or strings, or None if
    the stream has no target; ``len(batch)`` is the number of rows. A batch may have no rows, if it
    has rejects. With a target, ``partial_fit(batch.X, batch.y)`` learns a batch.

    Attributes
    ----------
    columns : tuple of Column
        The columns that are read, in the order of the first file.
    schema : dict
        The kind of each column.
    target : str or None
        The column of labels.
    notes : list of str
        What the user should know, one line each.
    n_rows : int
        The number of rows yielded or skipped so far.
    n_rejected : int
        The number of rows that could not be read so far.
    bytes_total : int or None
        The size of all files, compressed if they are; None for a pipe, and for a file that grows.
    bytes_read : int
        The part of it that was yielded or skipped.

    Notes
    -----
    After an exception, KeyboardInterrupt included, the stream is closed; all rows that `n_rows`
    counts were yielded.
    """

    def __init__(
        self,
        files: Sequence[File],
        options: _Options,
        *,
        columns: Sequence[str] | None,
        drop: Sequence[str] | None,
        target: str | None,
        strict: bool,
        may_be_absent: Collection[str] = (),
    ) -> None:
        self.target = target
        self.n_rows = 0
        self.n_rejected = 0
        sizes = [size for file in files if (size := file.size) is not None]
        is_known = len(sizes) == len(files) and not options.follow
        self.bytes_total = sum(sizes) if is_known else None
        self._files = list(files)
        self._options = options
        self._reads_all_columns = columns is None
        self._drop = set(drop or ())
        self._strict = strict
        self._notes: list[str] = []
        self.bytes_read = 0
        self._bytes_done = 0  # of the files that are finished
        self._bytes_before = 0  # of the batch that is next
        self._to_skip = 0
        self._reader: Reader | None = None
        self._reader = first = self._open_first()
        try:
            self._names = first.names
            absent = self._find_absent(first, may_be_absent)
            for name in options.types:
                check_column(name, [*first.names, *absent])
            if columns is not None:
                columns = [name for name in columns if name not in absent]
            selected = [*select_columns(first.names, columns, drop, target), *absent]
            self.columns = tuple(self._infer_columns(first, selected))
            self._check_other_files(selected)
        except BaseException:
            self._close_reader()
            raise
        self._batches: Iterator[Batch] | None = self._yield_batches(first)

    @property
    def schema(self) -> dict[str, str]:
        """The kind of each column."""
        return {column.name: column.kind for column in self.columns}

    @property
    def notes(self) -> list[str]:
        """What the user should know, one line each."""
        own = () if self._reader is None else self._fresh_notes(self._reader)
        return [*self._notes, *own]

    def skip(self, n_rows: int) -> Self:
        """Start after the first rows that can be read; the others are unchanged.

        A reject belongs to the next row after it: rejects before the last skipped row are counted,
        but not yielded.

        Raises
        ------
        StreamError
            When iterated, if there are fewer rows.
        """
        if self.n_rows:
            raise StreamError("rows can only be skipped before the stream is iterated")
        self._to_skip = n_rows
        return self

    def close(self) -> None:
        """Close the files; no more rows can be read."""
        self._close_reader()
        self._batches = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        if self._batches is None:
            raise StreamError("the stream is closed")
        try:
            batch = next(self._batches)
        except StopIteration:
            self.bytes_read = self._bytes_done
            raise
        except BaseException:
            self.close()
            raise
        self.n_rows += len(batch)
        self.n_rejected += len(batch.rejects)
        self.bytes_read = batch.bytes_read
        return batch

    def _yield_batches(self, first: Reader) -> Iterator[Batch]:
        """Yield what is neither skipped nor empty; if strict, raise at the first reject."""
        for block in self._read_blocks(first):
            batch = convert_block(block, self.columns, self.target)
            n_read = self._bytes_done + block.position
            batch = replace(batch, bytes_before=self._bytes_before, bytes_read=n_read)
            self._bytes_before = n_read
            if self._to_skip:
                batch = self._skip_rows(batch)
            if self._strict and batch.rejects:
                n_before = int(np.searchsorted(batch.lines, batch.rejects[0].line))
                if n_before:
                    yield batch.slice(0, n_before)
                raise RejectedRow(batch.rejects[0])
            if len(batch) or batch.rejects:
                yield batch
        if self._to_skip:
            raise StreamError(f"cannot skip more rows than the {self.n_rows:,} that there are")

    def _skip_rows(self, batch: Batch) -> Batch:
        """Count the rows of a batch that are skipped, and return the others."""
        n_rows = min(self._to_skip, len(batch))
        self._to_skip -= n_rows
        stop = n_rows if not self._to_skip else None  # rejects at the end belong to a later row
        skipped, rest = batch.slice(0, stop), batch.slice(n_rows)
        self.n_rows += n_rows
        self.n_rejected += len(skipped.rejects)
        return rest if not self._to_skip else replace(rest, rejects=())

    def _read_blocks(self, first: Reader) -> Iterator[RawBlock]:
        """Yield the blocks of all files."""
        yield from first.blocks(self.columns)
        names = [column.name for column in self.columns]
        for file in self._files[1:]:
            self._close_reader()
            try:
                self._reader = _open_reader(file, self._options, first)
            except EmptyFileError as error:
                self._notes.append(str(error))
                continue
            self._check_names(self._reader, names)
            yield from self._reader.blocks(self.columns)
        self._close_reader()

    def _close_reader(self) -> None:
        """Close the current file."""
        if self._reader is not None:
            self._notes += self._fresh_notes(self._reader)
            self._bytes_done += self._reader.n_read
            self._reader.close()
            self._reader = None

    def _open_first(self) -> Reader:
        """Open the first file that is not empty."""
        for k, file in enumerate(self._files):
            try:
                reader = _open_reader(file, self._options)
            except EmptyFileError as error:
                self._notes.append(str(error))
            else:
                del self._files[:k]
                return reader
        raise StreamError(self._notes[0] if len(self._files) == 1 else "all files are empty")

    def _find_absent(self, first: Reader, names: Collection[str]) -> list[str]:
        """Return those that the first file lacks, with a note; none if it lacks all of them."""
        absent = [name for name in names if name not in first.names]
        if self._strict or not absent or len(absent) == len(names):
            return []
        self._notes.append(f"{first.file}: no column {join_names(absent)}: missing values")
        return absent

    def _infer_columns(self, first: Reader, names: Sequence[str]) -> list[Column]:
        """Infer the kinds of columns from the first file that has rows."""
        columns = first.infer_columns(names, self._options.types)
        for file in self._files[1:]:
            if any(column.n_known for column in columns) or not file.is_regular:
                break
            with suppress(EmptyFileError), closing(_open_reader(file, self._options)) as reader:
                self._check_names(reader, names)
                columns = reader.infer_columns(names, self._options.types)
        columns = [self._find_labels(column) for column in columns]
        doubts = [column.doubt for column in columns if column.doubt]
        self._notes += [*self._fresh_notes(first), *doubts]  # how the file is read comes first
        return columns

    def _find_labels(self, column: Column) -> Column:
        """Infer the kind of labels that the first rows lack from the first ones that there are.

        Rows before them are rejected anyway. A pipe can be read only once, and is not searched.
        Other columns, and labels of which some or the kind are known, are returned as they are.
        """
        if column.name != self.target or column.n_known or not column.doubt:
            return column
        for file in self._files:
            if not file.is_regular:
                break
            with suppress(EmptyFileError), closing(_open_reader(file, self._options)) as reader:
                if not isinstance(reader, CsvReader | NdjsonReader):  # others have types
                    continue
                if column.name not in reader.names:
                    continue
                text = sample_values(reader.texts(column.name))
                if len(text):
                    return infer_column(column.name, text)
        return column

    def _check_other_files(self, names: Sequence[str]) -> None:
        """Check the columns of the other files before the first row is read."""
        options = replace(self._options, block_bytes=_HEADER_BYTES)
        for file in self._files[1:]:
            if file.is_regular and file.format != "ndjson":
                with suppress(EmptyFileError), closing(_open_reader(file, options)) as reader:
                    self._check_names(reader, names)
                    self._notes += self._fresh_notes(reader)

    def _check_names(self, reader: Reader, names: Sequence[str]) -> None:
        """Note the columns of a file that differ from those of the first; raise if strict.

        A file without the column of labels is always an error.
        """
        first = self._files[0].name
        for name in names:
            if self._strict or name == self.target:
                check_column(name, reader.names, f" in {reader.file}, unlike in {first}")
        absent = [name for name in names if name not in reader.names]
        if absent:
            reader.notes.append(
                f"{reader.file}: no column {join_names(absent)}, unlike in {first}: missing values"
            )
        if not self._reads_all_columns:
            return
        extra = [n for n in reader.names if n not in self._names and n not in self._drop]
        if extra and self._strict:
            raise StreamError(
                f"{reader.file} has a column {extra[0]!r}, which {first} does not have"
            )
        if extra:
            reader.notes.append(
                f"{reader.file}: column {join_names(extra)} is ignored: {first} does not have it"
            )

    def _fresh_notes(self, reader: Reader) -> list[str]:
        """Return the notes of a file, without what was noted of a file before."""
        others = self._reader.notes if self._reader not in (None, reader) else ()
        known = {note.partition(": ")[2] for note in (*self._notes, *others)}
        return [note for note in reader.notes if note.partition(": ")[2] not in known]


def _open_reader(file: File, options: _Options, previous: Reader | None = None) -> Reader:
    """Open a file; one of JSON has the columns of the previous."""
    if file.format in ("parquet", "arrow"):
        return ArrowReader(file, options.block_bytes)
    source = ByteReader(file, follow=options.follow)
    sizes = options.block_bytes, options.max_record
    try:
        text = Utf8Source(source, options.dialect.encoding)
        if file.format != "ndjson":
            dialect = options.dialect
            if file.format == "tsv" and dialect.delimiter is None:
                dialect = replace(dialect, delimiter="\t")
            return CsvReader(text, dialect, *sizes)
        before = previous if isinstance(previous, NdjsonReader) else None
        return NdjsonReader(text, options.types, *sizes, previous=before)
    except BaseException:
        source.close()
        raise
