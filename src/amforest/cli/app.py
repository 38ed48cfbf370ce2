"""The commands and their options: parses, calls, prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import amforest
from amforest.cli.errors import one_line

EPILOG = (
    "Exit status: 0 done, 1 error, 2 wrong options, 130 ended by Ctrl-C and 143 by SIGTERM, with "
    "everything learnt saved."
)

app = typer.Typer(
    name="amforest",
    help="Learn from streams with Aggregated Mondrian Forests.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Names = list[str] | None
Source = Annotated[
    Names,
    typer.Argument(
        metavar="[SOURCE]...",
        help="CSV, TSV, NDJSON, Parquet or Arrow files, folders, globs, or - for standard input.",
        show_default=False,
    ),
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="The column to forecast.")]
Use = Annotated[Names, typer.Option("--use", help="Learn from this column only; may be repeated.")]
Leave = Annotated[Names, typer.Option("--leave", help="Leave out this column; may be repeated.")]
Types = Annotated[
    str | None, typer.Option(help="Types of columns: age=number,zip=category,when=date.")
]
Format = Annotated[
    str | None, typer.Option(help="csv, tsv, ndjson, parquet or arrow; else by the name.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"amforest {amforest.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn from streams with Aggregated Mondrian Forests."""


@app.command(epilog=EPILOG)
def run(
    source: Source = None,
    *,
    target: Target = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression; else found from the target.")
    ] = None,
    trees: Annotated[int, typer.Option(min=1, help="How many trees.")] = 10,
    step: Annotated[
        float | None,
        typer.Option(help="Learning rate of the weights; else 1, or 1 / (4 label variance)."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same number gives the same forest.")] = 0,
    threads: Annotated[int, typer.Option(help="How many threads; -1 means all cores.")] = 1,
    use: Use = None,
    leave: Leave = None,
    types: Types = None,
    format: Format = None,  # noqa: A002
    scale: Annotated[bool, typer.Option(help="Bring numbers to comparable scales.")] = True,
    delay: Annotated[int, typer.Option(min=0, help="A label comes so many rows later.")] = 0,
    max_nodes: Annotated[int | None, typer.Option(min=1, help="Bound on the forest.")] = None,
    warm_start: Annotated[str | None, typer.Option(help="Go on with this model.")] = None,
    save: Annotated[str | None, typer.Option(help="Write the model to this file.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Save to this folder while it runs, and resume from there.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Rows between two checkpoints.")] = 10_000,
    forecasts: Annotated[
        str | None, typer.Option(help="Write forecasts to this file (.csv, .ndjson), or to -.")
    ] = None,
    rejects: Annotated[
        str | None, typer.Option(help="Write rows that cannot be read to this file.")
    ] = None,
    report: Annotated[str | None, typer.Option(help="Write a report to this folder.")] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first row that is refused.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a stream online: forecast every row, then learn it.

    Without SOURCE, an embedded stream is learnt.

    [bold]Examples[/bold]

      amforest run sales.csv --target bought --save model.amf --report report

      amforest run 'day-*.parquet' -t price --forecasts forecasts.csv --checkpoint saved

      tail -f events.ndjson | amforest run - --format ndjson -t alarm --forecasts -
    """
    console = Console(stderr=True)
    with one_line(lambda text: _complain(console, text), debug=debug):
        from amforest.cli import run as running  # noqa: PLC0415  # imports take a second
        from amforest.cli.summary import show  # noqa: PLC0415

        settings = running.Settings(
            source=tuple(source or ()),
            target=target,
            task=_task(task),
            trees=trees,
            step=step,
            seed=seed,
            threads=threads,
            use=tuple(use or ()),
            leave=tuple(leave or ()),
            types=types,
            format=format,
            scale=scale,
            delay=delay,
            max_nodes=max_nodes,
            warm_start=warm_start,
            save=save,
            checkpoint=checkpoint,
            every=every,
            forecasts=forecasts,
            rejects=rejects,
            strict=strict,
            quiet=quiet,
        )
        if report is not None:
            from amforest.cli.report import prepare_report, write_report  # noqa: PLC0415

            prepare_report(Path(report))  # what stands in its way is said before the run
        outcome = running.run(settings, console)
        if report is not None:
            write_report(outcome, Path(report))
        show(outcome, console, report=report, as_json=as_json)
    raise typer.Exit(outcome.status)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="A model that `amforest run --save` has written.")],
    source: Annotated[list[str], typer.Argument(help="Files, folders, globs, or -.")],
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where to: a .csv or .ndjson file, or -.")
    ] = "-",
    format: Format = None,  # noqa: A002
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Forecast the rows of a stream with a saved model; nothing is learnt.

    [bold]Example[/bold]

      amforest predict model.amf new.csv --output forecasts.csv
    """
    console = Console(stderr=True)
    with one_line(lambda text: _complain(console, text), debug=debug):
        from amforest.cli import predict as predicting  # noqa: PLC0415

        predicting.predict(model, source, output, form=format, console=console, quiet=quiet)


@app.command()
def inspect(
    model: Annotated[str, typer.Argument(help="A model file.")],
    *,
    tree: Annotated[int | None, typer.Option(help="Draw this tree.")] = None,
    depth: Annotated[int, typer.Option(min=0, help="How deep to draw it.")] = 4,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Draw the tree to this picture.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a model file holds: parameters, classes, features and how they split.

    [bold]Examples[/bold]

      amforest inspect model.amf

      amforest inspect model.amf --tree 0 --output tree.png
    """
    console = Console()
    with one_line(lambda text: _complain(Console(stderr=True), text), debug=debug):
        from amforest.cli import inspecting  # noqa: PLC0415

        forest, extra = inspecting.load_forest(model)
        if tree is not None:
            drawn = inspecting.tree_of(forest, tree, depth)
            if output is None:
                console.print(drawn)
            else:
                inspecting.draw(forest, tree, depth, output)
        elif as_json:
            print_json(inspecting.description(forest, extra))
        else:
            inspecting.show(inspecting.description(forest, extra), console)


@app.command()
def compare(
    source: Source = None,
    *,
    target: Target = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Take so many rows only.")] = None,
    trees: Annotated[int, typer.Option(min=1, help="How many trees.")] = 10,
    use: Use = None,
    leave: Leave = None,
    types: Types = None,
    format: Format = None,  # noqa: A002
    plot: Annotated[str | None, typer.Option(help="Draw the curves to this picture.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare the forest with simple models, and river's, on the same rows.

    [bold]Example[/bold]

      amforest compare sales.csv --target bought --rows 5000 --plot compared.png
    """
    console = Console(stderr=True)
    with one_line(lambda text: _complain(console, text), debug=debug):
        from amforest.cli import comparing  # noqa: PLC0415
        from amforest.cli.run import Settings  # noqa: PLC0415

        settings = Settings(
            source=tuple(source or ()),
            target=target,
            trees=trees,
            use=tuple(use or ()),
            leave=tuple(leave or ()),
            types=types,
            format=format,
        )
        results = comparing.compare(settings, console, max_rows=rows)
        if plot is not None:
            comparing.draw(results, plot)
        if as_json:
            print_json({name: result.metrics for name, result in results.items()})
        else:
            comparing.show(results, Console())


def _task(name: str | None) -> str | None:
    if name not in (None, "classification", "regression"):
        raise typer.BadParameter(
            f"{name!r} is neither classification nor regression", param_hint="--task"
        )
    return name


def _complain(console: Console, text: str) -> None:
    console.print(
        f"[bold red]amforest:[/bold red] {_escaped(text)}", highlight=False, soft_wrap=True
    )


def _escaped(text: str) -> str:
    from rich.markup import escape  # noqa: PLC0415

    return escape(text)


def print_json(values: Any) -> None:
    """Print values of JSON to standard output."""
    typer.echo(json.dumps(values, indent=2, ensure_ascii=False))
