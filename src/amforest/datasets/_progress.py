"""How far a download is, shown in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

WHAT = "Downloading data"
Show = Callable[[int], None]
"""Told how many more bytes are there."""


@contextmanager
def progress(n_bytes: int) -> Iterator[Show]:
    """Show how much of a download is there: a bar with rich, else a percentage; nothing in logs."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with (_bar if find_spec("rich") else _percentage)(n_bytes) as show:
        yield show


@contextmanager
def _bar(n_bytes: int) -> Iterator[Show]:
    from rich.console import Console  # noqa: PLC0415  # only for those who have it
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn(WHAT), BarColumn(), *columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(WHAT, total=n_bytes)
        yield lambda n: bar.update(task, advance=n)


@contextmanager
def _percentage(n_bytes: int) -> Iterator[Show]:
    n_there, shown = 0, -1

    def show(n: int) -> None:
        nonlocal n_there, shown
        n_there += n
        percent = 100 * n_there // n_bytes
        if percent != shown:
            shown = percent
            print(f"\r{WHAT}: {percent} %", end="", file=sys.stderr, flush=True)

    try:
        show(0)
        yield show
    finally:
        print(file=sys.stderr)
