"""The folder of a `KeyedForests`: what all keys have in common, and a folder for each shard."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any

from numpy.typing import NDArray

from amforest.distributed.key_rows import shard_of
from amforest.distributed.manifest import generations_in, name_of, read_manifest, write_manifest
from amforest.distributed.segment_store import SegmentStore
from amforest.distributed.store_folder import Directory, StoreFolder, join, open_folder
from amforest.model_io import ModelFormatError
from amforest.model_io.json_values import from_json, to_json


@dataclass
class KeyedState:
    """What all keys have in common, as it is saved.

    Attributes
    ----------
    estimator : bytes
        The model file of the estimator that all models are copies of.
    random_state : int
    key : str
        The name of the column of keys.
    unseen : str
        What is predicted for keys that have no model.
    n_shards : int
        The number of folders that the models are in.
    n_features : int or None
    names : list of str or None
        The names of the features, if X was a frame.
    classes : ndarray or None
        All classes of all keys.
    n_rows : int
        The number of rows learned.
    extra : object
        Values of JSON of the caller.
    """

    estimator: bytes
    random_state: int
    key: str
    unseen: str
    n_shards: int
    n_features: int | None = None
    names: list[str] | None = None
    classes: NDArray[Any] | None = None
    n_rows: int = 0
    extra: Any = field(default=None)

    def write(self, directory: Directory, generation: int) -> None:
        """Write it, and remove all but the last two generations."""
        content = asdict(self) | {
            "estimator": base64.b64encode(self.estimator).decode(),
            "classes": to_json(self.classes, "classes"),
        }
        folder = open_folder(directory)
        write_manifest(folder, generation, content)
        for old in generations_in(folder)[:-2]:
            folder.remove(name_of(old))

    @classmethod
    def read(cls, directory: Directory) -> tuple[KeyedState, int]:
        """Return the newest state that is whole, and its generation."""
        folder = open_folder(directory)
        generations = generations_in(folder)
        if not generations:
            raise FileNotFoundError(
                f"directory is {str(directory)!r}, which holds no saved KeyedForests: it needs a "
                "file manifest-*.json"
            )
        content, generation = _newest(folder, generations)
        del content["format"]
        content["estimator"] = base64.b64decode(content["estimator"])
        content["classes"] = from_json(content["classes"])
        return cls(**content), generation


def _newest(folder: StoreFolder, generations: list[int]) -> tuple[dict[str, Any], int]:
    """Return the newest manifest that is whole: the writer of the last one may have died."""
    for generation in reversed(generations[1:]):
        try:
            return read_manifest(folder, generation), generation
        except ModelFormatError:
            continue
    return read_manifest(folder, generations[0]), generations[0]


def holds_models(directory: Directory) -> bool:
    """Return whether a folder holds a saved `KeyedForests`."""
    return bool(generations_in(open_folder(directory)))


def shard_directory(directory: Directory, shard: int, n_shards: int) -> str:
    """Return the path or URL of a shard's folder."""
    return join(directory, f"shard-{shard:05}-of-{n_shards:05}")


def move_to_shards(directory: Directory, state: KeyedState, generation: int, n_shards: int) -> int:
    """Distribute saved models to another number of shards; return the new generation.

    After any failure the folder holds the shards before.
    """
    before, generation = state.n_shards, generation + 1
    old = [open_folder(shard_directory(directory, i, before)) for i in range(before)]
    new = [open_folder(shard_directory(directory, i, n_shards)) for i in range(n_shards)]
    for folder in new:
        folder.remove_all()  # of an attempt that failed
    stores = [SegmentStore(folder) for folder in new]
    for folder in old:
        source = SegmentStore(folder, generation=generation - 1)
        for key in source:
            stores[shard_of(key, n_shards)].put(key, source.get(key))
    for store in stores:
        store.commit(generation)
    state.n_shards = n_shards
    state.write(directory, generation)
    open_folder(directory).remove(name_of(generation - 1))
    for folder in old:
        folder.remove_all()
    return generation
