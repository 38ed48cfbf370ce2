"""Adapters: models of ours, of scikit-learn and of river predict and learn blocks of rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from amforest._forest.data_frames import as_frame
from amforest._forest.estimator import Estimator
from amforest.distribution import PredictiveDistribution
from amforest.evaluation.blocks import (
    ROWS_AT_ONCE,
    Block,
    Floats,
    FrameRows,
    as_list,
    join_tables,
    select_rows,
    slice_block,
)
from amforest.regressor import ends_of


class Prediction(NamedTuple):
    """Predictions for some rows: probabilities, labels, numbers or an ensemble's numbers."""

    values: NDArray[Any]
    classes: Any = None  # of the columns, if the values are probabilities
    intervals: Floats | None = None  # the lower and the upper end for each row

    def slice(self, rows: slice) -> Prediction:
        """Return the predictions of some rows."""
        ends = None if self.intervals is None else self.intervals[rows]
        return Prediction(self.values[rows], self.classes, ends)


class SklearnAdapter:
    """A model of scikit-learn: `predict_proba` or `predict`, then `partial_fit`.

    Attributes
    ----------
    learns_late_rows : bool
        Whether one call can predict rows and learn others in turns, by `test_then_train_late`.
    """

    learns_late_rows = False

    def __init__(self, model: Any, task: str, classes: NDArray[Any] | None) -> None:
        self.model, self.task, self.classes = model, task, classes
        self._must_announce = task == "classification" and not hasattr(model, "classes_")
        self._is_probabilistic = task == "classification" and hasattr(model, "predict_proba")
        self._columns: list[Any] | None = None  # of rows that are dicts

    def block_size(self, requested: int | None) -> int:
        """Return how many rows the model gets at once."""
        return requested or 1

    def convert_block(self, X: Any) -> Any:
        """Convert many rows, where that is faster than row by row."""
        return X

    def convert_rows(self, X: Any) -> Any:
        """Convert rows that the stream yields one by one."""
        if not isinstance(X, list):
            return X
        if X and isinstance(X[0], Mapping):
            X = [self._ordered_values(x) for x in X]
        with suppress(ValueError):  # rows of different lengths: the model words the error
            array = np.asarray(X)
            if array.dtype.kind in "biuf":
                return array
        return X

    def _ordered_values(self, x: Mapping[Any, Any]) -> list[Any]:
        """Return the features of a row in the order of the first row's."""
        if self._columns is None:
            self._columns = list(x)
        if unknown := x.keys() - set(self._columns):
            raise ValueError(
                f"stream has a row with the feature {min(unknown, key=str)!r}, which its first row "
                f"does not have; {type(self.model).__name__} needs the same features in all rows, "
                "models of river do not"
            )
        return [nan if (value := x.get(name)) is None else value for name in self._columns]

    def test_then_train(self, block: Block) -> Iterator[tuple[Block, Prediction | None]]:
        """Predict rows, then learn them; yield each part with its predictions."""
        prediction = self.predict(block)
        self.learn(block)
        yield block, prediction

    def test_then_train_late(
        self, block: Block, due: Block
    ) -> Iterator[tuple[Block, Prediction | None]]:
        """Predict each row of a block, then learn the row of `due` at its place.

        Only for models with `learns_late_rows`. Yield parts of the block with their predictions.
        """
        raise NotImplementedError

    def predict(self, block: Block) -> Prediction | None:
        """Predict rows; None if the model cannot predict yet."""
        try:
            return self._predict(block.X)
        except NotFittedError:
            return self._predict_uniformly(len(block.y))

    def _predict(self, X: Any) -> Prediction:
        if self._is_probabilistic:
            return Prediction(self.model.predict_proba(X), self._model_classes())
        return Prediction(np.ravel(self.model.predict(X)))

    def _model_classes(self) -> Any:
        classes = getattr(self.model, "classes_", None)
        return np.unique(self.model.classes) if classes is None else classes

    def _predict_uniformly(self, n_rows: int) -> Prediction | None:
        if self.classes is None or not self._is_probabilistic:
            return None
        n_classes = len(self.classes)
        return Prediction(np.full((n_rows, n_classes), 1 / n_classes), self.classes)

    def learn(self, block: Block) -> None:
        """Learn rows, except those of weight 0."""
        X, y, weights = block
        if weights is not None and not weights.all():
            learned = np.flatnonzero(weights)
            X, y, weights = select_rows(X, learned), y[learned], weights[learned]
        if len(y):
            self.model.partial_fit(X, y, **self._fit_options(weights))
            self._must_announce = False

    def _fit_options(self, weights: Floats | None) -> dict[str, Any]:
        options: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if self._must_announce and self.classes is not None:
            options["classes"] = self.classes
        return options


