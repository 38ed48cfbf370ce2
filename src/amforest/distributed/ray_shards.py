"""Shards in Ray's actors: numbered messages, results in order, and what is done if one dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from amforest.distributed.shard import Shard

MOST_RECOVERIES = 20  # of one shard while one result is awaited


class ShardError(RuntimeError):
    """A shard cannot go on, however often it is restarted."""


@dataclass(frozen=True, slots=True)
class Message:
    """What all shards carry out, with the same arguments and one of each shard's own."""

    number: int
    name: str
    arguments: tuple[Any, ...]
    own: Sequence[Any] | None  # the last argument of each shard

    def for_shard(self, k: int) -> tuple[Any, ...]:
        """Return the arguments of the call of shard k."""
        own = () if self.own is None else (self.own[k],)
        return (self.number, self.name, *self.arguments, *own)


class RayShards:
    """The actors, and the messages since their last checkpoint.

    An actor that dies is started again from its checkpoint, and is given these messages: it ends in
    the same state, bit for bit.

    Parameters
    ----------
    n_shards : int
    options : dict
        Of Ray's actors, such as ``{"num_cpus": 1}``.
    folder : Path or None
        Where shards write their checkpoints; all machines must see it. None: the driver keeps them
        in memory.
    most_logged : int
        After so many messages a checkpoint is due.
    """

    def __init__(
        self, n_shards: int, options: dict[str, Any], folder: Path | None, most_logged: int
    ) -> None:
        self._ray = import_ray()
        if not self._ray.is_initialized():
            self._ray.init(include_dashboard=False, log_to_driver=False)
        self._actor = self._ray.remote(Shard).options(
            **{"scheduling_strategy": "SPREAD", "max_restarts": 0, **options}
        )
        self.folder, self.most_logged = folder, most_logged
        self.lock = RLock()
        self.number = 0  # of the last message
        self.n_recoveries = 0
        self.n_cores = 0  # that were ever made
        self.unused: deque[int] = deque()  # cores that nobody needs
        self._saved: list[bytes | str | None] = [None] * n_shards
        self._log: list[Message] = []
        self._pending: dict[int, list[Any]] = {}  # results, by number of the message
        self.actors = [self._start(k) for k in range(n_shards)]

    def __len__(self) -> int:
        return len(self.actors)

    # Messages

    def new_core(self) -> int:
        """Return the number of a core that is not made yet."""
        self.n_cores += 1
        return self.n_cores

    def put(self, value: Any) -> Any:
        """Put a value into the object store once, for all shards."""
        return self._ray.put(value)

    def send(self, name: str, *arguments: Any, own: Sequence[Any] | None = None) -> int:
        """Send a message to all shards, and return its number; `result` waits for it."""
        while self.unused and name != "drop":
            self.result(self.send("drop", self.unused.popleft()))
        self.number += 1
        message = Message(self.number, name, arguments, own)
        self._log.append(message)
        self._pending[self.number] = [
            actor.carry_out.remote(*message.for_shard(k)) for k, actor in enumerate(self.actors)
        ]
        return self.number

    def is_ready(self, number: int) -> bool:
        """Return whether `result` would not wait."""
        refs = self._pending[number]
        return len(self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]) == len(refs)

    def result(self, number: int) -> list[Any]:
        """Return the results of a message, of all shards in their order."""
        results = [self._get(self._pending[number], k) for k in range(len(self))]
        del self._pending[number]
        return results

    # Calls that change nothing

    def inspect(self, core: int, name: str, *arguments: Any) -> list[Any]:
        """Return what a method of a core returns, or a property, of all shards in their order."""
        refs = self._ask(core, name, arguments)
        return [self._get(refs, k, ("inspect", core, name, *arguments)) for k in range(len(self))]

    def inspect_one(self, k: int, core: int, name: str, *arguments: Any) -> Any:
        """Return the same of one shard."""
        refs = {k: self.actors[k].inspect.remote(core, name, *arguments)}
        return self._get(refs, k, ("inspect", core, name, *arguments))

    def inspect_some(
        self, core: int, name: str, *arguments: Any, least: int, timeout: float
    ) -> dict[int, Any]:
        """Return the same of the shards that answer in time; of `least` shards in any case."""
        refs = self._ask(core, name, arguments)
        ready, late = self._ray.wait(refs, num_returns=len(refs), timeout=timeout)
        answers: dict[int, Any] = {}
        while True:
            for ref in ready:
                with suppress(*self._lost):
                    answers[refs.index(ref)] = self._ray.get(ref)
            if len(answers) >= least:
                return answers
            if not late:
                raise ShardError(f"only {len(answers)} of {len(self)} shards answer; {least} must")
            ready, late = self._ray.wait(late, num_returns=1)

    def _ask(self, core: int, name: str, arguments: tuple[Any, ...]) -> list[Any]:
        return [actor.inspect.remote(core, name, *arguments) for actor in self.actors]

    def stats(self) -> list[dict[str, Any]]:
        """Return the messages, seconds, trees, nodes and bytes of each shard."""
        refs = [actor.stats.remote() for actor in self.actors]
        return [self._get(refs, k, ("stats",)) for k in range(len(self))]

    # Checkpoints

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether there were many messages since the last checkpoint."""
        return len(self._log) >= self.most_logged

    def checkpoint(self) -> Path | None:
        """Save all shards, side by side; return the folder. No result may be pending."""
        folder = None if self.folder is None else self.folder / str(self.number)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        paths = [None if folder is None else str(folder / f"shard_{k}") for k in range(len(self))]
        refs = [
            actor.checkpoint.remote(path) for actor, path in zip(self.actors, paths, strict=True)
        ]
        self._saved = [self._get(refs, k, ("checkpoint", paths[k])) for k in range(len(self))]
        self._log.clear()
        return folder

    def restore(self, folder: Path, number: int, n_cores: int) -> None:
        """Start again from the checkpoint in a folder."""
        self.number, self.n_cores = number, n_cores
        self._log.clear()
        self._pending.clear()
        for k in range(len(self)):
            self._saved[k] = str(folder / f"shard_{k}")
            self.actors[k].reset.remote(self._saved[k])

    # Actors

    @property
    def _lost(self) -> tuple[type[Exception], ...]:
        """The errors of an actor that is dead, cannot be reached, or whose result is lost."""
        errors = self._ray.exceptions
        return (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError)

    def _start(self, k: int) -> Any:
        return self._actor.remote(self._saved[k])

    def _restart(self, k: int) -> None:
        """Start an actor from its checkpoint, and give it the messages since."""
        with suppress(Exception):
            self._ray.kill(self.actors[k], no_restart=True)
        actor = self.actors[k] = self._start(k)
        for message in self._log:
            ref = actor.carry_out.remote(*message.for_shard(k))
            if message.number in self._pending:
                self._pending[message.number][k] = ref

    def _get(self, refs: Any, k: int, again: tuple[Any, ...] = ()) -> Any:
        """Wait for the result of shard k; if it is lost, restart the shard and wait again.

        `again` is a call that is not a message, and must be repeated then.
        """
        n_failed = 0
        while True:
            try:
                return self._ray.get(refs[k])
            except (*self._lost, self._ray.exceptions.RayTaskError) as error:
                # A call that fails, though the driver has checked its arguments, may do so again.
                is_lost = isinstance(error, self._lost)
                n_failed += 1 if is_lost else MOST_RECOVERIES // 2
                if n_failed > MOST_RECOVERIES:
                    raise ShardError(f"shard {k} fails again and again: {error}") from error
                self.n_recoveries += 1
                self._restart(k)
                if again:
                    name, *arguments = again
                    refs[k] = getattr(self.actors[k], name).remote(*arguments)

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors:
            with suppress(Exception):
                self._ray.kill(actor, no_restart=True)
        self.actors = []


def import_ray() -> Any:
    """Return the module ray; an error that says how to install it."""
    try:
        import ray  # noqa: PLC0415  # heavy, and an extra
    except ImportError as error:
        raise ImportError("RayForest needs ray: pip install 'amforest[ray]'") from error
    return ray
