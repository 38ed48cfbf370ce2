"""``amforest run``: predict every row of a stream, then learn it, and save what is learned."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from amforest import Checkpoint
from amforest.cli.block_size import BlockSize
from amforest.cli.console import Notes, Status, choose_view
from amforest.cli.keyed_checkpoint import KeyedCheckpoint
from amforest.cli.memory_history import MemoryRecorder
from amforest.cli.model_choice import build_model, choose_coverage, choose_kinds, read_first
from amforest.cli.prediction_rows import PredictionRows, ids_of
from amforest.cli.reject_summary import RejectSummary
from amforest.cli.report_records import ReportRecords
from amforest.cli.row_file import RowFile, RowWriter
from amforest.cli.settings import Settings, open_source
from amforest.evaluation import Block, Evaluator, Loop, Progress
from amforest.evaluation.adapters import Prediction, adapt
from amforest.evaluation.blocks import as_list
from amforest.model_io import model_file
from amforest.model_io.interrupts import Interrupts
from amforest.reading import CLASSIFICATION, Batch, Reject, Scheme

SECONDS_BETWEEN_STATS = 2.0
KEPT = 10  # of the slowest rows
ROWS_IN_REPORT = 10_000  # the last rows, whose predictions are kept
NUMBER_METRICS = ("rmse", "mae", "r2")
INTERVAL_METRICS = ("coverage", "interval_width")
REJECT_COLUMNS = ("file", "line", "reason", "text")


@dataclass(frozen=True)
class LabelledPredictions:
    """Labels, and their predictions: numbers, or probabilities of classes."""

    labels: NDArray[Any]
    values: NDArray[Any]
    classes: NDArray[Any] | None
    intervals: NDArray[np.float64] | None = None  # lower and upper ends, for numbers


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    settings: Settings
    session: Session
    progress: Progress
    status: int  # to exit with
    notes: list[str] = field(default_factory=list)  # on the stream


class Session:
    """A model in its stream: the test-then-train loop, its files and its records.

    Parameters
    ----------
    model : AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier or AMFRegressor
    scheme : Scheme
    delay : int, default=0
        The number of rows after which a label is due.
    coverage : float or None, default=None
        The part of the labels that intervals are to hold; None means no intervals.
    predictions, rejects : RowWriter or None
    prediction_rows : PredictionRows or None
        What is written to `predictions`.
    for_report : bool, default=False
        Whether to record what a report shows.
    """

    def __init__(
        self,
        model: Any,
        scheme: Scheme,
        *,
        delay: int = 0,
        coverage: float | None = None,
        predictions: RowWriter | None = None,
        rejects: RowWriter | None = None,
        prediction_rows: PredictionRows | None = None,
        for_report: bool = False,
    ) -> None:
        self.model, self.scheme, self.coverage = model, scheme, coverage
        self.predictions, self.rejects = predictions, rejects
        self.n_rows = 0  # predicted, in this run and those it resumes
        self.n_resumed = 0  # of them, in the runs before
        self.n_rejected = 0
        self.reject_summary = RejectSummary()
        self.bytes_read = 0  # of the stream, up to the last row that was learned
        self.started = time.monotonic()
        self.slowest: list[tuple[float, int]] = []  # seconds per row, number of the row
        self.records = ReportRecords(scheme) if for_report else None
        self._prediction_rows = prediction_rows or PredictionRows(scheme, coverage)
        self._ids: deque[str | None] = deque()  # of rows that are not predicted yet
        self.evaluator = Evaluator(
            scheme.task, _choose_metrics(scheme.task, coverage), unknown_classes="skip"
        )
        self._adapter = adapt(model, scheme.task, by_row=delay > 0, coverage=coverage)
        self.memories: MemoryRecorder | None = None
        if for_report and scheme.key is None and model.is_adaptive:
            self._adapter = self.memories = MemoryRecorder(self._adapter)
        self.loop = Loop(
            self._adapter,
            self.evaluator,
            delay=delay,
            on_predictions=self._record,
            on_block=self._end_block,
        )
        self._block_size = BlockSize()
        self._after_block: Callable[[], None] | None = None
        self._recent: deque[LabelledPredictions] = deque()
        self._n_recent = 0
        self._size: dict[str, int] = {}
        self._stats_at = 0.0

    def run(
        self, batches: Iterable[Batch], interrupts: Interrupts, after_block: Callable[[], None]
    ) -> Progress:
        """Predict and learn all rows; call `after_block` after each block of them."""
        self._after_block = after_block
        return self.loop.run(self._blocks(batches, interrupts), interrupts)

    def _blocks(self, batches: Iterable[Batch], interrupts: Interrupts) -> Iterator[Block]:
        for batch in interrupts.until(batches):
            for piece in self._pieces(batch):
                if interrupts.received:
                    return
                self._reject(piece.rejects)
                self.bytes_read = piece.bytes_read
                if len(piece):
                    start = time.perf_counter()
                    table = self.scheme.features(piece.X, piece.file)
                    labels = self.scheme.labels(piece.y)
                    if (id_column := self._prediction_rows.id_column) is not None:
                        self._ids.extend(ids_of(piece, id_column))
                    if self.records is not None:
                        self.records.begin(piece, self.n_rows + 1, table, labels)
                    yield Block(self._adapter.convert_block(table), labels)
                    self._block_size.update(len(piece), time.perf_counter() - start)

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        """Cut a batch into pieces, each of the size that is right by then."""
        start = 0
        while (end := start + self._block_size.n_rows) < len(batch):
            yield batch.slice(start, end)
            start = end
        yield batch.slice(start)

    def _end_block(self, n_rows: int, seconds: float) -> None:
        _keep_largest(self.slowest, (seconds / n_rows, self.n_rows))
        if self._after_block is not None:
            self._after_block()

    def _reject(self, rejects: tuple[Reject, ...]) -> None:
        self.n_rejected += len(rejects)
        self.reject_summary.add(rejects)
        if self.rejects is not None and rejects:
            self.rejects.write((r.file, r.line, r.reason, r.text) for r in rejects)

    # Predictions

    def _record(self, block: Block, prediction: Prediction | None) -> None:
        """Write predictions, and keep the last of them."""
        start, labels = self.n_rows + 1, block.y
        self.n_rows += len(labels)
        if prediction is not None:
            if self.records is not None:
                self.records.record(start, labels, prediction)
            self._keep_recent(LabelledPredictions(labels, *prediction))
        ids = [self._ids.popleft() for _ in labels] if self._ids else None
        if self.predictions is not None:
            values = self._prediction_rows.values
            self.predictions.write(values(start, len(labels), prediction, labels=labels, ids=ids))

    def _keep_recent(self, latest: LabelledPredictions) -> None:
        self._recent.append(latest)
        self._n_recent += len(latest.labels)
        while self._n_recent - len(self._recent[0].labels) >= ROWS_IN_REPORT:
            self._n_recent -= len(self._recent.popleft().labels)

    def recent(self) -> LabelledPredictions:
        """Return the last rows that were predicted, with a column for each class."""
        classes = getattr(self.model, "classes_", None)
        if not self._recent:
            shape = (0,) if classes is None else (0, len(classes))
            return LabelledPredictions(np.empty(0), np.empty(shape), classes)
        labels = np.concatenate([part.labels for part in self._recent])[-ROWS_IN_REPORT:]
        parts = [part.values for part in self._recent]
        if classes is not None:
            parts = [_widen(part, classes) for part in self._recent]
        values = np.concatenate(parts)[-ROWS_IN_REPORT:]
        ends = [part.intervals for part in self._recent if part.intervals is not None]
        intervals = np.concatenate(ends)[-ROWS_IN_REPORT:] if ends else None
        return LabelledPredictions(labels, values, classes, intervals)

    # Checkpoints

    def to_json(self) -> dict[str, Any]:
        """Return the state that a run needs to resume, beside the model, in values of JSON."""
        files = (self.predictions, self.rejects)
        return {
            "scheme": self.scheme.to_json(),
            "counts": [self.n_rows, self.n_rows, self.n_rejected],  # of predicted and read rows
            "reject_reasons": self.reject_summary.to_json(),
            "sizes": [0 if file is None else file.size for file in files],
            "class_columns": self._prediction_rows.classes,
            "waiting": [
                [list(row), label]
                for block in self.loop.pending
                for row, label in zip(_rows_of(block.X), as_list(block.y), strict=True)
            ],
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Continue a run from the state of a checkpoint."""
        self.n_rows, _, self.n_rejected = state["counts"]
        self.n_resumed = self.n_rows
        self.reject_summary.restore(state.get("reject_reasons", []))  # absent in older checkpoints
        if waiting := state["waiting"]:
            table = pa.concat_tables(self.scheme.row_table(row) for row, _ in waiting)
            for k in range(len(self.scheme.numbers), table.num_columns):  # as in a stream
                table = table.set_column(
                    k, table.field(k).name, table.column(k).dictionary_encode()
                )
            self.loop.restore_pending([Block(table, self.scheme.labels([y for _, y in waiting]))])

    def sync(self) -> None:
        """Write the files to disk."""
        for file in (self.predictions, self.rejects):
            if file is not None:
                file.sync()

    def status(self, bytes_read: int, bytes_total: int | None, *, final: bool = False) -> Status:
        """Return the status; the size of the forest is computed at intervals only."""
        self.loop.flush()
        now = time.monotonic()
        if final or now - self._stats_at >= SECONDS_BETWEEN_STATS:
            self._size, self._stats_at = size_of(self.model), now
        return Status(
            rows=self.n_rows,
            rows_per_second=(self.n_rows - self.n_resumed) / max(now - self.started, 1e-9),
            bytes_read=bytes_read,
            bytes_total=bytes_total,
            rejected=self.n_rejected,
            overall=self._named(self.evaluator.metrics),
            recent=self._named(self.evaluator.window),
            window=self.evaluator.window_size,
            unknown_classes=self.evaluator.n_unknown_classes,
            **self._size,
        )

    def _named(self, metrics: dict[str, float]) -> dict[str, float]:
        """Return metrics by names that tell the coverage that is requested."""
        if self.coverage is None:
            return metrics
        names = {"coverage": f"coverage ({percent(self.coverage)})"}
        return {names.get(k, k.replace("_", " ")): value for k, value in metrics.items()}


