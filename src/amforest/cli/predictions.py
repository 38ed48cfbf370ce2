"""``amforest predict``: predictions of a saved model for the rows of a stream."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from rich.console import Console
from sklearn.base import is_classifier

from amforest.cli.console import Notes, Status, choose_view
from amforest.cli.model_choice import choose_coverage
from amforest.cli.outputs import check_distinct, list_inputs
from amforest.cli.prediction_rows import PredictionRows, ids_of
from amforest.cli.reject_summary import RejectSummary
from amforest.cli.saved_model import load_with_scheme
from amforest.cli.settings import ROWS_PER_BLOCK, find_source
from amforest.evaluation.adapters import Prediction
from amforest.reading import open_stream
from amforest.regressor import ends_of


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
    id_column: str | None,
    all_classes: bool,
    console: Console,
    quiet: bool,
) -> int:
    """Write a prediction for each row that can be read; return their number.

    Raises
    ------
    CommandError
        If all rows were rejected.
    """
    check_distinct([path, *list_inputs(source, format)], {"--output": output})
    model, _, scheme = load_with_scheme(path)
    coverage = choose_coverage(model, coverage)
    kinds = {name: kind for name, kind in scheme.kinds.items() if name != scheme.target}
    features = [name for name in kinds if name != scheme.key]
    if id_column is not None:
        kinds.setdefault(id_column, "category")
    classes = model.classes_.tolist() if all_classes and is_classifier(model) else None
    rows_to_write = PredictionRows(scheme, coverage, id_column, classes, has_labels=False)
    stream = open_stream(
        find_source(source),
        format=format,
        types=kinds,
        columns=list(kinds),
        delimiter=delimiter,
        decimal=decimal,
        encoding=encoding,
        may_be_absent=features,
    )
    status, rejects, notes = Status(), RejectSummary(), Notes(console)
    notes.show(stream.notes)
    with ExitStack() as stack:
        stack.enter_context(stream)
        file = rows_to_write.open(output)  # which replaces one that exists
        stack.callback(file.close)
        view = stack.enter_context(choose_view(console, f"Predicting {scheme.target}", quiet=quiet))
        for batch in stream:
            rejects.add(batch.rejects)
            for piece in batch.pieces(ROWS_PER_BLOCK):
                if not len(piece):
                    continue
                rows = scheme.features(piece.X, piece.file, learn=False)
                predicted = _predict(model, rows, coverage)
                ids = None if id_column is None else ids_of(piece, id_column)
                file.write(rows_to_write.values(status.rows + 1, len(piece), predicted, ids=ids))
                status = replace(status, rows=status.rows + len(piece))
            read, total = stream.bytes_read, stream.bytes_total
            status = replace(status, bytes_read=read, bytes_total=total)
            view.show(replace(status, rejected=stream.n_rejected))
    notes.show(stream.notes)
    rejects.check_not_all(status.rows)
    rejects.show(console)
    return status.rows
