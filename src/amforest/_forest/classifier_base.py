"""What a forest of classifiers can be asked: learning with classes, and forecasts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from amforest._forest.classes import ClassForest, as_classes
from amforest._forest.features import Floats
from amforest._forest.inputs import count_rows


class ForestClassifier(ClassifierMixin, ClassForest):
    """The base of `AMFClassifier` and `MondrianForestClassifier`."""

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows of X, in their order, on top of what was learnt before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are kept as float32; NaN is a value that is missing.
        y : array-like of shape (n_samples,)
            The labels. One that was neither announced nor seen becomes a class of its own, from
            its first row on.
        classes : array-like, default=None
            Classes that are known before they appear.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows; one of weight 0 is not learnt.

        Returns
        -------
        self
        """
        return self._learn(X, y, classes=classes, sample_weight=sample_weight)

    def partial_fit_predict_proba(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Floats:
        """Test, then train: forecast each row just before it is learnt.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Row i is what `predict_proba` gave after rows 0 to i - 1 were learnt, with 0 for classes
            that were not known yet.
        """
        n_unknown = 0
        if not self._has_learnt() and classes is None and self.classes is None:
            # Until a row is learnt. Weights that are all 0 will be refused.
            weights = np.ones(1) if sample_weight is None else np.asarray(sample_weight)
            n_unknown = int(np.argmax(weights != 0)) + 1
        parts = self._predict_then_learn(
            X, y, n_unknown, classes=classes, sample_weight=sample_weight
        )
        n_classes = len(self.classes_)
        forecasts = np.concatenate(
            [np.pad(part, ((0, 0), (0, n_classes - part.shape[1]))) for part in parts]
        )
        forecasts[:n_unknown] = 0
        return self._in_order(forecasts)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Forecast the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns are in the order of `classes_`. Before any data, and if `classes` was given to
            the constructor, the uniform distribution.
        """
        if (classes := self._announced()) is not None:
            return np.full((count_rows(self, X), len(classes)), 1 / len(classes))
        return self._forecast(self._by_index, X)[0]

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Forecast the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):  # the original Mondrian forest knows impossible classes
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Forecast the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        announced = self._announced()
        if announced is None:
            labels: NDArray[Any] = _most_probable(*self._forecast(self._by_index, X))
        else:
            labels = _most_probable(self.predict_proba(X), announced)
        return labels

    def predict_proba_one(self, x: Sequence[float] | NDArray[Any]) -> Floats:
        """Forecast the probabilities of the classes for one row, the quick way.

        Parameters
        ----------
        x : sequence of n_features numbers

        Returns
        -------
        ndarray of shape (n_classes,)
        """
        if self._categories is None:
            try:
                known = classes, columns = self._sorted
                forecast = self._core.predict_row(x, len(classes))  # type: ignore[arg-type]
                if forecast is not None and self._sorted is known:
                    return forecast if columns is None else forecast[columns]
            except (AttributeError, TypeError, ValueError):
                pass  # nothing was learnt, or x is no good array: what follows knows better
        if not self._has_learnt() and self.classes is not None:
            rows: Any = [x]
            prior: Floats = self.predict_proba(rows)[0]
            return prior
        return self._forecast(self._predict_row, x)[0]

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> Any:
        """Forecast the most probable class of one row, the quick way.

        Parameters
        ----------
        x : sequence of n_features numbers

        Returns
        -------
        An element of `classes_`.
        """
        if (classes := self._announced()) is not None:
            return _most_probable(self.predict_proba_one(x), classes)
        return _most_probable(*self._forecast(self._predict_row, x))

    def predict_proba_by_tree(self, X: ArrayLike) -> Floats:
        """Forecast the probabilities of the classes with each tree; `predict_proba` is their mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators, n_classes)
        """
        return self._forecast(self._by_tree, X)[0]

    def _by_index(self, X: ArrayLike) -> Floats:
        return self._by_blocks(self._grown().predict, X)

    def _by_tree(self, X: ArrayLike) -> Floats:
        return self._by_blocks(self._grown().predict_by_tree, X)

    def _announced(self) -> NDArray[Any] | None:
        """Return the classes if they are all that is known."""
        return None if self._has_learnt() or self.classes is None else as_classes(self.classes)


def _most_probable(probabilities: Floats, classes: NDArray[Any]) -> Any:
    return classes[np.argmax(probabilities, axis=-1)]
