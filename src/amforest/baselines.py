"""The baselines of the paper: the labels alone, and the original Mondrian forest."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from amforest._core import Options
from amforest._forest.class_labels import distinct_classes, distinct_labels
from amforest._forest.core_options import size_limits
from amforest._forest.estimator import Estimator
from amforest._forest.given_labels import as_labels
from amforest._forest.input_errors import argument_named
from amforest._forest.inputs import validate_weights
from amforest._forest.losses import Floats
from amforest.classifier import ForestClassifier

__all__ = ["MondrianForestClassifier", "OnlineDummyClassifier", "OnlineDummyRegressor"]

Way = Literal["fit", "partial_fit", "test_then_train"]
Row = Sequence[Any] | NDArray[Any]
ANY_VALUES: dict[str, Any] = {"dtype": None, "ensure_all_finite": False, "accept_sparse": True}


class _Dummy(BaseEstimator):
    """The base of both dummies: only the shape of X is checked."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _total: float  # the sum of the weights
    n_samples_seen_: int
    classes_: NDArray[Any]  # of a classifier
    predict: Any

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn the labels; X may hold anything."""
        self._learn(X, y, sample_weight, way="fit")
        return self

    def learn_one(self, x: Row, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn the label of one row."""
        self._learn([x], [y], None if sample_weight == 1 else [sample_weight])
        return self

    def predict_one(self, x: Row) -> Any:
        """Predict the label of one row."""
        return self.predict([x])[0]

    def _learn(
        self, X: Any, y: Any, sample_weight: Any, classes: Any = None, way: Way = "partial_fit"
    ) -> Floats:
        """Check, then learn; on error change nothing. Return what `_count` does."""
        after, first = copy(self), way == "fit" or not hasattr(self, "n_samples_seen_")
        if first:
            after._validate_params()
            after._total, after.n_samples_seen_ = 0.0, 0
        labels = validate_data(after, X, as_labels(y), reset=first, **ANY_VALUES)[1]
        weights = np.ones(len(labels))
        if sample_weight is not None:
            weights = validate_weights(sample_weight, len(labels))
        if first:
            if not weights.any():
                raise ValueError("sample_weight is zero for all rows: nothing is left to learn")
            after._start(labels if way == "fit" else labels[:0], classes)
        elif classes is not None and set(distinct_classes(classes)) != set(self.classes_):
            raise ValueError(
                f"classes is {classes!r}, but the classes so far are {self.classes_.tolist()}: "
                "give these, or None"
            )
        totals = np.cumsum(np.append(after._total, weights))  # in order, however rows are cut
        predictions = after._count(labels, weights, totals, way)
        after._total = float(totals[-1])
        after.n_samples_seen_ += int(np.count_nonzero(weights))
        self.__dict__ = after.__dict__
        return predictions

    def _start(self, labels: Any, classes: Any) -> None:
        """Forget all labels; those given are known from the start, unless `classes` are."""
        raise NotImplementedError

    def _count(self, labels: Any, weights: Floats, totals: Floats, way: Way) -> Floats:
        """Learn labels; return the predictions just before each. `totals` are sums of weights."""
        raise NotImplementedError

    def _n_rows(self, X: ArrayLike) -> int:
        check_is_fitted(self, msg="%(name)s is not fitted: call fit or partial_fit first")
        return int(validate_data(self, X, reset=False, **ANY_VALUES).shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class OnlineDummyClassifier(ClassifierMixin, _Dummy):
    """Predict classes by their frequency, whatever the features are.

    This is the predictor of Krichevsky and Trofimov: `AMFClassifier` with a single node.

    Parameters
    ----------
    dirichlet : float, default=None
        α, the count of each class before any label is seen: class k has probability
        (n_k + α) / (n + α n_classes). None means 0.5 for two classes, 0.01 for more.
    classes : array-like, default=None
        Classes that are known before they appear. Others are added with their first row; `fit`
        adds all classes of y at the start.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    n_samples_seen_ : int
        How many rows were learned.

    Examples
    --------
    >>> from amforest.baselines import OnlineDummyClassifier
    >>> dummy = OnlineDummyClassifier(classes=["no", "yes"])
    >>> dummy.partial_fit_predict_proba([[0.0], [7.0], [0.0]], ["yes", "yes", "no"])
    array([[0.5       , 0.5       ],
           [0.25      , 0.75      ],
           [0.16666667, 0.83333333]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dirichlet": [Interval(Real, 1e-100, 1e100, closed="both"), None],
        "classes": ["array-like", None],
    }
    _counts: Floats  # n_k, in the order of classes_

    def __init__(self, *, dirichlet: float | None = None, classes: ArrayLike | None = None) -> None:
        self.dirichlet = dirichlet
        self.classes = classes

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the labels on top of what was learned before; see `AMFClassifier.partial_fit`."""
        self._learn(X, y, sample_weight, classes)
        return self

    def partial_fit_predict_proba(
        self, X: ArrayLike, y: ArrayLike, classes: Any = None, sample_weight: Any = None
    ) -> Floats:
        """Test, then train; see `AMFClassifier.partial_fit_predict_proba`."""
        return self._learn(X, y, sample_weight, classes, "test_then_train")

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes, the same for all rows of X."""
        if not hasattr(self, "classes_") and self.classes is not None:
            n_classes = len(distinct_classes(self.classes))
            return np.full((check_array(X, **ANY_VALUES).shape[0], n_classes), 1 / n_classes)
        n_rows, known = self._n_rows(X), np.ones(len(self.classes_), dtype=bool)
        return np.tile(self._probabilities(self._counts, self._total, known), (n_rows, 1))

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Predict the logarithms of the probabilities of the classes."""
        return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class, the same for all rows of X."""
        best, announced = self.predict_proba(X).argmax(axis=1), np.asarray(self.classes)
        return np.asarray(distinct_classes(getattr(self, "classes_", announced))[best])

    def predict_proba_one(self, x: Row) -> Floats:
        """Predict the probabilities of the classes for one row."""
        return self.predict_proba([x]).ravel()

    def _start(self, labels: Any, classes: Any) -> None:
        announced = self.classes if classes is None else classes
        if announced is None:
            self.classes_ = distinct_labels(labels)[0]
        else:
            self.classes_ = distinct_classes(announced)
        self._counts = np.zeros(len(self.classes_))

    def _count(self, labels: Any, weights: Floats, totals: Floats, way: Way) -> Floats:
        learned = np.flatnonzero(weights)
        was_known = self._add_classes(labels[learned])
        columns = np.searchsorted(self.classes_, labels[learned])
        predictions = np.empty(0)  # unless they are requested
        if way == "test_then_train":
            steps = np.zeros((len(totals), len(self.classes_)))
            steps[0], steps[learned + 1, columns] = self._counts, weights[learned]
            counts = np.cumsum(steps, axis=0)[:-1]
            predictions = self._probabilities(counts, totals[:-1, None], was_known | (counts > 0))
        np.add.at(self._counts, columns, weights[learned])
        return predictions

    def _add_classes(self, labels: Any) -> NDArray[np.bool_]:
        """Add the classes of labels; return which classes were known before."""
        old, given = self.classes_, distinct_labels(labels)[0]
        if len({isinstance(label, str) for label in (*old[:1], *given[:1])}) > 1:
            raise TypeError(
                f"y holds {given[0]!r}; labels must be all text or all numbers, and the classes so "
                f"far are {old.tolist()}"
            )
        if len(new := given[~np.isin(given, old)]):
            self.classes_ = distinct_classes(np.concatenate([old, new]))
        was_known: NDArray[np.bool_] = np.isin(self.classes_, old)
        counts, self._counts = self._counts, np.zeros(len(was_known))
        self._counts[was_known] = counts
        return was_known

    def _probabilities(self, counts: Floats, total: Any, known: NDArray[np.bool_]) -> Floats:
        """Return (n_k + α) / (n + αK) for known classes, 0 for others."""
        n_classes = known.sum(axis=-1, keepdims=True)
        alpha = np.where(n_classes <= 2, 0.5, 0.01) if self.dirichlet is None else self.dirichlet
        probabilities = np.zeros(counts.shape)
        np.divide(counts + alpha, total + alpha * n_classes, out=probabilities, where=known)
        return probabilities

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class OnlineDummyRegressor(RegressorMixin, _Dummy):
    """Predict the mean of the labels so far, whatever the features are.

    Examples
    --------
    >>> from amforest.baselines import OnlineDummyRegressor
    >>> OnlineDummyRegressor().partial_fit_predict([[0.0], [7.0], [0.0]], [2.0, 4.0, 6.0])
    array([0., 2., 3.])
    """

    _sum: float  # of the labels, each times its weight

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> Self:
        """Learn the labels on top of what was learned before; see `AMFRegressor.partial_fit`."""
        self._learn(X, y, sample_weight)
        return self

    def partial_fit_predict(self, X: ArrayLike, y: ArrayLike, sample_weight: Any = None) -> Floats:
        """Test, then train: predict each row just before it is learned; 0 before the first."""
        return self._learn(X, y, sample_weight)

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the mean of the labels, the same for all rows of X."""
        return np.full(self._n_rows(X), self._sum / self._total)

    def _start(self, labels: Any, classes: Any) -> None:
        self._sum = 0.0

    def _count(self, labels: Any, weights: Floats, totals: Floats, way: Way) -> Floats:
        with argument_named("y"), np.errstate(over="ignore"):
            sums = np.cumsum(np.append(self._sum, weights * labels.astype(np.float64)))
        if not np.isfinite(sums).all():
            raise ValueError("y holds values that are infinite, or overflow when added up")
        self._sum = float(sums[-1])
        return sums[:-1] / np.where(totals[:-1] > 0, totals[:-1], 1.0)  # 0 / 1 before the first

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


_SHARED = (
    *("n_estimators", "split_pure", "categorical_features", "max_categories", "max_nodes"),
    *("max_bytes", "n_jobs", "random_state"),
)


class MondrianForestClassifier(ForestClassifier):
    """The original Mondrian forest, which smooths along the path instead of mixing prunings.

    Its trees are those of `AMFClassifier`. A node predicts the classes seen below it, shrunk
    towards the prediction of its parent, the less the longer the node has lived: a hierarchy of
    normalised stable processes, approximated by interpolated Kneser–Ney smoothing.

    Parameters
    ----------
    n_estimators : int, default=10
        The number of trees.
    discount : float, default=None
        γ: a node that lived for a time Δ passes its classes to its parent with the discount
        exp(-γ Δ). None means ten times the number of features, as in the authors' experiments.
    lifetime : float, default=inf
        λ: no split has a later time.
    split_pure : bool, default=False
        Whether nodes whose labels are all equal are split, too.
    categorical_features, max_categories, max_nodes, max_bytes, classes, n_jobs, random_state
        As in `AMFClassifier`.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_, is_categorical_, categories_, n_samples_seen_
        As in `AMFClassifier`.
    feature_importances_ : ndarray of shape (n_features,)
        As in `AMFClassifier`, of leaves that predict without smoothing.

    Notes
    -----
    With ``split_pure=True`` the partition has the law of the Mondrian process restricted to the
    data. Otherwise leaves of one class are not split, as in the authors' code. Theirs keep all
    their points and are split when another class comes, while ours keep their box, which is never
    split.

    References
    ----------
    B. Lakshminarayanan, D. M. Roy and Y. W. Teh, "Mondrian forests: efficient online random
    forests", Advances in Neural Information Processing Systems 27, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.utils import shuffle
    >>> from amforest.baselines import MondrianForestClassifier
    >>> X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    >>> forest = MondrianForestClassifier(random_state=0).fit(X[:100], y[:100])
    >>> round(forest.score(X[100:], y[100:]), 2)
    0.94
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: Estimator._parameter_constraints[name] for name in _SHARED},
        "discount": [Interval(Real, 0, 1e100, closed="right"), None],
        "lifetime": [Interval(Real, 0, None, closed="right")],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        discount: float | None = None,
        lifetime: float = np.inf,
        split_pure: bool = False,
        categorical_features: ArrayLike | str | None = "auto",
        max_categories: int | None = 256,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.discount = discount
        self.lifetime = lifetime
        self.split_pure = split_pure
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _options(self, n_features: int) -> Options:
        gamma = 10 * n_features if self.discount is None else self.discount
        return Options(
            step=1.0,
            use_aggregation=False,
            split_pure=bool(self.split_pure),
            charge_first=False,
            predict_extends=False,
            discount=float(gamma),
            lifetime=float(self.lifetime),
            **size_limits(self),
        )

    def _dirichlet(self, n_classes: int) -> float:
        return 0.5  # not used by this forest
