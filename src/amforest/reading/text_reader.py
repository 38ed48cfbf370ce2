"""What CSV and JSON have in common: records from bytes, and the first of them as a sample."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterator

import numpy as np

from amforest.reading.batches import Reject
from amforest.reading.names import StreamError
from amforest.reading.records import Records, Splitter
from amforest.reading.sources import Bytes

SAMPLE_ROWS = 1_000
SAMPLE_BYTES = 2**22
PAUSE = 0.2  # seconds without anything new, after which no more rows are waited for


class TextReader:
    """What the readers of CSV and JSON share."""

    def __init__(self, source: Bytes) -> None:
        self.file = source.name
        self.notes: list[str] = []
        self._source = source

    @property
    def n_read(self) -> int:
        """How many bytes of the file were read."""
        return self._source.n_read

    def close(self) -> None:
        """Close the file."""
        self._source.close()


class RecordReader:
    """The records of a file, in blocks; the first may be looked at before.

    Parameters
    ----------
    source : Bytes
    splitter : Splitter
    block_bytes : int
    first : bytes
        What was read before.
    """

    def __init__(self, source: Bytes, splitter: Splitter, block_bytes: int, first: bytes) -> None:
        self._source = source
        self._splitter = splitter
        self._block_bytes = block_bytes
        self._first = first
        self._pending: deque[Records] = deque()
        self._n_kept = self._bytes_kept = 0
        self._ended = False

    def __iter__(self) -> Iterator[Records]:
        while self._pending or not self._ended:
            block = self._pending.popleft() if self._pending else self._next()
            if len(block) or block.rejects:
                yield block

    def take_first(self) -> bytes | None:
        """Remove the first record, the header; None if there is none."""
        while not self._ended:
            block = self._next()
            if block.rejects and not (len(block) and block.lines[0] < block.rejects[0].line):
                raise StreamError(f"{block.rejects[0]}, where the names of columns should be")
            if len(block):
                self._keep(block.keep(slice(1, None), block.rejects))
                return block[0]
        return None

    def sample(self) -> list[Records]:
        """Return the first records, without removing them: the same, however the file is cut.

        A pipe that pauses is not waited for, once it has given a record.
        """
        while not self._ended and not self._is_enough():
            if self._n_kept and not self._source.ready(PAUSE):
                break
            self._keep_next()
        sample, n_rows, n_bytes = [], 0, 0
        for block in self._pending:
            sizes = n_bytes + np.cumsum(block.ends - block.starts)
            fitting = int(np.searchsorted(sizes, SAMPLE_BYTES, side="right"))
            n = min(fitting if n_rows else max(fitting, 1), SAMPLE_ROWS - n_rows, len(block))
            sample.append(block.keep(slice(0, n), []))
            n_rows += n
            n_bytes = int(sizes[-1]) if len(sizes) else n_bytes
        return [block for block in sample if len(block)]

    def read_more(self) -> bool:
        """Wait for more to sample from; return whether there could be any."""
        if self._ended or self._is_enough():
            return False
        self._keep_next()
        return True

    def _is_enough(self) -> bool:
        return self._n_kept >= SAMPLE_ROWS or self._bytes_kept > SAMPLE_BYTES

    def _keep_next(self) -> None:
        self._keep(self._next())

    def _keep(self, block: Records) -> None:
        if len(block) or block.rejects:
            self._pending.append(block)
            self._n_kept += len(block)
            self._bytes_kept += block.n_bytes

    def _next(self) -> Records:
        data = self._first or self._source.read(self._block_bytes)
        self._first = b""
        self._ended = not data
        return self._splitter.feed(data, is_last=self._ended)


def without_bad_text(records: Records, file: str) -> Records:
    """Reject the records that are not UTF-8."""
    if records.data.isascii() or is_text(records.body()):
        return records
    is_bad = np.array([not (record.isascii() or is_text(record)) for record in records], dtype=bool)
    if not is_bad.any():
        return records
    rejects = [
        Reject(file, int(records.lines[row]), "not UTF-8 text", records.text(row))
        for row in np.flatnonzero(is_bad).tolist()
    ]
    return records.keep(~is_bad, [*records.rejects, *rejects])


def is_text(data: bytes | memoryview) -> bool:
    """Tell whether bytes are UTF-8."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def first_line(source: Bytes, block_bytes: int, max_record: int) -> bytes:
    """Read until a line is complete; return all that was read, without a mark of its encoding."""
    data = source.read(block_bytes)
    while 0 < len(data) <= max_record and not re.search(rb"[^\r\n][\r\n]", data):
        more = source.read(block_bytes)
        data += more
        if not more:
            break
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise StreamError(f"{source.name} is UTF-16 text; turn it into UTF-8 first")
    return data.removeprefix(codecs.BOM_UTF8)
