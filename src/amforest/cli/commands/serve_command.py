"""``amforest serve``: a server."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors
from amforest.cli.options import (
    FAMILIES,
    Debug,
    Names,
    Seed,
    Target,
    TaskOfRows,
    Threads,
    Trees,
    Types,
)


def serve(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A model file of `amforest run --save`, /snapshot or amforest.save. Default: a "
            "new model, whose columns are inferred from the first rows.",
            show_default=False,
        ),
    ] = None,
    *,
    target: Target = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")
    ] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 is all of this machine.")
    ] = "127.0.0.1",
    task: TaskOfRows = None,
    family: Annotated[
        str | None,
        typer.Option("--model", help="adaptive or amf. Default: adaptive.", callback=FAMILIES),
    ] = None,
    trees: Trees = None,
    seed: Seed = 0,
    threads: Threads = 1,
    types: Types = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="Largest size of the forest in memory.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="AMFOREST_TOKEN",
            help="Require this token, or the one in @FILE. Others can see it on the command line: "
            "prefer the environment variable.",
            show_default=False,
        ),
    ] = None,
    predict_token: Annotated[
        str | None,
        typer.Option(
            envvar="AMFOREST_PREDICT_TOKEN",
            help="A second token, which permits predictions only.",
            show_default=False,
        ),
    ] = None,
    allowed_host: Annotated[
        Names,
        typer.Option(
            "--allowed-host",
            help="A name of this server, such as that of a proxy; can be repeated. On a loopback "
            "address others than localhost are refused.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Save checkpoints to this folder, and continue from the newest one."),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Rows between two checkpoints.")] = 10_000,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two checkpoints, if rows were learned.")
    ] = 60.0,
    durable: Annotated[
        bool,
        typer.Option(
            "--durable",
            help="Acknowledge rows only once they are on the disk: they survive kill -9.",
        ),
    ] = False,
    queue: Annotated[
        int, typer.Option(min=1, help="Most rows that wait to be learned; then the answer is 429.")
    ] = 200_000,
    pending: Annotated[
        int, typer.Option(min=0, help="Most predictions that wait for a label.")
    ] = 100_000,
    pending_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds for which a prediction waits for its label.")
    ] = 86_400.0,
    most_bytes: Annotated[int, typer.Option(min=1, help="Largest body of a request.")] = 32 * 2**20,
    most_rows: Annotated[int, typer.Option(min=1, help="Most rows of a request.")] = 100_000,
    most_columns: Annotated[int, typer.Option(min=1, help="Most columns of a row.")] = 10_000,
    most_classes: Annotated[int, typer.Option(min=1, help="Most classes of the model.")] = 1_000,
    body_seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds in which the body of a request must arrive.")
    ] = 60.0,
    debug: Debug = False,
) -> None:
    """Serve a model over HTTP: it predicts while it learns.

    The first line on standard output is: Serving on http://HOST:PORT. The API is at /docs. SIGTERM
    and Ctrl-C let the server learn what waits, and save.

    [bold]Examples[/bold]

      amforest serve --target bought --checkpoint saved --durable

      amforest serve model.amf --port 8080
    """
    with print_errors(Console(stderr=True), debug=debug):
        from amforest.cli import serve as command  # noqa: PLC0415  # imports take a second

        command.serve(
            model=model,
            target=target,
            task=task,
            family=family,
            types=types,
            parameters={
                "n_estimators": trees,
                "random_state": seed,
                "n_jobs": threads,
                "max_bytes": max_bytes,
            },
            token=token,
            predict_token=predict_token,
            limits={
                "body_bytes": most_bytes,
                "rows": most_rows,
                "columns": most_columns,
                "classes": most_classes,
                "queue_rows": queue,
                "body_seconds": body_seconds,
            },
            host=host,
            port=port,
            allowed_hosts=tuple(allowed_host or ()),
            checkpoint=checkpoint,
            every_rows=every,
            every_seconds=seconds,
            durable=durable,
            threads=threads,
            most_pending=pending,
            pending_seconds=pending_seconds,
        )
