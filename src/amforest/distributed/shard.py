"""A shard: some of the trees of a forest, and the messages that it has carried out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amforest._forest.core_handle import Core, restore_core
from amforest.model_io.atomic_write import read_all, write_atomically
from amforest.model_io.core_file import cores_from_bytes, cores_to_bytes


class Shard:
    """What an actor holds: cores, which are parts of forests, by number.

    Messages are numbered, and change the cores in this order, each once. Growth makes a new core,
    so that an error can go back to the earlier one; the driver drops those it needs no more.

    Parameters
    ----------
    saved : bytes, path or None
        What `checkpoint` returned, or where it wrote; None: no message was carried out.
    """

    def __init__(self, saved: bytes | str | None = None) -> None:
        self.reset(saved)

    def reset(self, saved: bytes | str | None) -> None:
        """Forget everything, and start from a checkpoint, or anew."""
        self.cores: dict[int, Any] = {}
        self.seconds = self.cpu_seconds = 0.0  # that messages took
        self.number = 0  # of the last message
        if saved is not None:
            data = read_all(Path(saved)) if isinstance(saved, str) else saved
            self.cores, self.number = cores_from_bytes(data)

    def carry_out(self, number: int, message: str, *arguments: Any) -> Any:
        """Carry out the next message, and return its result."""
        if number != self.number + 1:
            raise RuntimeError(f"message {number} was sent after message {self.number}")
        start, cpu_start = time.perf_counter(), time.process_time()
        result = _MESSAGES[message](self, *arguments)
        self.seconds += time.perf_counter() - start
        self.cpu_seconds += time.process_time() - cpu_start
        self.number = number
        return result

    def inspect(self, core: int, name: str, *arguments: Any) -> Any:
        """Return a property of a core, or what a method returns that changes nothing."""
        value = getattr(self.cores[core], name)
        return value(*arguments) if callable(value) else value

    def checkpoint(self, path: str | None) -> bytes | str:
        """Write all that makes the shard to a file, or return it as bytes."""
        data = cores_to_bytes(self.cores, self.number)
        if path is None:
            return data
        write_atomically(Path(path), [data])
        return path

    def stats(self) -> dict[str, Any]:
        """Return the number of the last message, the seconds of all, and what the cores hold."""
        cores = self.cores.values()
        return {
            "messages": self.number,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "trees": sum(core.n_trees for core in cores),
            "nodes": sum(core.n_nodes for core in cores),
            "bytes": sum(core.n_bytes for core in cores),
        }

    def pid(self) -> int:
        """Return the number of the process."""
        return os.getpid()

    def wait(self, seconds: float) -> None:
        """Do nothing for a while: to try what a slow machine does."""
        time.sleep(seconds)

    # Messages

    def _place(self, core: int, state: Mapping[str, Any]) -> None:
        self.cores[core] = restore_core(dict(state))

    def _learn(
        self,
        core: int,
        batch: tuple[Any, Any, Any],
        n_threads: int,
        parameters: dict[str, Any] | None,
        is_predicted: bool,
    ) -> Any:
        rows, labels, weights = batch
        own: Core = self.cores[core]
        learn = own.predict_then_learn_by_tree if is_predicted else own.learn
        return learn(rows, labels, n_threads, weights, parameters)

    def _reserve(self, core: int, new: int, more: dict[str, Any]) -> None:
        self.cores[new] = self.cores[core].reserve(**more)

    def _count_in_real_numbers(self, core: int, new: int) -> None:
        self.cores[new] = self.cores[core].with_real_counts()

    def _drop(self, core: int) -> None:
        del self.cores[core]


_MESSAGES: dict[str, Callable[..., Any]] = {
    "place": Shard._place,
    "learn": Shard._learn,
    "reserve": Shard._reserve,
    "count_in_real_numbers": Shard._count_in_real_numbers,
    "drop": Shard._drop,
}
