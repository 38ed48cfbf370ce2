"""``amforest playground``: a page to try the method."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors
from amforest.cli.options import (
    Debug,
)


def playground(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")
    ] = 8001,
    *,
    debug: Debug = False,
) -> None:
    """Show in the browser how forests learn: click points into the plane, and change the concept.

    The first line on standard output is: Serving on http://127.0.0.1:PORT. Ctrl-C ends it.
    """
    with print_errors(Console(stderr=True), debug=debug):
        from amforest.cli import playground as command  # noqa: PLC0415  # imports take a second

        command.playground(port)
