"""A stream: typed rows in batches, from files and pipes, at constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np

from amforest.reading.batches import Batch, RejectedRow
from amforest.reading.columns import Column
from amforest.reading.names import EmptyFileError, StreamError, selected, unknown_column
from amforest.reading.readers import Options, Reader, open_reader
from amforest.reading.rows import Layout, to_batch
from amforest.reading.sources import File

_HEADER_BYTES = 2**16  # read to see the names of columns


class Stream:
    """Typed rows in batches: an iterator, to be had from `open_stream`.

    Attributes
    ----------
    columns : tuple of Column
        What is read, in the order of the first file.
    schema : dict
        The kind of each column.
    notes : list of str
        What the user should know, one line each.
    n_rows : int
        How many rows were given, or skipped.
    n_rejected : int
        How many rows could not be read.
    bytes_total : int or None
        The size of all files, compressed if they are; None for a pipe, and for a file that grows.
    bytes_read : int
        How much of that was read.

    Notes
    -----
    After an exception, KeyboardInterrupt included, the stream is closed; all rows that `n_rows`
    counts were given.
    """

    def __init__(
        self,
        files: Sequence[File],
        options: Options,
        *,
        columns: Sequence[str] | None,
        drop: Sequence[str] | None,
        target: str | None,
        strict: bool,
    ) -> None:
        self._files = list(files)
        self._options = options
        self._takes_all = columns is None
        self._drop = set(drop or ())
        self._strict = strict
        self._notes: list[str] = []
        self._bytes_done = 0  # of files that are finished
        self._to_skip = 0
        self.n_rows = 0
        self.n_rejected = 0
        sizes = [size for file in files if (size := file.size) is not None]
        is_known = len(sizes) == len(files) and not options.follow
        self.bytes_total = sum(sizes) if is_known else None
        self._reader: Reader | None = None
        self._reader = first = self._open_first()
        try:
            self._names = first.names
            for name in options.types:
                if name not in first.names:
                    raise unknown_column(name, first.names)
            kept = selected(first.names, columns, drop, target)
            self.columns = tuple(self._find_columns(first, kept))
            self._check_others(kept)
        except BaseException:
            self._finish()
            raise
        self._layout = Layout(self.columns, target)
        self._batches: Iterator[Batch] | None = self._given(first)

    @property
    def schema(self) -> dict[str, str]:
        """The kind of each column."""
        return {column.name: column.kind for column in self.columns}

    @property
    def notes(self) -> list[str]:
        """What the user should know, one line each."""
        return [*self._notes, *(self._reader.notes if self._reader else ())]

    @property
    def bytes_read(self) -> int:
        """How many bytes were read."""
        return self._bytes_done + (self._reader.n_read if self._reader else 0)

    def skip(self, n_rows: int) -> Self:
        """Begin after the first rows that can be read; the others stay as they are.

        Rejects go with the next row after them: those before the last row that is skipped are
        counted, but not given.

        Raises
        ------
        StreamError
            When iterated, if there are fewer rows.
        """
        if self.n_rows:
            raise StreamError("rows can be skipped at the beginning of a stream only")
        self._to_skip = n_rows
        return self

    def close(self) -> None:
        """Close the files; no rows can be had afterwards."""
        self._finish()
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
            raise
        except BaseException:
            self.close()
            raise
        self.n_rows += len(batch)
        self.n_rejected += len(batch.rejects)
        return batch

    def _given(self, first: Reader) -> Iterator[Batch]:
        """Yield what is neither skipped nor empty, and no reject if there may be none."""
        for batch in self._all(first):
            rest = self._skipped(batch) if self._to_skip else batch
            if self._strict and rest.rejects:
                n_before = int(np.searchsorted(rest.lines, rest.rejects[0].line))
                if n_before:
                    yield rest.slice(0, n_before)
                raise RejectedRow(rest.rejects[0])
            if len(rest) or rest.rejects:
                yield rest
        if self._to_skip:
            raise StreamError(f"only {self.n_rows:,} rows, fewer than are to be skipped")

    def _skipped(self, batch: Batch) -> Batch:
        """Count the rows of a batch that are to be skipped, and return the others."""
        n_rows = min(self._to_skip, len(batch))
        self._to_skip -= n_rows
        n_taken = n_rows if not self._to_skip else None  # rejects at the end go with a later row
        taken, rest = batch.slice(0, n_taken), batch.slice(n_rows)
        self.n_rows += n_rows
        self.n_rejected += len(taken.rejects)
        return rest if not self._to_skip else replace(rest, rejects=())

    def _all(self, first: Reader) -> Iterator[Batch]:
        """Yield the batches of all files."""
        yield from self._of(first)
        for file in self._files[1:]:
            self._finish()
            try:
                self._reader = open_reader(file, self._options, first)
            except EmptyFileError as error:
                self._notes.append(str(error))
                continue
            self._check_names(self._reader, self._layout.names)
            yield from self._of(self._reader)
        self._finish()

    def _of(self, reader: Reader) -> Iterator[Batch]:
        for stretch in reader.stretches(self.columns):
            yield to_batch(stretch, self._layout)

    def _finish(self) -> None:
        """Close the file that is read."""
        if self._reader is not None:
            self._notes += self._reader.notes
            self._bytes_done += self._reader.n_read
            self._reader.close()
            self._reader = None

    def _open_first(self) -> Reader:
        """Open the first file that is not empty."""
        for k, file in enumerate(self._files):
            try:
                reader = open_reader(file, self._options)
            except EmptyFileError as error:
                self._notes.append(str(error))
            else:
                del self._files[:k]
                return reader
        raise StreamError(self._notes[0] if len(self._files) == 1 else "all files are empty")

    def _find_columns(self, first: Reader, names: Sequence[str]) -> list[Column]:
        """Find the kinds of columns from the first file that has rows."""
        columns, notes = first.find_columns(names, self._options.types)
        for file in self._files[1:]:
            if any(column.n_known for column in columns) or not file.is_regular:
                break
            with suppress(EmptyFileError), closing(open_reader(file, self._options)) as reader:
                self._check_names(reader, names)
                columns, notes = reader.find_columns(names, self._options.types)
        self._notes += notes
        return columns

    def _check_others(self, names: Sequence[str]) -> None:
        """Look at the columns of the other files before the first row is given."""
        options = replace(self._options, block_bytes=_HEADER_BYTES)
        for file in self._files[1:]:
            if file.is_regular and file.format != "ndjson":
                with suppress(EmptyFileError), closing(open_reader(file, options)) as reader:
                    self._check_names(reader, names)

    def _check_names(self, reader: Reader, names: Sequence[str]) -> None:
        """Refuse a file whose columns are not those of the first."""
        first = self._files[0].name
        for name in names:
            if name not in reader.names:
                raise unknown_column(name, reader.names, f" in {reader.file}, as {first} has")
        if self._takes_all:
            for name in reader.names:
                if name not in self._names and name not in self._drop:
                    raise StreamError(f"{reader.file} has a column {name!r}, which {first} has not")
