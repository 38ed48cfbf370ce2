"""Names of columns, and what to say about one that is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class StreamError(ValueError):
    """A source that cannot be read as it is asked for; the message says why in one line."""


class EmptyFileError(StreamError):
    """A file without even the names of columns."""


def unknown_column(name: str, names: Sequence[str], where: str = "") -> StreamError:
    """Return the error for a column that is not there: "no column 'targt'; did you mean …?"."""
    return StreamError(f"no column {name!r}{where}; {nearest(name, names)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """Ask for the name that was meant, or list those that there are."""
    names = list(names)
    by_lower = {candidate.lower(): candidate for candidate in reversed(names)}
    if close := get_close_matches(name.lower(), by_lower, n=1):
        return f"did you mean {by_lower[close[0]]!r}?"
    return f"there are {listed(names)}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Write some names, and how many there are beyond."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + rest


def repeated(names: Iterable[str]) -> str | None:
    """Return a name that occurs more than once, if there is one."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def selected(
    names: Sequence[str],
    columns: Sequence[str] | None,
    drop: Sequence[str] | None,
    target: str | None,
) -> list[str]:
    """Return the columns to read, in the file's order.

    Raises
    ------
    StreamError
        If one of the names is not there, or nothing is left.
    """
    for name in (*(columns or ()), *(drop or ()), *((target,) if target is not None else ())):
        if name not in names:
            raise unknown_column(name, names)
    if target is not None and target in (drop or ()):
        raise StreamError(f"column {target!r} cannot be both the target and left out")
    kept = [
        name
        for name in names
        if name == target or ((columns is None or name in columns) and name not in (drop or ()))
    ]
    if not kept:
        raise StreamError("no column is left to be read")
    return kept
