"""Errors that a user can mend: one line, and no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

EXIT_ERROR, EXIT_INTERRUPTED, EXIT_PIPE = 1, 130, 141


class CommandError(Exception):
    """Something that the user asked for cannot be done."""


def nearest(name: str, names: list[str]) -> str:
    """Return a hint at the name that was meant, if there is one."""
    found = get_close_matches(name, names, n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; there are {', '.join(names[:20])}"


@contextmanager
def one_line(say: Callable[[str], None], *, debug: bool) -> Iterator[None]:
    """Turn errors into one line and an exit status; with `debug`, leave them as they are."""
    try:
        yield
    except BrokenPipeError:  # such as of `amforest … | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_PIPE) from None
    except (CommandError, OSError, ValueError, TypeError, MemoryError) as error:
        if debug:
            raise
        say(_sentence(error))
        raise SystemExit(EXIT_ERROR) from None


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename is not None else ""
        return f"{name}{error.strerror}"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return " ".join(str(error).split())
