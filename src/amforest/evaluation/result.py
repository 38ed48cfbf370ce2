"""The result of an evaluation: the values of the metrics, their curves, and a line to show them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.model_io.json_values import floats_from_json, floats_to_json

FIRST_EVERY = 10  # rows between two points of a curve, at first
MOST_POINTS = 400


@dataclass(frozen=True, eq=False, repr=False)
class Progress:
    """How well a stream was predicted.

    Attributes
    ----------
    task : {"classification", "regression"}
    n_rows : int
        The number of rows, those without a prediction included.
    n_skipped : int
        The number of rows without a prediction, which count in no metric.
    metrics, window : dict of str to float
        The value of each metric over all rows, and over the last `window_size`.
    window_size : int
    curve : dict of str to ndarray
        ``curve["row"]`` holds increasing numbers of rows; ``curve[name]`` and
        ``curve[f"{name}_window"]`` the values of a metric after these rows.
    classes : ndarray or None
        The classes that were seen or predicted, sorted; None for regression.
    seconds : float
        The time the model took to predict and learn.
    interrupted : bool
        Whether Ctrl-C stopped it.
    """

    task: str
    n_rows: int
    n_skipped: int
    metrics: dict[str, float]
    window: dict[str, float]
    window_size: int
    curve: dict[str, NDArray[Any]]
    classes: NDArray[Any] | None
    seconds: float
    interrupted: bool

    def plot(self, metrics: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Plot the curves; see `amforest.plotting.plot_progress`.

        Parameters
        ----------
        metrics : list of str, default=None
            The metrics to plot. None means all.
        ax : matplotlib axes, default=None

        Returns
        -------
        The axes that `plot_progress` returns.
        """
        from amforest.plotting import plot_progress  # noqa: PLC0415  # needs matplotlib

        return plot_progress(self, metrics, ax=ax)

    def to_frame(self) -> Any:
        """Return the curve as a pandas DataFrame."""
        import pandas as pd  # noqa: PLC0415  # an extra

        return pd.DataFrame(self.curve)

    def __repr__(self) -> str:
        head = f"{self.n_rows:,} rows"
        if self.n_skipped:
            head += f", {self.n_skipped:,} without prediction"
        if self.classes is not None:
            head += f", {len(self.classes)} classes"
        head += f", {self.seconds:.3g} s" + ", interrupted" * self.interrupted
        last = f"last {self.window_size:,}"
        left, right = max(map(len, self.metrics), default=0), max(len(last), 10)
        lines = [head, f"{'':{left}}  {'all':>10}  {last:>{right}}"]
        for name, value in self.metrics.items():
            lines.append(f"{name:{left}}  {value:>10.5g}  {self.window[name]:>{right}.5g}")
        return "\n".join(lines)


class Curve:
    """Values after every so many rows; with `every=None` the points are bounded.

    Then there is one after every `first_every` rows, and whenever there are `most_points`, every
    other one is dropped.
    """

    def __init__(
        self,
        every: int | None = None,
        *,
        first_every: int = FIRST_EVERY,
        most_points: int = MOST_POINTS,
    ) -> None:
        self._thins, self._most_points = every is None, most_points
        self._every = first_every if every is None else int(every)
        self._points: dict[int, dict[str, float]] = {}
        self.next = self._every

    def add(self, row: int, point: dict[str, float]) -> None:
        """Add a point; if there are too many, drop every other one."""
        self._points[row] = point
        if self._thins and len(self._points) >= self._most_points:
            self._every *= 2
            kept = {row: point for row, point in self._points.items() if row % self._every == 0}
            self._points = kept
        self.next = row - row % self._every + self._every

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the points in values of JSON, with these values of each."""
        values = [[point[name] for name in names] for point in self._points.values()]
        return {
            "every": self._every,
            "next": self.next,
            "rows": list(self._points),
            "values": floats_to_json(np.reshape(values, (len(values), len(names)))),
        }

    def restore(self, state: dict[str, Any], names: Sequence[str]) -> None:
        """Continue from the result of `to_json`."""
        rows = [int(row) for row in state["rows"]]
        values = floats_from_json(state["values"], (len(rows), len(names))).tolist()
        self._points = {
            row: dict(zip(names, point, strict=True))
            for row, point in zip(rows, values, strict=True)
        }
        self._every, self.next = int(state["every"]), int(state["next"])

    def arrays(self, n_rows: int, last: dict[str, float]) -> dict[str, NDArray[Any]]:
        """Return the points, and a last one at `n_rows`."""
        points = self._points | ({n_rows: last} if n_rows else {})
        curve: dict[str, NDArray[Any]] = {"row": np.array(list(points), dtype=np.int64)}
        for name in last:
            curve[name] = np.array([point[name] for point in points.values()])
        return curve


def curve_point(metrics: dict[str, float], window: dict[str, float]) -> dict[str, float]:
    """Return the values of all metrics, over all rows and over the last rows, by name."""
    pairs = ((name, f"{name}_window") for name in metrics)
    return {
        key: value
        for name, name_window in pairs
        for key, value in ((name, metrics[name]), (name_window, window[name]))
    }


class ProgressLine:
    """Show a progress at intervals: as a line on stderr, or by calling a function."""

    def __init__(self, progress: bool | Callable[[Progress], object]) -> None:
        self._is_live = progress is True and sys.stderr.isatty()
        self._report = progress if callable(progress) else self._print if progress else None
        self._interval = 10.0 if progress is True and not self._is_live else 0.5
        self._last = perf_counter()

    def show(self, result: Callable[[], Progress]) -> None:
        """Show the result so far, if the interval has passed."""
        if self._report is not None and perf_counter() - self._last >= self._interval:
            self._report(result())
            self._last = perf_counter()

    def end(self, result: Progress) -> None:
        """Show the last result, whatever the interval."""
        if self._report is None:
            return
        self._report(result)
        if self._report == self._print and self._is_live:
            print(file=sys.stderr)

    def _print(self, result: Progress) -> None:
        parts = [
            f"{name} {value:.4g} (last {result.window_size:,}: {result.window[name]:.4g})"
            for name, value in result.metrics.items()
        ]
        line = "  ".join([f"{result.n_rows:,} rows", *parts])
        start, end = ("\r", "\x1b[K") if self._is_live else ("", "\n")
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)
