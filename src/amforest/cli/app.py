"""The commands and their options: parse, call, print."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import amforest
from amforest.cli.console import one_line_errors

if TYPE_CHECKING:
    from amforest.cli.run import Outcome

EPILOG = (
    "Exit status: 0 success, 1 error, 2 invalid options, 130 stopped by Ctrl-C and 143 by SIGTERM "
    "(everything learned is saved)."
)

app = typer.Typer(
    name="amforest",
    help="Learn from data streams with Mondrian forests.",
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
        metavar="SOURCE",
        help="CSV, TSV, NDJSON, Parquet or Arrow files, folders, globs, or - for standard input.",
        show_default=False,
    ),
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="The column to predict.")]
Trees = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of trees: for adaptive, of each group (default 5 for classes, 3 for numbers); "
        "for amf, of the forest (default 10).",
    ),
]
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
Coverage = Annotated[
    float | None,
    typer.Option(
        help="Part of the labels that intervals are to hold, such as 0.9, which is the default. "
        "Only for adaptive in regression.",
        show_default=False,
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
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Do not show progress, only the result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


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


@app.command(epilog=EPILOG)
def run(
    source: Source = None,
    *,
    target: Target = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression. Default: inferred from the target."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="adaptive, which follows drift and needs no scaling, or amf, the paper's forest. "
            "Default: adaptive."
        ),
    ] = None,
    trees: Trees = None,
    step: Annotated[
        float | None,
        typer.Option(
            help="Only for amf: learning rate of the aggregation weights. Default: 1 for "
            "classification, 1 / (4 × label variance) for regression."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed. Default: 0.", show_default=False)
    ] = None,
    threads: Annotated[int, typer.Option(help="Number of threads; -1 uses all cores.")] = 1,
    use: Use = None,
    drop: Drop = None,
    id_column: IdColumn = None,
    key: Annotated[
        str | None,
        typer.Option(help="Learn a separate model for each value of this column."),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum memory of the forest, which continues to learn within it. With --key: of "
            "the models in memory; the others are kept in a folder.",
        ),
    ] = None,
    types: Types = None,
    format: Format = None,  # noqa: A002
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    scale: Annotated[
        bool | None,
        typer.Option(
            "--scale/--no-scale",
            help="Only for amf: standardize numeric columns. Default: yes.",
            show_default=False,
        ),
    ] = None,
    delay: Annotated[
        int, typer.Option(min=0, help="Learn each label only after this many further rows.")
    ] = 0,
    coverage: Coverage = None,
    max_nodes: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of nodes of the forest.")
    ] = None,
    warm_start: Annotated[
        str | None, typer.Option(help="Continue training the model in this file.")
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(help="Save the model to this file; with --key, the models to this folder."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Save checkpoints to this folder, and resume from the newest one."),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Rows between two checkpoints.")] = 10_000,
    predictions: Annotated[
        str | None,
        typer.Option(
            help="Write the predictions to this file (.csv, .tsv, .ndjson, .parquet), or - for "
            "standard output."
        ),
    ] = None,
    proba: Proba = None,
    rejects: Annotated[
        str | None, typer.Option(help="Write rows that cannot be parsed to this file.")
    ] = None,
    report: Annotated[str | None, typer.Option(help="Write an HTML report to this folder.")] = None,
    strict: Annotated[
        bool, typer.Option(help="Stop at the first row that cannot be parsed.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a stream online: predict each row, then learn it.

    Without SOURCE, an embedded example stream is used.

    [bold]Examples[/bold]

      amforest run sales.csv --target bought --save model.amf --report report

      amforest run 'day-*.parquet' -t price --predictions predictions.csv --checkpoint saved

      tail -f events.ndjson | amforest run - --format ndjson -t alarm --predictions -

      amforest run readings.csv -t alarm --key sensor --checkpoint saved
    """
    console = Console(stderr=True)
    with _errors_to(console, debug=debug):
        from amforest.cli import run as command  # noqa: PLC0415  # imports take a second
        from amforest.cli.outputs import check_outputs  # noqa: PLC0415
        from amforest.cli.settings import Settings  # noqa: PLC0415

        settings = Settings(
            source=tuple(source or ()),
            target=target,
            task=_check_choice(task, "--task", "classification", "regression"),
            model=_check_choice(model, "--model", "adaptive", "amf"),
            trees=trees,
            step=step,
            seed=seed,
            threads=_check_threads(threads),
            use=tuple(use or ()),
            drop=tuple(drop or ()),
            key=key,
            id_column=id_column,
            max_bytes=max_bytes,
            types=types,
            format=format,
            delimiter=delimiter,
            decimal=decimal,
            encoding=encoding,
            scale=scale,
            delay=delay,
            coverage=_check_coverage(coverage),
            max_nodes=max_nodes,
            warm_start=warm_start,
            save=save,
            checkpoint=checkpoint,
            every=every,
            predictions=predictions,
            all_classes=_check_choice(proba, "--proba", "best", "all") == "all",
            rejects=rejects,
            strict=strict,
            quiet=quiet,
            as_json=as_json,
        )
        check_outputs(settings, report)
        if report is not None:
            from amforest.cli.report import prepare_report, write_report  # noqa: PLC0415

            prepare_report(Path(report))  # fails before the run, not after it
        outcome = command.run(settings, console, for_report=report is not None)
        if report is not None:
            write_report(outcome, Path(report))
        _show_outcome(outcome, console, report=report, as_json=as_json)
    raise typer.Exit(outcome.status)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="A model file that `amforest run --save` wrote.")],
    source: Annotated[
        list[str], typer.Argument(help="Files, folders, globs, or - for standard input.")
    ],
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
    with _errors_to(console, debug=debug):
        from amforest.cli import predictions  # noqa: PLC0415

        predictions.predict(
            model,
            source,
            output,
            format=format,
            delimiter=delimiter,
            decimal=decimal,
            encoding=encoding,
            coverage=_check_coverage(coverage),
            id_column=id_column,
            all_classes=_check_choice(proba, "--proba", "best", "all") == "all",
            console=console,
            quiet=quiet,
        )


