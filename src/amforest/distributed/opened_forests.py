"""The models of a `KeyedForests` in their folder, with what all of them have in common."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING

from amforest.distributed.keyed_models import KeyedModels, Template
from amforest.distributed.keyed_state import KeyedState, shard_directory
from amforest.distributed.manifest import generations_in, name_of
from amforest.distributed.store_folder import Directory, open_folder

if TYPE_CHECKING:
    from amforest.distributed.keyed_shards import ShardedModels


class OpenedForests:
    """The models of a `KeyedForests` in their folder, with what all of them have in common.

    Parameters
    ----------
    state : KeyedState
    generation : int or None
        The commit to continue from; None means that there are no models.
    directory : str, path-like or None
        None means a temporary folder.
    max_bytes : int or None
        The memory for models, in each process.
    flush_rows : int or None
        The models are in Ray actors, which save them after so many rows; None means that they are
        in this process.
    """

    def __init__(
        self,
        state: KeyedState,
        generation: int | None,
        *,
        directory: Directory | None,
        max_bytes: int | None,
        flush_rows: int | None,
    ) -> None:
        self.state, self._generation = state, generation
        self.is_temporary = directory is None
        if directory is None:
            directory = tempfile.mkdtemp(prefix="amforest-")
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self._directory = directory
        self._flush_rows, self._n_unsaved = flush_rows, 0
        self.models: KeyedModels | ShardedModels
        template = Template(state.estimator, state.random_state, max_bytes)
        folders = self._folders(directory)
        if flush_rows is None:
            self.models = KeyedModels(template, folders[0], generation)
            return
        from amforest.distributed.keyed_shards import ShardedModels  # noqa: PLC0415  # needs ray

        how = {"is_temporary": self.is_temporary}
        self.models = ShardedModels(template, folders, generation, **how)

    def end_of_learning(self, n_rows: int) -> None:
        """Save the models of shards, if enough rows were learned since the last time."""
        self._n_unsaved += n_rows
        if self._flush_rows is not None and self._n_unsaved >= self._flush_rows:
            self.flush()

    def flush(self) -> None:
        """Save all models to the folder, as its next generation."""
        generation = 0 if self._generation is None else self._generation + 1
        self.models.commit(generation)
        self.state.write(self._directory, generation)
        self._generation, self._n_unsaved = generation, 0

    def copy_to(self, directory: Directory) -> None:
        """Save all models to another folder."""
        self.models.copy_to(self._folders(directory))
        self.state.write(directory, 0)

    def close(self) -> None:
        """Save all models, unless the folder is a temporary one, and stop all actors."""
        try:
            if not self.is_temporary:
                self.flush()
        finally:
            self.models.close()

    def remove(self) -> None:
        """Remove all models, also those that are saved."""
        self.models.close()
        folder = open_folder(self._directory)
        for generation in generations_in(folder):
            folder.remove(name_of(generation))
        for shard in self._folders(self._directory):
            open_folder(shard).remove_all()

    def _folders(self, directory: Directory) -> list[str]:
        n_shards = self.state.n_shards
        return [shard_directory(directory, i, n_shards) for i in range(n_shards)]
