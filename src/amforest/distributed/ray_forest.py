"""RayForest: an estimator whose trees are in Ray's actors, on any number of machines."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, get_tags

from amforest._forest.core_handle import Core, handle_of
from amforest.distributed.ray_shards import RayShards
from amforest.distributed.sharded_core import Quorum, ShardedCore
from amforest.model_io import model_file
from amforest.model_io.atomic_write import read_all, write_atomically

_LATEST, _DRIVER = "latest.json", "driver"


@dataclass(frozen=True, slots=True)
class QuorumPrediction:
    """A prediction that some shards may have missed."""

    values: Any
    n_shards: int  # that answered
    is_complete: bool  # whether all did


class RayForest(MetaEstimatorMixin, BaseEstimator):
    """A forest whose trees are in Ray's actors: bit for bit the forest of one machine.

    It has the methods of the estimator that it wraps. The trees are distributed over shards, each
    of which is an actor and learns all rows; the driver validates and encodes batches, and has the
    classes, the categories and the mixer. `partial_fit` returns as soon as a batch is sent.

    Nothing is lost if an actor or its machine dies: it is started again from its checkpoint, and is
    given the batches since. With a `directory`, a driver that dies can be replaced, too: see
    `resume`.

    Parameters
    ----------
    estimator : estimator of amforest, or of amforest.river
        It is copied, without what it has learned: see `from_local`.
    n_shards : int, default=2
        The number of actors. It never changes the result.
    max_pending : int, default=4
        How many batches may be processed at a time; the next one waits.
    checkpoint_messages : int, default=64
        After so many batches the shards are saved. Until then the batches stay in Ray's object
        store, where a shard that is started again finds them.
    directory : path, default=None
        A folder for checkpoints that all machines see. None: the driver keeps the shards'
        checkpoints in its memory.
    actor_options : dict, default=None
        Options of Ray's actors, such as ``{"num_cpus": 1}``.

    Attributes
    ----------
    estimator_ : estimator
        The copy. Its attributes are those of this object, too.
    n_recoveries_ : int
        How often an actor was started again.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> from amforest.distributed import RayForest
    >>> X, y = load_iris(return_X_y=True)
    >>> with RayForest(AMFClassifier(20, random_state=0), n_shards=2) as forest:
    ...     forest = forest.partial_fit(X, y, classes=[0, 1, 2])
    ...     labels = forest.predict([[5.0, 3.4, 1.5, 0.2], [6.5, 3.0, 5.5, 2.0]])
    >>> labels
    array([0, 2])
    """

    def __init__(
        self,
        estimator: Any,
        n_shards: int = 2,
        *,
        max_pending: int = 4,
        checkpoint_messages: int = 64,
        directory: str | PathLike[str] | None = None,
        actor_options: dict[str, Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_shards = n_shards
        self.max_pending = max_pending
        self.checkpoint_messages = checkpoint_messages
        self.directory = directory
        self.actor_options = actor_options

    @classmethod
    def from_local(cls, model: Any, n_shards: int = 2, **options: Any) -> Self:
        """Return a RayForest that goes on from what a model has learned; the model stays as it is.

        Parameters
        ----------
        model : estimator of amforest, or of amforest.river
        n_shards : int, default=2
        **options
            Further parameters of RayForest.

        Returns
        -------
        RayForest
        """
        forest = cls(model, n_shards, **options)
        forest._start(copy.deepcopy(model))
        return forest

    @classmethod
    def resume(cls, directory: str | PathLike[str], **options: Any) -> Self:
        """Return the RayForest of the last checkpoint in a directory.

        Rows that were learned after it must be learned again, from row `n_samples_seen_` on.

        Parameters
        ----------
        directory : path
        **options
            Parameters of RayForest; the number of shards is that of the checkpoint.

        Returns
        -------
        RayForest
        """
        latest = Path(directory) / _LATEST
        if not latest.exists():
            raise FileNotFoundError(f"there is no checkpoint of a RayForest in {directory}")
        entries = json.loads(read_all(latest))
        folder = Path(directory) / entries["folder"]
        model = model_file.from_bytes(read_all(folder / _DRIVER), may_lack_trees=True)
        forest = cls(model, entries["n_shards"], directory=directory, **options)
        handle = handle_of(model)
        fitted = handle.fitted
        if fitted is None or not fitted.core.is_part:
            forest._start(model)
            return forest
        base, handle.fitted = fitted.core, None
        forest._start(model)
        shards = forest._shards
        shards.restore(folder, entries["number"], entries["n_cores"])
        forest._n_saved = shards.number
        core = ShardedCore(
            shards,
            base,
            entries["core"],
            n_samples=base.n_samples,
            total_weight=entries["total_weight"],
            most_pending=forest.max_pending,
        )
        handle.fitted = replace(fitted, core=core)  # type: ignore[arg-type]
        return forest

    # Starting and ending

    def _start(self, model: Any) -> None:
        self._check_parameters()
        folder = None if self.directory is None else Path(self.directory)
        self._shards = RayShards(
            self.n_shards, self.actor_options or {}, folder, self.checkpoint_messages
        )
        self._n_saved = 0  # messages before the last checkpoint with the driver's part
        self.estimator_ = model
        handle = handle_of(model)
        handle.place = self._place
        if (fitted := handle.fitted) is not None and fitted.early is None:
            handle.fitted = replace(fitted, core=self._place(fitted.core))

    def _check_parameters(self) -> None:
        handle_of(self.estimator)
        for name in ("n_shards", "max_pending", "checkpoint_messages"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be an int of at least 1")

    def _place(self, core: Core) -> Core:
        if core.n_trees < self.n_shards:
            raise ValueError(
                f"n_shards is {self.n_shards}, but the forest has {core.n_trees} trees: there must "
                "be a tree for each shard"
            )
        return ShardedCore.place(core, self._shards, self.max_pending)  # type: ignore[return-value]

    @property
    def n_recoveries_(self) -> int:
        """How often an actor was started again."""
        return self._shards.n_recoveries if "_shards" in self.__dict__ else 0

    def shard_stats(self) -> list[dict[str, Any]]:
        """Return what each shard holds, and how long it worked.

        Returns
        -------
        list of dict
            `messages` that the shard has carried out since it was started, the `seconds` and
            `cpu_seconds` that they took, and its `trees`, `nodes` and `bytes`.
        """
        return self._shards.stats() if "_shards" in self.__dict__ else []

    def close(self) -> None:
        """End the actors. What they have learned is gone, unless it was saved."""
        if "_shards" in self.__dict__:
            self._shards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # The methods of the estimator

    def __sklearn_tags__(self) -> Tags:
        """Return the estimator's tags: a RayForest of a classifier is a classifier."""
        if hasattr(self.estimator, "__sklearn_tags__"):
            return get_tags(self.estimator)
        return super().__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there are rows that it has learned."""
        return "estimator_" in self.__dict__ and handle_of(self.estimator_).fitted is not None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the estimator; its methods learn and predict in the shards."""
        if name.startswith("_") or name in ("estimator", "estimator_"):
            raise AttributeError(f"RayForest has no attribute {name!r}")
        if "estimator_" not in self.__dict__:
            if not hasattr(type(self.estimator), name):
                raise AttributeError(f"{type(self.estimator).__name__} has no attribute {name!r}")
            self._start(_unfitted(self.estimator))
        value = getattr(self.estimator_, name)
        return self._calling(value) if callable(value) else value

    def _calling(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if self._shards.number - self._n_saved >= self.checkpoint_messages:
                self.checkpoint()
            return self if result is self.estimator_ else result

        return call

    def predict_quorum(
        self, X: Any, *, min_shards: int, timeout: float = 1.0, method: str | None = None
    ) -> QuorumPrediction:
        """Predict with the shards that answer in time.

        A tree that is missing is replaced by the mean of its group. The mixer's weights are those
        of the last batch that all shards have learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        min_shards : int
            So many answers are awaited in any case.
        timeout : float, default=1.0
            The seconds in which all shards may answer.
        method : str, default=None
            The method of the estimator; None means "predict_proba" of classifiers, and "predict" of
            others.

        Returns
        -------
        QuorumPrediction
            With `values`, `n_shards` and `is_complete`.
        """
        given: object = min_shards
        if not isinstance(given, int) or not 1 <= given <= self.n_shards:
            raise ValueError(
                f"min_shards is {min_shards!r}; it must be an int from 1 to n_shards, which is "
                f"{self.n_shards}"
            )
        core = self._core()
        if core is None:
            raise NotFittedError("RayForest has no shards yet: it has not learned enough rows")
        if method is None:
            method = "predict_proba" if hasattr(self.estimator, "predict_proba") else "predict"
        with self._shards.lock:
            quorum = core.quorum = Quorum(min_shards, timeout, self.n_shards)
            try:
                values = getattr(self.estimator_, method)(X)
            finally:
                core.quorum = None
        return QuorumPrediction(values, quorum.n_answers, quorum.n_answers == self.n_shards)

    # Saving

    def to_local(self) -> Any:
        """Return the same forest as an estimator in this process; the two share nothing."""
        if "estimator_" not in self.__dict__:
            return _unfitted(self.estimator)
        return copy.deepcopy(self.estimator_)

    def to_bytes(self) -> bytes:
        """Return the bytes of a model file, as `amforest.save` writes it for the estimator."""
        return model_file.to_bytes(self.to_local())

    def save(self, path: str | PathLike[str]) -> str:
        """Save the forest as a model file, which `amforest.load` reads without Ray.

        Parameters
        ----------
        path : path

        Returns
        -------
        str
            The file's SHA-256 digest.
        """
        return model_file.save(self.to_local(), path)

    def checkpoint(self) -> None:
        """Wait for all batches, and save all shards side by side; see `resume`."""
        if "estimator_" not in self.__dict__:
            return
        shards, core = self._shards, self._core()
        with handle_of(self.estimator_).lock, shards.lock:
            if core is not None:
                core.finish()
            folder = shards.checkpoint()
            if folder is not None:
                self._write_driver(core, folder)
            self._n_saved = shards.number

    def _write_driver(self, core: ShardedCore | None, folder: Path) -> None:
        """Write the driver's part, then let the checkpoint be the latest, and remove others."""
        handle, shards = handle_of(self.estimator_), self._shards
        fitted = handle.fitted
        entries = {"folder": folder.name, "number": shards.number, "n_shards": len(shards)}
        try:
            if fitted is not None and core is not None:
                handle.fitted = replace(fitted, core=core.base)
                entries |= {"core": core.number, "n_cores": shards.n_cores}
                entries["total_weight"] = core.total_weight
            data = model_file.to_bytes(self.estimator_)
        finally:
            handle.fitted = fitted
        write_atomically(folder / _DRIVER, [data])
        write_atomically(folder.parent / _LATEST, [json.dumps(entries).encode()])
        for other in folder.parent.iterdir():
            if other.is_dir() and other.name.isdigit() and other != folder:
                shutil.rmtree(other, ignore_errors=True)

    def _core(self) -> ShardedCore | None:
        if "estimator_" not in self.__dict__:
            return None
        fitted = handle_of(self.estimator_).fitted
        core: Any = None if fitted is None else fitted.core
        return core if isinstance(core, ShardedCore) else None


def _unfitted(estimator: Any) -> Any:
    """Return a copy of an estimator that has learned nothing."""
    return clone(estimator) if hasattr(estimator, "get_params") else estimator.clone()
