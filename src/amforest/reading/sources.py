"""Where a stream comes from: files, folders, patterns and pipes; and its bytes as they come."""

from __future__ import annotations

import glob
import os
import select
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from amforest.reading._arrow import pa
from amforest.reading.names import StreamError, listed, nearest

Place: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = Place | BinaryIO | int | Sequence[Place] | None

FORMATS = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "ndjson",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
}
COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
STDIN = "<stdin>"
_PAUSE = 0.1  # seconds between looks at a file that may grow
_MUCH = 2**15  # bytes at once: a pipe that gives them will give more
_MOMENT = 0.02  # seconds


@dataclass(frozen=True)
class File:
    """One file to be read.

    Attributes
    ----------
    name : str
        What errors call it.
    place : str, int or file object
        Its path; or what it can be read from, once.
    format : str
        "csv", "tsv", "ndjson", "parquet" or "arrow".
    compression : str or None
    """

    name: str
    place: str | int | BinaryIO
    format: str
    compression: str | None = None

    @property
    def size(self) -> int | None:
        """How many bytes it has; None for a pipe."""
        return os.stat(self.place).st_size if self.is_regular else None  # type: ignore[arg-type]

    @property
    def is_regular(self) -> bool:
        """Whether it can be read again, from its path."""
        return isinstance(self.place, str) and stat.S_ISREG(os.stat(self.place).st_mode)


def find_files(source: Source, form: str | None) -> list[File]:
    """List what is to be read, sorted within folders and patterns.

    Parameters
    ----------
    source : path, folder, pattern, list of such, "-", None, file object or descriptor
    form : str or None
        The format of all files. None means by their names, and CSV for pipes.

    Raises
    ------
    OSError
        If a file or folder is not there.
    StreamError
        If there is nothing to be read, or the format is unknown.
    """
    if form is not None and form not in FORMATS:
        raise StreamError(f"no format {form!r}; {nearest(form, FORMATS)}")
    if source is None or source == "-":
        return [File(STDIN, sys.stdin.buffer, FORMATS[form or "csv"])]
    if isinstance(source, int):
        return [File(f"<descriptor {source}>", source, FORMATS[form or "csv"])]
    if not isinstance(source, str | os.PathLike | Sequence):
        name = getattr(source, "name", None)
        name = name if isinstance(name, str) else f"<{type(source).__name__}>"
        return [File(name, source, FORMATS[form or "csv"])]
    places = [source] if isinstance(source, str | os.PathLike) else source
    files = [file for place in places for file in _files_at(os.fspath(place), form)]
    if not files:
        raise StreamError("no files are given")
    return files


def _files_at(place: str, form: str | None) -> list[File]:
    if os.path.isdir(place):
        paths = [path for path in sorted(Path(place).iterdir()) if path.name[0] not in "._"]
        files = [str(path) for path in paths if not path.is_dir() and (form or _endings(path)[0])]
        if not files:
            kinds = listed(list(FORMATS), len(FORMATS)) if form is None else "any format"
            raise StreamError(f"folder {place!r} has no files of {kinds}")
        return [_file(path, form) for path in files]
    if os.path.exists(place) or not glob.has_magic(place):
        os.stat(place)  # raises the error that names it
        return [_file(place, form)]
    matches = [path for path in sorted(glob.glob(place, recursive=True)) if not os.path.isdir(path)]
    if not matches:
        raise StreamError(f"no file matches {place!r}")
    return [_file(path, form) for path in matches]


def _file(path: str, form: str | None) -> File:
    ending, compression = _endings(Path(path))
    is_pipe = not stat.S_ISREG(os.stat(path).st_mode)
    chosen = FORMATS.get(form or ending or ("csv" if is_pipe else ""))
    if chosen is None:
        known = listed(list(FORMATS), len(FORMATS))
        raise StreamError(f"the name of {path!r} does not tell its format: say which of {known}")
    if compression and chosen in ("parquet", "arrow"):
        raise StreamError(f"{path!r}: {chosen} files are compressed from within; decompress it")
    return File(path, path, chosen, compression)


