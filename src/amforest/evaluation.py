"""Test-then-train: forecast each row of a stream, then learn it, and measure the forecasts.

`progressive_validation` does it for models of ours, of scikit-learn and of river; `Evaluator` is
the measuring alone.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from math import nan
from numbers import Integral
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from amforest._inputs import _as_frame
from amforest._metrics import (
    DEFAULTS,
    METRICS,
    NONE,
    Classes,
    ClassForecast,
    Codes,
    Crps,
    as_list,
    check_shape,
    checked_weights,
    made,
)

__all__ = ["Evaluator", "Progress", "progressive_validation"]

Floats = NDArray[np.float64]
FIRST_EVERY = 10  # rows between two points of a curve, at first
MOST_POINTS = 400
ROWS_AT_ONCE = 1_000


# What comes out


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


# Measuring


class Evaluator:
    """Metrics of forecasts that come batch by batch.

    Parameters
    ----------
    task : {"classification", "regression"}
    metrics : list of str, default=None
        Of classification: "log_loss", "accuracy", "auc", "balanced_accuracy", "brier", "kappa"; of
        regression: "mse", "mae", "r2", "crps". scikit-learn's names for them will do. None means
        "log_loss", "accuracy" and, as long as there are two classes, "auc"; or "mse", "mae", "r2".
    window : int, default=1000
        Of how many of the last rows there are values, too.
    every : int, default=None
        How many rows there are between two points of the curve. None means 10, and twice as many
        whenever there are 400 points, of which every other one is then dropped.

    Notes
    -----
    No value depends on how rows are cut into batches. Memory does not grow with their number.

    Examples
    --------
    >>> from amforest.evaluation import Evaluator
    >>> evaluator = Evaluator("classification", metrics=["accuracy", "log_loss"])
    >>> evaluator.update(["no", "yes"], [[0.75, 0.25], [0.5, 0.5]], classes=["no", "yes"])
    >>> evaluator.metrics
    {'accuracy': 0.5, 'log_loss': 0.490...}
    """

    def __init__(
        self,
        task: str,
        metrics: Sequence[str] | None = None,
        window: int = 1000,
        *,
        every: int | None = None,
    ) -> None:
        if task not in METRICS:
            raise ValueError(f"task is {task!r}; it must be one of {', '.join(METRICS)}")
        check_scalar(window, "window", Integral, min_val=1)
        if every is not None:
            check_scalar(every, "every", Integral, min_val=1)
        if isinstance(metrics, str):
            raise TypeError(f"metrics is {metrics!r}; it must be a list of names")
        self.task, self.window_size = task, int(window)
        self.n_rows = self.n_skipped = 0
        self._by_choice = metrics is not None
        self._metrics = made(task, DEFAULTS[task] if metrics is None else metrics, self.window_size)
        self._classes = Classes()
        self._curve = _Curve(every)

    def update(
        self,
        y: ArrayLike,
        forecasts: ArrayLike | None,
        classes: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        """Take some rows.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The labels.
        forecasts : array-like, or None
            Of classification: probabilities, of shape (n_rows, n_classes), or labels; a label
            without a column had probability 0, and so has NaN. Of regression: numbers, or the
            members of an ensemble, of shape (n_rows, n_members). None: there is no forecast, and
            the rows are only counted.
        classes : array-like of shape (n_classes,), default=None
            What the columns of probabilities are about; it may change from call to call.
        weights : array-like of shape (n_rows,), default=None
            How much each row counts. None means 1.
        """
        labels = as_list(y)
        n_rows = len(labels)
        if forecasts is None:
            self._advance(n_rows, None)
            return
        some = None if weights is None else checked_weights(weights, n_rows, "weights")
        if self.task == "regression":
            self._take_numbers(np.array(labels), np.asarray(forecasts, dtype=np.float64), some)
        else:
            self._take_classes(labels, forecasts, classes, some)

    @property
    def metrics(self) -> dict[str, float]:
        """The value of each metric over all rows."""
        return {name: metric.value for name, metric in self._metrics.items()}

    @property
    def window(self) -> dict[str, float]:
        """The value of each metric over the last rows."""
        return {name: metric.window_value for name, metric in self._metrics.items()}

    @property
    def wants_members(self) -> bool:
        """Whether a metric is about the members of an ensemble."""
        return any(isinstance(metric, Crps) for metric in self._metrics.values())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes that were seen or forecast, sorted; None for regression."""
        return np.array(sorted(self._classes.labels)) if self.task == "classification" else None

    def result(self, *, seconds: float = nan, interrupted: bool = False) -> Progress:
        """Return what there is so far.

        Parameters
        ----------
        seconds : float, default=nan
            What the model took.
        interrupted : bool, default=False
            Whether this is the end, but not of the stream.

        Returns
        -------
        Progress
        """
        metrics, window = self.metrics, self.window
        return Progress(
            task=self.task,
            n_rows=self.n_rows,
            n_skipped=self.n_skipped,
            metrics=metrics,
            window=window,
            window_size=self.window_size,
            curve=self._curve.arrays(self.n_rows, _point(metrics, window)),
            classes=self.classes,
            seconds=seconds,
            interrupted=interrupted,
        )

    def _take_numbers(self, y: NDArray[Any], forecasts: Floats, weights: Floats | None) -> None:
        if y.dtype.kind not in "biuf" or not np.isfinite(y).all():
            raise ValueError("y must hold numbers only, none of them NaN or infinite")
        check_shape(forecasts, len(y), (1, 2), "forecasts")
        labels = y.astype(np.float64)

        def take(part: slice) -> None:
            some = None if weights is None else weights[part]
            for metric in self._metrics.values():
                metric.update(labels[part], forecasts[part], some)

        self._advance(len(y), take)

    def _take_classes(
        self, y: list[Any], forecasts: ArrayLike, classes: Any, weights: Floats | None
    ) -> None:
        self._classes.check(y, "y")
        columns: list[Any] | None = None
        if np.ndim(forecasts) == 2:
            said: Any = _checked_probabilities(forecasts, classes)
            columns = as_list(classes)
            self._classes.check(columns, "classes")
        else:
            said = as_list(forecasts)
            self._classes.check(said, "forecasts")
            self._do_without_probabilities()
        if len(said) != len(y):
            raise ValueError(f"forecasts has {len(said)} rows; y has {len(y)}")

        def take(part: slice) -> None:
            codes, forecast = self._encoded(y[part], said[part], columns)
            if len(self._classes) > 2 and not self._by_choice:
                self._metrics.pop("auc", None)
            some = None if weights is None else weights[part]
            for metric in self._metrics.values():
                metric.update(codes, forecast, some)

        self._advance(len(y), take)

    def _do_without_probabilities(self) -> None:
        """Drop metrics that need probabilities, or refuse labels if they were asked for."""
        needy = [name for name, metric in self._metrics.items() if metric.needs_probabilities]
        if needy and self._by_choice:
            raise ValueError(f"metrics has {needy[0]!r}, which needs probabilities, not labels")
        for name in needy:
            del self._metrics[name]

    def _encoded(
        self, y: list[Any], said: Any, columns: list[Any] | None
    ) -> tuple[Codes, ClassForecast]:
        """Return labels and forecasts in codes; new classes get theirs in the order of the rows."""
        known = self._classes.code_of
        first: dict[Any, int] = {}  # row of each new class
        if columns is not None:
            for j, label in enumerate(columns):
                if label not in known and len(rows := np.flatnonzero(said[:, j] > 0)):
                    first[label] = int(rows[0])
        for values in (y,) if columns is not None else (said, y):
            for label in dict.fromkeys(values):
                if label not in known:
                    first[label] = min(first.get(label, len(y)), values.index(label))
        self._classes.add(sorted(first, key=first.__getitem__))
        codes, size = self._classes.codes(y), len(self._classes)
        if columns is None:
            best, probabilities = self._classes.codes(said), None
        else:
            best, probabilities = self._most_probable(said, columns)
        return codes, ClassForecast(best, probabilities, size, self._classes.positive)

    def _most_probable(self, said: Floats, columns: list[Any]) -> tuple[Codes, Floats]:
        """Return the likeliest class of each row, and probabilities in the order of codes."""
        kept = [j for j, label in enumerate(columns) if label in self._classes.code_of]
        codes = self._classes.codes([columns[j] for j in kept])
        probabilities = np.zeros((len(said), len(self._classes)))
        if not kept:
            return np.full(len(said), NONE), probabilities
        some = said[:, kept]
        probabilities[:, codes] = some
        best = np.where(some.max(axis=1) > 0, codes[some.argmax(axis=1)], NONE)
        return best, probabilities

    def _advance(self, n_rows: int, take: Callable[[slice], None] | None) -> None:
        """Let rows be taken in parts that end where the curve wants a point."""
        start = 0
        while start < n_rows:
            end = min(n_rows, start + self._curve.next - self.n_rows)
            if take is None:
                self.n_skipped += end - start
            else:
                take(slice(start, end))
            self.n_rows += end - start
            if self.n_rows == self._curve.next:
                self._curve.add(self.n_rows, _point(self.metrics, self.window))
            start = end


