"""Ctrl-C and SIGTERM, held back until the work in hand is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, Self, TypeVar

Item = TypeVar("Item")

BOTH = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Handle SIGINT and SIGTERM within a block: the first is held back.

    A second signal raises KeyboardInterrupt at once. Outside the main thread no handler is
    installed, and neither is one for a signal that is ignored.

    Parameters
    ----------
    signals : sequence of int, default=(SIGINT, SIGTERM)
        The signals to handle.
    replace : bool, default=True
        Whether to replace a handler that the program has installed itself. Python's own handlers
        are always replaced.

    Attributes
    ----------
    first : int or None
        The signal that is held back.
    """

    def __init__(self, signals: Sequence[int] = BOTH, *, replace: bool = True) -> None:
        self.first: int | None = None
        self._signals, self._replace = signals, replace
        self._may_raise, self._is_waiting = True, False
        self._handlers: dict[int, Any] = {}  # the handlers before

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in self._signals:
            handler = signal.getsignal(number)
            is_default = handler in (signal.default_int_handler, signal.SIG_DFL)
            # None is a handler that Python did not install, and could not install again.
            if is_default or (self._replace and handler not in (None, signal.SIG_IGN)):
                self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        self._may_raise = False  # so that all handlers are given back
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @property
    def received(self) -> bool:
        """Whether a signal was received, which is held back."""
        return self.first is not None

    @property
    def exit_status(self) -> int:
        """The exit status of a program that ends because of the signal; 0 without one."""
        return 0 if self.first is None else 128 + self.first

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_second = self.received and self._may_raise
        if not is_second:
            self.first = number
        if is_second or self._is_waiting:
            raise KeyboardInterrupt

    def until(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items until a signal comes; it is not held back while the next item is awaited."""
        source = iter(items)
        while True:
            self._is_waiting = True
            try:
                if self.received:
                    return
                item = next(source)
            except StopIteration:
                return
            except KeyboardInterrupt:
                self.hold(signal.SIGINT)
                return
            finally:
                self._is_waiting = False
            yield item

    def hold(self, number: int) -> None:
        """Hold a signal back, unless one is: KeyboardInterrupt may be another handler's."""
        if self.first is None:
            self.first = number

    def deliver(self) -> None:
        """Raise KeyboardInterrupt or SystemExit if a signal is held back."""
        number, self.first = self.first, None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number is not None:
            raise SystemExit(128 + number)
