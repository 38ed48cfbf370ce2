"""Parquet and Arrow: the file says the types; a damaged file is an error.

The first bytes of Arrow say whether it is a file or a stream.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amforest.reading.batches import RawBlock, Reject, show_row
from amforest.reading.conversion import DAY, Mask
from amforest.reading.records import is_utf8
from amforest.reading.schema import (
    SAMPLE_ROWS,
    Column,
    check_unique,
    describe_column,
    infer_column,
)
from amforest.reading.sources import ByteReader, EmptyFileError, File, StreamError

_MAGIC = b"ARROW1\0\0"  # begins a file; a stream follows it
_OTHER_MAGIC = {b"PAR1": "Parquet", b"FEA1": "Feather version 1, which is no longer supported"}


class ArrowReader:
    """Read one file of Parquet or Arrow.

    Parameters
    ----------
    file : File
    block_bytes : int
    text_length : int or None
        The most bytes of a text; None means no limit.

    Attributes
    ----------
    file : str
        The name of the file.
    names : list of str
    notes : list of str
    """

    def __init__(self, file: File, block_bytes: int, text_length: int | None = None) -> None:
        self.file, self._text_length = file.name, text_length
        self.notes: list[str] = []
        self._block_bytes = block_bytes
        self._is_pipe = not file.is_regular
        if file.size == 0:
            raise EmptyFileError(f"{self.file} is empty")
        with self._wrap_errors(f"is not {file.format.title()}"):
            self._opened = _open(file)
        try:
            with self._wrap_errors(f"is not {file.format.title()}"):
                self.names: list[str] = self._opened.schema.names
            check_unique(self.names, self.file)
        except BaseException:
            self._opened.close()
            raise
        self._sample: list[RawBlock] = []
        self._rest: Iterator[RawBlock] | None = None

    @property
    def n_read(self) -> int:
        """An estimate of the number of bytes read from the file."""
        return self._opened.n_read

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def infer_columns(self, names: Sequence[str], types: Mapping[str, str]) -> list[Column]:
        """Return the columns as the file or the user says."""
        self._rest = self._read(names)
        n_rows = 0
        for block in self._rest:
            self._sample.append(block)
            n_rows += len(block.lines)
            if n_rows >= SAMPLE_ROWS or (self._is_pipe and n_rows):
                break
        columns = []
        for j, name in enumerate(names):
            is_here = name in self.names
            empty = pa.array([], self._opened.schema.field(name).type if is_here else pa.null())
            parts = [_decode(block.values[j][:SAMPLE_ROWS]) for block in self._sample]
            values = pa.concat_arrays(parts or [_decode(empty)])[:SAMPLE_ROWS]
            columns.append(_find_column(name, types.get(name), values))
        return columns

    def blocks(self, columns: Sequence[Column]) -> Iterator[RawBlock]:
        """Yield all rows, with types that the columns can convert."""
        rest = self._rest or self._read([column.name for column in columns])
        for block in chain(self._sample, rest):
            values = [_cast(v, c.kind) for v, c in zip(block.values, columns, strict=True)]
            yield replace(block, values=values)

    def check(self) -> None:
        """Read all columns, and raise `StreamError` if they are damaged or have unusual types."""
        for _ in self._read(self.names):
            pass

    def _read(self, names: Sequence[str]) -> Iterator[RawBlock]:
        """Yield all rows, with the types of the file."""
        present = [name for name in names if name in self.names] or self.names[:1]
        for name in present:
            _check_type(self.file, name, self._opened.schema.field(name).type)
        batches = self._opened.batches(present, self._block_bytes)
        n_done = 0
        while True:
            with self._wrap_errors(f"is damaged after row {n_done:,}"):
                batch = next(batches, None)
                if batch is None:
                    return
                batch = batch.select(present)
                is_bad = _find_bad_text(batch)
                self._check_lengths(batch)
            numbers = np.arange(n_done + 1, n_done + 1 + len(batch))
            rejects = [
                Reject(self.file, int(numbers[row]), "not UTF-8 text", show_row(batch, row))
                for row in np.flatnonzero(is_bad).tolist()
            ]
            n_done += len(batch)
            if rejects:
                batch, numbers = batch.filter(pa.array(~is_bad)), numbers[~is_bad]
            values = [
                batch.column(name) if name in self.names else pa.nulls(len(batch)) for name in names
            ]
            show = partial(show_row, batch)
            yield RawBlock(self.file, numbers, values, show, rejects, self._opened.n_read)

    def _check_lengths(self, batch: pa.RecordBatch) -> None:
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            texts = values.dictionary if pa.types.is_dictionary(values.type) else values
            if self._text_length is None or _kind_of(texts.type) != "category":
                continue
            if (pc.max(pc.binary_length(texts)).as_py() or 0) > self._text_length:
                raise StreamError(
                    f"{self.file}: column {name!r} has a text of more than {self._text_length:,} "
                    "bytes"
                )

    @contextmanager
    def _wrap_errors(self, what: str) -> Iterator[None]:
        """Raise errors of pyarrow as `StreamError`, in one line that names the file."""
        try:
            yield
        except (pa.ArrowException, EOFError) as error:
            raise StreamError(f"{self.file} {what}: {str(error).splitlines()[0]}") from error
        except UnicodeDecodeError as error:
            raise StreamError(f"{self.file} {what}: a name is not UTF-8 text") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise StreamError(f"{self.file} {what}: {str(error).splitlines()[0]}") from error


def _find_bad_text(batch: pa.RecordBatch) -> Mask:
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
                is_bad |= [not is_utf8(value or b"") for value in raw.to_pylist()]
            else:
                values.validate(full=True)
    return is_bad


# Types


def _kind_of(arrow_type: pa.DataType) -> str | None:
    """Return the kind of a column of some type; None if a stream cannot have it."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return "category" if _kind_of(arrow_type.value_type) is not None else None
    is_string_view = getattr(types, "is_string_view", lambda _: False)  # absent in older pyarrow
    checks = {
        "category": (types.is_string, types.is_large_string, is_string_view),
        "number": (types.is_integer, types.is_floating, types.is_decimal, types.is_null),
        "bool": (types.is_boolean,),
        "date": (types.is_date,),
        "datetime": (types.is_timestamp,),
    }
    return next(
        (kind for kind, any_of in checks.items() if any(f(arrow_type) for f in any_of)), None
    )