@app.command()
def explain(
    model: Annotated[str, typer.Argument(help="A model file that `amforest run --save` wrote.")],
    source: Annotated[
        list[str], typer.Argument(help="Files, folders, globs, or - for standard input.")
    ],
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
    with _errors_to(console, debug=debug):
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


@app.command()
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
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression. Default: inferred from the first rows."),
    ] = None,
    family: Annotated[
        str | None, typer.Option("--model", help="adaptive or amf. Default: adaptive.")
    ] = None,
    trees: Trees = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    threads: Annotated[int, typer.Option(help="Number of threads; -1 uses all cores.")] = 1,
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
    with _errors_to(Console(stderr=True), debug=debug):
        from amforest.cli import serve as command  # noqa: PLC0415  # imports take a second

        command.serve(
            model=model,
            target=target,
            task=_check_choice(task, "--task", "classification", "regression"),
            family=_check_choice(family, "--model", "adaptive", "amf"),
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


@app.command(epilog=EPILOG)
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
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression. Default: inferred from the first rows."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="adaptive, amf, or a model file to continue with. Default: adaptive."),
    ] = None,
    trees: Trees = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    threads: Annotated[int, typer.Option(help="Number of threads; -1 uses all cores.")] = 1,
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
    with _errors_to(console, debug=debug):
        from amforest.cli import consume as command  # noqa: PLC0415  # imports take a second
        from amforest.cli.settings import Settings  # noqa: PLC0415
        from amforest.serving.brokers.consumer import ConsumerOptions  # noqa: PLC0415

        settings = Settings(
            target=target,
            task=_check_choice(task, "--task", "classification", "regression"),
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


@app.command()
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
    with _errors_to(Console(stderr=True), debug=debug):
        from amforest.cli import playground as command  # noqa: PLC0415  # imports take a second

        command.playground(port)


@app.command()
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
    with _errors_to(Console(stderr=True), debug=debug):
        from amforest.cli import model_summary  # noqa: PLC0415

        forest, extra = model_summary.load_forest(model)
        if tree is not None:
            drawn = model_summary.build_tree(forest, tree, depth, extra)
            if output is None:
                console.print(drawn)
            else:
                model_summary.draw_tree(forest, tree, depth, output, extra)
        elif as_json:
            _print_json(model_summary.describe_model(forest, extra))
        else:
            model_summary.show_model(model_summary.describe_model(forest, extra), console)


@app.command()
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
    with _errors_to(console, debug=debug):
        from amforest.cli import comparison  # noqa: PLC0415
        from amforest.cli.outputs import check_file  # noqa: PLC0415
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
        check_file("--plot", plot)
        compared = comparison.compare(settings, console, max_rows=rows, seconds=seconds)
        if plot is not None:
            comparison.draw_comparison(compared.results, plot)
        if as_json:
            _print_json(
                {
                    name: result.metrics
                    | {"rows": result.n_rows, "stopped": name in compared.stopped}
                    for name, result in compared.results.items()
                }
            )
        else:
            comparison.show_comparison(compared, Console())


def _summarize(outcome: Outcome) -> dict[str, Any]:
    """Return the result of a run in values of JSON."""
    from amforest.cli.run import size_of  # noqa: PLC0415  # imports take a second

    session, progress, settings = outcome.session, outcome.progress, outcome.settings
    return {
        "task": session.scheme.task,
        "rows": session.n_rows,
        "rejected": session.n_rejected,
        "rejected_by_reason": session.reject_summary.to_json(),
        "notes": outcome.notes,
        "interrupted": outcome.status != 0,
        "unknown_class_rows": session.evaluator.n_unknown_classes,
        "metrics": {name: _finite(value) for name, value in progress.metrics.items()},
        "last_rows": {name: _finite(value) for name, value in progress.window.items()},
        "window": progress.window_size,
        "requested_coverage": session.coverage,
        "seconds": round(progress.seconds, 6),
        "samples": session.model.stats()["samples"],
        **size_of(session.model),
        "model": settings.save,
        "predictions": settings.predictions,
        "rejects": settings.rejects,
    }


def _show_outcome(outcome: Outcome, console: Console, *, report: str | None, as_json: bool) -> None:
    """Print the result as JSON to standard output, or the names of the files to the console."""
    settings = outcome.settings
    if as_json:
        _print_json(_summarize(outcome) | {"report": report})
        return
    if outcome.status:
        console.print("Stopped early; everything learned is kept.", highlight=False)
    files = {
        "Model": settings.save,
        "Predictions": None if settings.predictions == "-" else settings.predictions,
        "Rejected rows": settings.rejects,
        "Report": None if report is None else f"{report}/index.html",
    }
    for what, path in files.items():
        if path is not None:
            console.print(f"{what}: {path}", highlight=False, markup=False)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _check_choice(name: str | None, option: str, one: str, other: str) -> str | None:
    if name not in (None, one, other):
        raise typer.BadParameter(f"{name!r} is neither {one} nor {other}", param_hint=option)
    return name


def _check_threads(threads: int) -> int:
    if threads == 0:
        words = "0 threads cannot do anything; give 1 or more, or -1 for all cores"
        raise typer.BadParameter(words, param_hint="--threads")
    return threads


def _check_coverage(coverage: float | None) -> float | None:
    if coverage is not None and not 0 < coverage < 1:
        words = f"{coverage} is not between 0 and 1; for intervals of 90 %, give 0.9"
        raise typer.BadParameter(words, param_hint="--coverage")
    return coverage


def _errors_to(console: Console, *, debug: bool) -> AbstractContextManager[None]:
    """Print errors to the console."""

    def show(text: str) -> None:
        text = f"[bold red]amforest:[/bold red] {escape(text)}"
        console.print(text, highlight=False, soft_wrap=True)

    return one_line_errors(show, debug=debug)


def _print_json(values: Any) -> None:
    typer.echo(json.dumps(values, indent=2, ensure_ascii=False))
