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
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import is_classifier

from amforest.cli.console import CommandError, Notes, Status, choose_view
from amforest.cli.model_choice import choose_coverage
from amforest.cli.reject_summary import RejectSummary
from amforest.cli.saved_model import load_with_scheme
from amforest.cli.settings import ROWS_PER_BLOCK, find_source
from amforest.evaluation.adapters import Prediction
from amforest.reading import CLASSIFICATION, open_stream
from amforest.regressor import ends_of

FORMATS = {".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson", ".jsonl": "ndjson"}
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


def prediction_columns(task: str, coverage: float | None) -> tuple[str, ...]:
    """Return the columns of a prediction: of classes, of numbers, or of numbers with intervals."""
    if task == CLASSIFICATION:
        return "prediction", "probability", "probabilities"
    return ("prediction",) if coverage is None else ("prediction", "lower", "upper")


def format_labelled(
    start: int, labels: NDArray[Any], prediction: Prediction | None, n_columns: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the values to write for each row: its number, its label and its prediction."""
    unknown = (None,) * n_columns
    values = repeat(unknown, len(labels)) if prediction is None else _values(prediction)
    for i, (label, some) in enumerate(zip(labels.tolist(), values, strict=True)):
        yield start + i, label, *some


def _values(prediction: Prediction) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each prediction, in the order of `prediction_columns`."""
    predictions, classes, intervals = prediction
    if classes is None:
        numbers = predictions.tolist()
        ends = repeat(()) if intervals is None else intervals.tolist()
        yield from ((number, *pair) for number, pair in zip(numbers, ends, strict=False))
        return
    names = classes.tolist()
    for probabilities in predictions:
        p, best = probabilities.tolist(), int(probabilities.argmax())
        possible = {str(name): value for name, value in zip(names, p, strict=True) if value > 0}
        yield names[best], p[best], possible


def _predict(model: Any, rows: Any, coverage: float | None) -> Prediction:
    if coverage is not None:
        distribution = model.predict_dist(rows)
        return Prediction(distribution.mean(), intervals=distribution.quantiles(ends_of(coverage)))
    if is_classifier(model):
        return Prediction(model.predict_proba(rows), model.classes_)
    return Prediction(model.predict(rows))


def predict(
    path: str,
    source: list[str],
    output: str,
    *,
    format: str | None,  # noqa: A002
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
    coverage: float | None,
    console: Console,
    quiet: bool,
) -> int:
    """Write a prediction for each row that can be read; return their number."""
    model, _, scheme = load_with_scheme(path)
    coverage = choose_coverage(model, coverage)
    kinds = {name: kind for name, kind in scheme.kinds.items() if name != scheme.target}
    file = RowFile(output, ("row", *prediction_columns(scheme.task, coverage)))
    stream = open_stream(
        find_source(source),
        format=format,
        types=kinds,
        columns=list(kinds),
        delimiter=delimiter,
        decimal=decimal,
        encoding=encoding,
    )
    status, rejects, notes = Status(), RejectSummary(), Notes(console, quiet=quiet)
    notes.show(stream.notes)
    with stream, choose_view(console, f"Predicting {scheme.target}", quiet=quiet) as view:
        for batch in stream:
            rejects.add(batch.rejects)
            for piece in batch.pieces(ROWS_PER_BLOCK):
                if not len(piece):
                    continue
                rows = scheme.features(piece.X, piece.file, learn=False)
                values = _values(_predict(model, rows, coverage))
                file.write((status.rows + i, *some) for i, some in enumerate(values, 1))
                status = replace(status, rows=status.rows + len(piece))
            read, total = stream.bytes_read, stream.bytes_total
            status = replace(status, bytes_read=read, bytes_total=total)
            view.show(replace(status, rejected=stream.n_rejected))
    file.close()
    notes.show(stream.notes)
    if not quiet:
        rejects.show(console)
    return status.rows
