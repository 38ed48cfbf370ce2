"""``amforest predict``: predict rows with a saved model."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors
from amforest.cli.options import (
    Coverage,
    Debug,
    Decimal,
    Delimiter,
    Encoding,
    Format,
    IdColumn,
    NewRows,
    Proba,
    Quiet,
    SavedModel,
)


def predict(
    model: SavedModel,
    source: NewRows,
    *,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="A .csv, .tsv, .ndjson or .parquet file, or - for standard output.",
        ),
    ] = "-",
    id_column: IdColumn = None,
    proba: Proba = None,
    format: Format = None,  # noqa: A002
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    coverage: Coverage = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of a stream with a saved model, without learning.

    [bold]Example[/bold]

      amforest predict model.amf new.csv --output predictions.csv
    """
    console = Console(stderr=True)
    with print_errors(console, debug=debug):
        from amforest.cli import predictions  # noqa: PLC0415

        predictions.predict(
            model,
            source,
            output,
            format=format,
            delimiter=delimiter,
            decimal=decimal,
            encoding=encoding,
            coverage=coverage,
            id_column=id_column,
            all_classes=proba == "all",
            console=console,
            quiet=quiet,
        )
