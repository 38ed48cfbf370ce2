"""The models of many keys in Ray actors, each of which has the keys of one shard.

The driver numbers what it has a shard learn, and keeps it until all shards have saved their models.
A shard that dies is started again from what it saved last, learns the same rows again in the same
order, and so has the same models, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError, RayTaskError

from amforest.distributed.key_rows import Indices, KeyRows, shard_of
from amforest.distributed.keyed_models import KeyedModels, Predicted, Template, join_classes, widen
from amforest.distributed.segment_store import Key

MOST_RESTARTS = 10  # of a shard, within one call


class _Call(NamedTuple):
    """A call of a method of `KeyedModels`."""

    method: str
    arguments: tuple[Any, ...]


class _Request(NamedTuple):
    """A call of a method of `ShardActor`, and how many learning calls come before it."""

    method: str
    arguments: tuple[Any, ...]
    n_before: int


@dataclass
class _Shard:
    """An actor, and what it has learned since it has saved its models."""

    index: int
    directory: str
    actor: Any = None
    learned: list[_Call] = field(default_factory=list)


class ShardActor:
    """The models of one shard, in an actor. It learns each numbered call once."""

    def __init__(self, template: Template, directory: str, generation: int | None) -> None:
        self._models = KeyedModels(template, directory, generation)
        self._n_learned = 0

    def run(self, call: _Call) -> Any:
        """Call a method that changes no model."""
        return getattr(self._models, call.method)(*call.arguments)

    def learn(self, number: int, call: _Call) -> Any:
        """Call a method that learns: the number must be that of the next call."""
        if number != self._n_learned:
            raise RuntimeError(f"call {number} came, but call {self._n_learned} is next")
        self._n_learned += 1
        return self.run(call)

    def learn_again(self, calls: Sequence[_Call]) -> None:
        """Learn what an actor before this one has learned, errors included."""
        for number, call in enumerate(calls, self._n_learned):
            with suppress(Exception):  # the caller had this error before
                self.learn(number, call)

    def commit(self, generation: int) -> None:
        """Save all models; the next call has number 0."""
        self._models.commit(generation)
        self._n_learned = 0


class ShardedModels:
    """The models of many keys, in as many actors as there are folders.

    Parameters
    ----------
    template : Template
    directories : sequence of str
        The folder of each shard.
    generation : int or None
        The commit to continue from; None means that there are no models.
    is_temporary : bool
        Whether the folders are on this machine only.
    """

    def __init__(
        self,
        template: Template,
        directories: Sequence[str],
        generation: int | None,
        *,
        is_temporary: bool,
    ) -> None:
        if not ray.is_initialized():
            ray.init()
        if is_temporary and len(ray.nodes()) > 1:  # type: ignore[no-untyped-call]
            raise ValueError(
                "directory is None; on several machines n_shards needs a directory that all of "
                "them can reach, such as a URL of object storage"
            )
        if directories[0].startswith("memory://"):
            raise ValueError(
                "directory is in memory://, which other processes cannot read; n_shards needs a "
                "folder or a URL that all of them can reach"
            )
        self._template, self._generation = template, generation
        self._shards = [_Shard(i, directory) for i, directory in enumerate(directories)]
        for shard in self._shards:
            self._start(shard)

    def learn(self, method: str, rows: KeyRows) -> Predicted:
        """Have each shard learn the rows of its keys; return the predictions, if any."""
        return self._run_parts("learn", method, rows, learns=True)

    def predict(self, method: str, rows: KeyRows) -> Predicted:
        """Have each shard predict the rows of its keys."""
        return self._run_parts("predict", method, rows, learns=False)

    def learn_one(self, key: Key, x: Any, y: Any, weight: float) -> NDArray[Any] | None:
        """Learn one row; return the classes that the model knows then."""
        call = _Call("learn_one", (key, x, y, weight))
        classes: NDArray[Any] | None = self._run_all({self._of(key): call}, learns=True)[0]
        return classes

    def predict_one(self, method: str, key: Key, x: Any) -> Predicted | None:
        """Predict one row; None if the key has no model."""
        predicted: Predicted | None
        (predicted,) = self._run_all({self._of(key): _Call("predict_one", (method, key, x))})
        return predicted

    def model_bytes(self, key: Key) -> bytes | None:
        """Return the model of a key as a model file; None if it has none."""
        data: bytes | None = self._run_all({self._of(key): _Call("model_bytes", (key,))})[0]
        return data

    def keys(self) -> list[Key]:
        """Return all keys that have a model."""
        return [key for keys in self._run_everywhere(_Call("keys", ())) for key in keys]

    def stats(self) -> dict[str, int]:
        """Return the numbers of models and bytes, in memory and saved, of all shards."""
        numbers = self._run_everywhere(_Call("stats", ()))
        return {name: sum(part[name] for part in numbers) for name in numbers[0]}

    def commit(self, generation: int) -> None:
        """Have all shards save their models, and forget what they have learned until now."""
        self._request_all(
            {
                shard.index: _Request("commit", (generation,), len(shard.learned))
                for shard in self._shards
            }
        )
        self._generation = generation
        for shard in self._shards:
            shard.learned.clear()

    def copy_to(self, directories: Sequence[str]) -> None:
        """Have each shard save its models to another folder."""
        calls = {i: _Call("copy_to", ([directory],)) for i, directory in enumerate(directories)}
        self._run_all(calls)

    def close(self) -> None:
        """End the actors."""
        for shard in self._shards:
            ray.kill(shard.actor)

    # Calls

    def _of(self, key: Key) -> int:
        return shard_of(key, len(self._shards))

    def _run_parts(self, name: str, method: str, rows: KeyRows, *, learns: bool) -> Predicted:
        """Have each shard do its part of the rows, and join the predictions."""
        shards = np.array([self._of(key) for key in rows.keys], dtype=np.intp)
        calls: dict[int, _Call] = {}
        positions: list[Indices] = []
        for i in np.unique(shards).tolist():
            some, where = rows.select(np.flatnonzero(shards == i))
            calls[i] = _Call(name, (method, some))
            positions.append(where)
        parts: list[Predicted] = self._run_all(calls, learns=learns)
        classes = join_classes([part.classes for part in parts if part.classes is not None])
        shape = () if classes is None else (len(classes),)
        values = np.full((len(rows), *shape), np.nan)
        for part, where in zip(parts, positions, strict=True):
            if part.values.ndim == values.ndim:  # else no key of the shard has a model
                values[where] = widen(part.values, part.classes, classes)
        return Predicted(values, classes, [key for part in parts for key in part.unseen])

    def _run_everywhere(self, call: _Call) -> list[Any]:
        return self._run_all({shard.index: call for shard in self._shards})

    def _run_all(self, calls: dict[int, _Call], *, learns: bool = False) -> list[Any]:
        """Run a call in each of some shards, at the same time, and return their results."""
        requests: dict[int, _Request] = {}
        for i, call in calls.items():
            learned = self._shards[i].learned
            number = len(learned)
            if learns:
                learned.append(call)
                requests[i] = _Request("learn", (number, call), number)
            else:
                requests[i] = _Request("run", (call,), number)
        return self._request_all(requests)

    def _request_all(self, requests: dict[int, _Request]) -> list[Any]:
        """Return the results of requests, which run at the same time."""
        references = {i: _send(self._shards[i], request) for i, request in requests.items()}
        results: list[Any] = []
        failure: BaseException | None = None
        for i, request in requests.items():
            try:
                results.append(self._get(self._shards[i], request, references[i]))
            except RayTaskError as error:
                failure = failure or error.cause
        if failure is not None:
            raise failure
        return results

    def _get(self, shard: _Shard, request: _Request, reference: Any) -> Any:
        """Return the result of a request; one that the actor does not survive is made again."""
        for attempt in range(MOST_RESTARTS + 1):
            try:
                if attempt:
                    self._start(shard)
                    ray.get(shard.actor.learn_again.remote(shard.learned[: request.n_before]))
                    reference = _send(shard, request)
                return ray.get(reference)
            except RayActorError as error:
                last = error
        raise RuntimeError(
            f"shard {shard.index} died {MOST_RESTARTS + 1} times in one call; see Ray's logs"
        ) from last

    def _start(self, shard: _Shard) -> None:
        """Start the actor of a shard, from what it saved last."""
        actor = ray.remote(ShardActor).options(max_restarts=0)
        shard.actor = actor.remote(self._template, shard.directory, self._generation)


def _send(shard: _Shard, request: _Request) -> Any:
    return getattr(shard.actor, request.method).remote(*request.arguments)
