"""A cache of models: those used last stay in memory, the others are kept in a store as bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from amforest.distributed.segment_store import Key, SegmentStore
from amforest.inspection import count_bytes
from amforest.model_io import from_bytes, to_bytes

# Measured as memory of the process for each of many small models, and rounded up: the objects of
# Python around a forest, and what a forest reserves for each byte in use.
_BYTES_OF_OBJECTS = 4096
_RESERVED, _RESERVED_IF_ADAPTIVE = 4, 10


class _Entry(NamedTuple):
    model: Any
    n_bytes: int
    is_saved: bool  # whether the store holds it as it is


class ModelCache:
    """Models by key, within a limit of memory: the one used least recently is evicted first.

    Parameters
    ----------
    store : SegmentStore
        Where evicted models go.
    max_bytes : int or None
        The limit of the models in memory, together with what the store has not written yet. The
        model in use stays, however large it is.
    """

    def __init__(self, store: SegmentStore, max_bytes: int | None) -> None:
        self._store, self._max_bytes = store, max_bytes
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._n_bytes = 0
        self.n_loads = 0
        self.n_evictions = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._entries or key in self._store

    def __iter__(self) -> Iterator[Key]:
        yield from self._store
        yield from (key for key in self._entries if key not in self._store)

    def is_in_memory(self, key: Key) -> bool:
        """Return whether a model is used without loading it."""
        return key in self._entries

    def get(self, key: Key) -> Any:
        """Return the model of a key, None if it has none; call `put` after each change of it."""
        if (entry := self._entries.get(key)) is not None:
            self._entries.move_to_end(key)
            return entry.model
        if key not in self._store:
            return None
        model = from_bytes(self._store.get(key))
        self.n_loads += 1
        self._set(key, model, is_saved=True)
        return model

    def put(self, key: Key, model: Any) -> None:
        """Set the model of a key, or mark it as changed."""
        self._set(key, model, is_saved=False)

    def save_all(self) -> None:
        """Put all models into the store that have changed; they stay in memory."""
        for key, entry in self._entries.items():
            if not entry.is_saved:
                self._store.put(key, to_bytes(entry.model))
                self._entries[key] = entry._replace(is_saved=True)

    def clear(self) -> None:
        """Remove all models from memory, without saving them."""
        self._entries.clear()
        self._n_bytes = 0

    def stats(self) -> dict[str, int]:
        """Return the numbers of models and bytes, in memory and in the store."""
        unsaved = sum(key not in self._store for key in self._entries)
        return {
            "keys": len(self._store) + unsaved,
            "models_in_memory": len(self._entries),
            "bytes_in_memory": self._n_bytes + self._store.buffered_bytes,
            "models_saved": len(self._store),
            "bytes_saved": self._store.n_bytes,
            "loads": self.n_loads,
            "evictions": self.n_evictions,
        }

    def _set(self, key: Key, model: Any, *, is_saved: bool) -> None:
        if (before := self._entries.pop(key, None)) is not None:
            self._n_bytes -= before.n_bytes
        entry = _Entry(model, memory_of(model), is_saved)
        self._entries[key] = entry
        self._n_bytes += entry.n_bytes
        self._evict()

    def _evict(self) -> None:
        """Evict models until the limit holds. One that cannot be saved stays."""
        if self._max_bytes is None:
            return
        while (
            len(self._entries) > 1 and self._n_bytes + self._store.buffered_bytes > self._max_bytes
        ):
            key, entry = next(iter(self._entries.items()))
            if not entry.is_saved:
                self._store.put(key, to_bytes(entry.model))
            del self._entries[key]
            self._n_bytes -= entry.n_bytes
            self.n_evictions += 1


def memory_of(model: Any) -> int:
    """Return about how many bytes of the process's memory a small model takes."""
    reserved = _RESERVED_IF_ADAPTIVE if model.is_adaptive else _RESERVED
    return _BYTES_OF_OBJECTS + reserved * count_bytes(model)