class _Curve:
    """Values after so many rows; if nobody says how many, their number is bounded."""

    def __init__(self, every: int | None) -> None:
        self._thins = every is None
        self._every = FIRST_EVERY if every is None else int(every)
        self._points: dict[int, dict[str, float]] = {}
        self.next = self._every

    def add(self, row: int, point: dict[str, float]) -> None:
        self._points[row] = point
        if self._thins and len(self._points) >= MOST_POINTS:
            self._every *= 2
            kept = {row: point for row, point in self._points.items() if row % self._every == 0}
            self._points = kept
        self.next = row - row % self._every + self._every

    def arrays(self, n_rows: int, last: dict[str, float]) -> dict[str, NDArray[Any]]:
        """Return the points, and one for now."""
        points = self._points | ({n_rows: last} if n_rows else {})
        curve: dict[str, NDArray[Any]] = {"row": np.array(list(points), dtype=np.int64)}
        for name in last:
            curve[name] = np.array([point[name] for point in points.values()])
        return curve


def _point(metrics: dict[str, float], window: dict[str, float]) -> dict[str, float]:
    pairs = ((name, f"{name}_window") for name in metrics)
    return {
        key: value
        for name, name_window in pairs
        for key, value in ((name, metrics[name]), (name_window, window[name]))
    }


