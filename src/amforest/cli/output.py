"""Files that grow while a stream is learnt: forecasts and rejected rows.

What is written is flushed at once, and a run that goes on from a checkpoint first cuts its files to
what they were then: so they equal those of a run that never stopped.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from amforest.cli.errors import CommandError

FORMATS = {".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson", ".jsonl": "ndjson"}


class RowFile:
    """A file of rows, in CSV, TSV or NDJSON by its name; ``-`` is standard output.

    Parameters
    ----------
    path : str
        The file.
    columns : sequence of str
        The columns of a row; those named in `json_only` are left out but for NDJSON.
    size : int, default=0
        How long the file is to begin with, from an earlier run.
    """

    def __init__(
        self, path: str, columns: Sequence[str], *, json_only: Sequence[str] = (), size: int = 0
    ) -> None:
        self.path, self._is_stdout = path, path == "-"
        kind = "csv" if self._is_stdout else FORMATS.get(Path(path).suffix.lower())
        if kind is None:
            raise CommandError(f"{path}: the name must end in one of {', '.join(FORMATS)}")
        self._kind, self._all = kind, tuple(columns)
        self.columns = [name for name in columns if kind == "ndjson" or name not in json_only]
        self.size = size
        self._file: BinaryIO = sys.stdout.buffer if self._is_stdout else _opened(path, size)
        if kind != "ndjson" and size == 0:
            self._write(self._lines([self.columns]))

    def write(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows, each with a value for every column."""
        if self._kind == "ndjson":
            text = "".join(
                json.dumps(dict(zip(self._all, row, strict=True)), ensure_ascii=False) + "\n"
                for row in rows
            )
            self._write(text)
            return
        places = [self._all.index(name) for name in self.columns]
        self._write(self._lines([row[k] for k in places] for row in rows))

    def _lines(self, rows: Iterable[Sequence[Any]]) -> str:
        buffer = io.StringIO()
        delimiter = "\t" if self._kind == "tsv" else ","
        csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(rows)
        return buffer.getvalue()

    def _write(self, text: str) -> None:
        data = text.encode()
        rest = memoryview(data)
        try:
            while rest:  # a disk may take a part only
                rest = rest[self._file.write(rest) :]
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error
        self.size += len(data)

    def sync(self) -> None:
        """Make sure that what was written survives, before a checkpoint says so."""
        if not self._is_stdout:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, unless it is standard output."""
        if not self._is_stdout:
            self._file.close()


def _opened(path: str, size: int) -> BinaryIO:
    file: BinaryIO = Path(path).open("r+b" if size else "wb", buffering=0)  # noqa: SIM115
    found = file.seek(0, os.SEEK_END)
    if found < size:
        file.close()
        raise CommandError(f"{path} has {found} bytes; the checkpoint was made when it had {size}")
    file.truncate(size)
    file.seek(size)
    return file
