"""``amforest consume``: learn from a broker."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors
from amforest.cli.options import (
    Debug,
    Drop,
    Quiet,
    Seed,
    Target,
    TaskOfRows,
    Threads,
    Trees,
    Types,
    Use,
)


def consume(
    broker: Annotated[
        str,
        typer.Argument(
            envvar="AMFOREST_BROKER",
            help="redis://HOST:PORT or mqtt://HOST:PORT; rediss and mqtts for TLS. A password is "
            "better in the environment variable.",
            show_default=False,
        ),
    ],
    *,
    target: Target = None,
    checkpoint: Annotated[
        str, typer.Option(help="Save checkpoints to this folder, and resume from the newest one.")
    ],
    stream: Annotated[
        str | None, typer.Option(help="Redis: the stream to read.", show_default=False)
    ] = None,
    group: Annotated[str, typer.Option(help="Redis: the consumer group.")] = "amforest",
    json_field: Annotated[
        str | None,
        typer.Option(
            help="Redis: the field of an entry that holds the row as a JSON object. Default: the "
            "fields of an entry are the row."
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(help="MQTT: the filter of topics to read, such as sensors/#."),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of this consumer: in the group, or of the MQTT session.")
    ] = "amforest",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Write predictions to this stream or topic."),
    ] = None,
    rejects: Annotated[
        str | None,
        typer.Option(
            help="Write messages that cannot be used, and why, to this stream or topic. Default: "
            "OUTPUT-rejects in Redis, OUTPUT/rejects in MQTT."
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(
            help="The field that identifies a row: a repeated row is learned once, and a later "
            "message with this field and the label gives the row its label."
        ),
    ] = None,
    pending: Annotated[
        int, typer.Option(min=0, help="With --id-field: most rows that wait for a label.")
    ] = 10_000,
    remember: Annotated[
        int, typer.Option(min=1, help="With --id-field: ids of learned rows to remember.")
    ] = 10_000,
    every: Annotated[int, typer.Option(min=1, help="Messages between two checkpoints.")] = 1_000,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two checkpoints, with new messages.")
    ] = 10.0,
    idle: Annotated[
        float | None,
        typer.Option(min=0, help="Stop after so many seconds without a message. Default: never."),
    ] = None,
    first: Annotated[
        int,
        typer.Option(min=1, help="Labels to wait for before columns are inferred for a new model."),
    ] = 100,
    task: TaskOfRows = None,
    model: Annotated[
        str | None,
        typer.Option(help="adaptive, amf, or a model file to continue with. Default: adaptive."),
    ] = None,
    trees: Trees = None,
    seed: Seed = 0,
    threads: Threads = 1,
    use: Use = None,
    drop: Drop = None,
    types: Types = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn rows of Redis Streams or MQTT, and write predictions back.

    Each row is predicted and, if it has a label, learned exactly once, also after kill -9. SIGTERM
    and Ctrl-C save and acknowledge what was learned.

    [bold]Examples[/bold]

      amforest consume redis://127.0.0.1:6379 --stream rows -t y -o predictions --checkpoint saved

      amforest consume mqtt://127.0.0.1:1883 --topic 'sensors/#' -t y -o predictions
      --checkpoint saved
    """
    console = Console(stderr=True)
    with print_errors(console, debug=debug):
        from amforest.cli import consume as command  # noqa: PLC0415  # imports take a second
        from amforest.cli.settings import Settings  # noqa: PLC0415
        from amforest.serving.brokers.consumer import ConsumerOptions  # noqa: PLC0415

        settings = Settings(
            target=target,
            task=task,
            model=model,
            trees=trees,
            seed=seed,
            threads=threads,
            use=tuple(use or ()),
            drop=tuple(drop or ()),
            types=types,
            quiet=quiet,
        )
        status = command.consume(
            command.Places(
                broker,
                stream=stream,
                group=group,
                topic=topic,
                name=name,
                output=output,
                rejects=rejects,
                json_field=json_field,
            ),
            ConsumerOptions(
                checkpoint,
                every=every,
                seconds=seconds,
                idle=idle,
                threads=threads,
                same={"--target": target, "--id-field": id_field, "--seed": seed}
                | {"--trees": trees, "--task": task, "--types": types}
                | {"--use": list(use or ()), "--drop": list(drop or ())},
            ),
            settings,
            id_field=id_field,
            first=first,
            pending=pending,
            remember=remember,
            console=console,
        )
    raise typer.Exit(status)
