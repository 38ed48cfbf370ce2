"""Options that several commands have, and how their values are validated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

EPILOG = (
    "Exit status: 0 success, 1 error, 2 invalid options, 130 stopped by Ctrl-C and 143 by SIGTERM "
    "(everything learned is saved)."
)


def one_of(one: str, other: str) -> Callable[[str | None], str | None]:
    """Return a validator of an option that has two values."""

    def validate(name: str | None) -> str | None:
        if name not in (None, one, other):
            raise typer.BadParameter(f"{name!r} is neither {one} nor {other}")
        return name

    return validate


def _validate_threads(threads: int) -> int:
    if threads == 0:
        raise typer.BadParameter(
            "0 threads cannot do anything; give 1 or more, or -1 for all cores"
        )
    return threads


def _validate_coverage(coverage: float | None) -> float | None:
    if coverage is not None and not 0 < coverage < 1:
        words = f"{coverage} is not between 0 and 1; for intervals of 90 %, give 0.9"
        raise typer.BadParameter(words)
    return coverage


Names = list[str] | None

# What is read

Source = Annotated[
    Names,
    typer.Argument(
        metavar="SOURCE",
        help="CSV, TSV, NDJSON, Parquet or Arrow files, folders, globs, or - for standard input.",
        show_default=False,
    ),
]
NewRows = Annotated[
    list[str], typer.Argument(help="Files, folders, globs, or - for standard input.")
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="The column to predict.")]
Use = Annotated[
    Names, typer.Option("--use", help="Use only this column as a feature; can be repeated.")
]
Drop = Annotated[Names, typer.Option("--drop", help="Drop this column; can be repeated.")]
Types = Annotated[
    str | None,
    typer.Option(
        help="Kinds of columns: number, category, bool, date or datetime. Such as 'age=number, "
        "zip=category'. Default: of the file, or inferred."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(help="csv, tsv, ndjson, parquet or arrow. Default: from the file name."),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Separator of fields in CSV, such as ; or tab. Default: detected."),
]
Decimal = Annotated[
    str | None, typer.Option(help="Decimal mark in CSV: . or ,. Default: detected.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of text, such as cp1252. Default: detected.")
]

# Models

SavedModel = Annotated[str, typer.Argument(help="A model file that `amforest run --save` wrote.")]
TASKS = one_of("classification", "regression")
FAMILIES = one_of("adaptive", "amf")
TaskOfRows = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="classification or regression. Default: inferred from the first rows.",
        callback=TASKS,
    ),
]
Trees = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of trees: for adaptive, of each group (default 5 for classes, 3 for numbers); "
        "for amf, of the forest (default 10).",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Threads = Annotated[
    int,
    typer.Option(help="Number of threads; -1 uses all cores.", callback=_validate_threads),
]

# Predictions

Coverage = Annotated[
    float | None,
    typer.Option(
        help="Part of the labels that intervals are to hold, such as 0.9, which is the default. "
        "Only for adaptive in regression.",
        show_default=False,
        callback=_validate_coverage,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(help="Do not learn from this column, but write it beside each prediction."),
]
Proba = Annotated[
    str | None,
    typer.Option(
        help="best or all: of which classes to write the probability, each in a column. NDJSON has "
        "all of them anyway. Default: best.",
        show_default=False,
        callback=one_of("best", "all"),
    ),
]

# The console

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Do not show progress, only the result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
