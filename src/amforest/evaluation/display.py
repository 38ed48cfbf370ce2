"""The line that says how far an evaluation is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

from amforest.evaluation.progress import Progress


class Display:
    """Show now and then how far it is."""

    def __init__(self, progress: bool | Callable[[Progress], object]) -> None:
        self._live = progress is True and sys.stderr.isatty()
        self._tell = progress if callable(progress) else self._print if progress else None
        self._interval = 10.0 if progress is True and not self._live else 0.5
        self._last = perf_counter()

    def show(self, result: Callable[[], Progress]) -> None:
        """Show what there is so far, if it is time."""
        if self._tell is not None and perf_counter() - self._last >= self._interval:
            self._tell(result())
            self._last = perf_counter()

    def end(self, result: Progress) -> None:
        """Show the last result, however short ago the one before was."""
        if self._tell is None:
            return
        self._tell(result)
        if self._tell == self._print and self._live:
            print(file=sys.stderr)

    def _print(self, result: Progress) -> None:
        parts = [
            f"{name} {value:.4g} (last {result.window_size:,}: {result.window[name]:.4g})"
            for name, value in result.metrics.items()
        ]
        line = "  ".join([f"{result.n_rows:,} rows", *parts])
        start, end = ("\r", "\x1b[K") if self._live else ("", "\n")
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)
