"""The models of many keys in one process: they are created, learn and predict, group by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from amforest.distributed.key_rows import Group, KeyRows, seed_of
from amforest.distributed.model_cache import ModelCache
from amforest.distributed.segment_store import SEGMENT_BYTES, Key, SegmentStore
from amforest.distributed.store_folder import Directory, open_folder
from amforest.model_io import from_bytes, to_bytes

LEAST_SEGMENT = 2**16


@dataclass
class Predicted:
    """Predictions of rows, and the classes that their columns belong to.

    Rows of keys that have no model are NaN; `unseen` lists these keys.
    """

    values: NDArray[Any]
    classes: NDArray[Any] | None = None
    unseen: list[Key] = field(default_factory=list)


@dataclass(frozen=True)
class Template:
    """What the models of all keys have in common."""

    estimator: bytes  # a model file, of an estimator that has learned nothing
    random_state: int
    max_bytes: int | None

    def model_factory(self) -> Callable[[Key], Any]:
        """Return the function that creates the model of a key."""
        estimator = from_bytes(self.estimator)
        kind, params = type(estimator), estimator.get_params(deep=False)

        def create(key: Key) -> Any:
            return kind(**params | {"random_state": seed_of(self.random_state, key)})

        return create


class KeyedModels:
    """The models of many keys.

    Parameters
    ----------
    template : Template
    directory : str or path-like
        Where models are kept that do not fit into memory, and those of `commit`.
    generation : int or None, default=None
        The commit to continue from; None means that there are no models.
    """

    def __init__(
        self, template: Template, directory: Directory, generation: int | None = None
    ) -> None:
        self._create = template.model_factory()
        self._has_classes = is_classifier(self._create(0))
        limit = template.max_bytes
        # What waits to be written counts, too.
        size = SEGMENT_BYTES if limit is None else min(SEGMENT_BYTES, limit // 8)
        self._store = SegmentStore(
            open_folder(directory), segment_bytes=max(size, LEAST_SEGMENT), generation=generation
        )
        self._cache = ModelCache(self._store, limit)

    def learn(self, method: str, rows: KeyRows) -> Predicted:
        """Call a method that learns, with the rows of each key; return its predictions, if any."""
        parts: list[tuple[Group, Any, NDArray[Any] | None]] = []
        for group in rows.groups(self._loaded_first(rows.keys)):
            model = self._cache.get(group.key)
            if model is None:
                if group.weights is not None and not group.weights.any():
                    continue  # nothing to learn
                model = self._create(group.key)
            try:
                values = getattr(model, method)(group.X, group.y, sample_weight=group.weights)
            except Exception as error:
                error.add_note(f"This is about the rows of the key {group.key!r}.")
                raise
            self._cache.put(group.key, model)
            if method != "partial_fit":
                parts.append((group, values, self._classes_of(model)))
        return self._join(rows, parts)

    def predict(self, method: str, rows: KeyRows) -> Predicted:
        """Call a method that predicts, with the rows of each key."""
        parts = []
        for group in rows.groups(self._loaded_first(rows.keys)):
            model = self._cache.get(group.key)
            if model is not None:
                values = getattr(model, method)(group.X)
                parts.append((group, values, self._classes_of(model)))
        return self._join(rows, parts)

    def learn_one(self, key: Key, x: Any, y: Any, weight: float) -> NDArray[Any] | None:
        """Learn one row; return the classes that the model knows then."""
        model = self._cache.get(key)
        if model is None:
            model = self._create(key)
        model.learn_one(x, y, weight)
        self._cache.put(key, model)
        return self._classes_of(model)

    def predict_one(self, method: str, key: Key, x: Any) -> Predicted | None:
        """Predict one row; None if the key has no model."""
        if (model := self._cache.get(key)) is None:
            return None
        return Predicted(np.asarray(getattr(model, method)(x)), self._classes_of(model))

    def model_bytes(self, key: Key) -> bytes | None:
        """Return the model of a key as a model file; None if it has none."""
        model = self._cache.get(key)
        return None if model is None else to_bytes(model)

    def keys(self) -> list[Key]:
        """Return all keys that have a model."""
        return list(self._cache)

    def stats(self) -> dict[str, int]:
        """Return the numbers of models and bytes, in memory and saved."""
        return self._cache.stats()

    def commit(self, generation: int) -> None:
        """Save all models, such that they can be opened again as they are now."""
        self._cache.save_all()
        self._store.commit(generation)

    def copy_to(self, directories: Sequence[Directory]) -> None:
        """Save all models to another folder, the only one in the list, as generation 0."""
        self._cache.save_all()
        (directory,) = directories
        other = SegmentStore(open_folder(directory))
        for key in self._store:
            other.put(key, self._store.get(key))
        other.commit(0)

    def close(self) -> None:
        """Forget the models in memory."""
        self._cache.clear()

    def _loaded_first(self, keys: list[Key]) -> list[int]:
        """Return an order in which models are used before loading others evicts them."""
        return sorted(range(len(keys)), key=lambda k: not self._cache.is_in_memory(keys[k]))

    def _classes_of(self, model: Any) -> NDArray[Any] | None:
        return model.classes_ if self._has_classes else None

    @staticmethod
    def _join(rows: KeyRows, parts: list[tuple[Group, Any, NDArray[Any] | None]]) -> Predicted:
        """Join the predictions of groups; those of classes have a column for each class."""
        is_unseen = np.ones(len(rows), dtype=bool)
        for group, _, _ in parts:
            is_unseen[group.start : group.end] = False
        unseen = [rows.keys[k] for k in np.flatnonzero(is_unseen[rows.starts[:-1]]).tolist()]
        if not parts:
            return Predicted(np.full(len(rows), np.nan), None, unseen)
        classes = join_classes([part[2] for part in parts if part[2] is not None])
        shape = parts[0][1].shape[1:] if classes is None else (len(classes),)
        values = np.full((len(rows), *shape), np.nan)
        for group, part, known in parts:
            values[group.start : group.end] = widen(part, known, classes)
        return Predicted(values, classes, unseen)


def join_classes(lists: list[NDArray[Any]]) -> NDArray[Any] | None:
    """Return all classes of some lists, sorted; None if there are no lists."""
    if not lists:
        return None
    different = {id(classes): classes for classes in lists}
    distinct = {tuple(classes.tolist()): classes for classes in different.values()}
    if len(distinct) == 1:
        return lists[0]
    return np.unique(np.concatenate(list(distinct.values())))


def widen(
    values: NDArray[Any], known: NDArray[Any] | None, classes: NDArray[Any] | None
) -> NDArray[Any]:
    """Return probabilities with a column for each of `classes`: 0 for those that are not known."""
    if known is None or classes is None or known is classes or len(known) == len(classes):
        return values
    wide = np.zeros((*values.shape[:-1], len(classes)))
    wide[..., np.searchsorted(classes, known)] = values
    return wide
