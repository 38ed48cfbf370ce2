"""``amforest predict``: forecasts of a saved model for the rows of a stream."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from amforest.cli.output import RowFile
from amforest.cli.run import load_with_state
from amforest.cli.scheme import CLASSIFICATION, Scheme
from amforest.cli.session import ROWS_AT_ONCE, forecast_rows
from amforest.cli.view import Status, view_for
from amforest.reading import open_stream

COLUMNS = ("row", "forecast", "probability", "probabilities")


def predict(
    path: str, source: list[str], output: str, *, form: str | None, console: Console, quiet: bool
) -> int:
    """Write a forecast for each row that can be read; return how many there are."""
    model, state = load_with_state(path)
    scheme = Scheme.from_json(dict(state["scheme"]))
    kinds = {name: kind for name, kind in scheme.kinds.items() if name != scheme.target}
    file = RowFile(output, COLUMNS, json_only=("probabilities",))
    stream = open_stream(source, format=form, types=kinds, columns=list(kinds))
    status = Status()
    with stream, view_for(console, f"Forecasting {scheme.target}", quiet=quiet) as view:
        for batch in stream:
            for piece in batch.pieces(ROWS_AT_ONCE):
                if not len(piece):
                    continue
                rows = scheme.features(piece, learn=False)
                is_class = scheme.task == CLASSIFICATION
                forecasts = model.predict_proba(rows) if is_class else model.predict(rows)
                classes = model.classes_ if is_class else None
                file.write(forecast_rows(status.rows + 1, None, forecasts, classes))
                status = replace(status, rows=status.rows + len(piece))
            read, total = stream.bytes_read, stream.bytes_total
            status = replace(status, bytes_read=read, bytes_total=total)
            view.show(replace(status, rejected=stream.n_rejected))
    file.close()
    return status.rows
