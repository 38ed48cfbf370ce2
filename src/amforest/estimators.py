"""AMFClassifier and AMFRegressor: the Aggregated Mondrian Forest for scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval

from amforest._base import Floats, Forest, Seeds, naming
from amforest._core import ClassifierForest, Options, RegressorForest


class AMFClassifier(ClassifierMixin, Forest):
    """Aggregated Mondrian forest for classification.

    An online random forest: trees grow one sample at a time, and the forecast of each tree is the
    exact average over all its prunings, weighted by how well they have forecast so far.

    Parameters
    ----------
    n_estimators : int, default=10
        The number of trees.
    step : float, default=1.0
        η, the learning rate of the aggregation. 1 is optimal for log-loss.
    use_aggregation : bool, default=True
        Average over all prunings. If False, a tree forecasts with the leaf alone.
    dirichlet : float, default=None
        α, what each class counts before any label was seen: a node forecasts class k with
        probability (n_k + α) / (n + α n_classes). None means 0.5 for two classes, 0.01 for more.
    split_pure : bool, default=False
        Whether nodes whose labels are all equal are split too. Try True when there are few
        features.
    charge_first : bool, default=False
        Whether a node is charged for the loss of its first label, which it forecasts uniformly.
        True in the paper's algorithms, False in the experiments.
    predict_extends : bool, default=False
        Whether predicting x first extends the partition by x, in expectation over the random
        split. True in the paper's algorithms, False in the experiments.
    classes : array-like, default=None
        All classes there will be. None means those of the first call of `fit` or `partial_fit`.
    n_jobs : int, default=None
        The number of threads. None means 1, -1 all cores. It never changes the result.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same forest, however the stream is cut into batches.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had some.
    n_samples_seen_ : int
        How many rows were learnt.

    See Also
    --------
    AMFRegressor : The same for regression.

    References
    ----------
    J. Mourtada, S. Gaïffas and E. Scornet, "AMF: Aggregated Mondrian forests for online learning",
    Journal of the Royal Statistical Society, Series B, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = AMFClassifier(classes=[0, 1, 2], random_state=0)
    >>> for x, label in zip(X, y):
    ...     forest = forest.learn_one(x, label)
    >>> forest.predict([[5.0, 3.4, 1.5, 0.2], [6.5, 3.0, 5.5, 2.0]])
    array([0, 2])
    """

    _core_class = ClassifierForest
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Forest._parameter_constraints,
        "dirichlet": [Interval(Real, 1e-100, 1e100, closed="both"), None],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float = 1.0,
        use_aggregation: bool = True,
        dirichlet: float | None = None,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.step = step
        self.use_aggregation = use_aggregation
        self.dirichlet = dirichlet
        self.split_pure = split_pure
        self.charge_first = charge_first
        self.predict_extends = predict_extends
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn the rows of X, in their order, on top of what was learnt before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are kept as float32.
        y : array-like of shape (n_samples,)
            The labels.
        classes : array-like, default=None
            All classes there will be; needed in the first call at the latest, unless `y` holds
            them all or the constructor was told.

        Returns
        -------
        self
        """
        return self._learn(X, y, classes=classes)

    def partial_fit_predict_proba(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> Floats:
        """Test, then train: forecast each row just before it is learnt.

        Parameters
        ----------
        X, y, classes
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Row i is what `predict_proba` gave after rows 0 to i - 1 were learnt.
        """
        return self._predict_then_learn(X, y, classes=classes)

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
            n_rows = len(check_array(X, dtype=np.float32))
            return np.full((n_rows, len(classes)), 1 / len(classes))
        return self._grown().predict(self._rows(X), self._n_threads())

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Forecast the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
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
        labels: NDArray[Any] = self._most_probable(self.predict_proba(X))
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
        if self._announced() is not None:
            forecast: Floats = self.predict_proba(np.asarray(x)[None])[0]
            return forecast
        return self._grown().predict_row(self._row(x))

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> Any:
        """Forecast the most probable class of one row, the quick way.

        Parameters
        ----------
        x : sequence of n_features numbers

        Returns
        -------
        An element of `classes_`.
        """
        return self._most_probable(self.predict_proba_one(x))

    def predict_proba_by_tree(self, X: ArrayLike) -> Floats:
        """Forecast the probabilities of the classes with each tree; `predict_proba` is their mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators, n_classes)
        """
        return self._grown().predict_by_tree(self._rows(X), self._n_threads())

    def _encode(self, y: NDArray[Any], *, first: bool, classes: Any) -> NDArray[np.uint32]:
        labels, inverse = _unique(y)
        if first:
            announced = self.classes if classes is None else classes
            self.classes_ = _as_classes(labels if announced is None else announced)
            self._index_of = {label: k for k, label in enumerate(self.classes_.tolist())}
        elif classes is not None and not np.array_equal(_as_classes(classes), self.classes_):
            raise ValueError(
                f"classes is {classes!r}; the first call said {self.classes_.tolist()}"
            )
        indices = [self._encode_one(label) for label in labels.tolist()]
        return np.array(indices, dtype=np.uint32)[inverse]

    def _encode_one(self, y: Any) -> int:
        try:
            index = self._index_of.get(y)
        except TypeError as error:
            raise TypeError(f"y is {y!r}, which cannot be a label: {error}") from error
        if index is None:
            raise ValueError(
                f"y holds {y!r}, which is not one of the classes {self.classes_.tolist()}; "
                "announce all classes with classes= before the first row is learnt"
            )
        return index

    def _new_core(self, n_features: int, options: Options, seeds: Seeds) -> ClassifierForest:
        n_classes = len(self.classes_)
        default = 0.5 if n_classes <= 2 else 0.01
        return ClassifierForest(
            n_features=n_features,
            options=options,
            seeds=seeds,
            n_classes=n_classes,
            dirichlet=float(default if self.dirichlet is None else self.dirichlet),
        )

    def _announced(self) -> NDArray[Any] | None:
        """Return the classes if they are all that is known."""
        return None if self._has_learnt() or self.classes is None else _as_classes(self.classes)

    def _most_probable(self, probabilities: Floats) -> Any:
        announced = self._announced()
        classes = self.classes_ if announced is None else announced
        return classes[np.argmax(probabilities, axis=-1)]


class AMFRegressor(RegressorMixin, Forest):
    """Aggregated Mondrian forest for regression.

    An online random forest: trees grow one sample at a time, and the forecast of each tree is the
    exact average over all its prunings, weighted by how well they have forecast so far.

    Parameters
    ----------
    n_estimators : int, default=10
        The number of trees.
    step : float, default=1.0
        η, the learning rate of the aggregation. It belongs to the square of the labels' unit: for
        labels within ±B the paper's choice is 1 / (8 B²).
    use_aggregation : bool, default=True
        Average over all prunings. If False, a tree forecasts with the leaf alone.
    split_pure : bool, default=False
        Whether nodes whose labels are all equal are split too.
    charge_first : bool, default=False
        Whether a node is charged for the loss of its first label, which it forecasts as 0.
        True in the paper's algorithms, False in the experiments.
    predict_extends : bool, default=False
        Whether predicting x first extends the partition by x, in expectation over the random
        split. True in the paper's algorithms, False in the experiments.
    n_jobs : int, default=None
        The number of threads. None means 1, -1 all cores. It never changes the result.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same forest, however the stream is cut into batches.

    Attributes
    ----------
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had some.
    n_samples_seen_ : int
        How many rows were learnt.

    See Also
    --------
    AMFClassifier : The same for classification.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AMFRegressor
    >>> X = np.random.default_rng(0).uniform(size=(500, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> forest = AMFRegressor(step=2.0, random_state=0).fit(X, y)
    >>> forest.predict([[0.25], [0.75]]).round(2)
    array([ 0.97, -0.97])
    """

    _core_class = RegressorForest

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float = 1.0,
        use_aggregation: bool = True,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.step = step
        self.use_aggregation = use_aggregation
        self.split_pure = split_pure
        self.charge_first = charge_first
        self.predict_extends = predict_extends
        self.n_jobs = n_jobs
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the rows of X, in their order, on top of what was learnt before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are kept as float32.
        y : array-like of shape (n_samples,)
            The labels, within ±1e75.

        Returns
        -------
        self
        """
        return self._learn(X, y)

    def partial_fit_predict(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Test, then train: forecast each row just before it is learnt.

        Parameters
        ----------
        X, y
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Entry i is what `predict` gave after rows 0 to i - 1 were learnt; 0 before the first.
        """
        return self._predict_then_learn(X, y)[:, 0]

    def predict(self, X: ArrayLike) -> Floats:
        """Forecast the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._grown().predict(self._rows(X), self._n_threads())[:, 0]

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> float:
        """Forecast the label of one row, the quick way.

        Parameters
        ----------
        x : sequence of n_features numbers

        Returns
        -------
        float
        """
        return float(self._grown().predict_row(self._row(x))[0])

    def predict_by_tree(self, X: ArrayLike) -> Floats:
        """Forecast the labels with each tree; `predict` is their mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
        """
        return self._grown().predict_by_tree(self._rows(X), self._n_threads())[:, :, 0]

    def _as_labels(self, y: ArrayLike) -> ArrayLike:
        if y is None:
            return y
        with naming("y"):
            labels: Floats = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        return labels

    def _encode(self, y: NDArray[Any], *, first: bool, classes: Any) -> Floats:
        if np.abs(y).max() > 1e75:
            raise ValueError("y holds values beyond ±1e75, whose squares overflow: scale it down")
        return np.ascontiguousarray(y, dtype=np.float64)

    def _encode_one(self, y: Any) -> float:
        with naming("y"):
            return float(y)  # the core checks its size

    def _new_core(self, n_features: int, options: Options, seeds: Seeds) -> RegressorForest:
        return RegressorForest(n_features=n_features, options=options, seeds=seeds)


def _unique(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the different labels, sorted, and where each of y is among them."""
    try:
        labels, inverse = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"y mixes labels that cannot be compared: {error}") from error
    if labels.dtype.kind == "f" and (fractions := labels[labels != np.rint(labels)]).size:
        raise ValueError(
            f"Unknown label type: y holds fractions such as {fractions[0]}, not classes"
        )
    return labels, inverse


def _as_classes(labels: ArrayLike) -> NDArray[Any]:
    """Return the different labels, sorted."""
    all_labels = np.asarray(labels)
    classes = np.unique(all_labels)
    if all_labels.ndim != 1 or not 1 <= len(classes) <= 65_535:
        raise ValueError(
            f"classes has shape {all_labels.shape}; it must be a list of 1 to 65535 labels"
        )
    return classes
