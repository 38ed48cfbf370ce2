"""The test-then-train loop: a model predicts rows, then learns them when their labels are due."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from numbers import Integral
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_scalar

from amforest.evaluation.adapters import Prediction, SklearnAdapter, adapt, find_task
from amforest.evaluation.blocks import (
    ROWS_AT_ONCE,
    Block,
    add_weights,
    as_label_array,
    as_list,
    cut_blocks,
    first_rows,
    join_rows,
    limit_rows,
    open_blocks,
    slice_block,
)
from amforest.evaluation.drift import BLOCK
from amforest.evaluation.drift_watch import DriftWatch, OnDrift
from amforest.evaluation.evaluator import Evaluator
from amforest.evaluation.result import Progress, ProgressLine
from amforest.model_io.interrupts import Interrupts


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
    coverage: float = 0.9,
    unknown_classes: str = "count",
    progress: bool | Callable[[Progress], object] = False,
    on_drift: OnDrift | DriftWatch | None = None,
) -> Progress:
    """Predict each row of a stream, then learn it.

    Parameters
    ----------
    model : classifier or regressor
        A model of ours, one of scikit-learn with `partial_fit`, or one of river, pipelines
        included. It continues from what it has learned, and keeps what it learns.
    stream : table, iterable or reader
        X, with labels in `y`, or a pair (X, y): arrays, lists, data frames, sparse matrices; a data
        frame with its `target`; an iterable of pairs (x, y) of one row each, x being a dict, list
        or array; an iterable of batches, each a pair (X, y) or a frame with its `target`; a
        pyarrow reader, dataset or scanner with its `target`; an iterable of dicts with their
        `target`; what `amforest.reading.open_stream` returns, opened with a target.
    y : array-like, default=None
        The labels, if `stream` is X.
    metrics, window, every
        As in `Evaluator`. With "crps", the trees of `AMFRegressor` are the ensemble; other
        predictions are ensembles of one. "coverage" and "interval_width" are for
        `AdaptiveAMFRegressor`, which predicts intervals.
    delay : int, default=0
        A label becomes known `delay` rows later: row i is predicted by a model that has learned the
        rows 0 to i - delay - 1. Labels that are due after the last row are learned at the end.
    batch_size : int, default=None
        How many rows are taken at once. For our models and river's it changes nothing but the
        speed. A model of scikit-learn predicts a whole batch before it learns it: None means 1.
    target : str, default=None
        The name of the column of labels.
    sample_weight : array-like, iterable or str, default=None
        The weight of each row in learning and in the metrics, or the name of the column with it.
        Rows of weight 0 are not learned.
    classes : array-like, default=None
        All labels that there are. A classifier of scikit-learn needs them before its first row,
        unless it is fitted; None means those in `y`, if that is given.
    max_rows : int, default=None
        The number of rows after which to stop. No further row is taken from the stream.
    coverage : float, default=0.9
        The part of the labels that intervals are to hold, for the metrics of intervals.
    unknown_classes : {"count", "skip"}, default="count"
        Whether rows of a class that the model does not know yet are part of the log-loss, as in
        `Evaluator`.
    progress : bool or callable, default=False
        Whether to show the progress on stderr, or a function to call with the `Progress` so far: at
        most twice a second, and at the end.
    on_drift : callable or DriftWatch, default=None
        A function to call with each `Drift`, as soon as it is detected: with a row after which the
        losses of the predictions are higher than before. Rows are those of the stream, from 1. What
        it raises ends the validation. A `DriftWatch` of the model may have another detector.

    Returns
    -------
    Progress

    Notes
    -----
    A row that the model cannot predict because it has learned nothing counts as predicted uniformly
    if `classes` are known and the model predicts probabilities; otherwise it counts in no metric.
    So the loss of our models equals that of their `stats`.

    Ctrl-C stops between two rows: the result is about the rows learned so far, and is marked as
    `interrupted`. Labels that are not due by then are not learned.

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
    task = find_task(model)
    evaluator = Evaluator(task, metrics, window, every=every, unknown_classes=unknown_classes)
    blocks, labels = open_blocks(stream, y, target, sample_weight)
    adapter = adapt(
        model,
        task,
        classes=None if classes is None else np.unique(np.asarray(classes)),
        labels=labels,
        is_weighted=sample_weight is not None,
        by_tree=evaluator.needs_ensemble,
        by_row=bool(delay),
        coverage=coverage if evaluator.needs_intervals else None,
    )
    size = adapter.block_size(batch_size)
    if max_rows is not None:
        blocks = limit_rows(blocks, max_rows)
    if not (sample_weight is None or isinstance(sample_weight, str)):
        blocks = add_weights(blocks, iter(sample_weight))
    blocks = (
        block._replace(X=adapter.convert_block(block.X))
        for block in cut_blocks(blocks, ROWS_AT_ONCE)
    )
    line = ProgressLine(progress)
    if on_drift is not None and not isinstance(on_drift, DriftWatch):
        on_drift = DriftWatch(model, on_drift)
    loop = Loop(
        adapter,
        evaluator,
        delay=int(delay),
        on_block=lambda *_: line.show(loop.result),
        watch=on_drift,
    )
    with Interrupts([signal.SIGINT], replace=False) as interrupts:
        result = loop.run(join_rows(interrupts.until(cut_blocks(blocks, size)), size), interrupts)
    line.end(result)
    return result


