"""``amforest run``: learn a stream online, forecast every row before, and keep what was learnt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from amforest import AMFClassifier, AMFRegressor, Checkpoint
from amforest.cli.demo_stream import TARGET, demo_stream
from amforest.cli.errors import EXIT_INTERRUPTED, CommandError
from amforest.cli.output import RowFile
from amforest.cli.scheme import CLASSIFICATION, Scheme
from amforest.cli.session import FORECAST_COLUMNS, REJECT_COLUMNS, ROWS_AT_ONCE, Session
from amforest.cli.view import view_for
from amforest.evaluation import Evaluator, Progress
from amforest.model_io import atomic_write, model_file
from amforest.model_io.interrupts import Signals
from amforest.reading import Batch, Stream, open_stream, parse_types, split_target

ROWS_FOR_STEP = 100  # that are awaited to find the unit of labels that are numbers


@dataclass(frozen=True)
class Settings:
    """What the options of the command say."""

    source: tuple[str, ...] = ()
    target: str | None = None
    task: str | None = None
    trees: int = 10
    step: float | None = None
    seed: int = 0
    threads: int = 1
    use: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    types: str | None = None
    format: str | None = None
    scale: bool = True
    delay: int = 0
    max_nodes: int | None = None
    warm_start: str | None = None
    save: str | None = None
    checkpoint: str | None = None
    every: int = 10_000
    forecasts: str | None = None
    rejects: str | None = None
    strict: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a run has come to."""

    settings: Settings
    session: Session
    progress: Progress
    status: int  # to exit with


def run(settings: Settings, console: Console) -> Outcome:
    """Run, and leave the model, forecasts and rejected rows as they were asked for."""
    with ExitStack() as stack:
        stream = stack.enter_context(opened(settings))
        batches = iter(stream)
        first = _first(settings, batches)
        model, state = _model(settings, first, stream.schema)
        checkpoint = None
        if settings.checkpoint is not None:
            checkpoint = Checkpoint(model, settings.checkpoint, every=settings.every)
            stack.enter_context(checkpoint)
            if checkpoint.resumed_from is not None:
                model, state = checkpoint.model, checkpoint.extra
                console.print(f"Going on from {checkpoint.resumed_from}", highlight=False)
                stream.close()
                stream = stack.enter_context(opened(settings, state["scheme"]["kinds"]))
                stream.skip(state["counts"][1])  # rows that were read, whether learnt or not
                first, batches = [], iter(stream)
        session = _session(settings, stack, model, state, resumed=not first)
        signals = Signals()
        stack.callback(signals.release)
        view = stack.enter_context(view_for(console, _title(settings), quiet=settings.quiet))
        status = 0
        try:
            for batch in _idly(signals, chain(first, batches)):
                for piece in batch.pieces(ROWS_AT_ONCE):
                    session.take(piece)
                    if checkpoint is not None:
                        _step(checkpoint, session)
                    view.show(session.status(stream.bytes_read, stream.bytes_total))
            session.finish()
        except KeyboardInterrupt:
            status = EXIT_INTERRUPTED
        except SystemExit as left:  # by SIGTERM
            status = int(left.code or 0)
        if checkpoint is not None:
            checkpoint.extra = session.to_json()
        view.show(session.status(stream.bytes_read, stream.bytes_total, final=True))
    if settings.save is not None:
        model_file.save(session.model, settings.save, extra=session.to_json())
    progress = session.evaluator.result(seconds=session.account.seconds, interrupted=status != 0)
    return Outcome(settings, session, progress, status)


def begun(settings: Settings) -> tuple[Any, Scheme]:
    """Return a model for a stream, of which the first rows are looked at."""
    with opened(settings) as stream:
        model, state = _model(settings, _first(settings, iter(stream)), stream.schema)
    return model, Scheme.from_json(dict(state["scheme"]))


def opened(settings: Settings, kinds: dict[str, str] | None = None) -> Stream:
    """Open the source, or else the embedded stream; columns may have to be of some kinds."""
    target = target_of(settings)
    columns = [*settings.use, target] if settings.use else None
    return open_stream(
        _source(settings.source) or demo_stream(),
        format=settings.format if settings.source else "csv",
        types=(kinds or {}) | (parse_types(settings.types) if settings.types else {}),
        columns=list(kinds) if kinds else columns,
        drop=list(settings.leave) or None,
        target=target,
        strict=settings.strict,
    )


def _source(names: tuple[str, ...]) -> Any:
    return "-" if names == ("-",) else list(names)


