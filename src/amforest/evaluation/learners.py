"""Learners: models of ours, of scikit-learn's and of river's, which forecast and learn blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from amforest._forest.inputs import as_frame
from amforest.evaluation.arrays import Floats, as_list
from amforest.evaluation.blocks import ROWS_AT_ONCE, Block, part, some_rows


class Answer(NamedTuple):
    """Forecasts of some rows."""

    forecasts: NDArray[Any]
    classes: Any = None  # of the columns, if they are probabilities


class Learner:
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

    def test_then_train(self, block: Block) -> Iterator[tuple[Block, Answer | None]]:
        """Forecast rows, then learn them; in several parts, if need be."""
        answer = self.forecast(block)
        self.learn(block)
        yield block, answer

    def forecast(self, block: Block) -> Answer | None:
        """Forecast rows; None if the model has no answer yet."""
        try:
            return self._forecast(block.X)
        except NotFittedError:
            return self._forecast_nothing(len(block.y))

    def _forecast(self, X: Any) -> Answer:
        if self._probabilistic:
            return Answer(self.model.predict_proba(X), self._model_classes())
        return Answer(np.ravel(self.model.predict(X)))

    def _model_classes(self) -> Any:
        classes = getattr(self.model, "classes_", None)
        return np.unique(self.model.classes) if classes is None else classes

    def _forecast_nothing(self, n_rows: int) -> Answer | None:
        if self.classes is None or not self._probabilistic:
            return None
        return Answer(np.full((n_rows, len(self.classes)), 1 / len(self.classes)), self.classes)

    def learn(self, block: Block) -> None:
        """Learn rows, but those of weight 0."""
        X, y, weights = block
        if weights is not None and not weights.all():
            learnt = np.flatnonzero(weights)
            X, y, weights = some_rows(X, learnt), y[learnt], weights[learnt]
        if len(y):
            self.model.partial_fit(X, y, **self._how(weights))
            self._to_announce = False

    def _how(self, weights: Floats | None) -> dict[str, Any]:
        how: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if self._to_announce and self.classes is not None:
            how["classes"] = self.classes
        return how


class Ours(Learner):
    """A model of ours: many rows at once, each forecast just before it is learnt.

    One by one if labels are delayed, or if each tree's forecast is asked for.
    """

    def __init__(
        self, model: Any, task: str, classes: NDArray[Any] | None, *, trees: bool, rows: bool
    ) -> None:
        super().__init__(model, task, classes)
        self._trees, self._by_row, self._has_begun = trees, trees or rows, False

    def size(self, wish: int | None) -> int:
        """Return how many rows it shall get at once."""
        return 1 if self._by_row else wish or ROWS_AT_ONCE

    def test_then_train(self, block: Block) -> Iterator[tuple[Block, Answer | None]]:
        """Forecast and learn rows in one call, once there is something to forecast by."""
        if self._by_row:
            yield from super().test_then_train(block)
            return
        while len(block.y) and not self._can_answer():  # the first row, unless it has no weight
            yield from super().test_then_train(part(block, slice(0, 1)))
            block = part(block, slice(1, None))
        if not len(block.y):
            return
        X, y, weights = block
        if weights is not None and not weights.any():  # as first rows, they would be refused
            yield block, self.forecast(block)
            return
        name = "partial_fit_predict" + "_proba" * (self.task == "classification")
        forecasts = getattr(self.model, name)(X, y, **self._how(weights))
        self._to_announce = False
        yield block, Answer(forecasts, getattr(self.model, "classes_", None))

    def _can_answer(self) -> bool:
        """Tell whether the model has learnt something, or knows the classes."""
        if not self._has_begun:
            announced = self.classes is not None or getattr(self.model, "classes", None) is not None
            with suppress(NotFittedError):
                check_is_fitted(self.model)
                announced = True
            self._has_begun = announced
        return self._has_begun

    def _forecast(self, X: Any) -> Answer:
        if self._trees:
            return Answer(self.model.predict_by_tree(X))
        if not _is_plain_row(X):
            return super()._forecast(X)
        if self.task == "classification":
            return Answer(self.model.predict_proba_one(X[0])[None], self._model_classes())
        return Answer(np.array([self.model.predict_one(X[0])]))

    def learn(self, block: Block) -> None:
        """Learn rows; one alone in the quicker way, if it can be."""
        X, y, weights = block
        if self._to_announce or not _is_plain_row(X):
            super().learn(block)
        elif weights is None:
            self.model.learn_one(X[0], y[0].item())
        elif weights[0]:
            self.model.learn_one(X[0], y[0].item(), float(weights[0]))


class River(Learner):
    """A model of river's: `predict_proba_one` or `predict_one`, then `learn_one`."""

    def __init__(self, model: Any, task: str, classes: NDArray[Any] | None) -> None:
        super().__init__(model, task, classes)
        self._probabilistic = task == "classification"  # until it says that it is not

    def size(self, wish: int | None) -> int:
        """Return 1: rows come singly."""
        return 1

    def rows(self, X: Any) -> list[Any]:
        """Convert rows into dicts."""
        if isinstance(X, list) and X and isinstance(X[0], Mapping):
            return X
        if (frame := as_frame(X)) is not None:
            return list(frame.iter_rows(named=True))
        rows = X.toarray() if issparse(X) else X
        return [dict(enumerate(as_list(x))) for x in rows]

    def table(self, X: Any) -> Any:
        """Leave dicts as they are."""
        return X

    def forecast(self, block: Block) -> Answer | None:
        """Forecast a row; None if the model has no answer yet."""
        (x,) = block.X
        if self._probabilistic:
            try:
                chances = self.model.predict_proba_one(x)
            except NotImplementedError:
                self._probabilistic = False
            else:
                return self._answer(chances)
        said = self.model.predict_one(x)
        return None if said is None else Answer(np.array([said]))

    def _answer(self, chances: Mapping[Any, float]) -> Answer | None:
        if not chances:
            return self._forecast_nothing(1)
        return Answer(np.array([list(chances.values())], dtype=np.float64), tuple(chances))

    def learn(self, block: Block) -> None:
        """Learn a row, unless its weight is 0."""
        (x,), (label,) = block.X, as_list(block.y)
        if block.weights is None:
            self.model.learn_one(x, label)
        elif block.weights[0]:
            self.model.learn_one(x, label, w=float(block.weights[0]))


def _is_plain_row(X: Any) -> bool:
    return isinstance(X, np.ndarray) and len(X) == 1 and X.dtype.kind == "f"