class ForestAdapter(SklearnAdapter):
    """A model of ours: many rows at once, each predicted just before it is learned.

    With `by_row` the rows are predicted and learned one by one, unless `learns_late_rows`.
    `by_tree` predicts an ensemble, row by row. With `coverage` there are intervals that hold this
    part of the labels.
    """

    def __init__(
        self,
        model: Any,
        task: str,
        classes: NDArray[Any] | None,
        *,
        by_tree: bool,
        by_row: bool,
        coverage: float | None,
    ) -> None:
        super().__init__(model, task, classes)
        self.learns_late_rows = isinstance(model, Estimator) and not by_tree
        self._by_tree = by_tree
        self._by_row = by_tree or (by_row and not self.learns_late_rows)
        self._ends = None if coverage is None else ends_of(coverage)
        self._is_ready = False
        self._names: list[str] = []

    def block_size(self, requested: int | None) -> int:
        """Return how many rows the model gets at once."""
        return 1 if self._by_row else requested or ROWS_AT_ONCE

    def convert_block(self, X: Any) -> Any:
        """Convert a frame whose rows are taken one by one."""
        frame = as_frame(X) if self._by_row else None
        return X if frame is None else FrameRows(frame)

    def test_then_train(self, block: Block) -> Iterator[tuple[Block, Prediction | None]]:
        """Predict and learn rows in one call, once the model can predict."""
        if self._by_row:
            yield from super().test_then_train(block)
            return
        while len(block.y) and not self._can_predict():  # the first row, unless it has no weight
            yield from super().test_then_train(slice_block(block, slice(0, 1)))
            block = slice_block(block, slice(1, None))
        if not len(block.y):
            return
        weights = block.weights
        if weights is not None and not weights.any():  # as first rows, they would be refused
            yield block, self.predict(block)
            return
        yield block, self._predict_then_learn(block, slice(None))

    def test_then_train_late(
        self, block: Block, due: Block
    ) -> Iterator[tuple[Block, Prediction | None]]:
        """Predict each row of a block, then learn the row of `due` at its place, in one call.

        The call gets both in turns. A row of weight 0 is predicted, and not learned.
        """
        while len(block.y) and not self._can_predict():  # the first row, unless it has no weight
            first = slice_block(block, slice(0, 1))
            prediction = self.predict(first)
            self.learn(slice_block(due, slice(0, 1)))
            yield first, prediction
            block, due = (slice_block(rows, slice(1, None)) for rows in (block, due))
        n_rows = len(block.y)
        if not n_rows:
            return
        weights = np.zeros(2 * n_rows)
        weights[1::2] = 1.0 if due.weights is None else due.weights
        if not weights.any():
            yield block, self.predict(block)
            return
        turns = np.arange(2 * n_rows).reshape(2, n_rows).T.ravel()
        X = select_rows(join_tables([block.X, due.X]), turns)
        # Rows that are only predicted get a label that is learned, too: it adds no class.
        both = Block(X, np.repeat(due.y, 2), weights)
        yield block, self._predict_then_learn(both, slice(0, None, 2))

    def _predict_then_learn(self, block: Block, shown: slice) -> Prediction:
        """Predict and learn rows in one call; return the predictions of some of them."""
        X, y, weights = block
        name = "partial_fit_predict" + "_proba" * (self.task == "classification")
        if self._ends is not None:
            name = "partial_fit_predict_dist"
        predicted = getattr(self.model, name)(X, y, **self._fit_options(weights))[shown]
        self._must_announce = False
        if self._ends is not None:
            return self._summarize(predicted)
        return Prediction(predicted, getattr(self.model, "classes_", None))

    def _can_predict(self) -> bool:
        """Tell whether the model has learned a row, or its classes are announced."""
        if not self._is_ready:
            self._is_ready = (
                self.classes is not None or getattr(self.model, "classes", None) is not None
            )
            with suppress(NotFittedError):
                check_is_fitted(self.model)
                self._is_ready = True
        return self._is_ready

    def _summarize(self, distribution: PredictiveDistribution) -> Prediction:
        """Return the means of distributions, and their intervals."""
        assert self._ends is not None
        return Prediction(distribution.mean(), intervals=distribution.quantiles(self._ends))

    def _predict(self, X: Any) -> Prediction:
        if self._ends is not None:
            return self._summarize(self.model.predict_dist(_as_table(X)))
        if self._by_tree:
            return Prediction(self.model.predict_by_tree(_as_table(X)))
        if (row := self._plain_row(X)) is None:
            return super()._predict(_as_table(X))
        if self.task == "classification":
            return Prediction(self.model.predict_proba_one(row)[None], self._model_classes())
        return Prediction(np.array([self.model.predict_one(row)]))

    def learn(self, block: Block) -> None:
        """Learn rows; a single one by `learn_one`, which is faster, where it can be."""
        row = None if self._must_announce else self._plain_row(block.X)
        if row is None:
            super().learn(block._replace(X=_as_table(block.X)))
            return
        (label,), weights = as_list(block.y), block.weights
        if weights is None:
            self.model.learn_one(row, label)
        elif weights[0]:
            self.model.learn_one(row, label, float(weights[0]))

    def _plain_row(self, X: Any) -> Any:
        """Return a single row as `learn_one` takes it, else None."""
        if isinstance(X, np.ndarray):
            return X[0] if len(X) == 1 and X.dtype.kind == "f" else None
        if not (isinstance(X, FrameRows) and X.are_plain and len(X.values) == 1):
            return None
        if not self._names:  # they are known once a row is learned
            self._names = list(getattr(self.model, "feature_names_in_", ()))
        return X.values[0] if self._names == X.columns else None