def target_of(settings: Settings) -> str:
    """Return the column of the labels."""
    if settings.target is None and settings.source:
        raise CommandError("--target is missing: which column is to be forecast?")
    return settings.target or TARGET


def _title(settings: Settings) -> str:
    source = settings.source
    if not source:
        return "Learning a shop's visits"
    name = "standard input" if source[0] == "-" else Path(source[0]).name
    return f"Learning {name}" + (f" and {len(source) - 1} more" if len(source) > 1 else "")


def load_with_state(path: str) -> tuple[Any, dict[str, Any]]:
    """Return a model that `amforest run` has saved, and what belongs to it."""
    data = atomic_write.read_all(path)
    model, state = model_file.from_bytes(data), model_file.extra_of(data)
    if not isinstance(state, dict) or "scheme" not in state:
        Scheme.from_json(None)  # says what is wrong
    return model, state


def _first(settings: Settings, batches: Iterator[Batch]) -> list[Batch]:
    """Return the batches that tell what the stream is about, before anything is learnt."""
    first: list[Batch] = []
    for batch in batches:
        first.append(batch)
        is_word = len(batch) and _labels([batch], settings).dtype.kind == "O"
        if is_word or settings.step is not None or sum(map(len, first)) >= ROWS_FOR_STEP:
            break
    if not sum(map(len, first)):
        raise CommandError("there are no rows with a label")
    return first


def _labels(batches: list[Batch], settings: Settings) -> Any:
    target = target_of(settings)
    return np.concatenate([split_target(batch, target)[1] for batch in batches if len(batch)])


def _model(
    settings: Settings, first: list[Batch], kinds: dict[str, str]
) -> tuple[Any, dict[str, Any]]:
    """Return the model to begin with, and what belongs to it."""
    target = target_of(settings)
    if settings.warm_start is not None:
        model, state = load_with_state(settings.warm_start)
        if state["scheme"]["target"] != target:
            raise CommandError(
                f"--target is {target!r}, but {settings.warm_start} forecasts "
                f"{state['scheme']['target']!r}"
            )
        model.n_jobs = settings.threads
        return model, {"scheme": state["scheme"]}
    rows, y = next(batch for batch in first if len(batch)), _labels(first, settings)
    table = split_target(rows, target)[0].table
    scheme = Scheme.found(table, y, target, kinds, task=settings.task, scaled=settings.scale)
    is_class = scheme.task == CLASSIFICATION
    model = (AMFClassifier if is_class else AMFRegressor)(
        settings.trees,
        step=_step_size(settings, None if is_class else y),
        categorical_features=scheme.categories or None,
        max_nodes=settings.max_nodes,
        n_jobs=settings.threads,
        random_state=settings.seed,
    )
    return model, {"scheme": scheme.to_json()}


def _step_size(settings: Settings, labels: Any) -> float:
    """Return η: 1, or for numbers one that does not depend on their unit.

    Mere noise is forecast by its mean up to 1/4 of the inverse variance; signals want more.
    """
    if settings.step is not None or labels is None:
        return 1.0 if settings.step is None else settings.step
    variance = float(np.var(labels[:ROWS_FOR_STEP]))
    return 1 / (4 * variance) if variance > 0 else 1.0


def _session(
    settings: Settings, stack: ExitStack, model: Any, state: dict[str, Any], *, resumed: bool
) -> Session:
    scheme = Scheme.from_json(dict(state["scheme"]))
    sizes = state["sizes"] if resumed else [0, 0]
    files = []
    for path, columns, size in (
        (settings.forecasts, FORECAST_COLUMNS, sizes[0]),
        (settings.rejects, REJECT_COLUMNS, sizes[1]),
    ):
        file = None
        if path is not None:
            file = RowFile(path, columns, json_only=("probabilities",), size=size)
            stack.callback(file.close)
        files.append(file)
    session = Session(
        model,
        scheme,
        Evaluator(scheme.task),
        delay=settings.delay,
        forecasts=files[0],
        rejects=files[1],
    )
    if resumed:
        session.go_on_from(state)
    return session


def _step(checkpoint: Checkpoint[Any], session: Session) -> None:
    if checkpoint.is_due:
        session.sync()
        checkpoint.extra = session.to_json()
    checkpoint.step()


def _idly(signals: Signals, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches; while they are awaited, a signal ends the run at once."""
    waiting = iter(batches)
    while True:
        with signals.idle():
            batch = next(waiting, None)
        if batch is None:
            return
        yield batch
