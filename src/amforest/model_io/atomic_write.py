"""Atomic writes: a file holds all of its old or all of its new content, whatever fails."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

Path = str | os.PathLike[str]


def write_atomically(path: Path, pieces: Iterable[bytes | memoryview]) -> str:
    """Write a file such that its path holds all of the old or all of the new content.

    The pieces go to a temporary file beside it, which is then renamed. If the path is a link, the
    file that it points to is replaced.

    Parameters
    ----------
    path : str or path-like
        The file. Only its owner can read it.
    pieces : iterable of bytes or memoryview
        Its content.

    Returns
    -------
    str
        The SHA-256 of the content, in hexadecimal digits.

    Raises
    ------
    OSError
        If it cannot be written; names `path`. The file is unchanged, unless only the last step
        failed, the sync of its folder.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    with _errors_about(path):
        with suppress(FileNotFoundError):
            _refuse_all_but_files(os.stat(target), path)
        with _opened(folder) as sync:  # first, so that this cannot fail after the write
            try:
                digest = _write(temporary, pieces)
                os.replace(temporary, target)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            sync()
    return digest


def read_all(path: Path) -> bytes:
    """Return the content of a regular file; anything else could be endless.

    Raises
    ------
    OSError
        If it cannot be read, or becomes shorter while being read; names `path`.
    """
    with _errors_about(path), open(path, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        _refuse_all_but_files(status, path)
        data = file.read(status.st_size)
    if len(data) < status.st_size:
        text = f"File became shorter while being read: {len(data)} of {status.st_size} bytes"
        raise OSError(errno.EIO, text, os.fspath(path))
    return data


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to disk, so that a new file in it stays there."""
    with _opened(folder) as sync:
        sync()


def remove_stale(folder: Path, prefix: str) -> None:
    """Remove temporary files that killed writers left, of files whose names start with `prefix`.

    Only for the owner of the folder: a writer that is still running will fail.
    """
    stale = re.compile(rf"\.{re.escape(prefix)}.*\.[0-9a-f]{{16}}\.tmp", re.DOTALL)
    for name in filter(stale.fullmatch, os.listdir(folder)):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))


def _write(path: str, pieces: Iterable[bytes | memoryview]) -> str:
    """Write a new file, and sync it to disk."""
    digest = sha256()
    with open(path, "xb", buffering=0, opener=_open_privately) as file:
        for piece in pieces:
            digest.update(piece)
            _write_piece(file.fileno(), memoryview(piece))
        os.fsync(file.fileno())
    return digest.hexdigest()


def _write_piece(fd: int, piece: memoryview) -> None:
    rest = piece.cast("B") if piece.nbytes else piece  # an empty view cannot be cast
    while rest.nbytes:
        written = os.write(fd, rest)
        if not written:  # neither an error nor progress
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = rest[written:]


@contextmanager
def _errors_about(path: Path) -> Iterator[None]:
    """Let errors of the system name the path of the caller."""
    name = os.fspath(path)
    try:
        yield
    except OSError as error:
        if error.filename == name:
            raise
        raise OSError(error.errno, error.strerror, name) from error


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[], None]]:
    """Open a folder, and yield a function that syncs it; Windows has no such thing."""
    if not hasattr(os, "O_DIRECTORY"):
        yield lambda: None
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield lambda: os.fsync(fd)
    finally:
        os.close(fd)


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file, or a pipe without waiting for its writer; Windows has no pipes as files."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _refuse_all_but_files(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
