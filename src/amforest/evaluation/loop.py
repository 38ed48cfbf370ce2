"""The loop of test-then-train: a model forecasts rows, then learns them when labels are due."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_scalar

from amforest.evaluation.arrays import as_list
from amforest.evaluation.blocks import (
    ROWS_AT_ONCE,
    Block,
    cut,
    gathered,
    label_array,
    limited,
    weighted,
)
from amforest.evaluation.display import Display
from amforest.evaluation.evaluator import Evaluator
from amforest.evaluation.interrupts import Interrupts
from amforest.evaluation.learners import Answer, Learner
from amforest.evaluation.models import learner_of, task_of
from amforest.evaluation.progress import Progress
from amforest.evaluation.streams import opened


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
    task = task_of(model)
    evaluator = Evaluator(task, metrics, window, every=every)
    blocks, labels = opened(stream, y, target, sample_weight)
    learner = learner_of(
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
        blocks = limited(blocks, max_rows)
    if not (sample_weight is None or isinstance(sample_weight, str)):
        blocks = weighted(blocks, iter(sample_weight))
    blocks = (block._replace(X=learner.rows(block.X)) for block in cut(blocks, ROWS_AT_ONCE))
    run, display = _Run(learner, evaluator, int(delay)), Display(progress)
    with Interrupts() as interrupts:
        try:
            for block in gathered(interrupts.until(cut(blocks, size)), size):
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

    def __init__(self, learner: Learner, evaluator: Evaluator, delay: int) -> None:
        self._learner, self._evaluator, self._delay = learner, evaluator, delay
        self._seconds = 0.0
        self._waiting: deque[tuple[Block, Answer | None]] = deque()  # for their labels
        self._n_waiting = 0
        self._judged: list[tuple[Block, Answer | None]] = []  # but not yet given to evaluator
        self._n_judged = 0

    def take(self, block: Block) -> None:
        """Forecast rows; learn those whose labels are due."""
        block = block._replace(X=self._learner.table(block.X), y=label_array(block.y))
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

    def _judge(self, block: Block, answer: Answer | None) -> None:
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


def _alike(one: Answer | None, other: Answer | None) -> bool:
    """Tell whether answers can be put one below the other."""
    if one is None or other is None:
        return one is other
    if one.forecasts.shape[1:] != other.forecasts.shape[1:]:
        return False
    return one.classes is other.classes or (
        isinstance(one.classes, tuple) and one.classes == other.classes
    )
