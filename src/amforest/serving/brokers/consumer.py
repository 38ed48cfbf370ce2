"""The loop of a consumer: fetch, predict and learn, publish; now and then save and acknowledge.

A checkpoint holds the model with the position of the last message it has learned. Messages are
acknowledged only once a checkpoint has them, and those up to its position are never learned again:
so each is learned exactly once, whenever the process is killed. Predictions are with the broker
before a checkpoint is written: each is published at least once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from amforest.model_io import Checkpoint, newest_checkpoint
from amforest.model_io.file_lock import lock_file
from amforest.model_io.interrupts import Interrupts
from amforest.reading import Scheme
from amforest.serving.brokers.messages import Broker, BrokerError
from amforest.serving.brokers.row_learner import RowLearner

WAIT = 0.25  # seconds for messages, after which signals are noticed
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0  # seconds until the broker is tried again
KEY = "consumer"  # of what is saved with the model

Given = ParamSpec("Given")
Value = TypeVar("Value")


class _Stopped(Exception):  # noqa: N818
    """A signal came while the broker could not be reached."""


@dataclass(frozen=True)
class ConsumerOptions:
    """When to save, and when to stop.

    Attributes
    ----------
    folder : str
        Of the checkpoints.
    every : int
    seconds : float
        A checkpoint is due after so many messages, and after so many seconds with a new one.
    idle : float or None
        Stop after so many seconds without a message.
    block : int
        How many messages are learned at once, at most.
    threads : int
        Of the model.
    same : dict
        The options that a resumed run must have in common with its checkpoint.
    """

    folder: str
    every: int = 1_000
    seconds: float = 10.0
    idle: float | None = None
    block: int = 1_000
    threads: int = 1
    same: dict[str, Any] = field(default_factory=dict)


class Consumer:
    """Learns the messages of a broker.

    Parameters
    ----------
    broker : Broker
    learner : RowLearner
        It may have a model to start with, if the folder has no checkpoint.
    options : ConsumerOptions
    after_block : callable
        Called at the start, after each block of messages, and while none comes.
    note : callable
        Called with what the user should know.

    Attributes
    ----------
    n_messages : int
        Consumed in this run and those that it continues.
    n_saved : int
        Of them, those that the newest checkpoint has.
    """

    def __init__(
        self,
        broker: Broker,
        learner: RowLearner,
        options: ConsumerOptions,
        *,
        after_block: Callable[[], None] = lambda: None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._broker, self._learner, self._options = broker, learner, options
        self._after_block, self._note = after_block, note
        self.n_messages = self.n_saved = 0
        self._position: Any = None
        self._saved_at = time.monotonic()
        self._checkpoint: Checkpoint[Any] | None = None
        self._interrupts = Interrupts()

    def run(self) -> int:
        """Consume until a signal comes; return the exit status.

        What was learned is saved and acknowledged, unless the broker cannot be reached: then what
        came after the newest checkpoint is learned again by the next run.
        """
        with ExitStack() as stack:
            stack.enter_context(_locked(Path(self._options.folder)))
            stack.callback(self._broker.close)
            stack.enter_context(self._interrupts)
            state = self._resume(stack)
            try:
                self._patiently(self._broker.open, self._position, state)
                self._consume(stack)
                self._save()
            except _Stopped:
                if n_new := self.n_messages - self.n_saved:
                    self._note(
                        f"{n_new:,} messages since the newest checkpoint will be learned again: "
                        f"{self._broker.name} cannot be reached"
                    )
            return self._interrupts.exit_status

    def _consume(self, stack: ExitStack) -> None:
        self._after_block()
        latest = time.monotonic()
        while not self._interrupts.received:
            n_most = min(self._options.block, self._n_until_due())
            messages = self._patiently(self._broker.fetch, n_most, WAIT)
            if messages:
                self._position = messages[-1].position
                self.n_messages += len(messages)
                results = self._learner.process(messages)
                if self._checkpoint is None and self._learner.model is not None:
                    self._save_to_folder(stack, self._learner.model)
                self._patiently(self._broker.publish, results.predictions, results.rejects)
            if self._is_due():
                self._save()
            if messages:
                latest = time.monotonic()  # saving, which may take long, is not idling
            self._after_block()
            idle = self._options.idle
            if idle is not None and time.monotonic() - latest >= idle:
                return

    # Checkpoints

    def _resume(self, stack: ExitStack) -> Any:
        """Load the newest checkpoint; return the state of the broker that it has."""
        newest = newest_checkpoint(self._options.folder)
        if newest is None:
            if self._learner.model is not None:
                self._save_to_folder(stack, self._learner.model)
            return None
        model, extra = newest
        folder = self._options.folder
        if not isinstance(extra, dict) or KEY not in extra:
            raise ValueError(
                f"{folder} holds checkpoints of another command: give --checkpoint another folder"
            )
        model.n_jobs = self._options.threads
        checkpoint = self._save_to_folder(stack, model)
        saved = checkpoint.extra[KEY]
        self._check_same(saved)
        self._learner.attach(checkpoint.model, Scheme.from_json(checkpoint.extra["scheme"]))
        self._learner.restore(saved["learner"])
        self._position, self.n_messages = saved["position"], checkpoint.position
        self.n_saved = self.n_messages
        self._note(f"resuming from {checkpoint.resumed_from}")
        return saved["broker"]

    def _check_same(self, saved: dict[str, Any]) -> None:
        """Refuse to continue with other options than the checkpoint has."""
        now = self._described()
        for name, value in saved["same"].items():
            if now.get(name) != value:
                raise ValueError(
                    f"{name} is {now.get(name)!r}, but {self._options.folder} continues a run in "
                    f"which it was {value!r}: give the same, or --checkpoint another folder"
                )

    def _described(self) -> dict[str, Any]:
        return {**self._broker.source, **self._options.same}

    def _save_to_folder(self, stack: ExitStack, model: Any) -> Checkpoint[Any]:
        """Open the folder of checkpoints, which handles signals: hold them back ourselves."""
        checkpoint = Checkpoint(model, self._options.folder, every=None, at_end=False)
        self._checkpoint = stack.enter_context(checkpoint)
        held, self._interrupts = self._interrupts.first, stack.enter_context(Interrupts())
        if held is not None:
            self._interrupts.hold(held)
        return checkpoint

    def _n_until_due(self) -> int:
        """Return how many messages to fetch before the next checkpoint, at most."""
        return max(self._options.every - (self.n_messages - self.n_saved), 1)

    def _is_due(self) -> bool:
        n_new = self.n_messages - self.n_saved
        is_late = time.monotonic() - self._saved_at >= self._options.seconds
        return n_new >= self._options.every or (n_new > 0 and is_late)

    def _save(self) -> None:
        """Save the model with the position, and acknowledge what it has learned."""
        if self._checkpoint is None or self.n_messages == self.n_saved:
            return
        self._patiently(self._broker.flush)
        self._checkpoint.extra = {
            "scheme": self._learner.scheme.to_json(),
            KEY: {
                "same": self._described(),
                "position": self._position,
                "broker": self._broker.state(),
                "learner": self._learner.to_json(),
            },
        }
        self._checkpoint.step(self.n_messages)
        self._checkpoint.save()
        self._saved_at, self.n_saved = time.monotonic(), self.n_messages
        self._patiently(self._broker.acknowledge)

    # The broker

    def _patiently(
        self, call: Callable[Given, Value], *args: Given.args, **options: Given.kwargs
    ) -> Value:
        """Call until the broker can be reached; `_Stopped` if a signal comes before."""
        delay, was_away = FIRST_DELAY, False
        while True:
            try:
                value = call(*args, **options)
            except BrokerError as error:
                if self._interrupts.received:
                    raise _Stopped from error
                if not was_away:
                    self._note(f"trying to reach {self._broker.name} again: {error}")
                was_away = True
                self._sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY)
            else:
                if was_away:
                    self._note(f"connected to {self._broker.name} again")
                return value

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._interrupts.received and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, WAIT))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone."""
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / "consumer.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not lock_file(fd):
            raise ValueError(
                f"{folder} is in use by another consumer: give --checkpoint another folder"
            )
        yield
    finally:
        os.close(fd)
