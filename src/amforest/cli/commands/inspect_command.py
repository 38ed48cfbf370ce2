"""``amforest inspect``: what a model file holds."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors, print_json
from amforest.cli.options import (
    Debug,
    Json,
)


def inspect(
    model: Annotated[str, typer.Argument(help="A model file.")],
    *,
    tree: Annotated[int | None, typer.Option(help="Show this tree; the first is 0.")] = None,
    depth: Annotated[int, typer.Option(min=0, help="Depth down to which to show it.")] = 4,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Draw the tree to this image file.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the contents of a model file: parameters, classes, features and trees.

    [bold]Examples[/bold]

      amforest inspect model.amf

      amforest inspect model.amf --tree 0 --output tree.png
    """
    console = Console()
    with print_errors(Console(stderr=True), debug=debug):
        from amforest.cli import model_summary  # noqa: PLC0415
        from amforest.cli.outputs import check_distinct, check_file  # noqa: PLC0415

        check_distinct([model], {"--output": output})
        check_file("--output", output)

        forest, extra = model_summary.load_forest(model)
        if tree is not None:
            drawn = model_summary.build_tree(forest, tree, depth, extra)
            if output is None:
                console.print(drawn)
            else:
                model_summary.draw_tree(forest, tree, depth, output, extra)
        elif as_json:
            print_json(model_summary.describe_model(forest, extra))
        else:
            model_summary.show_model(model_summary.describe_model(forest, extra), console)
