"""Parquet and Arrow are opened: files, and for Arrow also streams, told apart by their bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol

from amforest.reading._arrow import RecordBatch, pa
from amforest.reading.names import StreamError
from amforest.reading.sources import Bytes, File

_MAGIC = b"ARROW1\0\0"  # of a file; what follows begins as a stream does
_OTHERS = {b"PAR1": "Parquet", b"FEA1": "of the first version of Feather, which is no longer read"}


class Opened(Protocol):
    """An open file, and its schema."""

    schema: Any

    @property
    def n_read(self) -> int:
        """How many bytes are read, as far as one can tell."""

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[RecordBatch]:
        """Yield some columns, perhaps with others, in batches of about so many bytes."""

    def close(self) -> None:
        """Close the file."""


def open_file(file: File) -> Opened:
    """Open Parquet or Arrow."""
    if file.format == "parquet":
        if not file.is_regular:
            raise StreamError(f"{file.name}: Parquet cannot be read from a pipe")
        return _Parquet(file)
    source = Bytes(file)
    try:
        head = source.read_exactly(len(_MAGIC))
        if head[:4] in _OTHERS:
            raise StreamError(f"{file.name} is {_OTHERS[head[:4]]}")
        if head != _MAGIC or not file.is_regular:
            return _ArrowStream(source, b"" if head == _MAGIC else head)
    except BaseException:
        source.close()
        raise
    source.close()
    return _ArrowFile(file)


class _Parquet:
    def __init__(self, file: File) -> None:
        self._file = import_module("pyarrow.parquet").ParquetFile(file.place, pre_buffer=False)
        self._size = file.size or 0
        self.schema = self._file.schema_arrow
        self.n_read = 0

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[RecordBatch]:
        meta = self._file.metadata
        groups = [meta.row_group(k).total_byte_size for k in range(meta.num_row_groups)]
        n_rows = _n_rows(block_bytes, sum(groups), meta.num_rows)
        n_done = 0
        for batch in self._file.iter_batches(n_rows, columns=list(names), use_threads=False):
            n_done += len(batch)
            self.n_read = self._size * n_done // max(meta.num_rows, 1)
            yield batch
        self.n_read = self._size

    def close(self) -> None:
        self._file.close()


class _ArrowFile:
    """A file that is mapped, so that a large batch is not read as a whole."""

    def __init__(self, file: File) -> None:
        self._map = pa.memory_map(file.place)
        self._reader = pa.ipc.open_file(self._map)
        self._size = file.size or 0
        self.schema = self._reader.schema
        self.n_read = 0

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[RecordBatch]:
        n_batches = self._reader.num_record_batches
        for k in range(n_batches):
            batch = self._reader.get_batch(k)
            for part, share in _parts(batch, block_bytes):
                self.n_read = int(self._size * (k + share) / n_batches)
                yield part
        self.n_read = self._size

    def close(self) -> None:
        self._map.close()


class _ArrowStream:
    def __init__(self, source: Bytes, head: bytes) -> None:
        self._source = source
        self._reader = pa.ipc.open_stream(pa.PythonFile(_Raw(source, head), mode="r"))
        self.schema = self._reader.schema

    @property
    def n_read(self) -> int:
        return self._source.n_read

    def batches(self, names: Sequence[str], block_bytes: int) -> Iterator[RecordBatch]:
        for batch in self._reader:
            for part, _ in _parts(batch, block_bytes):
                yield part

    def close(self) -> None:
        self._source.close()


class _Raw(io.RawIOBase):
    """Bytes, after some that were read before."""

    def __init__(self, source: Bytes, head: bytes) -> None:
        self._source = source
        self._head = head

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data, self._head = self._head[:size], self._head[size:]
        return data + self._source.read_exactly(size - len(data))


def _parts(batch: RecordBatch, block_bytes: int) -> Iterator[tuple[RecordBatch, float]]:
    """Cut a batch, and tell how much of it is done after each part."""
    n_rows = _n_rows(block_bytes, batch.nbytes, len(batch))
    for start in range(0, len(batch), n_rows):
        yield batch.slice(start, n_rows), min((start + n_rows) / len(batch), 1.0)


def _n_rows(block_bytes: int, n_bytes: int, n_rows: int) -> int:
    """Return how many rows have about so many bytes."""
    return max(1, int(block_bytes * n_rows / max(n_bytes, 1)))
