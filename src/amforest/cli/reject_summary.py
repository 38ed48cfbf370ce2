"""Rejected rows by reason: how many there are, and what and where the first one is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from amforest.cli.console import CommandError, print_line
from amforest.reading import Reject

MOST_REASONS = 3  # in an error


@dataclass
class ReasonCount:
    """The rows that were rejected for a reason, and the first of them.

    Attributes
    ----------
    reason : str
        What they have in common.
    rows : int
    first_file : str
    first_line : int
    first_reason : str
        The reason with the value of the first one.
    """

    reason: str
    rows: int
    first_file: str
    first_line: int
    first_reason: str

    def first(self) -> str:
        """Return where the first row is, and why it was rejected."""
        return f"at {self.first_file}:{self.first_line}: {self.first_reason}"


class RejectSummary:
    """Count rejected rows by reason, in the order in which the reasons occur.

    Parameters
    ----------
    rejects : iterable of Reject
        The first ones.
    """

    def __init__(self, rejects: Iterable[Reject] = ()) -> None:
        self._counts: dict[str, ReasonCount] = {}
        self.add(rejects)

    def add(self, rejects: Iterable[Reject]) -> None:
        """Count some rows."""
        for reject in rejects:
            count = self._counts.get(reject.group)
            if count is None:
                place = (reject.file, reject.line)
                count = ReasonCount(reject.group, 0, *place, reject.reason)
                self._counts[reject.group] = count
            count.rows += 1

    def to_json(self) -> list[dict[str, Any]]:
        """Return the counts in values of JSON."""
        return [asdict(count) for count in self._counts.values()]

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Continue from the result of `to_json`."""
        for entry in state:
            reason = entry["reason"]
            # Older checkpoints have no value of the first row.
            self._counts[reason] = ReasonCount(**{"first_reason": reason, **entry})

    def show(self, console: Console) -> None:
        """Print a line for each reason."""
        for count in self._counts.values():
            rows = f"{count.rows:,} row{'s' * (count.rows != 1)}"
            print_line(console, f"Rejected {rows}, the first {count.first()}")

    def check_not_all(self, n_rows: int) -> None:
        """Raise `CommandError` if rows were rejected, and there are none beside them."""
        counts = list(self._counts.values())
        if n_rows or not counts:
            return
        total = sum(count.rows for count in counts)
        if total == 1:
            raise CommandError(f"the only row was rejected, {counts[0].first()}")
        start = f"all {total:,} rows were rejected"
        if len(counts) == 1:
            raise CommandError(f"{start}, the first {counts[0].first()}")
        parts = [f"{count.rows:,}, the first {count.first()}" for count in counts[:MOST_REASONS]]
        if n_more := len(counts) - len(parts):
            parts.append(f"and {n_more} more reason{'s' * (n_more != 1)}")
        raise CommandError(f"{start}: {'; '.join(parts)}")
