"""The command ``amforest``: its commands are in `amforest.cli.commands`."""

from __future__ import annotations

from typing import Annotated

import typer

import amforest
from amforest.cli.commands.compare_command import compare
from amforest.cli.commands.consume_command import consume
from amforest.cli.commands.explain_command import explain
from amforest.cli.commands.inspect_command import inspect
from amforest.cli.commands.playground_command import playground
from amforest.cli.commands.predict_command import predict
from amforest.cli.commands.run_command import run
from amforest.cli.commands.serve_command import serve
from amforest.cli.options import EPILOG

app = typer.Typer(
    name="amforest",
    help="Learn from data streams with Mondrian forests.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"amforest {amforest.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Learn from data streams with Mondrian forests."""


# In the order in which the help lists them.
app.command(epilog=EPILOG)(run)
app.command()(predict)
app.command()(explain)
app.command()(serve)
app.command(epilog=EPILOG)(consume)
app.command()(playground)
app.command()(inspect)
app.command()(compare)
