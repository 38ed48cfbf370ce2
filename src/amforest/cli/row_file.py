"""Files of rows that grow while a stream is learned: CSV, TSV, NDJSON and Parquet.

Rows of text are flushed as they are written. A run that resumes from a checkpoint first truncates
its files to their size at that checkpoint, so that they equal those of a run that was never
stopped. A file of Parquet has its index at its end, and cannot be continued.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from pyarrow import parquet

from amforest.cli.console import CommandError

FORMATS = {".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson", ".jsonl": "ndjson"}
PARQUET = ".parquet"
JSON_ONLY = ("probabilities",)
ROWS_PER_GROUP = 10_000  # of Parquet

Rows = Iterable[Sequence[Any]]


class RowWriter(Protocol):
    """A file to which rows are appended."""

    path: str
    size: int

    def write(self, rows: Rows) -> None:
        """Write rows, each with a value for every column."""

    def sync(self) -> None:
        """Write the file to disk, before a checkpoint refers to its size."""

    def close(self) -> None:
        """Close the file."""


class RowFile:
    """A file of rows, in CSV, TSV or NDJSON by its name; ``-`` is standard output.

    Parameters
    ----------
    path : str
        The file.
    columns : sequence of str
        The columns of a row; those in `JSON_ONLY` are written to NDJSON only.
    size : int, default=0
        The bytes of the file to keep, from an earlier run.
    endings : sequence of str, default=tuple(FORMATS)
        What names may end in, for an error.
    """

    def __init__(
        self,
        path: str,
        columns: Sequence[str],
        *,
        size: int = 0,
        endings: Sequence[str] = tuple(FORMATS),
    ) -> None:
        self.path, self._is_stdout = path, path == "-"
        kind = "csv" if self._is_stdout else FORMATS.get(Path(path).suffix.lower())
        if kind is None:
            raise CommandError(f"{path}: the name must end in one of {', '.join(endings)}")
        self._kind, self._all = kind, tuple(columns)
        self.columns = [name for name in columns if kind == "ndjson" or name not in JSON_ONLY]
        self.size = size
        self._file: BinaryIO = sys.stdout.buffer if self._is_stdout else _open_at(path, size)
        if kind != "ndjson" and size == 0:
            self._write(self._lines([self.columns]))

    def write(self, rows: Rows) -> None:
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
            while rest:  # a write may be partial
                rest = rest[self._file.write(rest) :]
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error
        self.size += len(data)

    def sync(self) -> None:
        """Write the file to disk, before a checkpoint refers to its size."""
        if not self._is_stdout:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, unless it is standard output."""
        if not self._is_stdout:
            self._file.close()


class ParquetRowFile:
    """A file of rows in Parquet. It can be read once it is closed.

    Parameters
    ----------
    path : str
    kinds : mapping of str to pyarrow.DataType
        The columns of a row, and their types; those in `JSON_ONLY` are not written.
    """

    def __init__(self, path: str, kinds: Mapping[str, pa.DataType]) -> None:
        self.path, self.size = path, 0
        self._places = [k for k, name in enumerate(kinds) if name not in JSON_ONLY]
        schema = [(name, kind) for name, kind in kinds.items() if name not in JSON_ONLY]
        self._schema = pa.schema(schema)
        self._rows: list[Sequence[Any]] = []
        self._writer = parquet.ParquetWriter(path, self._schema)

    def write(self, rows: Rows) -> None:
        """Write rows, each with a value for every column."""
        self._rows.extend(rows)
        if len(self._rows) >= ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        columns = [
            pa.array([row[k] for row in rows], field.type)
            for k, field in zip(self._places, self._schema, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def sync(self) -> None:
        """Do nothing: no checkpoint refers to a file of Parquet."""

    def close(self) -> None:
        """Write the last rows and the index."""
        if self._rows:
            self._flush()
        self._writer.close()


def is_parquet(path: str | None) -> bool:
    """Whether the name is that of a file of Parquet."""
    return path is not None and Path(path).suffix.lower() == PARQUET


def _open_at(path: str, size: int) -> BinaryIO:
    file: BinaryIO = Path(path).open("r+b" if size else "wb", buffering=0)  # noqa: SIM115
    found = file.seek(0, os.SEEK_END)
    if found < size:
        file.close()
        raise CommandError(f"{path} has {found} bytes; the checkpoint expects {size} or more")
    file.truncate(size)
    file.seek(size)
    return file
