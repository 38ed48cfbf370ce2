"""Predictions in files: row files that grow while a stream is learned, and ``amforest predict``.

Rows are flushed as they are written. A run that resumes from a checkpoint first truncates its files
to their size at that checkpoint, so that they equal those of a run that was never stopped.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray
from rich.console import Console

from amforest.cli.console import CommandError, Status, choose_view
from amforest.cli.scheme import CLASSIFICATION, load_with_scheme
from amforest.cli.settings import ROWS_PER_BLOCK
from amforest.reading import open_stream

FORMATS = {".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson", ".jsonl": "ndjson"}
COLUMNS = ("row", "prediction", "probability", "probabilities")
JSON_ONLY = ("probabilities",)


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
    """

    def __init__(self, path: str, columns: Sequence[str], *, size: int = 0) -> None:
        self.path, self._is_stdout = path, path == "-"
        kind = "csv" if self._is_stdout else FORMATS.get(Path(path).suffix.lower())
        if kind is None:
            raise CommandError(f"{path}: the name must end in one of {', '.join(FORMATS)}")
        self._kind, self._all = kind, tuple(columns)
        self.columns = [name for name in columns if kind == "ndjson" or name not in JSON_ONLY]
        self.size = size
        self._file: BinaryIO = sys.stdout.buffer if self._is_stdout else _open_at(path, size)
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


def _open_at(path: str, size: int) -> BinaryIO:
    file: BinaryIO = Path(path).open("r+b" if size else "wb", buffering=0)  # noqa: SIM115
    found = file.seek(0, os.SEEK_END)
    if found < size:
        file.close()
        raise CommandError(f"{path} has {found} bytes; the checkpoint expects {size} or more")
    file.truncate(size)
    file.seek(size)
    return file


def format_predictions(
    start: int,
    labels: NDArray[Any] | None,
    predictions: NDArray[Any] | None,
    classes: NDArray[Any] | None,
) -> Iterator[tuple[Any, ...]]:
    """Yield the values to write for each row: its number, its label if any, its prediction."""
    names = None if classes is None else classes.tolist()
    n_rows = len(predictions) if labels is None else len(labels)  # type: ignore[arg-type]
    for i in range(n_rows):
        head = (start + i,) if labels is None else (start + i, labels[i].item())
        if predictions is None:
            yield *head, None, None, None
        elif names is None:
            yield *head, float(predictions[i]), None, None
        else:
            p = predictions[i].tolist()
            possible = {str(name): value for name, value in zip(names, p, strict=True) if value > 0}
            best = int(predictions[i].argmax())
            yield *head, names[best], p[best], possible


def predict(
    path: str,
    source: list[str],
    output: str,
    *,
    format: str | None,  # noqa: A002
    console: Console,
    quiet: bool,
) -> int:
    """Write a prediction for each row that can be read; return their number."""
    model, _, scheme = load_with_scheme(path)
    kinds = {name: kind for name, kind in scheme.kinds.items() if name != scheme.target}
    file = RowFile(output, COLUMNS)
    stream = open_stream(source, format=format, types=kinds, columns=list(kinds))
    is_class = scheme.task == CLASSIFICATION
    status = Status()
    with stream, choose_view(console, f"Predicting {scheme.target}", quiet=quiet) as view:
        for batch in stream:
            for piece in batch.pieces(ROWS_PER_BLOCK):
                if not len(piece):
                    continue
                rows = scheme.features(piece.X, piece.file, learn=False)
                predictions = model.predict_proba(rows) if is_class else model.predict(rows)
                classes = model.classes_ if is_class else None
                file.write(format_predictions(status.rows + 1, None, predictions, classes))
                status = replace(status, rows=status.rows + len(piece))
            read, total = stream.bytes_read, stream.bytes_total
            status = replace(status, bytes_read=read, bytes_total=total)
            view.show(replace(status, rejected=stream.n_rejected))
    file.close()
    return status.rows
