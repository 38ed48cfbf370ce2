"""The journal: rows on disk before they are acknowledged, so that they survive kill -9.

An entry is a header (length and CRC-32 of the rest), a number, and bytes. Entries that were being
written when the machine stopped are recognised by their header, and were never acknowledged.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from amforest.model_io.atomic_write import sync_folder
from amforest.model_io.file_lock import lock_file

MAGIC = b"AMFJRNL1"
_HEADER = struct.Struct("<QII")  # number of the entry, length of its bytes, CRC-32
_LARGEST = 2**31
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)  # of Windows


class Journal:
    """A file that entries are appended to.

    Parameters
    ----------
    path : Path
        The file, which is created if needed.

    Attributes
    ----------
    n_dropped : int
        The bytes at the end of the file that were no whole entry when it was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self._fd = os.open(path, _FLAGS, 0o600)
        if not lock_file(self._fd):
            os.close(self._fd)
            raise ValueError(f"{path} is in use by another server")
        self.n_dropped = 0
        self._is_broken = False
        self._end = os.fstat(self._fd).st_size
        if self._end < len(MAGIC):
            self._cut(0)
            self._write(MAGIC)
            self.n_dropped = 0 if is_new else self._end
            self._end = len(MAGIC)
        elif self._read_bytes(len(MAGIC), 0) != MAGIC:
            os.close(self._fd)
            raise ValueError(f"{path} is not a journal of `amforest serve`: move it away")
        if is_new:
            sync_folder(path.parent)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the bytes of each whole entry; what follows the last one is cut."""
        position, size = len(MAGIC), os.fstat(self._fd).st_size
        while (entry := self._read(position, size)) is not None:
            yield entry
            position += _HEADER.size + len(entry[1])
        self._end = position
        if position < size:
            self.n_dropped = size - position
            self._cut(position)

    def append(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Write entries, and wait until they are on the disk; after an error none is there."""
        if self._is_broken:
            raise OSError(errno.EIO, "the journal could not be cut after an error", str(self.path))
        pieces = []
        for number, data in entries:
            pieces += [_HEADER.pack(number, len(data), _checksum(number, data)), data]
        block = b"".join(pieces)
        try:
            self._write(block)
        except OSError:
            try:
                self._cut(self._end)
            except OSError:
                self._is_broken = True
            raise
        self._end += len(block)

    def clear(self) -> None:
        """Drop all entries: a checkpoint has what they brought."""
        self._cut(len(MAGIC))
        self._end = len(MAGIC)

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._end

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        _sync_data(self._fd)

    def _cut(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        os.fsync(self._fd)

    def _read(self, position: int, size: int) -> tuple[int, bytes] | None:
        head = self._read_bytes(_HEADER.size, position)
        if len(head) < _HEADER.size:
            return None
        number, length, checksum = _HEADER.unpack(head)
        if length > min(size - position - _HEADER.size, _LARGEST):
            return None
        data = self._read_bytes(length, position + _HEADER.size)
        if len(data) < length or _checksum(number, data) != checksum:
            return None
        return number, data

    def _read_bytes(self, length: int, position: int) -> bytes:
        os.lseek(self._fd, position, os.SEEK_SET)  # writing appends, wherever that is
        return os.read(self._fd, length)


def _checksum(number: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(number.to_bytes(8, "little")))


def _sync_data(fd: int) -> None:
    """Write a file to disk; without its times where the system distinguishes them."""
    getattr(os, "fdatasync", os.fsync)(fd)
