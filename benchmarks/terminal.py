"""Terminal output of a run: progress bars, then a table."""

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from benchmarks.figures import Figure, number

T = TypeVar("T")


class Bars:
    """Progress bars that are drawn only between measurements: a thread would be timed, too."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=console, auto_refresh=False
        )

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def over(self, title: str, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, one step each."""
        listed = list(items)
        task = self._progress.add_task(title, total=len(listed))
        for item in listed:
            self._progress.refresh()
            yield item
            self._progress.advance(task)
        self._progress.refresh()

    def say(self, line: str) -> None:
        """Show a permanent line above the bars."""
        self._progress.console.print(line)


def show(console: Console, figures: Sequence[Figure], title: str) -> None:
    """Print the figures with their targets."""
    table = RichTable(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("figure")
    for heading in ("mean", "target", "worst", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for figure in figures:
        target, worst_target = figure.target_texts()
        worst = f"{figure.worst_case} {number(figure.worst)}"
        colour = "green" if figure.verdict.startswith("met") else "red"
        verdict = f"[{colour}]{figure.verdict}[/]"
        table.add_row(figure.name, number(figure.mean), target, worst, worst_target, verdict)
    console.print(table)
