"""Checkpoints of a run with one model per key: the folder of its `KeyedForests`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from amforest.cli.console import CommandError
from amforest.distributed import KeyedForests
from amforest.distributed.keyed_state import holds_models

_MAY_DIFFER = ("n_jobs", "classes")  # the classes in the first rows of a stream


class KeyedCheckpoint:
    """Save the models of all keys at intervals, and resume from the newest ones.

    It has the methods of `amforest.Checkpoint` that a run needs. After an error the folder holds
    what the last `step` has saved.

    Parameters
    ----------
    model : KeyedForests
        The models to begin with, which have learned nothing.
    folder : str
        The folder.
    every : int
        The number of rows after which `step` saves.
    """

    def __init__(self, model: KeyedForests, folder: str, *, every: int) -> None:
        self.model, self.every, self._folder = model, every, folder
        self.extra: Any = None
        self.resumed_from: str | None = None
        self._saved = 0  # n_samples_seen_ of what is saved

    def __enter__(self) -> Self:
        if not holds_models(self._folder):
            self.model.set_params(directory=self._folder)
            return self
        loaded = KeyedForests.load(self._folder, max_bytes=self.model.max_bytes)
        _check_same(self.model, loaded, self._folder)
        self.model, self.extra, self.resumed_from = loaded, loaded.extra_, self._folder
        self._saved = loaded.n_samples_seen_
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self.model.n_samples_seen_ > self._saved:
            self._save()

    @property
    def is_due(self) -> bool:
        """Whether the next `step` saves."""
        return self.model.n_samples_seen_ >= self._saved + self.every

    def step(self) -> None:
        """Save if it is due. Call it after each batch."""
        if self.is_due:
            self._save()

    def _save(self) -> None:
        self.model.save(extra=self.extra)
        self._saved = self.model.n_samples_seen_


def _check_same(given: KeyedForests, loaded: KeyedForests, folder: str) -> None:
    """Refuse to resume models of other parameters."""
    wanted, found = (
        {"key": forests.key, "model": type(forests.estimator).__name__}
        | forests.estimator.get_params(deep=False)
        for forests in (given, loaded)
    )
    for name, value in wanted.items():
        if name not in _MAY_DIFFER and (name not in found or found[name] != value):
            raise CommandError(
                f"{folder} holds models with {name}={found.get(name)!r}, but {value!r} is "
                "requested: use the options of the first run, or another folder"
            )