def _check_type(file: str, name: str, arrow_type: pa.DataType) -> None:
    """Raise `StreamError` if a stream cannot have a column of some type."""
    if _kind_of(arrow_type) is None:
        reason = "is nested" if pa.types.is_nested(arrow_type) else "has an unsupported type"
        raise StreamError(f"{file}: column {name!r} {reason} ({arrow_type}); drop it")


def _find_column(name: str, requested: str | None, values: pa.Array) -> Column:
    """Return a column of the kind that the user requests, else of the file's."""
    kind = _kind_of(values.type)
    assert kind is not None
    if requested in (None, kind) or (requested == "date" and kind == "datetime"):
        return describe_column(name, kind, _cast(values, kind))
    return infer_column(name, values.cast(pa.string()), requested)


def _cast(values: pa.Array, kind: str) -> pa.Array:
    """Cast values to a type that a column of some kind can convert."""
    if _kind_of(values.type) != kind:
        return _decode(values).cast(pa.string())
    if kind == "category":
        return _encode(values)
    if pa.types.is_float16(values.type):  # which older versions of pyarrow cannot cast
        return pa.array(values.to_numpy(zero_copy_only=False).astype(np.float64))
    if kind in ("number", "bool"):
        return values.cast(pa.float64(), safe=False)
    return values.cast(DAY, safe=False) if kind == "date" else values


def _encode(values: pa.Array) -> pa.Array:
    """Return categories as a dictionary of distinct strings; the file's own if it is one."""
    if pa.types.is_dictionary(values.type) and len(values.dictionary) <= len(values):
        levels = values.dictionary.cast(pa.string())
        # A null level would not count as missing, and a repeated one would have two codes.
        if not levels.null_count and len(levels.unique()) == len(levels):
            return pa.DictionaryArray.from_arrays(values.indices.cast(pa.int32()), levels)
    return _decode(values).dictionary_encode()