def _endings(path: Path) -> tuple[str, str | None]:
    """Return the format and the compression that a name tells; "" if none."""
    ending = path.suffix[1:].lower()
    compression = COMPRESSIONS.get(ending)
    if compression:
        ending = Path(path.stem).suffix[1:].lower()
    return ending if ending in FORMATS else "", compression


class Bytes:
    """The bytes of a file or pipe, in large pieces if they are there, else as they come.

    Parameters
    ----------
    file : File
    follow : bool
        Whether to wait for more at the end of the file.

    Attributes
    ----------
    n_read : int
        How many bytes of the file were read, compressed if it is.
    """

    def __init__(self, file: File, *, follow: bool = False) -> None:
        self.name = file.name
        self._follow = follow
        self._ended = False
        self._n_given = 0
        self._raw: Any = file.place
        self._is_own = isinstance(file.place, str | int)
        if isinstance(file.place, str | int):
            is_path = isinstance(file.place, str)
            self._raw = open(file.place, "rb", buffering=0, closefd=is_path)  # noqa: SIM115
        self._is_slow = follow or not file.is_regular
        self._poll = _poll(self._raw) if self._is_slow and not follow else None
        self._plain: Any = self._raw
        if file.compression is not None:
            if not pa.Codec.is_available(file.compression):
                raise StreamError(f"{file.name}: this pyarrow cannot read {file.compression}")
            stream = pa.PythonFile(self._raw, mode="r")
            self._plain = pa.CompressedInputStream(stream, file.compression)
        self._counts_raw = file.compression is not None and file.is_regular

    @property
    def n_read(self) -> int:
        """How many bytes were read so far."""
        if self._counts_raw and not self._raw.closed:
            self._n_given = self._raw.tell()
        return self._n_given

    def read(self, size: int) -> bytes:
        """Wait for bytes, and return what there is, up to a size; b"" at the end."""
        pieces = [self._read_once(size)]
        rest = size - len(pieces[0])
        while self._is_slow and pieces[-1] and rest > 0:
            is_flowing = len(pieces[-1]) >= _MUCH
            if not self.ready(_MOMENT if is_flowing else 0):
                break
            pieces.append(self._read_once(rest))
            rest -= len(pieces[-1])
        return b"".join(pieces)

    def read_exactly(self, size: int) -> bytes:
        """Wait for so many bytes; return fewer only at the end."""
        pieces = []
        while size > 0 and (data := self._read_once(size)):
            pieces.append(data)
            size -= len(data)
        return b"".join(pieces)

    def ready(self, timeout: float) -> bool:
        """Tell whether bytes, or the end, come within some seconds."""
        if self._follow:
            return self._grows(timeout)
        return self._poll is None or bool(self._poll.poll(timeout * 1000))

    def close(self) -> None:
        """Close what was opened here."""
        if self._is_own:
            _ = self.n_read  # while it can be told
            self._raw.close()

    def _read_once(self, size: int) -> bytes:
        while not self._ended:
            data = self._read_what_is_there(size)
            if data is None:  # a pipe that does not wait by itself
                self.ready(_PAUSE)
            elif data or not self._follow:
                self._ended = not data
                if not self._counts_raw:
                    self._n_given += len(data)
                return data
            else:
                self.ready(_PAUSE)
        return b""

    def _read_what_is_there(self, size: int) -> bytes | None:
        read = getattr(self._plain, "read1", self._plain.read)
        try:
            data: bytes | None = read(size)
        except OSError as error:
            if error.errno is None:  # of a codec
                raise StreamError(f"{self.name} is damaged: {error}") from error
            raise OSError(error.errno, error.strerror, self.name) from error
        return data

    def _grows(self, timeout: float) -> bool:
        """Tell whether a file has become longer than what was read of it."""
        end = time.monotonic() + timeout
        while os.fstat(self._raw.fileno()).st_size <= self._raw.tell():
            if time.monotonic() >= end:
                return False
            time.sleep(min(_PAUSE, timeout))
        return True


def _poll(raw: Any) -> Any:
    """Return what tells whether a pipe has bytes; None if nothing can."""
    try:
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
    except (AttributeError, OSError, ValueError):  # no such call, or no descriptor
        return None
    return poll