class RiverAdapter(SklearnAdapter):
    """A model of river: `predict_proba_one` or `predict_one`, then `learn_one`."""

    def __init__(self, model: Any, task: str, classes: NDArray[Any] | None) -> None:
        super().__init__(model, task, classes)
        self._is_probabilistic = task == "classification"  # until NotImplementedError

    def block_size(self, requested: int | None) -> int:
        """Return 1: models of river take single rows."""
        return 1

    def convert_block(self, X: Any) -> list[Any]:
        """Convert rows to dicts."""
        if isinstance(X, list) and X and isinstance(X[0], Mapping):
            return X
        if (frame := as_frame(X)) is not None:
            return list(frame.iter_rows(named=True))
        rows = X.toarray() if issparse(X) else X
        return [dict(enumerate(as_list(x))) for x in rows]

    def convert_rows(self, X: Any) -> Any:
        """Return the dicts unchanged."""
        return X

    def predict(self, block: Block) -> Prediction | None:
        """Predict a row; None if the model cannot predict yet."""
        (x,) = block.X
        if self._is_probabilistic:
            try:
                probabilities = self.model.predict_proba_one(x)
            except NotImplementedError:
                self._is_probabilistic = False
            else:
                return self._from_dict(probabilities)
        value = self.model.predict_one(x)
        return None if value is None else Prediction(np.array([value]))

    def _from_dict(self, probabilities: Mapping[Any, float]) -> Prediction | None:
        if not probabilities:
            return self._predict_uniformly(1)
        values = np.array([list(probabilities.values())], dtype=np.float64)
        return Prediction(values, tuple(probabilities))

    def learn(self, block: Block) -> None:
        """Learn a row, unless its weight is 0."""
        (x,), (label,) = block.X, as_list(block.y)
        if block.weights is None:
            self.model.learn_one(x, label)
        elif block.weights[0]:
            self.model.learn_one(x, label, w=float(block.weights[0]))


