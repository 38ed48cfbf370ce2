"""What is seen while a stream is learnt: a progress bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_FRAMES = 0.25


@dataclass
class Status:
    """How far a run is, and how well it does."""

    rows: int = 0
    rows_per_second: float = 0.0
    bytes_read: int = 0
    bytes_total: int | None = None
    rejected: int = 0
    overall: Mapping[str, float] = field(default_factory=dict)  # by metric, over all rows
    recent: Mapping[str, float] = field(default_factory=dict)  # over the last ones
    window: int = 1_000
    nodes: int = 0
    depth: int = 0
    bytes: int = 0


class View(Protocol):
    """Something that shows a status; entered before the first and left after the last."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: Any) -> None: ...
    def show(self, status: Status) -> None:
        """Show how things are, if it is time to."""


class NoView:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def show(self, status: Status) -> None:
        """Do nothing."""


class PlainView(NoView):
    """Prints a line now and then: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, time.monotonic()
        self._status: Status | None = None

    def __exit__(self, *error: Any) -> None:
        if self._status is not None:
            self._console.print(_line(self._status), highlight=False)

    def show(self, status: Status) -> None:
        """Print a line if the last one is some seconds old; the last status is always printed."""
        self._status, now = status, time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self._console.print(_line(status), highlight=False)


class LiveView:
    """A bar and a table that are redrawn."""

    def __init__(self, console: Console, title: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._progress.add_task(title, total=None, rate="")
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._last = 0.0
        self._status = Status()

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._draw(done=kind is None)
        self._live.__exit__(kind, error, trace)

    def show(self, status: Status) -> None:
        """Redraw if the last time is long enough ago."""
        self._status, now = status, time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_FRAMES:
            self._last = now
            self._draw()

    def _draw(self, *, done: bool = False) -> None:
        status = self._status
        total = status.bytes_total or (status.bytes_read if done else None)
        read = total if done and total else status.bytes_read
        self._progress.update(self._task, completed=read, total=total, rate=_rate(status))
        self._live.update(Group(self._progress, figures(status)), refresh=True)


def view_for(console: Console, title: str, *, quiet: bool) -> View:
    """Choose how to show a run."""
    if quiet:
        return NoView()
    return LiveView(console, title) if console.is_terminal else PlainView(console)


def figures(status: Status) -> RenderableType:
    """Return the figures of a run as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("all rows", justify="right")
    table.add_column(f"last {status.window:,}", justify="right")
    for name, value in status.overall.items():
        recent = status.recent.get(name)
        table.add_row(name, _number(value), "" if recent is None else _number(recent))
    size = f"{status.nodes:,} nodes, depth {status.depth}, {_bytes(status.bytes)}"
    rejected = f", {status.rejected:,} rejected" if status.rejected else ""
    return Group(table, f"{status.rows:,} rows{rejected} · {size}")


def _line(status: Status) -> str:
    parts = [f"{status.rows:,} rows", _rate(status)]
    if status.bytes_total:
        parts.append(f"{status.bytes_read / status.bytes_total:.0%}")
    for name, value in status.overall.items():
        recent = status.recent.get(name)
        parts.append(f"{name} {_number(value)}" + (f" ({_number(recent)})" if recent else ""))
    parts.append(f"{status.nodes:,} nodes, depth {status.depth}, {_bytes(status.bytes)}")
    if status.rejected:
        parts.append(f"{status.rejected:,} rejected")
    return " · ".join(parts)


def _rate(status: Status) -> str:
    return f"{status.rows_per_second:,.0f} rows/s"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
