"""Rejected rows by reason: how many there are, and where the first one is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console

from amforest.cli.console import print_line
from amforest.reading import Reject


class RejectSummary:
    """Count rejected rows by reason, in the order in which the reasons occur."""

    def __init__(self) -> None:
        self._counts: dict[str, list[Any]] = {}  # rows, file and line of the first, by reason

    def add(self, rejects: Iterable[Reject]) -> None:
        """Count some rows."""
        for reject in rejects:
            self._counts.setdefault(reject.group, [0, reject.file, reject.line])[0] += 1

    def to_json(self) -> list[dict[str, Any]]:
        """Return the counts in values of JSON."""
        return [
            {"reason": reason, "rows": n_rows, "first_file": file, "first_line": line}
            for reason, (n_rows, file, line) in self._counts.items()
        ]

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Continue from the result of `to_json`."""
        for entry in state:
            self._counts[entry["reason"]] = [entry[k] for k in ("rows", "first_file", "first_line")]

    def show(self, console: Console) -> None:
        """Print a line for each reason."""
        for reason, (n_rows, file, line) in self._counts.items():
            rows = f"{n_rows:,} row{'s' * (n_rows != 1)}"
            text = f"Rejected {rows}, the first at {file}:{line}: {reason}"
            print_line(console, text)
