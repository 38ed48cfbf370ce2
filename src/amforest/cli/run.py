"""``amforest run``: predict every row of a stream, then learn it, and save what is learned."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from rich.console import Console

from amforest import Checkpoint
from amforest.cli.block_size import BlockSize
from amforest.cli.console import (
    CommandError,
    Notes,
    Status,
    choose_view,
    describe_drift,
    print_line,
)
from amforest.cli.continued_model import check_checkpoint, check_labels, load_continued
from amforest.cli.keyed_checkpoint import KeyedCheckpoint
from amforest.cli.model_choice import (
    build_model,
    check_rows,
    choose_coverage,
    choose_kinds,
    note_task,
    read_first,
)
from amforest.cli.pending_rows import pending_from_json, pending_to_json
from amforest.cli.prediction_rows import PredictionRows, ids_of
from amforest.cli.recent_predictions import LabelledPredictions, RecentPredictions
from amforest.cli.reject_summary import RejectSummary
from amforest.cli.report_records import ReportRecords
from amforest.cli.row_file import RowFile, RowWriter
from amforest.cli.settings import Settings, open_source
from amforest.evaluation import Block, Drift, DriftWatch, Evaluator, Loop, Progress
from amforest.evaluation.adapters import Prediction, adapt
from amforest.evaluation.blocks import as_list
from amforest.evaluation.loop import Pending
from amforest.model_io import model_file
from amforest.model_io.interrupts import Interrupts
from amforest.reading import CLASSIFICATION, Batch, Reject, Scheme

SECONDS_BETWEEN_STATS = 2.0
KEPT = 10  # of the slowest rows
STATE_VERSION = 1  # of the metrics and records in a checkpoint
NUMBER_METRICS = ("rmse", "mae", "r2")
INTERVAL_METRICS = ("coverage", "interval_width")
REJECT_COLUMNS = ("file", "line", "reason", "text")


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
    on_drift : callable, default=None
        Called with each drift that is detected.
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
        on_drift: Callable[[Drift], object] | None = None,
    ) -> None:
        self.model, self.scheme, self.coverage = model, scheme, coverage
        self.predictions, self.rejects = predictions, rejects
        self.n_rows = 0  # predicted, in this run and those it resumes
        self.n_resumed = 0  # of them, in the runs before
        self.n_unmeasured = 0  # of them, that no metric covers
        self.n_unrecorded = 0  # of them, that the records for a report do not cover
        self.n_rejected = 0
        self.reject_summary = RejectSummary()
        self.bytes_read = 0  # of the stream, up to the last row that was learned
        self.started = time.monotonic()
        self._seconds_before = 0.0  # of the runs that it resumes
        self.slowest: list[tuple[float, int]] = []  # seconds per row, number of the row
        self.records = ReportRecords(scheme) if for_report else None
        self._prediction_rows = prediction_rows or PredictionRows(scheme, coverage)
        self._ids: deque[str | None] = deque()  # of rows that are not predicted yet
        self.evaluator = Evaluator(
            scheme.task, _choose_metrics(scheme.task, coverage), unknown_classes="skip"
        )
        self._adapter = adapt(model, scheme.task, by_row=delay > 0, coverage=coverage)
        self.watch = DriftWatch(model, on_drift)
        self.loop = Loop(
            self._adapter,
            self.evaluator,
            delay=delay,
            on_predictions=self._record,
            on_block=self._end_block,
            watch=self.watch,
        )
        self._block_size = BlockSize()
        self._after_block: Callable[[], None] | None = None
        self._recent = RecentPredictions()
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
                    start = time.perf_counter(), time.process_time()
                    table = self.scheme.features(piece.X, piece.file)
                    labels = self.scheme.labels(piece.y)
                    if (id_column := self._prediction_rows.id_column) is not None:
                        self._ids.extend(ids_of(piece, id_column))
                    if self.records is not None:
                        self.records.begin(piece, self.n_rows + 1, table, labels)
                    yield Block(self._adapter.convert_block(table), labels)
                    # On a busy machine a block takes longer, and is no more work.
                    end = time.perf_counter(), time.process_time()
                    self._block_size.update(len(piece), min(end[0] - start[0], end[1] - start[1]))

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
            self.rejects.write(_reject_values(rejects))

    # Predictions

    def _record(self, block: Block, prediction: Prediction | None) -> None:
        """Write predictions, and keep the last of them."""
        start, labels = self.n_rows + 1, block.y
        self.n_rows += len(labels)
        if prediction is not None:
            if self.records is not None:
                self.records.record(start, labels, prediction)
            self._recent.add(LabelledPredictions(labels, *prediction))
        ids = [self._ids.popleft() for _ in labels] if self._ids else None
        if self.predictions is not None:
            values = self._prediction_rows.values
            self.predictions.write(values(start, len(labels), prediction, labels=labels, ids=ids))

    def recent(self) -> LabelledPredictions:
        """Return the last rows that were predicted, with a column for each class."""
        return self._recent.joined(getattr(self.model, "classes_", None))

    # Checkpoints

    def to_json(self) -> dict[str, Any]:
        """Return what is saved beside the model, in values of JSON."""
        files = (self.predictions, self.rejects)
        return {
            "scheme": self.scheme.to_json(),
            "counts": [self.n_rows, self.n_rows, self.n_rejected],  # of predicted and read rows
            "reject_reasons": self.reject_summary.to_json(),
            "sizes": [0 if file is None else file.size for file in files],
            "class_columns": self._prediction_rows.classes,
            "waiting": [
                [row, label]
                for item in self.loop.pending
                for row, label in zip(
                    self.scheme.rows_of(item.block.X), as_list(item.block.y), strict=True
                )
            ],
        }

    def progress_to_json(self) -> dict[str, Any]:
        """Return metrics and records in values of JSON, with which a later run continues."""
        self.loop.flush()
        return {
            "version": STATE_VERSION,
            "coverage": self.coverage,
            "unmeasured": [self.n_unmeasured, self.n_unrecorded],
            "seconds": [self.seconds, self.loop.seconds],
            "slowest": [[seconds, row] for seconds, row in self.slowest],
            "evaluator": self.evaluator.to_json(),
            "watch": self.watch.to_json(),
            "waiting": [pending_to_json(item) for item in self.loop.pending],
            "records": None if self.records is None else self._records_to_json(self.records),
        }

    def _records_to_json(self, records: ReportRecords) -> dict[str, Any]:
        recent = self._recent.to_json(getattr(self.model, "classes_", None))
        return records.to_json() | {"recent": recent}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue a run from the state of a checkpoint."""
        self.n_rows, _, self.n_rejected = state["counts"]
        self.n_resumed = self.n_rows
        self.reject_summary.restore(state.get("reject_reasons", []))  # absent in older checkpoints
        progress, waiting = state.get("progress"), state["waiting"]
        rows = self.scheme.table_of([row for row, _ in waiting])
        block = Block(rows, self.scheme.labels([label for _, label in waiting]))
        if (
            progress is None  # an older checkpoint
            or progress["version"] != STATE_VERSION
            or progress["coverage"] != self.coverage
        ):
            self.n_unmeasured = self.n_unrecorded = self.n_rows
            self.watch.restart(self.n_rows)
            self.loop.restore([Pending(block, is_measured=False)] if waiting else [])
            return
        try:
            self._resume_progress(progress, block)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise CommandError(
                f"the checkpoint has metrics that cannot be continued ({error!r}): it is damaged, "
                "or was written by another program. Use another folder"
            ) from error

    def _resume_progress(self, progress: dict[str, Any], waiting: Block) -> None:
        self.n_unmeasured, self.n_unrecorded = progress["unmeasured"]
        self._seconds_before, seconds = (float(value) for value in progress["seconds"])
        self.slowest = [(float(each), int(row)) for each, row in progress["slowest"]]
        self.evaluator.restore(progress["evaluator"])
        self.watch.restore(progress["watch"])
        self.loop.restore(pending_from_json(progress["waiting"], waiting), seconds)
        if self.records is None:
            return
        if progress["records"] is None:  # the run before made no report
            self.n_unrecorded = self.n_rows
        else:
            self.records.restore(progress["records"])
            self._recent.restore(progress["records"]["recent"], self.scheme.labels)

    @property
    def seconds(self) -> float:
        """The time of this run, and of those it resumes."""
        return self._seconds_before + time.monotonic() - self.started

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
        """Return metrics by names that contain the requested coverage."""
        if self.coverage is None:
            return metrics
        names = {"coverage": f"coverage ({percent(self.coverage)})"}
        return {names.get(k, k.replace("_", " ")): value for k, value in metrics.items()}


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
        check_checkpoint(settings)
        continued = load_continued(settings)
        own_kinds = None if continued is None else continued[1]["scheme"]["kinds"]
        stream = stack.enter_context(open_source(settings, own_kinds))
        batches = iter(stream)
        notes = Notes(console)
        notes.show(stream.notes)
        first = _read_checked(settings, batches, None if continued is None else continued[0])
        kinds, dropped = choose_kinds(settings, stream)
        notes.show(stream.notes + (dropped if continued is None else []))
        model, state = continued or build_model(settings, first, kinds)
        notes.show(note_task(settings, Scheme.from_json(state["scheme"]), first))
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
                print_line(console, f"Resuming from {checkpoint.resumed_from}")
                stream.close()
                stream = stack.enter_context(open_source(settings, state["scheme"]["kinds"]))
                stream.skip(state["counts"][1])
                first, batches = [], iter(stream)

        def show_drift(drift: Drift) -> None:
            if not settings.quiet:
                print_line(console, describe_drift(drift))

        session = _build_session(
            *(settings, stack, model, state),
            is_resumed=not first,
            for_report=for_report,
            on_drift=show_drift,
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
            checkpoint.extra = _checkpoint_state(session)
        view.show(session.status(session.bytes_read, stream.bytes_total, final=True))
    notes.show(stream.notes)
    session.reject_summary.show(console)
    if settings.save is not None:
        _save(session, settings.save)
    return Outcome(settings, session, progress, interrupts.exit_status, notes.shown)


def _read_checked(settings: Settings, batches: Iterator[Batch], model: Any) -> list[Batch]:
    """Return the first batches; `CommandError` if no row can be learned, by the given model."""
    first = read_first(settings, batches)
    if settings.rejects is not None and not sum(map(len, first)):
        _write_rejects(settings.rejects, first)
    check_rows(first)
    if model is not None:
        check_labels(settings, model, first)
    return first


def _write_rejects(path: str, batches: list[Batch]) -> None:
    """Write the rejected rows of a stream that has no others."""
    with closing(RowFile(path, REJECT_COLUMNS)) as file:
        for batch in batches:
            file.write(_reject_values(batch.rejects))


def _reject_values(rejects: tuple[Reject, ...]) -> Iterator[tuple[Any, ...]]:
    return ((r.file, r.line, r.reason, r.text) for r in rejects)


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
    on_drift: Callable[[Drift], object],
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
        on_drift=on_drift,
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


def _checkpoint_state(session: Session) -> dict[str, Any]:
    return session.to_json() | {"progress": session.progress_to_json()}


def _step(checkpoint: Checkpoint[Any] | KeyedCheckpoint, session: Session) -> None:
    if checkpoint.is_due:
        session.sync()
        checkpoint.extra = _checkpoint_state(session)
    checkpoint.step()
