"""The journal: rows on disk before they are acknowledged, so that they survive kill -9.

An entry is a header (length and CRC-32 of the rest), a number, and bytes. Entries that were being
written when the machine stopped are recognised by their header, and were never acknowledged.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

MAGIC = b"AMFJRNL1"
_HEADER = struct.Struct("<QII")  # number of the entry, length of its bytes, CRC-32
_LARGEST = 2**31


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
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise ValueError(f"{path} is in use by another server") from None
        self.n_dropped = 0
        self._is_broken = False
        self._end = os.fstat(self._fd).st_size
        if self._end < len(MAGIC):
            self._cut(0)
            self._write(MAGIC)
            self.n_dropped = 0 if is_new else self._end
            self._end = len(MAGIC)
        elif os.pread(self._fd, len(MAGIC), 0) != MAGIC:
            os.close(self._fd)
            raise ValueError(f"{path} is not a journal of `amforest serve`: move it away")
        if is_new:
            _sync_folder(path.parent)

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
        os.fdatasync(self._fd)

    def _cut(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        os.fsync(self._fd)

    def _read(self, position: int, size: int) -> tuple[int, bytes] | None:
        head = os.pread(self._fd, _HEADER.size, position)
        if len(head) < _HEADER.size:
            return None
        number, length, checksum = _HEADER.unpack(head)
        if length > min(size - position - _HEADER.size, _LARGEST):
            return None
        data = os.pread(self._fd, length, position + _HEADER.size)
        if len(data) < length or _checksum(number, data) != checksum:
            return None
        return number, data


def _checksum(number: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(number.to_bytes(8, "little")))


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
