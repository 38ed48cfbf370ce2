"""Ctrl-C and SIGTERM, kept until work in hand is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Signals:
    """SIGINT and SIGTERM from now on: the first is kept, one after it is a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.first: int | None = None
        self._may_raise, self._is_idle = True, False
        self._handlers: dict[int, Any] = {}  # those that were there
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            # None is a handler that Python did not install, and could not install again.
            if signal.getsignal(number) not in (None, signal.SIG_IGN):
                self._handlers[number] = signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.first is not None and self._may_raise:
            raise KeyboardInterrupt
        self.first = number
        if self._is_idle:
            self.deliver()

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Nothing is in hand, such as while one waits for input: a signal need not be kept."""
        self._is_idle = True
        try:
            if self.first is not None:
                self.deliver()
            yield
        finally:
            self._is_idle = False

    def release(self) -> None:
        """Give the signals back to those who had them."""
        self._may_raise = False
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def deliver(self) -> None:
        """Leave as the signal wants it, if there was one."""
        number, self.first = self.first, None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number is not None:
            raise SystemExit(128 + number)