def _checked_probabilities(forecasts: ArrayLike, classes: Any) -> Floats:
    values = np.asarray(forecasts, dtype=np.float64)
    if classes is None or len(classes) != values.shape[1]:
        has = "None" if classes is None else f"{len(classes)} labels"
        raise ValueError(f"classes is {has}; forecasts has {values.shape[1]} columns to be named")
    values = np.where(np.isnan(values), 0.0, values)
    if values.size and not -1e-6 <= values.min() <= values.max() <= 1 + 1e-6:
        worst = values.flat[np.abs(values - 0.5).argmax()]
        raise ValueError(f"forecasts holds {worst}; probabilities lie between 0 and 1")
    return values


# Test-then-train


def progressive_validation(
    model: Any,
    stream: Any,
    y: ArrayLike | None = None,
    *,
    metrics: Sequence[str] | None = None,
    delay: int = 0,
    window: int = 1000,
    every: int | None = None,
    batch_size: int | None = None,
    target: str | None = None,
    sample_weight: Any = None,
    classes: ArrayLike | None = None,
    max_rows: int | None = None,
    progress: bool | Callable[[Progress], object] = False,
) -> Progress:
    """Forecast each row of a stream, then learn it.

    Parameters
    ----------
    model : classifier or regressor
        Of ours, of scikit-learn's with `partial_fit`, or of river's, its pipelines included. It
        goes on from what it has learnt, and keeps what it learns.
    stream : table, iterable or reader
        X, with labels in `y`, or a pair (X, y): arrays, lists, data frames, sparse matrices; a data
        frame with its `target`; an iterable of pairs (x, y) of one row each, x being a dict, list
        or array; an iterable of batches, each a pair (X, y) or a frame with its `target`; a
        pyarrow reader, dataset or scanner with its `target`; an iterable of dicts with their
        `target`.
    y : array-like, default=None
        The labels, if `stream` is X.
    metrics, window, every
        As in `Evaluator`. With "crps", `predict_by_tree` of a model that has it is the ensemble;
        other forecasts are ensembles of one.
    delay : int, default=0
        A label becomes known so many rows later: row i is forecast by a model that has learnt the
        rows 0 to i - delay - 1. What is due after the last row is learnt then.
    batch_size : int, default=None
        How many rows are taken at once. For our models and river's it changes nothing but the
        speed. One of scikit-learn's forecasts so many rows before it learns them: None means 1.
    target : str, default=None
        The name of the labels' column.
    sample_weight : array-like, iterable or str, default=None
        How much each row counts in learning and in the metrics, or the name of the column with it.
        Rows of weight 0 are not learnt.
    classes : array-like, default=None
        All labels that there are. A classifier of scikit-learn's must know them beforehand, unless
        it has learnt already; None means those in `y`, if that is there from the start.
    max_rows : int, default=None
        After how many rows to end. No row more is taken from the stream.
    progress : bool or callable, default=False
        Whether to show on stderr how far it is, or what to call with the `Progress` so far: twice a
        second at the most, and at the end.

    Returns
    -------
    Progress

    Notes
    -----
    Where a model has no answer because it has learnt nothing, the row counts as forecast uniformly
    if `classes` are known and the model forecasts probabilities; else it counts in no metric. So
    the loss of our models is that of their `stats`.

    Ctrl-C ends it between two rows: the result is about the rows learnt so far, and is marked as
    `interrupted`. Labels that are still delayed then are not learnt.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.utils import shuffle
    >>> from amforest import AMFClassifier
    >>> from amforest.evaluation import progressive_validation
    >>> X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    >>> progress = progressive_validation(AMFClassifier(random_state=0), X, y, window=50)
    >>> round(progress.metrics["accuracy"], 3), round(progress.window["accuracy"], 3)
    (0.913, 0.94)
    """
    check_scalar(delay, "delay", Integral, min_val=0)
    for name, value in (("batch_size", batch_size), ("max_rows", max_rows)):
        if value is not None:
            check_scalar(value, name, Integral, min_val=1)
    task = _task_of(model)
    evaluator = Evaluator(task, metrics, window, every=every)
    blocks, labels = _opened(stream, y, target, sample_weight)
    learner = _learner(
        model,
        task,
        classes=None if classes is None else np.unique(np.asarray(classes)),
        labels=labels,
        weighted=sample_weight is not None,
        ensemble=evaluator.wants_members,
        rows=bool(delay),
    )
    size = learner.size(batch_size)
    if max_rows is not None:
        blocks = _limited(blocks, max_rows)
    if not (sample_weight is None or isinstance(sample_weight, str)):
        blocks = _weighted(blocks, iter(sample_weight))
    blocks = (block._replace(X=learner.rows(block.X)) for block in _cut(blocks, ROWS_AT_ONCE))
    run, display = _Run(learner, evaluator, int(delay)), _Display(progress)
    with _Interrupts() as interrupts:
        try:
            for block in _gathered(interrupts.until(_cut(blocks, size)), size):
                run.take(block)
                display.show(run.result)
            while run.owes and not interrupts.came:
                run.settle()
        except KeyboardInterrupt:
            interrupts.came = True
        result = run.result(interrupted=interrupts.came)
    display.end(result)
    return result


