"""Claims and tables: what an exhibit, a figure or table of the paper, adds to the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from matplotlib.figure import Figure

from experiments.paper._run import Run


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, checked.

    Attributes
    ----------
    text : str
        The claim, in our words.
    found : str
        Our numbers.
    holds : bool
        Whether they agree with it.
    why : str
        The reason if they do not, as far as measurements show it.
    """

    text: str
    found: str
    holds: bool
    why: str = ""


@dataclass(frozen=True)
class Table:
    """A small table: its headings, and its rows of texts. All columns but the first are numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


class Exhibit(Protocol):
    """A module of this package: one figure or table.

    ``compute`` finds the numbers, ``draw`` shows them, ``claims`` compares them with the paper's
    claims, and ``tables`` gives those that the report shows beside the picture.
    """

    @property
    def TITLE(self) -> str:  # noqa: N802
        ...

    @property
    def ABOUT(self) -> str:  # noqa: N802  # what is shown and how it was made, in Markdown
        ...

    def compute(self, run: Run) -> Any: ...

    def draw(self, found: Any) -> Figure | None: ...

    def claims(self, found: Any) -> list[Claim]: ...

    def tables(self, found: Any) -> list[Table]: ...