class Pending(NamedTuple):
    """Rows that are predicted and wait for their labels."""

    block: Block
    prediction: Prediction | None = None
    is_measured: bool = True  # whether the prediction goes to the evaluator

    def slice(self, rows: slice) -> Pending:
        """Return some of the rows."""
        some = None if self.prediction is None else self.prediction.slice(rows)
        return Pending(slice_block(self.block, rows), some, self.is_measured)


class Loop:
    """Predict blocks of rows, learn them when their labels are due, and measure the predictions.

    Parameters
    ----------
    adapter : SklearnAdapter
        The model; see `adapt`.
    evaluator : Evaluator
    delay : int, default=0
        The number of rows after which a label is due. It needs an adapter that takes single rows.
    on_predictions : callable, default=None
        Called with a block of labelled rows and its `Prediction`, or None, as soon as it is
        predicted, in the order of the rows.
    on_block : callable, default=None
        Called after each block that `run` takes, with its number of rows and the seconds that the
        model took for it.
    watch : DriftWatch, default=None
        Gets the predictions and labels of all rows.
    """

    def __init__(
        self,
        adapter: SklearnAdapter,
        evaluator: Evaluator,
        *,
        delay: int = 0,
        on_predictions: Callable[[Block, Prediction | None], object] | None = None,
        on_block: Callable[[int, float], object] | None = None,
        watch: DriftWatch | None = None,
    ) -> None:
        self._adapter, self._evaluator, self._delay = adapter, evaluator, delay
        self._on_predictions, self._on_block = on_predictions, on_block
        self._watch = watch
        self._most_measured = ROWS_AT_ONCE if watch is None else BLOCK
        self._seconds = 0.0
        self._pending: deque[Pending] = deque()
        self._n_pending = 0
        self._measured: list[tuple[Block, Prediction | None]] = []  # not yet in the evaluator
        self._n_measured = 0

    def run(self, blocks: Iterable[Block], interrupts: Interrupts) -> Progress:
        """Take all blocks, then learn the labels that are still due.

        An interrupt stops it after the block in hand, and a second one at once; what is learned by
        then is kept.

        Parameters
        ----------
        blocks : iterable of Block
            Ends when an interrupt comes.
        interrupts : Interrupts
            Those of the blocks.

        Returns
        -------
        Progress
        """
        try:
            for block in blocks:
                before = self._seconds
                for part in cut_blocks([block], self._adapter.block_size(len(block.y))):
                    self._take(part)
                if self._on_block is not None:
                    self._on_block(len(block.y), self._seconds - before)
            while self._pending and not interrupts.received:
                self._learn_pending()
        except KeyboardInterrupt:
            interrupts.hold(signal.SIGINT)
        return self.result(interrupted=interrupts.received)

    @property
    def pending(self) -> list[Pending]:
        """The rows that are predicted, and whose labels are not due yet."""
        return list(self._pending)

    @property
    def seconds(self) -> float:
        """The time that the model took so far."""
        return self._seconds

    def restore(self, pending: Iterable[Pending], seconds: float = 0.0) -> None:
        """Continue with the rows that an earlier loop has predicted, and with its time."""
        self._seconds = seconds
        for item in pending:
            self._pending.append(item)
            self._n_pending += len(item.block.y)

    def result(self, *, interrupted: bool = False) -> Progress:
        """Return the metrics so far."""
        self.flush()
        return self._evaluator.result(seconds=self._seconds, interrupted=interrupted)

    def _take(self, block: Block) -> None:
        """Predict rows; learn those whose labels are due."""
        block = block._replace(X=self._adapter.convert_rows(block.X), y=as_label_array(block.y))
        start = perf_counter()
        if not self._delay:
            for part, prediction in self._adapter.test_then_train(block):
                self._seconds += perf_counter() - start
                self._report(part, prediction)
                self._measure(part, prediction)
                start = perf_counter()
            return
        if self._adapter.learns_late_rows:
            self._take_late(block)
            return
        self._hold(block, self._predict(block))
        while self._n_pending - len(self._pending[0].block.y) >= self._delay:
            self._learn_pending()

    def _take_late(self, block: Block) -> None:
        """Predict rows, and learn the row that is due after each of them."""
        n_first = self._delay - self._n_pending  # rows before the next label is due
        if n_first > 0:
            first = slice_block(block, slice(0, n_first))
            self._hold(first, self._predict(first))
            block = slice_block(block, slice(n_first, None))
        if not len(block.y):
            return
        waiting = (item.block for item in self._pending)
        due = first_rows(chain(waiting, [block]), len(block.y))
        start = perf_counter()
        for part, prediction in self._adapter.test_then_train_late(block, due):
            self._seconds += perf_counter() - start
            self._hold(part, prediction)
            self._release(len(part.y))
            start = perf_counter()

    def _predict(self, block: Block) -> Prediction | None:
        start = perf_counter()
        prediction = self._adapter.predict(block)
        self._seconds += perf_counter() - start
        return prediction

    def _hold(self, block: Block, prediction: Prediction | None) -> None:
        """Report predictions, and keep their rows until the labels are due."""
        self._report(block, prediction)
        self._pending.append(Pending(block, prediction))
        self._n_pending += len(block.y)

    def _release(self, n_rows: int) -> None:
        """Measure the oldest rows, which are learned, and drop them."""
        self._n_pending -= n_rows
        while n_rows:
            item = self._pending.popleft()
            n_some = min(n_rows, len(item.block.y))
            if n_some < len(item.block.y):
                self._pending.appendleft(item.slice(slice(n_some, None)))
                item = item.slice(slice(0, n_some))
            if item.is_measured:
                self._measure(item.block, item.prediction)
            n_rows -= n_some

    def _learn_pending(self) -> None:
        """Learn the oldest rows that wait for their labels."""
        block = self._pending[0].block
        start = perf_counter()
        self._adapter.learn(block)
        self._seconds += perf_counter() - start
        self._release(len(block.y))

    def _report(self, block: Block, prediction: Prediction | None) -> None:
        if self._on_predictions is not None:
            self._on_predictions(block, prediction)

    def _measure(self, block: Block, prediction: Prediction | None) -> None:
        """Collect predictions of one kind for the evaluator."""
        if self._measured and not _are_alike(self._measured[-1][1], prediction):
            self.flush()
        self._measured.append((block._replace(X=None), prediction))
        self._n_measured += len(block.y)
        if self._n_measured >= self._most_measured:
            self.flush()

    def flush(self) -> None:
        """Pass all predictions on; by itself the loop does so for many at once."""
        if not self._measured:
            return
        measured, self._measured, self._n_measured = self._measured, [], 0
        block, prediction = measured[-1]
        y: list[Any] = [label for one, _ in measured for label in as_list(one.y)]
        weights = None
        if block.weights is not None:
            weights = np.concatenate(
                [one.weights for one, _ in measured if one.weights is not None]
            )
        if prediction is None:
            self._evaluator.update(y, None)
        else:
            prediction = _join([other for _, other in measured if other is not None])
            self._evaluator.update(y, *prediction[:2], weights, prediction.intervals)
        if self._watch is not None:
            self._watch.update_predictions(y, prediction, weights)


def _join(predictions: list[Prediction]) -> Prediction:
    """Concatenate predictions of one kind."""
    values = np.concatenate([one.values for one in predictions])
    ends = [one.intervals for one in predictions if one.intervals is not None]
    return Prediction(values, predictions[-1].classes, np.concatenate(ends) if ends else None)


def _are_alike(one: Prediction | None, other: Prediction | None) -> bool:
    """Tell whether predictions can be concatenated."""
    if one is None or other is None:
        return one is other
    if one.values.shape[1:] != other.values.shape[1:]:
        return False
    if (one.intervals is None) != (other.intervals is None):
        return False
    if one.classes is other.classes:
        return True
    are_tuples = isinstance(one.classes, tuple) and isinstance(other.classes, tuple)
    return are_tuples and one.classes == other.classes
