"""A lock on an open file, which ends with its process, however that ends."""

from __future__ import annotations

import os
import sys


def lock_file(fd: int) -> bool:
    """Lock an open file for this descriptor alone.

    Parameters
    ----------
    fd : int
        Of a file open for writing. Closing it ends the lock.

    Returns
    -------
    bool
        False if another one holds the lock.
    """
    try:
        _lock(fd)
    except (BlockingIOError, PermissionError):  # of POSIX, of Windows
        return False
    return True


if sys.platform == "win32":
    import msvcrt

    # A byte behind all content, because nobody else can read it; the C library counts in 32 bits.
    _LOCKED_BYTE = 2**31 - 2

    def _lock(fd: int) -> None:
        position = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(fd, position, os.SEEK_SET)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