class _Run:
    """A model that forecasts and learns, and what its forecasts are worth."""

    def __init__(self, learner: _Learner, evaluator: Evaluator, delay: int) -> None:
        self._learner, self._evaluator, self._delay = learner, evaluator, delay
        self._seconds = 0.0
        self._waiting: deque[tuple[_Block, _Answer | None]] = deque()  # for their labels
        self._n_waiting = 0
        self._judged: list[tuple[_Block, _Answer | None]] = []  # but not yet given to evaluator
        self._n_judged = 0

    def take(self, block: _Block) -> None:
        """Forecast rows; learn those whose labels are due."""
        block = block._replace(X=self._learner.table(block.X), y=_label_array(block.y))
        start = perf_counter()
        if not self._delay:
            for part, answer in self._learner.test_then_train(block):
                self._seconds += perf_counter() - start
                self._judge(part, answer)
                start = perf_counter()
            return
        self._waiting.append((block, self._learner.forecast(block)))
        self._seconds += perf_counter() - start
        self._n_waiting += len(block.y)
        while self._n_waiting - len(self._waiting[0][0].y) >= self._delay:
            self.settle()

    @property
    def owes(self) -> bool:
        """Whether there are rows whose labels were not learnt."""
        return bool(self._waiting)

    def settle(self) -> None:
        """Learn the oldest rows that wait for their labels."""
        block, answer = self._waiting.popleft()
        self._n_waiting -= len(block.y)
        start = perf_counter()
        self._learner.learn(block)
        self._seconds += perf_counter() - start
        self._judge(block, answer)

    def result(self, *, interrupted: bool = False) -> Progress:
        """Return what there is so far."""
        self._flush()
        return self._evaluator.result(seconds=self._seconds, interrupted=interrupted)

    def _judge(self, block: _Block, answer: _Answer | None) -> None:
        """Give an answer to the evaluator, together with others of its kind."""
        if self._judged and not _alike(self._judged[-1][1], answer):
            self._flush()
        self._judged.append((block._replace(X=None), answer))
        self._n_judged += len(block.y)
        if self._n_judged >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if not self._judged:
            return
        judged, self._judged, self._n_judged = self._judged, [], 0
        block, answer = judged[-1]
        y = [label for one, _ in judged for label in as_list(one.y)]
        if answer is None:
            self._evaluator.update(y, None)
            return
        forecasts = np.concatenate([other.forecasts for _, other in judged if other is not None])
        weights = None
        if block.weights is not None:
            weights = np.concatenate([one.weights for one, _ in judged if one.weights is not None])
        self._evaluator.update(y, forecasts, answer.classes, weights)


class _Answer(NamedTuple):
    """Forecasts of some rows."""

    forecasts: NDArray[Any]
    classes: Any = None  # of the columns, if they are probabilities


def _alike(one: _Answer | None, other: _Answer | None) -> bool:
    """Tell whether answers can be put one below the other."""
    if one is None or other is None:
        return one is other
    if one.forecasts.shape[1:] != other.forecasts.shape[1:]:
        return False
    return one.classes is other.classes or (
        isinstance(one.classes, tuple) and one.classes == other.classes
    )


