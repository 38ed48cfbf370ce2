"""The settings of a command, and the stream they name: files, a pipe or the embedded stream."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from amforest.cli.console import CommandError
from amforest.reading import Stream, open_stream, parse_types

ROWS_PER_BLOCK = 4_000  # that are predicted and learned at once
ADAPTIVE, AMF = "adaptive", "amf"  # the families of models
COVERAGE = 0.9  # of intervals, by default
DEMO_TARGET = "buys"
DEMO_ROWS = 20_000

_PAGES = np.array(["shoes", "books", "garden", "toys", "music"])
_DEVICES = np.array(["phone", "tablet", "desktop"])
_START = datetime(2026, 3, 1)


@dataclass(frozen=True)
class Settings:
    """The values of a command's options."""

    source: tuple[str, ...] = ()
    target: str | None = None
    task: str | None = None
    model: str | None = None  # None: the adaptive forest
    trees: int | None = None  # None: as many as the model has by default
    step: float | None = None
    seed: int | None = None  # None: 0, or that of the model to continue
    threads: int = 1
    use: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    key: str | None = None  # the column whose values have a model each
    id_column: str | None = None  # that predictions pass through
    max_bytes: int | None = None  # of the model, or of the models of keys in memory
    types: str | None = None
    format: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    scale: bool | None = None  # None: as the model needs it
    delay: int = 0
    coverage: float | None = None  # None: 0.9, where the model predicts intervals
    max_nodes: int | None = None
    warm_start: str | None = None
    save: str | None = None
    checkpoint: str | None = None
    every: int = 10_000
    predictions: str | None = None
    all_classes: bool = False  # whether each class has a column of probabilities
    rejects: str | None = None
    strict: bool = False
    quiet: bool = False
    as_json: bool = False  # the result is printed as JSON

    def target_column(self) -> str:
        """Return the column of the labels."""
        if self.target is None and self.source:
            raise CommandError("--target is missing: name the column to predict")
        return self.target or DEMO_TARGET

    def may_have_files(self) -> bool:
        """Whether the source may be several files: a list, a folder or a pattern."""
        paths = [path for path in self.source if path != "-"]
        return len(paths) > 1 or any(not Path(path).is_file() for path in paths)

    def source_names(self, most: int = 3, *, with_folders: bool = True) -> str:
        """Return the names of the source; of many only the first ones."""
        if not self.source:
            return "the embedded stream of shop visits"
        paths = (path if with_folders else Path(path).name for path in self.source[:most])
        names = ["standard input" if path == "-" else path for path in paths]
        more = len(self.source) - len(names)
        return ", ".join(names) + (f" and {more:,} more" if more else "")


def open_source(settings: Settings, kinds: dict[str, str] | None = None) -> Stream:
    """Open the source, or else the embedded stream.

    Parameters
    ----------
    settings : Settings
    kinds : dict of str to str, default=None
        The columns to read, and their kinds: those of a model to continue, of which features may
        be absent. None means those of the settings.
    """
    target = settings.target_column()
    passed = [name for name in (settings.key, settings.id_column) if name is not None]
    columns = [*settings.use, *passed, target] if settings.use else None
    requested = dict.fromkeys(passed, "category") | (kinds or {})
    features = [name for name in kinds or {} if name not in (target, settings.key)]
    return open_stream(
        find_source(settings.source) or demo_stream(),
        format=settings.format if settings.source else "csv",
        types=requested | (parse_types(settings.types) if settings.types else {}),
        columns=list(dict.fromkeys([*kinds, *passed])) if kinds else columns,
        drop=list(settings.drop) or None,
        target=target,
        strict=settings.strict,
        delimiter=settings.delimiter if settings.source else None,
        decimal=settings.decimal if settings.source else None,
        encoding=settings.encoding if settings.source else None,
        may_be_absent=features,
    )


def find_source(names: Sequence[str]) -> str | list[str]:
    """Return the source as `open_stream` takes it: standard input, or names of files."""
    return "-" if list(names) == ["-"] else list(names)


def demo_stream(n_rows: int = DEMO_ROWS, seed: int = 0) -> io.BytesIO:
    """Return the visits of a shop as a file of CSV; the same arguments give the same bytes.

    Whether a visitor buys depends on the page, the device, the basket and the hour. In the middle
    of the stream a sale begins, and the pages that sell best change.
    """
    rng = np.random.default_rng(seed)
    minutes = np.cumsum(rng.exponential(3.0, n_rows))
    hour = minutes / 60 % 24
    page, device = rng.choice(5, n_rows), rng.choice(3, n_rows, p=[0.6, 0.1, 0.3])
    seconds = rng.gamma(2.0, 40.0, n_rows)
    basket = np.where(rng.uniform(size=n_rows) < 0.5, 0.0, rng.gamma(1.5, 30.0, n_rows))
    on_sale = np.arange(n_rows) >= n_rows // 2
    appeal = np.where(on_sale, np.array([2, -1, 0, 1, -1])[page], np.array([0, 2, -1, 0, 1])[page])
    logit = appeal + (device == 2) + basket / 40 - 2.2 + np.where((hour > 18) & (hour < 23), 1, 0)
    buys = rng.uniform(size=n_rows) < 1 / (1 + np.exp(-3 * logit))
    gaps = rng.uniform(size=n_rows) < 0.05
    lines = ["time,page,device,seconds,basket,buys"]
    for i in range(n_rows):
        time = (_START + timedelta(minutes=float(minutes[i]))).isoformat(timespec="seconds")
        length = "" if gaps[i] else f"{seconds[i]:.1f}"
        words = f"{_PAGES[page[i]]},{_DEVICES[device[i]]}"
        lines.append(f"{time},{words},{length},{basket[i]:.2f},{'yes' if buys[i] else 'no'}")
    return io.BytesIO(("\n".join(lines) + "\n").encode())
