"""The messages of a stream of Arrow, checked before anything is allocated for them.

A few bytes could otherwise ask for any amount of memory: compressed buffers say how large they
become, and columns without values have any length.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from amforest.serving.limits import Limits
from amforest.serving.problems import Problem

# Fields of the tables in Arrow's Message.fbs.
_HEADER_TYPE, _HEADER = 1, 2
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # values of the header's type
_DATA_OF_DICTIONARY = 1
_LENGTH, _COMPRESSION = 0, 3  # of a record batch


def check_messages(body: bytes, limits: Limits) -> None:
    """Refuse streams that are damaged, compressed or have too many rows."""
    n_rows = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
            length, is_compressed, is_dictionary = _describe(message.metadata.to_pybytes())
            if is_compressed:
                raise Problem(
                    415,
                    "the stream of Arrow is compressed: write it without compression, and keep it "
                    "below --most-bytes",
                )
            if length < 0:
                raise ValueError(f"a batch has {length} rows")
            if not is_dictionary:
                n_rows += length
                limits.check_rows(max(n_rows, 1))
    except (pa.ArrowException, ValueError, struct.error, EOFError, OSError) as error:
        text = str(error).partition("\n")[0]
        raise Problem(400, f"the body is not a stream of Arrow: {text}") from error


def _describe(data: bytes) -> tuple[int, bool, bool]:
    """Return how many rows a message has, whether it is compressed, and whether a dictionary."""
    message = _Table(data, _unsigned(data, 0))
    place = message.field(_HEADER_TYPE)
    kind = data[place] if place else 0
    header = message.table(_HEADER)
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or header is None:
        return 0, False, False
    batch = header.table(_DATA_OF_DICTIONARY) if kind == _DICTIONARY_BATCH else header
    if batch is None:
        return 0, False, True
    place = batch.field(_LENGTH)
    length: int = struct.unpack_from("<q", data, place)[0] if place else 0
    return length, batch.field(_COMPRESSION) != 0, kind == _DICTIONARY_BATCH


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start
        self._fields = start - _signed(data, start)
        if self._fields < 0:
            raise ValueError("a message is damaged")

    def field(self, number: int) -> int:
        """Return the place of a field; 0 if it is absent."""
        slot = 4 + 2 * number
        size: int = struct.unpack_from("<H", self._data, self._fields)[0]
        if slot + 2 > size:
            return 0
        offset: int = struct.unpack_from("<H", self._data, self._fields + slot)[0]
        place = self._start + offset if offset else 0
        if place >= len(self._data):
            raise ValueError("a message is damaged")
        return place

    def table(self, number: int) -> _Table | None:
        """Return a table that a field refers to."""
        place = self.field(number)
        return _Table(self._data, place + _unsigned(self._data, place)) if place else None


def _unsigned(data: bytes, place: int) -> int:
    value: int = struct.unpack_from("<I", data, place)[0]
    return value


def _signed(data: bytes, place: int) -> int:
    value: int = struct.unpack_from("<i", data, place)[0]
    return value