class _Interrupts:
    """Ctrl-C ends a stream between two rows, at once if the next one is being waited for.

    A second one is not waited with.
    """

    def __init__(self) -> None:
        self.came = False
        self._waiting = False
        self._before: Any = None

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _take(self, *_: Any) -> None:
        if self._waiting or self.came:
            raise KeyboardInterrupt
        self.came = True

    def until(self, blocks: Iterable[_Block]) -> Iterator[_Block]:
        """Yield what comes before the interrupt."""
        source = iter(blocks)
        while True:
            self._waiting = True
            try:
                if self.came:
                    return
                block = next(source)
            except StopIteration:
                return
            except KeyboardInterrupt:
                self.came = True
                return
            finally:
                self._waiting = False
            yield block


class _Display:
    """Show now and then how far it is."""

    def __init__(self, progress: bool | Callable[[Progress], object]) -> None:
        self._live = progress is True and sys.stderr.isatty()
        self._tell = progress if callable(progress) else self._print if progress else None
        self._interval = 10.0 if progress is True and not self._live else 0.5
        self._last = perf_counter()

    def show(self, result: Callable[[], Progress]) -> None:
        if self._tell is not None and perf_counter() - self._last >= self._interval:
            self._tell(result())
            self._last = perf_counter()

    def end(self, result: Progress) -> None:
        if self._tell is None:
            return
        self._tell(result)
        if self._tell == self._print and self._live:
            print(file=sys.stderr)

    def _print(self, result: Progress) -> None:
        parts = [
            f"{name} {value:.4g} (last {result.window_size:,}: {result.window[name]:.4g})"
            for name, value in result.metrics.items()
        ]
        line = "  ".join([f"{result.n_rows:,} rows", *parts])
        start, end = ("\r", "\x1b[K") if self._live else ("", "\n")
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)


# Models


def _task_of(model: Any) -> str:
    if inspect.isclass(model):
        raise TypeError(f"model is the class {model.__name__}; make an instance of it")
    if hasattr(model, "partial_fit"):
        kinds = is_classifier(model), is_regressor(model)
    elif hasattr(model, "learn_one"):
        kinds = _river_kinds(model)
    else:
        name = type(model).__name__
        advice = "it can only learn all rows at once"
        if hasattr(model, "steps"):
            advice = "transform the stream first, or take a pipeline of river's"
        raise TypeError(f"model is a {name}, which has neither partial_fit nor learn_one: {advice}")
    if not any(kinds):
        raise TypeError(f"model is a {type(model).__name__}, neither classifier nor regressor")
    return "classification" if kinds[0] else "regression"


def _river_kinds(model: Any) -> tuple[bool, bool]:
    from river import base  # noqa: PLC0415  # is there, or whence would the model be?

    last = _last_step(model)
    return isinstance(last, base.Classifier), isinstance(last, base.Regressor)


def _last_step(model: Any) -> Any:
    while hasattr(model, "_last_step"):  # of a pipeline of river
        model = model._last_step
    return model


def _learner(
    model: Any,
    task: str,
    *,
    classes: NDArray[Any] | None,
    labels: NDArray[Any] | None,
    weighted: bool,
    ensemble: bool,
    rows: bool,
) -> _Learner:
    """Return what makes a model forecast and learn.

    `labels` are all of the stream's, if they are there; `rows` says that rows must come singly.
    """
    if not hasattr(model, "partial_fit"):
        if weighted and not _takes(_last_step(model).learn_one, "w"):
            raise _no_weights(model, "learn_one")
        return _River(model, task, classes)
    if weighted and not _takes(model.partial_fit, "sample_weight"):
        raise _no_weights(model, "partial_fit")
    ours = hasattr(model, f"partial_fit_predict{'_proba' * (task == 'classification')}")
    if ours:
        trees = ensemble and hasattr(model, "predict_by_tree")
        return _Ours(model, task, classes, trees=trees, rows=rows)
    if task == "classification" and classes is None and not hasattr(model, "classes_"):
        if labels is None:
            raise ValueError(
                f"classes is None; a {type(model).__name__} must know all of them before its first "
                "row, and a stream does not tell"
            )
        classes = np.unique(labels)
    return _Learner(model, task, classes)


