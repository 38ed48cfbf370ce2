"""``amforest run``: learn a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from amforest.cli.console import print_errors
from amforest.cli.options import (
    FAMILIES,
    TASKS,
    Coverage,
    Debug,
    Decimal,
    Delimiter,
    Drop,
    Encoding,
    Format,
    IdColumn,
    Json,
    Proba,
    Quiet,
    Source,
    Target,
    Threads,
    Trees,
    Types,
    Use,
)


def run(
    source: Source = None,
    *,
    target: Target = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="classification or regression. Default: inferred from the target.", callback=TASKS
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="adaptive, which follows drift and needs no scaling, or amf, the paper's forest. "
            "Default: adaptive.",
            callback=FAMILIES,
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
    threads: Threads = 1,
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
    with print_errors(console, debug=debug):
        from amforest.cli import run as command  # noqa: PLC0415  # imports take a second
        from amforest.cli.outcome_summary import show_outcome  # noqa: PLC0415
        from amforest.cli.outputs import check_outputs  # noqa: PLC0415
        from amforest.cli.settings import Settings  # noqa: PLC0415

        settings = Settings(
            source=tuple(source or ()),
            target=target,
            task=task,
            model=model,
            trees=trees,
            step=step,
            seed=seed,
            threads=threads,
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
            coverage=coverage,
            max_nodes=max_nodes,
            warm_start=warm_start,
            save=save,
            checkpoint=checkpoint,
            every=every,
            predictions=predictions,
            all_classes=proba == "all",
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
        show_outcome(outcome, console, report=report, as_json=as_json)
    raise typer.Exit(outcome.status)