def _decode(values: pa.Array) -> pa.Array:
    """Return categories of all types as strings, and other values as they are."""
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode().cast(pa.string())
    return values.cast(pa.string()) if _kind_of(values.type) == "category" else values


# Files


class _Opened(Protocol):
    """An open file, and its schema."""

    schema: Any

    @property
    def n_read(self) -> int:
        """An estimate of the number of bytes read."""

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield at least these columns, in batches of about `block_bytes` bytes."""

    def close(self) -> None:
        """Close the file."""


def _open(file: File) -> _Opened:
    if file.format == "parquet":
        if not file.is_regular:
            raise StreamError(f"{file.name}: Parquet cannot be read from a pipe")
        return _ParquetFile(file)
    source = ByteReader(file)
    try:
        head = source.read_exactly(len(_MAGIC))
        if head[:4] in _OTHER_MAGIC:
            raise StreamError(f"{file.name} is {_OTHER_MAGIC[head[:4]]}")
        if head != _MAGIC or not file.is_regular:
            return _ArrowStream(source, b"" if head == _MAGIC else head)
    except BaseException:
        source.close()
        raise
    source.close()
    return _ArrowFile(file)


class _ParquetFile:
    def __init__(self, file: File) -> None:
        self._file = import_module("pyarrow.parquet").ParquetFile(file.place, pre_buffer=False)
        self._size = file.size or 0
        self.schema = self._file.schema_arrow
        self.n_read = 0

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[pa.RecordBatch]:
        meta = self._file.metadata
        groups = [meta.row_group(k).total_byte_size for k in range(meta.num_row_groups)]
        n_rows = _count_rows(block_bytes, sum(groups), meta.num_rows)
        n_done = 0
        for batch in self._file.iter_batches(n_rows, columns=list(names), use_threads=False):
            n_done += len(batch)
            self.n_read = self._size * n_done // max(meta.num_rows, 1)
            yield batch
        self.n_read = self._size

    def close(self) -> None:
        self._file.close()


class _ArrowFile:
    """A memory-mapped file, so that a large batch is not read as a whole."""

    def __init__(self, file: File) -> None:
        self._map = pa.memory_map(file.place)
        self._reader = pa.ipc.open_file(self._map)
        self._size = file.size or 0
        self.schema = self._reader.schema
        self.n_read = 0

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[pa.RecordBatch]:
        n_batches = self._reader.num_record_batches
        for k in range(n_batches):
            batch = self._reader.get_batch(k)
            for part, fraction in _split(batch, block_bytes):
                self.n_read = int(self._size * (k + fraction) / n_batches)
                yield part
        self.n_read = self._size

    def close(self) -> None:
        self._map.close()


class _ArrowStream:
    def __init__(self, source: ByteReader, head: bytes) -> None:
        self._source = source
        self._reader = pa.ipc.open_stream(pa.PythonFile(_PrefixedFile(source, head), mode="r"))
        self.schema = self._reader.schema

    @property
    def n_read(self) -> int:
        return self._source.n_read

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            for part, _ in _split(batch, block_bytes):
                yield part

    def close(self) -> None:
        self._source.close()


class _PrefixedFile(io.RawIOBase):
    """The bytes of a source, after those that were read before."""

    def __init__(self, source: ByteReader, head: bytes) -> None:
        self._source = source
        self._head = head

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data, self._head = self._head[:size], self._head[size:]
        return data + self._source.read_exactly(size - len(data))


def _split(batch: pa.RecordBatch, block_bytes: int) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Yield the parts of a batch, and the fraction of it that is done after each."""
    batch.validate()  # where offsets lie beyond their buffer, to measure a batch would crash
    n_rows = _count_rows(block_bytes, batch.nbytes, len(batch))
    for start in range(0, len(batch), n_rows):
        yield batch.slice(start, n_rows), min((start + n_rows) / len(batch), 1.0)


def _count_rows(block_bytes: int, n_bytes: int, n_rows: int) -> int:
    """Return how many rows have about `block_bytes` bytes."""
    return max(1, int(block_bytes * n_rows / max(n_bytes, 1)))