def _takes(method: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(method).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _no_weights(model: Any, method: str) -> TypeError:
    name = f"{type(model).__name__}.{method}"
    return TypeError(f"sample_weight is given, but {name} takes no weights")


class _Learner:
    """A model of scikit-learn's: `predict_proba` or `predict`, then `partial_fit`."""

    def __init__(self, model: Any, task: str, classes: NDArray[Any] | None) -> None:
        self.model, self.task, self.classes = model, task, classes
        self._to_announce = task == "classification" and not hasattr(model, "classes_")
        self._probabilistic = task == "classification" and hasattr(model, "predict_proba")
        self._columns: list[Any] | None = None  # of rows that are dicts

    def size(self, wish: int | None) -> int:
        """Return how many rows it shall get at once."""
        return wish or 1

    def rows(self, X: Any) -> Any:
        """Convert many rows, if that is better than one by one."""
        return X

    def table(self, X: Any) -> Any:
        """Convert rows that came singly."""
        if not isinstance(X, list):
            return X
        if X and isinstance(X[0], Mapping):
            X = [self._values(x) for x in X]
        with suppress(ValueError):  # of different lengths: the model will say so
            array = np.asarray(X)
            if array.dtype.kind in "biuf":
                return array
        return X

    def _values(self, x: Mapping[Any, Any]) -> list[Any]:
        """Return the features of a row in the order of the first row's."""
        if self._columns is None:
            self._columns = list(x)
        if unknown := x.keys() - set(self._columns):
            raise ValueError(
                f"stream has a row with the feature {min(unknown, key=str)!r}, which its first row "
                f"has not; {type(self.model).__name__} needs the same in all, river's models do not"
            )
        return [nan if (value := x.get(name)) is None else value for name in self._columns]

    def test_then_train(self, block: _Block) -> Iterator[tuple[_Block, _Answer | None]]:
        """Forecast rows, then learn them; in several parts, if need be."""
        answer = self.forecast(block)
        self.learn(block)
        yield block, answer

    def forecast(self, block: _Block) -> _Answer | None:
        try:
            return self._forecast(block.X)
        except NotFittedError:
            return self._forecast_nothing(len(block.y))

    def _forecast(self, X: Any) -> _Answer:
        if self._probabilistic:
            return _Answer(self.model.predict_proba(X), self._model_classes())
        return _Answer(np.ravel(self.model.predict(X)))

    def _model_classes(self) -> Any:
        classes = getattr(self.model, "classes_", None)
        return np.unique(self.model.classes) if classes is None else classes

    def _forecast_nothing(self, n_rows: int) -> _Answer | None:
        if self.classes is None or not self._probabilistic:
            return None
        return _Answer(np.full((n_rows, len(self.classes)), 1 / len(self.classes)), self.classes)

    def learn(self, block: _Block) -> None:
        X, y, weights = block
        if weights is not None and not weights.all():
            learnt = np.flatnonzero(weights)
            X, y, weights = _some(X, learnt), y[learnt], weights[learnt]
        if len(y):
            self.model.partial_fit(X, y, **self._how(weights))
            self._to_announce = False

    def _how(self, weights: Floats | None) -> dict[str, Any]:
        how: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if self._to_announce and self.classes is not None:
            how["classes"] = self.classes
        return how


class _Ours(_Learner):
    """A model of ours: many rows at once, each forecast just before it is learnt.

    One by one if labels are delayed, or if each tree's forecast is asked for.
    """

    def __init__(
        self, model: Any, task: str, classes: NDArray[Any] | None, *, trees: bool, rows: bool
    ) -> None:
        super().__init__(model, task, classes)
        self._trees, self._by_row, self._has_begun = trees, trees or rows, False

    def size(self, wish: int | None) -> int:
        return 1 if self._by_row else wish or ROWS_AT_ONCE

    def test_then_train(self, block: _Block) -> Iterator[tuple[_Block, _Answer | None]]:
        if self._by_row:
            yield from super().test_then_train(block)
            return
        while len(block.y) and not self._can_answer():  # the first row, unless it has no weight
            yield from super().test_then_train(_part(block, slice(0, 1)))
            block = _part(block, slice(1, None))
        if not len(block.y):
            return
        X, y, weights = block
        if weights is not None and not weights.any():  # as first rows, they would be refused
            yield block, self.forecast(block)
            return
        name = "partial_fit_predict" + "_proba" * (self.task == "classification")
        forecasts = getattr(self.model, name)(X, y, **self._how(weights))
        self._to_announce = False
        yield block, _Answer(forecasts, getattr(self.model, "classes_", None))

    def _can_answer(self) -> bool:
        """Tell whether the model has learnt something, or knows the classes."""
        if not self._has_begun:
            announced = self.classes is not None or getattr(self.model, "classes", None) is not None
            with suppress(NotFittedError):
                check_is_fitted(self.model)
                announced = True
            self._has_begun = announced
        return self._has_begun

    def _forecast(self, X: Any) -> _Answer:
        if self._trees:
            return _Answer(self.model.predict_by_tree(X))
        if not _is_plain_row(X):
            return super()._forecast(X)
        if self.task == "classification":
            return _Answer(self.model.predict_proba_one(X[0])[None], self._model_classes())
        return _Answer(np.array([self.model.predict_one(X[0])]))

    def learn(self, block: _Block) -> None:
        X, y, weights = block
        if self._to_announce or not _is_plain_row(X):
            super().learn(block)
        elif weights is None:
            self.model.learn_one(X[0], y[0].item())
        elif weights[0]:
            self.model.learn_one(X[0], y[0].item(), float(weights[0]))


class _River(_Learner):
    """A model of river's: `predict_proba_one` or `predict_one`, then `learn_one`."""

    def __init__(self, model: Any, task: str, classes: NDArray[Any] | None) -> None:
        super().__init__(model, task, classes)
        self._probabilistic = task == "classification"  # until it says that it is not

    def size(self, wish: int | None) -> int:
        return 1

    def rows(self, X: Any) -> list[Any]:
        if isinstance(X, list) and X and isinstance(X[0], Mapping):
            return X
        if (frame := _as_frame(X)) is not None:
            return list(frame.iter_rows(named=True))
        rows = X.toarray() if issparse(X) else X
        return [dict(enumerate(as_list(x))) for x in rows]

    def table(self, X: Any) -> Any:
        return X

    def forecast(self, block: _Block) -> _Answer | None:
        (x,) = block.X
        if self._probabilistic:
            try:
                chances = self.model.predict_proba_one(x)
            except NotImplementedError:
                self._probabilistic = False
            else:
                return self._answer(chances)
        said = self.model.predict_one(x)
        return None if said is None else _Answer(np.array([said]))

    def _answer(self, chances: Mapping[Any, float]) -> _Answer | None:
        if not chances:
            return self._forecast_nothing(1)
        return _Answer(np.array([list(chances.values())], dtype=np.float64), tuple(chances))

    def learn(self, block: _Block) -> None:
        (x,), (label,) = block.X, as_list(block.y)
        if block.weights is None:
            self.model.learn_one(x, label)
        elif block.weights[0]:
            self.model.learn_one(x, label, w=float(block.weights[0]))


def _is_plain_row(X: Any) -> bool:
    return isinstance(X, np.ndarray) and len(X) == 1 and X.dtype.kind == "f"


# Streams


class _Block(NamedTuple):
    """Some rows: an array, a sparse matrix, a frame or a list of rows; labels; weights."""

    X: Any
    y: Any
    weights: Floats | None


def _opened(
    stream: Any, y: Any, target: str | None, sample_weight: Any
) -> tuple[Iterator[_Block], NDArray[Any] | None]:
    """Return the blocks of a stream, and all labels if they are there."""
    if y is None and target is None and isinstance(stream, tuple) and len(stream) == 2:
        stream, y = stream
    if y is not None and target is not None:
        raise ValueError(f"target is {target!r} and y is given, too; there must be one of them")
    weight = sample_weight if isinstance(sample_weight, str) else None
    if weight is not None and target is None:
        raise ValueError(f"sample_weight is {weight!r}, the name of a column; so must be target")
    if y is not None:
        block = _block(_table(stream), y)
    elif _is_reader(stream):
        batches = stream.to_batches() if hasattr(stream, "to_batches") else stream
        return (_block_of(batch, target, weight) for batch in batches), None
    elif isinstance(stream, str | bytes | Mapping):
        raise _no_stream(stream)
    elif _as_frame(stream) is not None:
        block = _block_of(stream, target, weight)
    elif not isinstance(stream, Iterable):
        raise _no_stream(stream)
    elif isinstance(stream, np.ndarray) or issparse(stream):
        raise ValueError("y is None, but stream is X alone: where are the labels?")
    else:
        return (_block_of(item, target, weight) for item in stream), None
    n_rows = len(block.y)
    if hasattr(sample_weight, "__len__") and weight is None and len(sample_weight) != n_rows:
        raise ValueError(f"sample_weight has {len(sample_weight)} values; there are {n_rows} rows")
    return iter([block]), block.y


def _no_stream(stream: Any) -> TypeError:
    return TypeError(f"stream is {_shown(stream)}; it must be a table, an iterable or a reader")


def _is_reader(stream: Any) -> bool:
    """Tell whether it is pyarrow's RecordBatchReader, Dataset or Scanner."""
    if hasattr(stream, "read_next_batch"):
        return True
    return hasattr(stream, "to_batches") and not hasattr(stream, "column_names")


def _block_of(item: Any, target: str | None, weight: str | None) -> _Block:
    """Return what an iterable gave: a row, or several."""
    if target is not None:
        return _split(item, target, weight)
    if not (isinstance(item, tuple | list) and len(item) == 2):
        advice = "name its label in target" if _is_frame_or_dict(item) else "it must give (x, y)"
        raise TypeError(f"stream gave {_shown(item)}: {advice}")
    x, y = item
    return _Block([x], [y], None) if _is_row(x) else _block(_table(x), y)


def _split(item: Any, target: str, weight: str | None) -> _Block:
    """Take the label, and the weight, out of a frame or a dict."""
    if not _is_frame_or_dict(item):
        raise TypeError(f"stream gave {_shown(item)}; target needs frames or dicts")
    if isinstance(item, Mapping):
        row = dict(item)
        for name, key in (("target", target), ("sample_weight", weight)):
            _check_column(name, key, list(row))
        y, weights = [row.pop(target)], None
        if weight is not None:
            weights = checked_weights([row.pop(weight)], 1, "sample_weight")
        return _Block([row], y, weights)
    frame: Any = _as_frame(item)
    for name, key in (("target", target), ("sample_weight", weight)):
        _check_column(name, key, frame.columns)
    X = frame.drop([target] if weight is None else [target, weight]).to_native()
    block = _block(X, frame[target].to_numpy())
    if weight is None:
        return block
    return block._replace(
        weights=checked_weights(frame[weight].to_numpy(), len(block.y), "sample_weight")
    )


def _check_column(argument: str, name: str | None, columns: list[Any]) -> None:
    if name is None or name in columns:
        return
    near = get_close_matches(name, [str(column) for column in columns], n=1, cutoff=0)
    advice = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{argument} is {name!r}, which is no column{advice}")


def _is_frame_or_dict(item: Any) -> bool:
    return isinstance(item, Mapping) or _as_frame(item) is not None


def _is_row(x: Any) -> bool:
    if isinstance(x, Mapping):
        return True
    if isinstance(x, list | tuple):
        return not (x and isinstance(x[0], list | tuple | Mapping | np.ndarray))
    return getattr(x, "ndim", 2) == 1


def _table(X: Any) -> Any:
    """Return many rows as something that can be cut."""
    if isinstance(X, list | np.ndarray):
        table = X
    elif issparse(X):
        table = X.tocsr()
    elif (frame := _as_frame(X)) is not None:
        table = frame.to_native()
    else:
        table = np.asarray(X)
    if isinstance(table, np.ndarray) and table.ndim != 2:
        raise ValueError(f"X has shape {table.shape}; it must be a table")
    return table


def _block(X: Any, y: Any) -> _Block:
    labels = _label_array(y)
    n_rows = len(X) if isinstance(X, list) else X.shape[0]
    if labels.shape != (n_rows,):
        raise ValueError(f"y has shape {labels.shape}; X has {n_rows} rows")
    return _Block(X, labels, None)


def _label_array(y: Any) -> NDArray[Any]:
    """Return labels as an array; numpy would make text of numbers among text."""
    labels = np.asarray(y)
    if labels.dtype.kind == "U" and isinstance(y, list) and not all(isinstance(v, str) for v in y):
        labels = np.array(y, dtype=object)
    return labels


def _some(X: Any, rows: slice | NDArray[np.intp]) -> Any:
    """Return some rows of X."""
    if (frame := _as_frame(X)) is not None:
        return frame[rows if isinstance(rows, slice) else rows.tolist()].to_native()
    if isinstance(X, list) and not isinstance(rows, slice):
        return [X[i] for i in rows.tolist()]
    return X[rows]


def _part(block: _Block, rows: slice) -> _Block:
    weights = None if block.weights is None else block.weights[rows]
    return _Block(_some(block.X, rows), block.y[rows], weights)


def _limited(blocks: Iterator[_Block], most: int) -> Iterator[_Block]:
    for block in blocks:
        yield block if len(block.y) <= most else _part(block, slice(0, most))
        most -= len(block.y)
        if most <= 0:
            return


def _weighted(blocks: Iterator[_Block], weights: Iterator[Any]) -> Iterator[_Block]:
    for block in blocks:
        some = list(islice(weights, len(block.y)))
        if len(some) < len(block.y):
            raise ValueError("sample_weight ends before the stream")
        yield block._replace(weights=checked_weights(some, len(some), "sample_weight"))


def _cut(blocks: Iterable[_Block], size: int) -> Iterator[_Block]:
    """Yield the rows in blocks that are not larger."""
    for block in blocks:
        n_rows = len(block.y)
        if 0 < n_rows <= size:
            yield block
            continue
        for start in range(0, n_rows, size):
            yield _part(block, slice(start, start + size))


def _gathered(blocks: Iterator[_Block], size: int) -> Iterator[_Block]:
    """Yield rows that come singly in blocks of a size, the last of which may be smaller."""
    kept: list[_Block] = []
    for block in blocks:
        single = len(block.y) == 1 and isinstance(block.X, list)
        if kept and not single:
            yield _joined(kept)
            kept = []
        if not single or size == 1:
            yield block
            continue
        kept.append(block)
        if len(kept) == size:
            yield _joined(kept)
            kept = []
    if kept:
        yield _joined(kept)


def _joined(blocks: list[_Block]) -> _Block:
    weights = [block.weights for block in blocks if block.weights is not None]
    return _Block(
        [x for block in blocks for x in block.X],
        [label for block in blocks for label in as_list(block.y)],
        np.concatenate(weights) if weights else None,
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
