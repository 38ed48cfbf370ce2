"""Where a stream comes from: files, folders, patterns and pipes, and their bytes as they arrive."""

from __future__ import annotations

import glob
import os
import select
import shlex
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

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
"""The format that each suffix of a file stands for."""

COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
SPREADSHEETS = (".xlsx", ".xlsm", ".ods")  # which are zip files
STDIN = "<stdin>"
_POLL_SECONDS = 0.1  # between checks of a file that may grow
_FLOWING_BYTES = 2**15  # a pipe that returns as many at once has more to come
_FLOWING_SECONDS = 0.02  # to wait for more from such a pipe


class StreamError(ValueError):
    """A source cannot be read as requested; the message says why in one line."""


class EmptyFileError(StreamError):
    """A file has no content, not even column names."""


def suggest(name: str, names: Iterable[str]) -> str:
    """Suggest the name that was probably meant, or list the valid ones."""
    names = list(names)
    by_lower = {candidate.lower(): candidate for candidate in reversed(names)}
    if close := get_close_matches(name.lower(), by_lower, n=1):
        return f"did you mean {by_lower[close[0]]!r}?"
    return f"expected one of {join_names(names)}"


def join_names(names: Sequence[str], limit: int = 20) -> str:
    """List names, and count those beyond the limit."""
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(repr, names[:limit])) + rest


def shorten(text: str, length: int) -> str:
    """Truncate a text that is too long to be shown."""
    return text if len(text) <= length else text[: length - 1] + "…"


@dataclass(frozen=True)
class _Magic:
    """How compressed files begin, what decompresses them, and the ending that is read here."""

    start: bytes
    kind: str
    command: str
    ending: str | None = None


