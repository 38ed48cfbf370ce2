"""The files and folders that a command is to write: whether it can, before the first row."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from amforest.cli.console import CommandError
from amforest.cli.row_file import is_parquet
from amforest.cli.settings import Settings, find_source
from amforest.reading.sources import find_files


def check_outputs(settings: Settings, report: str | None) -> None:
    """Refuse files and folders that cannot be written, before any file is changed.

    Raises
    ------
    CommandError
        Names the option, the path, the reason and what to do.
    """
    outputs = {
        "--save": settings.save,
        "--predictions": settings.predictions,
        "--rejects": settings.rejects,
        "--checkpoint": settings.checkpoint,
        "--report": report,
    }
    check_distinct(list_inputs(settings.source, settings.format), outputs)
    if settings.warm_start is not None:  # which --save may replace
        check_distinct([settings.warm_start], outputs | {"--save": None})
    if settings.checkpoint is not None and is_parquet(settings.predictions):
        raise CommandError(
            f"--predictions is {settings.predictions}, but a file of Parquet cannot be continued "
            "from a checkpoint: give .csv, .tsv or .ndjson, or drop --checkpoint"
        )
    if settings.key is None:
        check_file("--save", settings.save, replaces=True)
    else:
        _check_folder("--save", settings.save)
    for option, path in (("--predictions", settings.predictions), ("--rejects", settings.rejects)):
        check_file(option, None if path == "-" else path)
    _check_folder("--checkpoint", settings.checkpoint)
    _check_folder("--report", report)


def list_inputs(source: Sequence[str], format: str | None) -> list[str]:  # noqa: A002
    """Return the files and folders of a source; of the embedded stream there are none."""
    if not source:
        return []
    files = find_files(find_source(source), format)
    return [*source, *(str(file.place) for file in files)]


def check_distinct(inputs: Iterable[str], outputs: Mapping[str, str | None]) -> None:
    """Refuse outputs that are also inputs, or each other, by any name of the same file.

    Parameters
    ----------
    inputs : iterable of str
        What the command reads; ``-`` is standard input.
    outputs : mapping of str to str or None
        What it writes, by option; ``-`` is standard output.

    Raises
    ------
    CommandError
        Names the option, the path and what it is, too.
    """
    taken: dict[object, str] = {}
    for name in inputs:
        taken[_identify("/dev/stdin" if name == "-" else name)] = "an input"
    for option, path in outputs.items():
        if path is None or path == "-" or (identity := _identify(path)) is None:
            continue
        if identity in taken:
            raise CommandError(
                f"{option} is {path}, which is also {taken[identity]}: give another path"
            )
        taken[identity] = option


def _identify(path: str) -> object:
    """Return what all names of a file or folder have in common; None for pipes and devices."""
    path = os.path.realpath(path)
    try:
        found = os.stat(path)
    except OSError:  # it does not exist yet
        return path
    is_kept = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return (found.st_dev, found.st_ino) if is_kept else None


def check_file(option: str, path: str | None, *, replaces: bool = False) -> None:
    """Refuse a file that cannot be written; with `replaces`, one that cannot be replaced."""
    if path is None:
        return
    if os.path.isdir(path):
        raise CommandError(f"{option} is {path}, which is a folder: give the name of a file")
    if os.path.exists(path) and not replaces:
        return  # it is opened before the first row
    folder = Path(os.path.realpath(path)).parent
    if not folder.exists():
        shown = os.path.dirname(path) or "."
        raise CommandError(
            f"{option} is {path}, but the folder {shown} does not exist: create it first"
        )
    _probe(option, path, folder)


def _check_folder(option: str, path: str | None) -> None:
    """Refuse a folder that cannot be created, or in which no file can be created."""
    if path is None:
        return
    folder = Path(os.path.realpath(path))
    while not folder.exists():
        folder = folder.parent
    _probe(option, path, folder)


def _probe(option: str, path: str, folder: Path) -> None:
    """Create a file in a folder, and remove it: permissions alone do not tell whether it works."""
    try:
        with NamedTemporaryFile(dir=folder, prefix=".amforest-", suffix=".tmp"):
            pass
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO)
        raise CommandError(
            f"{option} is {path}, but nothing can be written to {folder}: {reason}"
        ) from error
