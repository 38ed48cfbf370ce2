"""The console: the progress of a run, and errors in one line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from amforest.evaluation import Drift  # imports scikit-learn, which the help can do without

EXIT_ERROR, EXIT_PIPE = 1, 141
SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_FRAMES = 0.25


# Errors


class CommandError(Exception):
    """An error that the user can correct."""


@contextmanager
def print_errors(console: Console, *, debug: bool) -> Iterator[None]:
    """Turn errors into one line on the console and an exit status; with `debug`, raise them."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has ended, as in `amforest … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_PIPE) from None
    except (CommandError, OSError, ValueError, TypeError, MemoryError) as error:
        if debug:
            raise
        text = f"[bold red]amforest:[/bold red] {escape(_describe(error))}"
        console.print(text, highlight=False, soft_wrap=True)
        raise SystemExit(EXIT_ERROR) from None


def _describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename is not None else ""
        return f"{name}{error.strerror}"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return " ".join(str(error).split())


class Notes:
    """Print the notes of a stream, each once.

    Parameters
    ----------
    console : Console
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.shown: list[str] = []

    def show(self, notes: Iterable[str]) -> None:
        """Print those that were not shown before."""
        for note in notes:
            if note in self.shown:
                continue
            self.shown.append(note)
            print_line(self._console, f"Note: {note}")


def describe_drift(drift: Drift) -> str:
    """Return a drift as a line: since when, by how much, and what has changed."""
    losses = f"the mean loss rose from {_number(drift.before)} to {_number(drift.after)}"
    line = f"Drift: {losses} after row {drift.since:,} (detected at row {drift.row:,})"
    if drift.changed:
        features = ", ".join(str(change.feature) for change in drift.changed)
        line += f"; importance changed most: {features}"
    return " ".join(line.split())


def print_line(console: Console, text: str) -> None:
    """Print text as it is: neither wrapped nor styled."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def print_json(values: Any) -> None:
    """Print values as JSON to standard output."""
    typer.echo(json.dumps(values, indent=2, ensure_ascii=False))


# Progress


@dataclass
class Status:
    """The position of a run in its stream, and its metrics so far."""

    rows: int = 0
    rows_per_second: float = 0.0
    bytes_read: int = 0
    bytes_total: int | None = None
    rejected: int = 0
    overall: Mapping[str, float] = field(default_factory=dict)  # by metric, over all rows
    recent: Mapping[str, float] = field(default_factory=dict)  # over the last rows
    window: int = 1_000
    nodes: int = 0
    depth: int = 0
    bytes: int = 0
    keys: int | None = None  # that have a model each, if there are keys
    unknown_classes: int = 0  # rows of classes that the model did not know: not in the log-loss


class View(Protocol):
    """A context manager that shows a status."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: Any) -> None: ...
    def show(self, status: Status) -> None:
        """Show the status, if the interval has passed."""


class NoView:
    """Show nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def show(self, status: Status) -> None:
        """Do nothing."""


class LastView(NoView):
    """Print the last status as a line, without any before it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def __exit__(self, *error: Any) -> None:
        if self._status is not None:
            self._print(self._status)

    def show(self, status: Status) -> None:
        """Keep the status."""
        self._status = status

    def _print(self, status: Status) -> None:
        print_line(self._console, _line(status))


class PlainView(LastView):
    """Print a line at intervals, for logs and pipes; the last status is always printed."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._last = time.monotonic()

    def show(self, status: Status) -> None:
        """Print a line if the interval has passed."""
        super().show(status)
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self._print(status)


class LiveView:
    """Redraw a bar and a table, for terminals."""

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
        """Redraw if the interval has passed."""
        self._status, now = status, time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_FRAMES:
            self._last = now
            self._draw()

    def _draw(self, *, done: bool = False) -> None:
        status = self._status
        total = status.bytes_total or (status.bytes_read if done else None)
        read = total if done and total else status.bytes_read
        self._progress.update(self._task, completed=read, total=total, rate=_rate(status))
        self._live.update(Group(self._progress, metrics_table(status)), refresh=True)


def choose_view(console: Console, title: str, *, quiet: bool, shows_result: bool = True) -> View:
    """Return a view for a terminal, for other outputs, or of the result alone."""
    if quiet:
        return LastView(console) if shows_result else NoView()
    return LiveView(console, title) if console.is_terminal else PlainView(console)


def metrics_table(status: Status) -> RenderableType:
    """Return the metrics of a run, and its size, as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("all rows", justify="right")
    table.add_column(f"last {status.window:,}", justify="right")
    for name, value in status.overall.items():
        recent = status.recent.get(name)
        table.add_row(name, _number(value), "" if recent is None else _number(recent))
    parts = [f"{status.rows:,} rows", *_exceptions(status), _size(status)]
    return Group(table, " · ".join(part for part in parts if part))


def _line(status: Status) -> str:
    parts = [f"{status.rows:,} rows", _rate(status) if status.rows_per_second else ""]
    if status.bytes_total:
        parts.append(f"{status.bytes_read / status.bytes_total:.0%}")
    for name, value in status.overall.items():
        recent = status.recent.get(name)
        parts.append(f"{name} {_number(value)}" + (f" ({_number(recent)})" if recent else ""))
    parts += [_size(status), *_exceptions(status)]
    return " · ".join(part for part in parts if part)


def _exceptions(status: Status) -> list[str]:
    """Return how many rows were rejected, and how many are not in the log-loss."""
    words = []
    if status.rejected:
        words.append(f"{status.rejected:,} rejected")
    if n := status.unknown_classes:
        words.append(f"log_loss without {n:,} row{'s' * (n != 1)} of a class not seen before")
    return words


def _size(status: Status) -> str:
    if not status.bytes:
        return ""
    if status.keys is not None:
        return f"{status.keys:,} keys, {_bytes(status.bytes)} in memory"
    return f"{status.nodes:,} nodes, depth {status.depth}, {_bytes(status.bytes)}"


def _rate(status: Status) -> str:
    return f"{status.rows_per_second:,.0f} rows/s"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