_MAGIC = (
    _Magic(b"PK\x03\x04", "zip", "unzip -p"),
    _Magic(b"\x1f\x8b", "gzip", "gzip -dc", ".gz"),
    _Magic(b"BZh91AY&SY", "bzip2", "bzip2 -dc", ".bz2"),
    _Magic(b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc", ".zst"),
)
MAGIC_BYTES = max(len(magic.start) for magic in _MAGIC)


def may_be_compressed(head: bytes) -> bool:
    """Return whether further bytes may show that a file is compressed."""
    return any(len(head) < len(m.start) and m.start.startswith(head) for m in _MAGIC)


def check_not_compressed(name: str, head: bytes) -> None:
    """Raise `StreamError` if the first bytes of a text are those of a compressed file."""
    magic = next((magic for magic in _MAGIC if head.startswith(magic.start)), None)
    if magic is None:
        return
    is_file = not name.startswith("<")
    if Path(name).suffix.lower() in SPREADSHEETS:
        raise StreamError(f"{name} is a spreadsheet: save it as CSV")
    ending = f", or let its name end in {magic.ending}" if is_file and magic.ending else ""
    raise StreamError(
        f"{name} is compressed with {magic.kind}: decompress it first, as in `{magic.command} "
        f"{shlex.quote(name) if is_file else 'FILE'} | amforest run - …`{ending}"
    )


@dataclass(frozen=True)
class File:
    """One file to read.

    Attributes
    ----------
    name : str
        Its name in messages.
    place : str, int or file object
        Its path; or a descriptor or file object, which can be read once.
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
        """The size in bytes; None for a pipe."""
        return os.stat(self.place).st_size if self.is_regular else None  # type: ignore[arg-type]

    @property
    def is_regular(self) -> bool:
        """Whether it has a path and can be read again."""
        return isinstance(self.place, str) and stat.S_ISREG(os.stat(self.place).st_mode)

    @property
    def can_grow(self) -> bool:
        """Whether rows may be appended while it is read."""
        is_text = self.format in ("csv", "tsv", "ndjson")
        return self.is_regular and not self.compression and is_text


def find_files(source: Source, format_name: str | None) -> list[File]:
    """List the files to read, sorted by name within folders and patterns.

    Parameters
    ----------
    source : path, folder, pattern, list of such, "-", None, file object or descriptor
    format_name : str or None
        The format of all files. None means by their names, and CSV for pipes.

    Raises
    ------
    OSError
        If a file or folder does not exist.
    StreamError
        If there is nothing to read, or the format is unknown.
    """
    if format_name is not None and format_name not in FORMATS:
        raise StreamError(f"no format {format_name!r}; {suggest(format_name, FORMATS)}")
    if source is None or source == "-":
        return [File(STDIN, sys.stdin.buffer, FORMATS[format_name or "csv"])]
    if isinstance(source, int):
        return [File(f"<descriptor {source}>", source, FORMATS[format_name or "csv"])]
    if not isinstance(source, str | os.PathLike | Sequence):
        name = getattr(source, "name", None)
        name = name if isinstance(name, str) else f"<{type(source).__name__}>"
        return [File(name, source, FORMATS[format_name or "csv"])]
    places = [source] if isinstance(source, str | os.PathLike) else source
    files = [file for place in places for file in _files_at(os.fspath(place), format_name)]
    if not files:
        raise StreamError("the list of files is empty")
    return files


def _files_at(place: str, format_name: str | None) -> list[File]:
    if os.path.isdir(place):
        paths = [path for path in sorted(Path(place).iterdir()) if path.name[0] not in "._"]
        names = [
            str(path)
            for path in paths
            if not path.is_dir() and (format_name or _parse_suffixes(path)[0])
        ]
        if not names:
            kinds = "any format"
            if format_name is None:
                kinds = "the formats " + join_names(list(FORMATS), len(FORMATS))
            raise StreamError(f"folder {place!r} has no files of {kinds}")
        return [_file(name, format_name) for name in names]
    if os.path.exists(place) or not glob.has_magic(place):
        os.stat(place)  # raises the error that names the path
        return [_file(place, format_name)]
    matches = [path for path in sorted(glob.glob(place, recursive=True)) if not os.path.isdir(path)]
    if not matches:
        raise StreamError(f"no file matches {place!r}")
    return [_file(path, format_name) for path in matches]


def _file(path: str, format_name: str | None) -> File:
    suffix, compression = _parse_suffixes(Path(path))
    is_pipe = not stat.S_ISREG(os.stat(path).st_mode)
    chosen = FORMATS.get(format_name or suffix or ("csv" if is_pipe else ""))
    if chosen is None:
        if compression is None:
            with open(path, "rb") as file:
                check_not_compressed(path, file.read(MAGIC_BYTES))
        known = join_names(list(FORMATS), len(FORMATS))
        raise StreamError(
            f"{path!r}: its name does not say its format: set --format to one of {known}"
        )
    if compression and chosen in ("parquet", "arrow"):
        raise StreamError(f"{path!r}: {chosen} files are compressed internally; decompress it")
    return File(path, path, chosen, compression)


def _parse_suffixes(path: Path) -> tuple[str, str | None]:
    """Return the format and the compression that a file name says; "" and None if neither."""
    suffix = path.suffix[1:].lower()
    compression = COMPRESSIONS.get(suffix)
    if compression:
        suffix = Path(path.stem).suffix[1:].lower()
    return suffix if suffix in FORMATS else "", compression


class ByteReader:
    """Read the bytes of a file or pipe, in large pieces if they are available, else as they arrive.

    Parameters
    ----------
    file : File
    follow : bool
        Whether to wait for more at the end of the file.

    Attributes
    ----------
    n_read : int
        The number of bytes read from the file, compressed if it is.
    """

    def __init__(self, file: File, *, follow: bool = False) -> None:
        self.name = file.name
        self._follow = follow
        self._ended = False
        self._n_returned = 0
        self._raw: Any = file.place
        self._owns_raw = isinstance(file.place, str | int)
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
        """The number of bytes read so far."""
        if self._counts_raw and not self._raw.closed:
            self._n_returned = self._raw.tell()
        return self._n_returned

    def read(self, size: int) -> bytes:
        """Wait for bytes, and return those available, up to a size; b"" at the end."""
        pieces = [self._read_once(size)]
        rest = size - len(pieces[0])
        while self._is_slow and pieces[-1] and rest > 0:
            is_flowing = len(pieces[-1]) >= _FLOWING_BYTES
            if not self.is_ready(_FLOWING_SECONDS if is_flowing else 0):
                break
            pieces.append(self._read_once(rest))
            rest -= len(pieces[-1])
        return b"".join(pieces)

    def read_exactly(self, size: int) -> bytes:
        """Wait for that many bytes; return fewer only at the end."""
        pieces = []
        while size > 0 and (data := self._read_once(size)):
            pieces.append(data)
            size -= len(data)
        return b"".join(pieces)

    def is_ready(self, timeout: float) -> bool:
        """Return whether bytes, or the end, arrive within a timeout in seconds."""
        if self._follow:
            return self._has_grown(timeout)
        return self._poll is None or bool(self._poll.poll(timeout * 1000))

    def close(self) -> None:
        """Close the file if it was opened here."""
        if self._owns_raw:
            _ = self.n_read  # reads the position while the file is open
            self._raw.close()

    def _read_once(self, size: int) -> bytes:
        while not self._ended:
            data = self._read_available(size)  # None: a non-blocking pipe has no data yet
            if data is None or (self._follow and not data):
                self.is_ready(_POLL_SECONDS)
                continue
            self._ended = not data
            if not self._counts_raw:
                self._n_returned += len(data)
            return data
        return b""

    def _read_available(self, size: int) -> bytes | None:
        read = getattr(self._plain, "read1", self._plain.read)
        try:
            data: bytes | None = read(size)
        except OSError as error:
            if error.errno is None:  # raised by a codec
                raise StreamError(f"{self.name} is damaged: {error}") from error
            raise OSError(error.errno, error.strerror, self.name) from error
        return data

    def _has_grown(self, timeout: float) -> bool:
        """Return whether the file becomes longer than what was read of it."""
        end = time.monotonic() + timeout
        while os.fstat(self._raw.fileno()).st_size <= self._raw.tell():
            if time.monotonic() >= end:
                return False
            time.sleep(min(_POLL_SECONDS, timeout))
        return True


def _poll(raw: Any) -> Any:
    """Return a poll object for a pipe; None if the platform or the object supports none."""
    if sys.platform == "win32" or not hasattr(raw, "fileno"):
        return None
    try:
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
    except (OSError, ValueError):  # io.BytesIO has fileno, which raises; or the file is closed
        return None
    return poll
