"""``amforest explain``: contributions of features to predictions."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors
from amforest.cli.options import (
    Debug,
    Decimal,
    Delimiter,
    Encoding,
    Format,
    IdColumn,
    NewRows,
    Quiet,
    SavedModel,
)


def explain(
    model: SavedModel,
    source: NewRows,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="A .csv, .tsv, .ndjson or .parquet file, or - for standard output. Default: -, "
            "without --top and --plot.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help="Print the features with the N largest contributions to each row."
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(help="Draw the contributions of one row, or those of many, to this image."),
    ] = None,
    row: Annotated[
        int | None, typer.Option(min=1, help="Explain this row only; the first is 1.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--class",
            help="Explain the prediction of this class. Default: the second of two; of more, the "
            "one that is predicted.",
        ),
    ] = None,
    id_column: IdColumn = None,
    format: Format = None,  # noqa: A002
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Explain predictions of a saved model: what each feature contributes to each of them.

    [bold]Examples[/bold]

      amforest explain model.amf new.csv --output contributions.csv

      amforest explain model.amf new.csv --row 17 --top 5 --plot row.png
    """
    console = Console(stderr=True)
    with print_errors(console, debug=debug):
        from amforest.cli import explanations  # noqa: PLC0415

        if output is None and top is None and plot is None:
            output = "-"
        wanted = explanations.Wanted(output, top, plot, row, label, id_column)
        explanations.explain(
            model,
            source,
            wanted,
            reading={
                "format": format,
                "delimiter": delimiter,
                "decimal": decimal,
                "encoding": encoding,
            },
            console=console,
            listing=Console(),
            quiet=quiet or top is not None,
        )
