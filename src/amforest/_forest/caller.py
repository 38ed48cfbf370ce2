"""The place to which a warning points."""

from __future__ import annotations

import sys


def caller_level() -> int:
    """Return the stack level of the call into this library, for the caller of this function."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("amforest."):
        level, frame = level + 1, frame.f_back
    return level
