"""A core whose trees live in shards; the driver has what they share: the mixer, the classes."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from amforest._forest.core_handle import Core, restore_core
from amforest._forest.encoder import Part
from amforest._forest.inputs import Features
from amforest._forest.losses import Floats
from amforest.distributed.ray_shards import RayShards

PIECE = 8192  # rows that are sent at once
# Which batches under way will change.
_LEARNED = {"mixer_weights", "n_remembered", "weight_history"}


@dataclass(slots=True)
class Quorum:
    """How many shards must answer before a prediction is made without the others."""

    least: int
    timeout: float
    n_answers: int = 0  # of the last prediction, the fewest


@dataclass(slots=True)
class Pending:
    """A batch that was sent to the shards, and whose results the driver awaits."""

    number: int
    part: Part
    parameters: dict[str, Any] | None
    outputs: list[Floats] | None  # which get the predictions


@dataclass(slots=True)
class Account:
    """What a core has learned, with the batches that are under way."""

    n_samples: int
    total_weight: float
    pending: deque[Pending] = field(default_factory=deque)


class ShardedCore:
    """A forest of which shard k of n holds the trees k, k + n, …: for estimators, a core.

    Batches are checked here, and sent; several may be under way. Predictions of trees are joined in
    the order of the trees, as in one process, so that they have the same bits.

    Parameters
    ----------
    shards : RayShards
    base : Core
        The part of the forest that has no trees.
    number : int
        By which shards know the core.
    n_samples, total_weight
        What it has learned.
    most_pending : int
        How many batches may be under way.
    """

    def __init__(
        self,
        shards: RayShards,
        base: Core,
        number: int,
        *,
        n_samples: int,
        total_weight: float,
        most_pending: int,
    ) -> None:
        self._shards, self.base, self.number = shards, base, number
        self._account = Account(n_samples, total_weight)
        self._most_pending = most_pending
        self._is_adaptive = hasattr(base, "mix")
        self.quorum: Quorum | None = None
        weakref.finalize(self, shards.unused.append, number)

    @classmethod
    def place(cls, core: Core, shards: RayShards, most_pending: int) -> Self:
        """Distribute the trees of a core."""
        n = len(shards)
        parts = [core.take(list(range(k, core.n_trees, n))) for k in range(n)]
        number = shards.new_core()
        states = [shards.put(part.state()) for part in parts]
        shards.result(shards.send("place", number, own=states))
        return cls(
            shards,
            core.take([]),
            number,
            n_samples=core.n_samples,
            total_weight=core.total_weight,
            most_pending=most_pending,
        )

    def __getattr__(self, name: str) -> Any:
        """Return what the driver's part knows: the layout, the classes, the mixer."""
        base = self.__dict__["base"]
        if name == "with_real_counts" and hasattr(base, name):
            return self._with_real_counts
        if name in _LEARNED:
            self.finish()
        return getattr(base, name)

    # Growing

    def reserve(self, **more: Any) -> Self:
        """Return a core with capacity for more classes, categories or numbers."""
        return self._copy("reserve", self.base.reserve, more)

    def _with_real_counts(self) -> Self:
        return self._copy("count_in_real_numbers", self.base.with_real_counts)  # type: ignore[union-attr]

    def _copy(self, message: str, copy: Callable[..., Core], *more: dict[str, Any]) -> Self:
        with self._shards.lock:
            self.finish()
            base = copy(**(more[0] if more else {}))
            number = self._shards.new_core()
            self._shards.result(self._shards.send(message, self.number, number, *more))
            account = self._account
            return type(self)(
                self._shards,
                base,
                number,
                n_samples=account.n_samples,
                total_weight=account.total_weight,
                most_pending=self._most_pending,
            )

    # Learning

    def learn(
        self,
        X: Features,
        y: NDArray[Any],
        n_threads: int,
        weights: Floats | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        """Send a batch to all shards; return before they have learned it."""
        self._send(Part([], X, y, weights), n_threads, parameters, None)

    def learn_row(self, x: Any, y: Any, weight: float = 1.0) -> bool:
        """Learn one row; False if x is not an array that can be read as it is."""
        if not isinstance(x, np.ndarray):
            return False
        labels = np.array([y], dtype=self._label_type)
        self.learn(as_row(x), labels, 1, np.array([weight], dtype=np.float64))
        return True

    def predict_then_learn(
        self, X: Features, y: NDArray[Any], n_threads: int, weights: Floats | None = None
    ) -> Floats:
        """Predict each row just before it is learned."""
        outputs: list[Floats] = [np.empty((0, self.prediction_size))]
        with self._shards.lock:
            self._send(Part([], X, y, weights), n_threads, None, outputs)
            self.finish()
        return np.concatenate(outputs)

    def _send(
        self,
        batch: Part,
        n_threads: int,
        parameters: dict[str, Any] | None,
        outputs: list[Floats] | None,
    ) -> None:
        account = self._account
        with self._shards.lock:
            if parameters is not None:
                self.finish()  # the driver's part must have the classes of all batches before
            self.base.check_batch(batch.rows, batch.labels, batch.weights, parameters)
            for piece in pieces(len(batch.rows)):
                while len(account.pending) >= self._most_pending:
                    self._finish_first()
                part = _copied(batch.cut(piece.start, piece.stop))
                arrays = self._shards.put((part.rows, part.labels, part.weights))
                is_predicted = self._is_adaptive or outputs is not None
                number = self._shards.send(
                    "learn", self.number, arrays, n_threads, parameters, is_predicted
                )
                account.n_samples += _n_learned(part)
                account.total_weight += _weight(part)
                account.pending.append(Pending(number, part, parameters, outputs))
                if parameters is not None:
                    self.finish()
                    parameters = None
                if self._shards.is_checkpoint_due:
                    self.finish()
                    self._shards.checkpoint()

    def finish(self) -> None:
        """Wait until all batches are learned."""
        with self._shards.lock:
            while self._account.pending:
                self._finish_first()

    def _finish_ready(self) -> None:
        pending = self._account.pending
        while pending and self._shards.is_ready(pending[0].number):
            self._finish_first()

    def _finish_first(self) -> None:
        first = self._account.pending[0]
        rows, labels, weights = first.part.rows, first.part.labels, first.part.weights
        results = self._shards.result(first.number)
        if self._is_adaptive:
            prediction = self.base.mix_then_learn(  # type: ignore[union-attr]
                rows, labels, self._join(results), weights, first.parameters
            )
        else:
            # Which has no trees: it counts the rows.
            self.base.learn(rows, labels, 1, weights, first.parameters)
            prediction = None if first.outputs is None else mean_of_trees(self._join(results))
        if first.outputs is not None and prediction is not None:
            first.outputs.append(prediction)
        self._account.pending.popleft()

    # Predicting

    def predict(self, X: Features, n_threads: int) -> Floats:
        """Predict rows: the mean of all trees, or what the mixer makes of them."""
        return self._predict(X, n_threads, self._mix)

    def predict_row(self, x: Any) -> Floats | None:
        """Predict one row; None if x is not an array that can be read as it is."""
        if not isinstance(x, np.ndarray):
            return None
        prediction: Floats = self.predict(as_row(x), 1)[0]
        return prediction

    def predict_by_tree(self, X: Features, n_threads: int) -> Floats:
        """Predict rows with each tree."""
        return self._predict(X, n_threads, lambda _, by_tree: by_tree)

    def predict_by_expert(self, X: Features, n_threads: int) -> Floats:
        """Predict rows with each expert of the mixer."""
        mix: Any = self.base.mix_by_expert  # type: ignore[union-attr]
        return self._predict(X, n_threads, mix)

    def _mix(self, X: Features, by_tree: Floats) -> Floats:
        if not self._is_adaptive:
            return mean_of_trees(by_tree)
        mixed: Floats = self.base.mix(X, by_tree)  # type: ignore[union-attr]
        return mixed

    def _predict(
        self, X: Features, n_threads: int, mix: Callable[[Features, Floats], Floats]
    ) -> Floats:
        with self._shards.lock:
            if self.quorum is None:
                self.finish()
            else:
                self._finish_ready()
            outputs: list[Floats] = []
            self.base.predict_by_tree(X, 1)  # which has no trees: it checks the rows
            for piece in pieces(len(X)) if len(X) else [slice(0, 0)]:
                rows = np.ascontiguousarray(X[piece])
                outputs.append(mix(rows, self._by_tree(rows, n_threads)))
            return np.concatenate(outputs)

    def _by_tree(self, X: Features, n_threads: int) -> Floats:
        rows = self._shards.put(X)
        call = (self.number, "predict_by_tree", rows, n_threads)
        if (quorum := self.quorum) is None:
            return self._join(self._shards.inspect(*call))
        answers = self._shards.inspect_some(*call, least=quorum.least, timeout=quorum.timeout)
        quorum.n_answers = min(quorum.n_answers, len(answers))
        return self._join_some(answers)

    def _join(self, by_shard: list[NDArray[Any]], axis: int = 1) -> NDArray[Any]:
        """Join arrays whose axis counts the trees of a shard."""
        n = len(by_shard)
        shape = list(by_shard[0].shape)
        shape[axis] = self.n_trees
        joined = np.empty(shape, by_shard[0].dtype)
        for k, part in enumerate(by_shard):
            joined[(slice(None),) * axis + (slice(k, None, n),)] = part
        return joined

    def _join_some(self, answers: dict[int, Floats]) -> Floats:
        """Join the predictions of some shards; a missing tree predicts the mean of its group.

        Of all trees, if no tree of the group has answered.
        """
        n, some = len(self._shards), next(iter(answers.values()))
        by_tree = np.full((some.shape[0], self.n_trees, some.shape[2]), np.nan)
        for k, part in answers.items():
            by_tree[:, k::n] = part
        is_there = np.isin(np.arange(self.n_trees) % n, list(answers))
        size = self.n_trees // len(self.base.groups) if self._is_adaptive else self.n_trees  # type: ignore[union-attr]
        for first in range(0, self.n_trees, size):
            group = np.arange(first, first + size)
            known = group[is_there[group]] if is_there[group].any() else np.flatnonzero(is_there)
            missing = group[~is_there[group]]
            by_tree[:, missing] = by_tree[:, known].mean(axis=1, keepdims=True)
        return by_tree

    def explain(self, X: Features, n_threads: int) -> Floats:
        """Refuse: the trees are elsewhere."""
        raise NotImplementedError(
            "a RayForest does not explain predictions: call to_local() first, which returns the "
            "same forest in this process, and then its method explain"
        )

    # Inspecting

    @property
    def n_trees(self) -> int:
        """The number of all trees."""
        return self.base.n_in_all

    @property
    def n_samples(self) -> int:
        """The number of rows that were sent to the shards, which learn them."""
        return self._account.n_samples

    @property
    def total_weight(self) -> float:
        """The sum of the weights of these rows."""
        return self._account.total_weight

    @property
    def remembered_weight(self) -> float:
        """The sum of the weights of stored rows, with all that are under way."""
        more = sum(_weight(pending.part) for pending in self._account.pending)
        return self.base.remembered_weight + more  # type: ignore[union-attr]

    @property
    def n_nodes(self) -> int:
        """The nodes of all trees."""
        return int(sum(self._inspect("n_nodes")))

    @property
    def n_bytes(self) -> int:
        """The bytes of all shards and of the driver's part."""
        return int(sum(self._inspect("n_bytes"))) + self.base.n_bytes

    @property
    def n_regrows(self) -> NDArray[np.int64]:
        """How often each tree was regrown."""
        return self._join(self._inspect("n_regrows"), axis=0)

    def depths(self) -> NDArray[np.int64]:
        """Return of each tree the largest depth of a leaf."""
        return self._join(self._inspect("depths"), axis=0)

    def weighted_depth(self, X: Features, n_threads: int) -> Floats:
        """Return the mean depth of prediction of each row in each tree."""
        return self._join(self._inspect("weighted_depth", X, n_threads))

    def apply(self, X: Features, n_threads: int) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree."""
        return self._join(self._inspect("apply", X, n_threads))

    def importances(self) -> tuple[Floats, Floats]:
        """Return what the splits of each tree saved for each feature, of which weight of rows."""
        saved, weights = zip(*self._inspect("importances"), strict=True)
        return self._join(list(saved), axis=0), self._join(list(weights), axis=0)

    def tree_table(self, i: int) -> dict[str, NDArray[Any]]:
        """Return the nodes of tree i."""
        with self._shards.lock:
            self.finish()
            place, k = divmod(i, len(self._shards))
            table: dict[str, NDArray[Any]] = self._shards.inspect_one(
                k, self.number, "tree_table", place
            )
            return {name: np.array(column) for name, column in table.items()}

    def _inspect(self, name: str, *arguments: Any) -> list[Any]:
        with self._shards.lock:
            self.finish()
            return self._shards.inspect(self.number, name, *arguments)

    def local(self) -> Core:
        """Return the same forest as a core in this process."""
        parts: Any = [restore_core(state) for state in self._inspect("state")]
        return self.base.join(parts)

    def state(self) -> dict[str, Any]:
        """Return the state of `local`."""
        return self.local().state()

    @property
    def _label_type(self) -> type[Any]:
        return np.uint32 if "n_classes" in self.base.label_parameters else np.float64


def pieces(n_rows: int) -> Iterator[slice]:
    """Yield slices of PIECE rows."""
    for first in range(0, n_rows, PIECE):
        yield slice(first, min(first + PIECE, n_rows))


def _copied(part: Part) -> Part:
    """Return a part that the caller cannot change."""
    weights = None if part.weights is None else part.weights.copy()
    return Part([], part.rows.copy(), part.labels.copy(), weights)


def _n_learned(part: Part) -> int:
    return len(part.rows) if part.weights is None else int(np.count_nonzero(part.weights))


def _weight(part: Part) -> float:
    return float(len(part.rows) if part.weights is None else part.weights.sum())


def as_row(x: NDArray[Any]) -> Features:
    """Return an array with one row."""
    return np.ascontiguousarray(x, dtype=np.float32)[None]


def mean_of_trees(by_tree: Floats) -> Floats:
    """Return the mean over trees, added in their order: the bits of one process."""
    total: Floats = np.zeros_like(by_tree[:, 0])
    for t in range(by_tree.shape[1]):
        total += by_tree[:, t]
    total /= by_tree.shape[1]
    return total