def _as_table(X: Any) -> Any:
    return X.to_native() if isinstance(X, FrameRows) else X


# The adapter of a model


def find_task(model: Any) -> str:
    """Return "classification" or "regression"; refuse a model that cannot learn a stream."""
    if inspect.isclass(model):
        raise TypeError(f"model is the class {model.__name__}; give an instance of it")
    if hasattr(model, "partial_fit"):
        kinds = is_classifier(model), is_regressor(model)
    elif hasattr(model, "learn_one"):
        kinds = _river_kinds(model)
    else:
        name = type(model).__name__
        advice = "it can only learn all rows at once"
        if hasattr(model, "steps"):
            advice = "transform the stream first, or use a pipeline of river"
        raise TypeError(f"model is a {name}, which has neither partial_fit nor learn_one: {advice}")
    if not any(kinds):
        raise TypeError(f"model is a {type(model).__name__}, neither classifier nor regressor")
    return "classification" if kinds[0] else "regression"


def _river_kinds(model: Any) -> tuple[bool, bool]:
    from river import base  # noqa: PLC0415  # an extra; models with learn_one are of river

    last = _last_step(model)
    return isinstance(last, base.Classifier), isinstance(last, base.Regressor)


def _last_step(model: Any) -> Any:
    while hasattr(model, "_last_step"):  # of a pipeline of river
        model = model._last_step
    return model


def adapt(
    model: Any,
    task: str,
    *,
    classes: NDArray[Any] | None = None,
    labels: NDArray[Any] | None = None,
    is_weighted: bool = False,
    by_tree: bool = False,
    by_row: bool = False,
    coverage: float | None = None,
) -> SklearnAdapter:
    """Return the adapter of a model.

    `labels` are all of the stream's, if they are known; `by_row` requests single rows, `by_tree`
    the predictions of each tree, `coverage` intervals that hold this part of the labels.
    """
    if coverage is not None and not hasattr(model, "partial_fit_predict_dist"):
        raise ValueError(
            f"coverage is {coverage}; a {type(model).__name__} does not predict intervals, "
            "AdaptiveAMFRegressor does"
        )
    if not hasattr(model, "partial_fit"):
        if is_weighted and not _takes(_last_step(model).learn_one, "w"):
            raise _no_weights(model, "learn_one")
        return RiverAdapter(model, task, classes)
    if is_weighted and not _takes(model.partial_fit, "sample_weight"):
        raise _no_weights(model, "partial_fit")
    if hasattr(model, f"partial_fit_predict{'_proba' * (task == 'classification')}"):
        # The prediction of an adaptive forest is not the mean of its trees'.
        is_mean = not getattr(model, "is_adaptive", False)
        by_tree = by_tree and hasattr(model, "predict_by_tree") and is_mean
        how: dict[str, Any] = {"by_tree": by_tree, "by_row": by_row, "coverage": coverage}
        return ForestAdapter(model, task, classes, **how)
    if task == "classification" and classes is None and not hasattr(model, "classes_"):
        if labels is None:
            raise ValueError(
                f"classes is None; a {type(model).__name__} needs all classes before its first "
                "row, and this stream does not contain them: give them in classes"
            )
        classes = np.unique(labels)
    return SklearnAdapter(model, task, classes)


def _takes(method: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(method).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _no_weights(model: Any, method: str) -> TypeError:
    name = f"{type(model).__name__}.{method}"
    return TypeError(f"sample_weight is given, but {name} takes no weights")
