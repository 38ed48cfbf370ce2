"""Folders of files that are written once: on a local disk, or in object storage by fsspec."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from amforest.model_io import atomic_write

Directory = str | os.PathLike[str]


class StoreFolder(Protocol):
    """A folder: whole files are written, and parts of them are read."""

    def write(self, name: str, pieces: Sequence[bytes]) -> None:
        """Write a file, all of it or nothing."""

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a part of a file; None means up to its end."""

    def names(self) -> list[str]:
        """Return the names of the files and folders in it; none if it does not exist."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def remove_all(self) -> None:
        """Remove the folder with all files in it."""


class LocalFolder:
    """A folder on a local disk. It is created with its first file."""

    def __init__(self, path: Directory) -> None:
        self._path = Path(path)

    def write(self, name: str, pieces: Sequence[bytes]) -> None:
        """Write a file, atomically."""
        self._path.mkdir(parents=True, exist_ok=True)
        atomic_write.write_atomically(self._path / name, pieces)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a part of a file."""
        with open(self._path / name, "rb", buffering=0) as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def names(self) -> list[str]:
        """Return the names of the files and folders in it."""
        return sorted(os.listdir(self._path)) if self._path.is_dir() else []

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._path / name).unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Remove the folder with all files in it."""
        for name in self.names():
            self.remove(name)
        if self._path.is_dir():
            self._path.rmdir()


class FsspecFolder:
    """A folder in any storage that fsspec knows, such as ``s3://bucket/models``.

    A file is one object, which is put at once: object storage does so atomically.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise ImportError(
                f"directory is {url!r}; URLs need fsspec: pip install 'amforest[fsspec]'"
            ) from error
        self._system: Any
        self._system, self._path = url_to_fs(url)

    def write(self, name: str, pieces: Sequence[bytes]) -> None:
        """Write a file."""
        self._system.makedirs(self._path, exist_ok=True)
        self._system.pipe_file(f"{self._path}/{name}", b"".join(pieces))

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a part of a file."""
        end = None if length is None else start + length
        data: bytes = self._system.cat_file(f"{self._path}/{name}", start=start, end=end)
        return data

    def names(self) -> list[str]:
        """Return the names of the files and folders in it."""
        self._system.invalidate_cache()
        if not self._system.isdir(self._path):
            return []
        paths = self._system.ls(self._path, detail=False)
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self._system.exists(path := f"{self._path}/{name}"):
            self._system.rm_file(path)

    def remove_all(self) -> None:
        """Remove the folder with all files in it."""
        if self._system.exists(self._path):
            self._system.rm(self._path, recursive=True)


def is_url(directory: Directory) -> bool:
    """Return whether it is a URL, and not a path."""
    return isinstance(directory, str) and "://" in directory


def open_folder(directory: Directory) -> StoreFolder:
    """Return the folder of a path or a URL."""
    if isinstance(directory, str) and is_url(directory):
        return FsspecFolder(directory)
    return LocalFolder(directory)


def join(directory: Directory, name: str) -> str:
    """Return the path or URL of a folder in a folder."""
    if is_url(directory):
        return f"{os.fspath(directory).rstrip('/')}/{name}"
    return os.path.join(directory, name)
