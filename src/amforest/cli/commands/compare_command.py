"""``amforest compare``: both forests and others on the same rows."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors, print_json
from amforest.cli.options import (
    Debug,
    Decimal,
    Delimiter,
    Drop,
    Encoding,
    Format,
    Json,
    Source,
    Target,
    Trees,
    Types,
    Use,
)


def compare(
    source: Source = None,
    *,
    target: Target = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Number of rows to use. Default: all.")
    ] = None,
    trees: Trees = None,
    use: Use = None,
    drop: Drop = None,
    types: Types = None,
    format: Format = None,  # noqa: A002
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0, help="Stop each model after so many seconds of its own time. Default: never."
        ),
    ] = None,
    plot: Annotated[str | None, typer.Option(help="Draw the curves to this image file.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare both forests with simple models, and with models of river, on the same rows.

    [bold]Example[/bold]

      amforest compare sales.csv --target bought --rows 5000 --plot comparison.png
    """
    console = Console(stderr=True)
    with print_errors(console, debug=debug):
        from amforest.cli import comparison  # noqa: PLC0415
        from amforest.cli.outputs import check_distinct, check_file, list_inputs  # noqa: PLC0415
        from amforest.cli.settings import Settings  # noqa: PLC0415

        settings = Settings(
            source=tuple(source or ()),
            target=target,
            trees=trees,
            use=tuple(use or ()),
            drop=tuple(drop or ()),
            types=types,
            format=format,
            delimiter=delimiter,
            decimal=decimal,
            encoding=encoding,
        )
        check_distinct(list_inputs(settings.source, format), {"--plot": plot})
        check_file("--plot", plot)
        compared = comparison.compare(settings, console, max_rows=rows, seconds=seconds)
        if plot is not None:
            comparison.draw_comparison(compared.results, plot)
        if as_json:
            print_json(
                {
                    name: result.metrics
                    | {"rows": result.n_rows, "stopped": name in compared.stopped}
                    for name, result in compared.results.items()
                }
            )
        else:
            comparison.show_comparison(compared, Console())
