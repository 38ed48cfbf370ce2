"""What survives: checkpoints by time and rows, and the journal between them."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest.model_io import Checkpoint, newest_checkpoint
from amforest.serving.journal import Journal
from amforest.serving.served_model import ServedModel

JOURNAL = "journal.log"
logger = logging.getLogger("amforest.serving")
Entry = tuple[pa.RecordBatch, NDArray[Any]]  # rows and labels


class ModelStore:
    """A folder with checkpoints of one model and, if durable, the journal of what follows them.

    All methods belong to the thread that learns.

    Parameters
    ----------
    folder : str or None
        None: nothing is saved.
    every_rows : int
    every_seconds : float
        A checkpoint is due after so many rows, and after so many seconds with a new row.
    durable : bool
        Whether rows are in the journal before they are acknowledged.

    Attributes
    ----------
    sequence : int
        The number of entries that were learned, since the folder was created.
    n_replayed : int
        The entries of the journal that were learned at the start.
    """

    def __init__(
        self, folder: str | None, *, every_rows: int, every_seconds: float, durable: bool
    ) -> None:
        self._folder = None if folder is None else Path(folder)
        self._every_rows, self._every_seconds = every_rows, every_seconds
        self.durable, self.sequence, self.n_replayed = durable, 0, 0
        self.saved_at = time.time()
        self._saved = 0  # the sequence of the newest checkpoint
        self._checkpoint: Checkpoint[Any] | None = None
        self._journal: Journal | None = None
        self._served: ServedModel | None = None
        self._stack = ExitStack()

    def newest(self) -> tuple[Any, Any] | None:
        """Return the newest model in the folder, and its state."""
        return None if self._folder is None else newest_checkpoint(self._folder)

    def open(self) -> None:
        """Open the journal, which holds the folder for this server alone."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / JOURNAL
        if self.durable or path.exists():
            self._journal = Journal(path)
            self._stack.callback(self._journal.close)

    def attach(self, served: ServedModel, state: dict[str, Any] | None = None) -> None:
        """Save a model from now on, and replay the journal: `state` is what was saved with it."""
        self._served = served
        serving = (state or {}).get("serving") or {}
        self.sequence = self._saved = int(serving.get("sequence", 0))
        if self._folder is None:
            return
        checkpoint = Checkpoint(served.model, self._folder, every=self._every_rows)
        self._checkpoint = self._stack.enter_context(checkpoint)
        self._stack.callback(self._describe)  # before the checkpoint's last save
        checkpoint.model = served.model  # the same: it was loaded before
        if checkpoint.resumed_from is None:  # the journal continues from a file in this folder
            self.save()
        self._replay(served)

    def _replay(self, served: ServedModel) -> None:
        if self._journal is None:
            return
        for number, data in self._journal.entries():
            if number <= self.sequence:  # the checkpoint has it
                continue
            if number != self.sequence + 1:
                raise ValueError(
                    f"{self._journal.path} continues with entry {number}, but the newest "
                    f"checkpoint that is not damaged ends with {self.sequence}: restore the "
                    "checkpoints of this journal, or move the journal away to lose its rows"
                )
            self.sequence += 1
            self.n_replayed += 1
            try:
                served.learn(*decode_entry(data, served))
            except Exception:  # as before: the model stays as it was
                logger.exception("entry %d of the journal could not be learned", number)
        if self.n_replayed:
            self.save()
        if not self.durable:
            self._journal.clear()
            self._journal = None

    def record(self, entries: list[Entry]) -> None:
        """Write rows to the journal, all in one sync; after an error none of them is there."""
        if self._journal is None or self._served is None:
            return
        target = self._served.scheme.target
        numbered = [
            (self.sequence + k, encode_entry(entry, target)) for k, entry in enumerate(entries, 1)
        ]
        self._journal.append(numbered)

    def is_due(self) -> bool:
        """Return whether a checkpoint is due."""
        if self._checkpoint is None:
            return False
        return self.has_unsaved_rows and (self._checkpoint.is_due or self.seconds_left() <= 0)

    @property
    def has_unsaved_rows(self) -> bool:
        """Whether the model has learned rows that no checkpoint has."""
        return self._checkpoint is not None and self.sequence > self._saved

    def postpone(self) -> None:
        """Wait with the next checkpoint, because this one failed."""
        self.saved_at = time.time()

    def seconds_left(self) -> float:
        """Return how long until a checkpoint is due by time."""
        return max(self._every_seconds - (time.time() - self.saved_at), 0.0)

    def save(self) -> None:
        """Save the model, then drop the journal's entries, which it has."""
        if self._checkpoint is None:
            return
        self._describe()
        self._checkpoint.save()
        self.saved_at, self._saved = time.time(), self.sequence
        if self._journal is not None:
            self._journal.clear()

    def _describe(self) -> None:
        """Tell what is saved with the model: how many entries it has learned."""
        if self._checkpoint is not None and self._served is not None:
            self._checkpoint.extra = self._served.state(self.sequence)

    def close(self) -> None:
        """Save what is new, and close the files."""
        try:
            if self.has_unsaved_rows:
                self.save()
        finally:
            self.close_files()

    def close_files(self) -> None:
        """Close the files without saving."""
        self._stack.close()


def encode_entry(entry: Entry, target: str) -> bytes:
    """Return rows and labels as a stream of Arrow."""
    table, labels = entry
    values = pa.array(labels.tolist() if labels.dtype.kind == "U" else labels)
    whole = pa.RecordBatch.from_arrays(
        [*table.columns, values], names=[*table.schema.names, target]
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_batch(whole)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode_entry(data: bytes, served: ServedModel) -> Entry:
    """Undo `encode_entry`."""
    (whole,) = pa.ipc.open_stream(data)
    scheme = served.scheme
    labels = np.asarray(whole.column(whole.num_columns - 1).to_pylist())
    return whole.select(scheme.names), scheme.labels(labels)
