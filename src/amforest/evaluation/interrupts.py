"""Ctrl-C during an evaluation, kept until the row in hand is learnt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Self

from amforest.evaluation.blocks import Block


class Interrupts:
    """Ctrl-C ends a stream between two rows, at once if the next one is being waited for.

    A second one is not waited with.
    """

    def __init__(self) -> None:
        self.came = False
        self._waiting = False
        self._before: Any = None

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _take(self, *_: Any) -> None:
        if self._waiting or self.came:
            raise KeyboardInterrupt
        self.came = True

    def until(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield what comes before the interrupt."""
        source = iter(blocks)
        while True:
            self._waiting = True
            try:
                if self.came:
                    return
                block = next(source)
            except StopIteration:
                return
            except KeyboardInterrupt:
                self.came = True
                return
            finally:
                self._waiting = False
            yield block
