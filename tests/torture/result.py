"""The result of a module of this folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Report = Callable[[str, int, int], None]  # label, how many are done, of how many


@dataclass(frozen=True)
class Result:
    """One row of the summary."""

    fault: str
    count: int
    bar: str
    passed: bool
    details: str = ""
