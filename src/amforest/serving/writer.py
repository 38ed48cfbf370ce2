"""The one thread that learns: a bounded queue, the journal, the model, checkpoints."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

from amforest.reading import Scheme
from amforest.serving.bodies import Given
from amforest.serving.first_rows import NewModel
from amforest.serving.limits import Limits
from amforest.serving.measurements import Measurements
from amforest.serving.model_store import Entry, ModelStore
from amforest.serving.problems import Problem
from amforest.serving.served_model import ServedModel

GROUP_ROWS = 10_000  # that are written to the journal in one sync
RATE_WEIGHT = 0.2  # of the last job in the mean of rows per second

logger = logging.getLogger("amforest.serving")


@dataclass(eq=False)
class Job:
    """Rows to learn.

    Attributes
    ----------
    n_rows : int
    given : Given or None
        Rows that are not converted, because the model did not exist yet.
    entry : tuple of table and labels, or None
        Rows that are converted.
    n_bytes : int
        The memory that they take, about.
    recorded : Future
        Done as soon as the rows will survive: in the journal if there is one, else learned.
    learned : Future
        Done, with the number of rows that the model has learned then.
    """

    n_rows: int
    given: Given | None = None
    entry: Entry | None = None
    n_bytes: int = 0
    recorded: Future[None] = field(default_factory=Future)
    learned: Future[int] = field(default_factory=Future)

    def fail(self, error: BaseException) -> None:
        """Pass an error on to whoever waits."""
        for future in (self.recorded, self.learned):
            if not future.done():
                future.set_exception(error)


class Writer:
    """A thread that learns what is put into its queue, in that order.

    Parameters
    ----------
    store : ModelStore
    new_model : NewModel
        Builds the model from the first rows if there is none.
    limits : Limits
    measurements : Measurements

    Attributes
    ----------
    served : ServedModel or None
        The model, once there is one.
    notes : list of str
        What was noticed when the model was built from its first rows.
    """

    def __init__(
        self,
        store: ModelStore,
        new_model: NewModel,
        limits: Limits,
        measurements: Measurements,
    ) -> None:
        self.served: ServedModel | None = None
        self.notes: list[str] = []
        self._store, self._new_model = store, new_model
        self._limits, self.measurements = limits, measurements
        self._jobs: deque[Job] = deque()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._changed = Condition()
        self.n_waiting = self._n_bytes = 0  # rows in the queue, and their bytes
        self._rate = 0.0  # rows per second
        self._is_closing = False
        self._thread = Thread(target=self._run, name="amforest-writer", daemon=True)

    # Called by other threads

    def start(self, model: Any = None, state: dict[str, Any] | None = None) -> None:
        """Take the model, replay the journal, and start to learn; errors are raised here."""
        opened: Future[None] = Future()
        self._start_with = model, state or {}, opened
        self._thread.start()
        opened.result()

    @property
    def is_alive(self) -> bool:
        """Whether the thread learns what comes."""
        return self._thread.is_alive() and not self._is_closing

    @property
    def target(self) -> str:
        """The column of the labels."""
        served = self.served
        return self._new_model.target if served is None else served.scheme.target

    @property
    def is_durable(self) -> bool:
        """Whether rows are on the disk before they are acknowledged."""
        return self._store.durable

    def to_bytes(self) -> bytes:
        """Return the model file; to be called by the thread, with `call`."""
        if self.served is None:
            raise Problem(409, "there is no model yet: send rows to /learn first")
        return self.served.to_bytes(self._store.sequence)

    def put(self, job: Job) -> None:
        """Add a job; `Problem` 429 if the queue is full."""
        with self._changed:
            if not self.is_alive:
                raise Problem(503, "the server is shutting down", headers={"Retry-After": "5"})
            if self._jobs and self._has_no_room(job):
                raise self._full()
            self._jobs.append(job)
            self.n_waiting += job.n_rows
            self._n_bytes += job.n_bytes
            self._changed.notify()

    def call(self, function: Callable[[], Any]) -> Future[Any]:
        """Let the thread call a function between two jobs, before those that wait."""
        future: Future[Any] = Future()
        with self._changed:
            self._calls.append((function, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Learn what waits, save, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _has_no_room(self, job: Job) -> bool:
        return (
            self.n_waiting + job.n_rows > self._limits.queue_rows
            or self._n_bytes + job.n_bytes > self._limits.queue_bytes
        )

    def _full(self) -> Problem:
        seconds = self.n_waiting / self._rate if self._rate else 1.0
        return Problem(
            429,
            f"{self.n_waiting:,} rows wait to be learned; the limit is "
            f"{self._limits.queue_rows:,}, or {self._limits.queue_bytes:,} bytes: send them again "
            "later",
            headers={"Retry-After": str(min(max(math.ceil(seconds / 2), 1), 60))},
        )

    # The thread

    def _run(self) -> None:
        model, state, opened = self._start_with
        try:
            self._store.open()
            if model is not None:
                scheme = Scheme.from_json(state["scheme"])
                self._serve(ServedModel(model, scheme, self._limits), state)
        except BaseException as error:
            self._store.close_files()
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            while self._take_turn():
                pass
        finally:
            self._is_closing = True
            self._store.close()

    def _serve(self, served: ServedModel, state: dict[str, Any] | None) -> None:
        self._store.attach(served, state)
        self.served = served

    def _take_turn(self) -> bool:
        """Wait for jobs, and do them; return False at the end."""
        with self._changed:
            while not (self._jobs or self._calls):
                if self._is_closing:
                    return False
                left = self._store.seconds_left() if self._store.has_unsaved_rows else None
                if left == 0:
                    break
                self._changed.wait(left)
            calls, self._calls = self._calls, deque()
            jobs = self._next_group()
        for function, future in calls:
            _resolve(future, function)
        if jobs:
            self._learn_group(jobs)
        if self._store.is_due():
            self._save()
        return True

    def _next_group(self) -> list[Job]:
        """Take jobs from the queue, whose rows are recorded together."""
        jobs: list[Job] = []
        n_rows = 0
        while self._jobs and (not jobs or n_rows + self._jobs[0].n_rows <= GROUP_ROWS):
            jobs.append(self._jobs.popleft())
            n_rows += jobs[-1].n_rows
        return jobs

    def _learn_group(self, jobs: list[Job]) -> None:
        n_rows, n_bytes = sum(job.n_rows for job in jobs), sum(job.n_bytes for job in jobs)
        ready = self._admit(jobs)
        try:
            self._store.record([entry for job, entry in ready])
        except OSError as error:
            logger.error("the journal cannot be written: %s", error)
            text = f"the rows cannot be written to disk ({error.strerror}), and were not learned"
            for job, _ in ready:
                job.fail(Problem(507, text))
            ready = []
        if self._store.durable:
            for job, _ in ready:
                job.recorded.set_result(None)
        for job, entry in ready:
            self._learn(job, entry)
        with self._changed:
            self.n_waiting -= n_rows
            self._n_bytes -= n_bytes

    def _admit(self, jobs: list[Job]) -> list[tuple[Job, Entry]]:
        """Return the jobs whose rows the model can learn; the others fail."""
        ready = []
        known: set[Any] | None = None
        for job in jobs:
            try:
                entry = job.entry or self._convert(job)
                served = self.served
                assert served is not None
                if served.is_classifier:
                    known = served.known_classes() if known is None else known
                    new = served.new_classes(entry[1], known)
                    if len(known) + len(new) > self._limits.classes:
                        raise Problem(
                            422,
                            f"the labels bring the number of classes to {len(known) + len(new):,}; "
                            f"the limit is {self._limits.classes:,}: raise --most-classes if they "
                            "are classes",
                            field="labels",
                        )
                    known |= new
                ready.append((job, entry))
            except Problem as problem:
                job.fail(problem)
            except OSError as error:  # of the first checkpoint
                logger.error("the model cannot be saved: %s", error)
                text = f"the model cannot be saved ({error.strerror}), and learned nothing"
                job.fail(Problem(507, text))
            except Exception as error:
                logger.exception("rows could not be converted")
                job.fail(error)
        return ready

    def _convert(self, job: Job) -> Entry:
        """Convert rows that came before the model existed; build it from them if need be."""
        assert job.given is not None
        if self.served is None:
            model, scheme, notes = self._new_model.build(job.given, self._limits)
            served = ServedModel(model, scheme, self._limits)
            entry = convert_labelled(served, job.given)
            self.notes += notes
            self._serve(served, None)
        else:
            entry = convert_labelled(self.served, job.given)
        job.n_rows = len(entry[0])
        return entry

    def _learn(self, job: Job, entry: Entry) -> None:
        served = self.served
        assert served is not None
        start = time.perf_counter()
        self._store.sequence += 1
        try:
            served.learn(*entry)
        except Exception as error:  # the model stays as it was; a replay fails alike
            logger.exception("rows could not be learned")
            job.fail(error)
            return
        seconds = time.perf_counter() - start
        self.measurements.learning_seconds.observe(seconds)
        self.measurements.n_learned.inc(job.n_rows)
        rate = job.n_rows / max(seconds, 1e-9)
        self._rate += (rate - self._rate) * (RATE_WEIGHT if self._rate else 1.0)
        if not job.recorded.done():
            job.recorded.set_result(None)
        job.learned.set_result(served.n_samples)

    def _save(self) -> None:
        try:
            self._store.save()
        except OSError as error:
            logger.error("the checkpoint cannot be written: %s", error)
            self._store.postpone()


def convert_labelled(served: ServedModel, given: Given) -> Entry:
    """Convert the rows of a request, and their labels."""
    if given.rows is None:
        table, labels = served.rows.convert_arrow(given.arrow or b"", has_labels=True)
        assert labels is not None
        return table, labels
    table = served.rows.convert_rows(given.rows)
    if given.labels is not None:
        return table, served.rows.convert_labels(given.labels)
    target = served.scheme.target
    if not any(target in row for row in given.rows):
        raise Problem(
            422,
            f"there are neither labels nor a column {target!r} in the rows: give one of them",
            field="labels",
        )
    values = [row.get(target) for row in given.rows]
    return table, served.rows.convert_labels(values, "rows[{}]." + target)


def _resolve(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