def _rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def size_of(model: Any) -> dict[str, int]:
    """Return the size of a model: its nodes, or how many keys have a model of their own."""
    stats = model.stats()
    if "keys" in stats:
        return {"keys": stats["keys"], "bytes": stats["bytes_in_memory"]}
    return {name: stats[name] for name in ("nodes", "depth", "bytes")}


def percent(fraction: float) -> str:
    """Return a fraction as text, such as 90 %."""
    return f"{100 * fraction:.4g} %"


def _choose_metrics(task: str, coverage: float | None) -> tuple[str, ...] | None:
    """Return the metrics of numbers, in their unit, and of intervals; None: those of classes."""
    if task == CLASSIFICATION:
        return None
    return NUMBER_METRICS if coverage is None else NUMBER_METRICS + INTERVAL_METRICS


def _widen(part: LabelledPredictions, classes: NDArray[Any]) -> NDArray[Any]:
    is_known = np.isin(classes, [] if part.classes is None else part.classes)
    wide = np.zeros((len(part.labels), len(classes)))
    wide[:, is_known] = part.values
    return wide


def _keep_largest(kept: list[Any], entry: tuple[Any, ...]) -> None:
    kept.append(entry)
    kept.sort(reverse=True)
    del kept[KEPT:]


# The command


def run(settings: Settings, console: Console, *, for_report: bool = False) -> Outcome:
    """Run the command, and write the model, the predictions and the rejected rows.

    With `for_report` the outcome has all that a report shows.
    """
    with ExitStack() as stack:
        stream = stack.enter_context(open_source(settings))
        batches = iter(stream)
        first = read_first(settings, batches)
        kinds, dropped = choose_kinds(settings, stream)
        notes = Notes(console)
        notes.show(stream.notes + (dropped if settings.warm_start is None else []))
        model, state = build_model(settings, first, kinds)
        state["class_columns"] = _class_columns(settings, model, first, state)
        checkpoint: Checkpoint[Any] | KeyedCheckpoint | None = None
        if settings.checkpoint is not None:
            if settings.key is None:
                checkpoint = Checkpoint(model, settings.checkpoint, every=settings.every)
            else:
                checkpoint = KeyedCheckpoint(model, settings.checkpoint, every=settings.every)
            stack.enter_context(checkpoint)
            if checkpoint.resumed_from is not None:
                model, state = checkpoint.model, checkpoint.extra
                console.print(f"Resuming from {checkpoint.resumed_from}", highlight=False)
                stream.close()
                stream = stack.enter_context(open_source(settings, state["scheme"]["kinds"]))
                stream.skip(state["counts"][1])
                first, batches = [], iter(stream)
        session = _build_session(
            settings, stack, model, state, is_resumed=not first, for_report=for_report
        )
        interrupts = stack.enter_context(Interrupts())
        title = f"Learning {settings.source_names(1, with_folders=False)}"
        view = stack.enter_context(
            choose_view(console, title, quiet=settings.quiet, shows_result=not settings.as_json)
        )

        def after_block() -> None:
            if checkpoint is not None:
                _step(checkpoint, session)
            view.show(session.status(session.bytes_read, stream.bytes_total))

        progress = session.run(chain(first, batches), interrupts, after_block)
        if checkpoint is not None:
            checkpoint.extra = session.to_json()
        view.show(session.status(session.bytes_read, stream.bytes_total, final=True))
    notes.show(stream.notes)
    session.reject_summary.show(console)
    if settings.save is not None:
        _save(session, settings.save)
    return Outcome(settings, session, progress, interrupts.exit_status, notes.shown)


