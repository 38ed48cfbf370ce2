"""What an evaluation returns: the values of the metrics, and their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Progress:
    """How well a stream was forecast.

    Attributes
    ----------
    task : {"classification", "regression"}
    n_rows : int
        How many rows came, those without a forecast included.
    n_skipped : int
        How many had no forecast, and count in no metric.
    metrics, window : dict of str to float
        The value of each metric over all rows, and over the last `window_size`.
    window_size : int
    curve : dict of str to ndarray
        ``curve["row"]`` are numbers of rows, rising; ``curve[name]`` and
        ``curve[f"{name}_window"]`` the values of a metric after as many.
    classes : ndarray or None
        Those that were seen or forecast, sorted; None for regression.
    seconds : float
        What the model took to forecast and learn.
    interrupted : bool
        Whether Ctrl-C ended it.
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
        """Draw the curves; see `amforest.plotting.plot_progress`.

        Parameters
        ----------
        metrics : list of str, default=None
            Which metrics. None means all.
        ax : matplotlib axes, default=None

        Returns
        -------
        What `plot_progress` returns.
        """
        from amforest.plotting import plot_progress  # noqa: PLC0415  # needs matplotlib

        return plot_progress(self, metrics, ax=ax)

    def to_frame(self) -> Any:
        """Return the curve as a pandas DataFrame."""
        import pandas as pd  # noqa: PLC0415  # only for those who have it

        return pd.DataFrame(self.curve)

    def __repr__(self) -> str:
        head = f"{self.n_rows:,} rows"
        if self.n_skipped:
            head += f", {self.n_skipped:,} without forecast"
        if self.classes is not None:
            head += f", {len(self.classes)} classes"
        head += f", {self.seconds:.3g} s" + ", interrupted" * self.interrupted
        last = f"last {self.window_size:,}"
        left, right = max(map(len, self.metrics), default=0), max(len(last), 10)
        lines = [head, f"{'':{left}}  {'all':>10}  {last:>{right}}"]
        for name, value in self.metrics.items():
            lines.append(f"{name:{left}}  {value:>10.5g}  {self.window[name]:>{right}.5g}")
        return "\n".join(lines)