def _class_columns(
    settings: Settings, model: Any, first: list[Batch], state: dict[str, Any]
) -> list[Any] | None:
    """Return the classes with a column of probabilities: known ones, and those of first rows."""
    scheme = Scheme.from_json(state["scheme"])
    if not settings.all_classes or scheme.task != CLASSIFICATION:
        return None
    seen = {label for batch in first if len(batch) for label in scheme.labels(batch.y).tolist()}
    return sorted(seen | set(as_list(getattr(model, "classes_", ()))))


def _build_session(
    settings: Settings,
    stack: ExitStack,
    model: Any,
    state: dict[str, Any],
    *,
    is_resumed: bool,
    for_report: bool,
) -> Session:
    scheme = Scheme.from_json(state["scheme"])
    coverage = choose_coverage(model, settings.coverage)
    sizes = state["sizes"] if is_resumed else [0, 0]
    rows = PredictionRows(scheme, coverage, settings.id_column, state.get("class_columns"))
    predictions: RowWriter | None = None
    if settings.predictions is not None:
        predictions = rows.open(settings.predictions, size=sizes[0])
        stack.callback(predictions.close)
    rejects: RowWriter | None = None
    if settings.rejects is not None:
        rejects = RowFile(settings.rejects, REJECT_COLUMNS, size=sizes[1])
        stack.callback(rejects.close)
    session = Session(
        model,
        scheme,
        delay=settings.delay,
        coverage=coverage,
        predictions=predictions,
        rejects=rejects,
        prediction_rows=rows,
        for_report=for_report,
    )
    if is_resumed:
        session.resume(state)
    return session


def _save(session: Session, path: str) -> None:
    """Save the model to a file, or the models of keys to a folder."""
    if session.scheme.key is None:
        model_file.save(session.model, path, extra=session.to_json())
    else:
        session.model.save(path, extra=session.to_json())


def _step(checkpoint: Checkpoint[Any] | KeyedCheckpoint, session: Session) -> None:
    if checkpoint.is_due:
        session.sync()
        checkpoint.extra = session.to_json()
    checkpoint.step()
