"""Classifiers: AMFClassifier, the paper's forest, and AdaptiveAMFClassifier."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from amforest._core import AdaptiveClassifierForest, Options
from amforest._forest.adaptive import (
    ADAPTIVE_CONSTRAINTS,
    core_arguments,
    count_trees,
    memory_stats,
)
from amforest._forest.class_labels import (
    ClassLabels,
    decide,
    distinct_classes,
    distinct_labels,
    warn_of_many_classes,
)
from amforest._forest.class_weights import ClassWeight
from amforest._forest.core_handle import (
    Core,
    Fitted,
    Labels,
    build_core,
    join_parts,
    predict_row,
)
from amforest._forest.core_options import (
    Group,
    adaptive_tree_options,
    aggregation_options,
    box_of,
    checked_memories,
)
from amforest._forest.encoder import Encoder
from amforest._forest.estimator import Estimator
from amforest._forest.explanation import Explanation
from amforest._forest.given_labels import as_labels
from amforest._forest.inputs import Features, count_rows
from amforest._forest.losses import Floats
from amforest.frozen import FrozenClassifier

_DECISION_CONSTRAINTS: dict[str, list[Any]] = {
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "threshold": [Interval(Real, 0, 1, closed="neither"), None],
}


class ForestClassifier(ClassifierMixin, Estimator):
    """The base of all classifiers that are forests."""

    step: float
    classes: ArrayLike | None
    dirichlet: float | None
    threshold: float | None = None  # which baselines do not have
    _frozen_type = FrozenClassifier

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted."""
        if self._handle.fitted is None:
            raise AttributeError(f"{type(self).__name__} is not fitted")
        return self._class_labels(self._handle.fitted).classes

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows of X, in their order, on top of what was learned before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are stored as float32; NaN is a missing value.
        y : array-like of shape (n_samples,)
            The labels. A label that was neither announced nor seen becomes a new class, from its
            first row on.
        classes : array-like, default=None
            Classes that are known before they appear.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows; a row of weight 0 is not learned.

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
        """Test, then train: predict each row just before it is learned.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Row i is what `predict_proba` returned after rows 0 to i - 1 were learned, with 0 for
            classes that were not known yet.
        """
        n_unknown = 0
        if self._handle.fitted is None and classes is None and self.classes is None:
            # Until a row is learned. Weights that are all 0 are an error.
            weights = np.ones(1) if sample_weight is None else np.asarray(sample_weight)
            n_unknown = int(np.argmax(weights != 0)) + 1
        parts = self._predict_then_learn(
            X, y, n_unknown, classes=classes, sample_weight=sample_weight
        )
        labels = self._class_labels(self._fitted())
        # The last rows may be predicted without the class that the last one adds.
        n_classes = len(labels.classes)
        predictions = join_parts([*parts, np.empty((0, n_classes))])
        predictions[:n_unknown] = 0
        return labels.sort_columns(predictions)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes.

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
        return self._predict("predict", X)[0]

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Predict the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):  # the original Mondrian forest predicts probability 0
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class, or the class that `threshold` selects.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if (classes := self._announced()) is not None:
            probabilities = self.predict_proba(X)
        else:
            probabilities, classes = self._predict("predict", X)
        labels: NDArray[Any] = classes[decide(probabilities, self.threshold)]
        return labels

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of `predict`: on rows just learned it says nothing about new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            The true labels.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        return float(super().score(X, as_labels(y), sample_weight))

    def predict_proba_one(self, x: Sequence[float] | NDArray[Any]) -> Floats:
        """Predict the probabilities of the classes for one row, fast.

        Parameters
        ----------
        x : sequence of n_features numbers, dict or Series
            Fastest as a contiguous array of float32 or float64. Values with names are matched with
            the columns of X by name.

        Returns
        -------
        ndarray of shape (n_classes,)
        """
        if (fitted := self._handle.fitted) is not None:
            by_index = predict_row(fitted, x, self)
            return by_index if fitted.labels.is_sorted else fitted.labels.sort_columns(by_index)
        rows: Any = [x]
        prior: Floats = self.predict_proba(rows)[0]
        return prior

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> Any:
        """Predict the most probable class of one row, or that of `threshold`, fast.

        Parameters
        ----------
        x : sequence of n_features numbers, dict or Series

        Returns
        -------
        An element of `classes_`.
        """
        if (classes := self._announced()) is not None:
            return classes[decide(self.predict_proba_one(x), self.threshold)]
        fitted = self._fitted()
        by_index = predict_row(fitted, x, self)
        labels = self._class_labels(fitted)
        best = decide(labels.sort_columns(by_index), self.threshold)
        return labels.first(len(by_index))[0][best]

    def predict_proba_by_tree(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes with each tree; `predict_proba` is their mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators, n_classes)
        """
        return self._predict("predict_by_tree", X)[0]

    def explain(self, X: ArrayLike) -> Explanation:
        """Return what each feature contributes to the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Explanation
            Its `values` have the shape (n_samples, n_features, n_classes). Summed over features,
            and with `base_values`, they are what `predict_proba` returns.
        """
        terms, classes, fitted = self._explain(X)
        return self._explanation(fitted, X, terms, "probability", classes)

    def _explain(self, X: ArrayLike) -> tuple[Floats, list[Any], Fitted]:
        """Return the terms of the explanation, and the classes that they belong to."""
        fitted = self._fitted()
        by_index, labels = self._run_explain(fitted, X), self._class_labels(fitted)
        classes = labels.names(by_index.shape[-1])
        return labels.sort_columns(by_index), classes, fitted

    def _predict(self, method: str, X: ArrayLike) -> tuple[Floats, NDArray[Any]]:
        """Return probabilities, and the classes that their columns belong to."""
        fitted = self._fitted()
        by_index, labels = self._run(fitted, method, X), self._class_labels(fitted)
        return labels.sort_columns(by_index), labels.first(by_index.shape[-1])[0]

    def _announced(self) -> NDArray[Any] | None:
        """Return the parameter `classes`, if nothing was learned yet."""
        if self._handle.fitted is not None or self.classes is None:
            return None
        return distinct_classes(self.classes)

    @staticmethod
    def _class_labels(fitted: Fitted) -> ClassLabels:
        return cast(ClassLabels, fitted.labels)

    def _new_labels(self, labels: NDArray[Any], classes: Any) -> Labels:
        announced = self.classes if classes is None else classes
        if announced is None:
            announced = distinct_labels(labels)[0]
            warn_of_many_classes(0, len(announced), len(labels))
        return ClassLabels.announce(announced)

    def _new_core(self, labels: Any, **features: Any) -> Core:
        n_classes = len(labels.classes)
        return build_core(
            n_classes=n_classes,
            capacity=n_classes,
            dirichlet=self._dirichlet(n_classes),
            **features,
        )

    def _dirichlet(self, n_classes: int) -> float:
        default = 0.5 if n_classes <= 2 else 0.01
        return float(default if self.dirichlet is None else self.dirichlet)


class AMFClassifier(ForestClassifier):
    """Aggregated Mondrian forest for classification.

    An online random forest: trees grow one sample at a time, and the prediction of each tree is
    the exact average over all its prunings, weighted by how well they have predicted so far.

    Parameters
    ----------
    n_estimators : int, default=10
        The number of trees.
    step : float, default=1.0
        η, the learning rate of the aggregation. 1 is optimal for log-loss.
    use_aggregation : bool, default=True
        Average over all prunings. If False, a tree predicts with the leaf alone.
    dirichlet : float, default=None
        α, the count of each class before any label is seen: a node predicts class k with
        probability (n_k + α) / (n + α n_classes). None means 0.5 for two classes, 0.01 for more.
    split_pure : bool, default=False
        Whether nodes whose labels are all equal are split, too. Try True when there are few
        features.
    charge_first : bool, default=False
        Whether a node is charged for the loss of its first label, which it predicts uniformly.
        True in the paper's algorithms, False in the experiments.
    predict_extends : bool, default=False
        Whether predicting x first extends the partition by x, in expectation over the random
        split. True in the paper's algorithms, False in the experiments.
    classes : array-like, default=None
        Classes that are known before they appear. Others are added with their first row; `fit`
        adds all classes of y at the start.
    split_prior : (float, float), default=(0.5, 0.0)
        α and β: a priori, a pruning extends below a node of its tree with probability
        α (1 + depth)^-β. The paper's is (½, 0). β must be 0 unless `partition` is "unrestricted".
    partition : {"restricted", "unrestricted"}, default="restricted"
        "restricted" splits within the range of the points seen (Algorithms 4 to 6 of the paper);
        "unrestricted" splits a whole box until each leaf holds one point at most
        (Algorithm 2), whatever `split_pure` is: the object of the paper's theorems.
    bounds : pair of floats, or array-like of shape (n_features, 2), default=None
        The box for "unrestricted": low and high, of all features or of each. None means [0, 1].
    categorical_features : array-like of bool, int or str, "auto", "from_dtype" or None, \
            default="auto"
        The columns that hold categories: a mask, their indices or their names. "auto" means text
        and columns with a categorical dtype; then text that is nearly unique in the first X, as an
        ID is, is dropped with a warning. "from_dtype" means columns with a categorical dtype only.
        With "auto" and with a list, dates become numbers: year, month, day, weekday and hour.
        Other text and dates are an error. Each category is treated as a column
        of its own that is 1 or 0. Any hashable value may be a category, and new categories may
        appear at any time.
    max_categories : int, default=256
        So many categories of a feature have a column each, the first ones; all later ones share
        one column. At most 65,534. None means no limit; then more than 65,535 are an error.
    strict : bool, default=True
        Whether later data frames must have the columns of the first X in the same order, as
        everywhere in scikit-learn, and named rows its names. False matches columns by name: absent
        ones are missing values, unknown ones are ignored with one warning. It may be changed at
        any time.
    max_nodes, max_bytes : int, default=None
        The largest size of the forest, in nodes and in bytes of memory. Each tree has an equal
        part. A full tree stops splitting, and continues to learn with the leaves it has.
    class_weight : dict or "balanced", default=None
        Factors of the weights of rows. A dict has them by class; a class that it does not name has
        the factor 1. "balanced" gives a row of class k the factor n / (K n_k): n rows were learned
        so far, n_k of them of class k, and K classes were seen, this row included, whatever the
        `sample_weight` of rows. Probabilities are those of the weighted stream.
    threshold : float, default=None
        The least probability with which `predict` and `predict_one` choose the second of two
        classes. None means the most probable class. It may change at any time.
    n_jobs : int, default=None
        The number of threads. None means 1, -1 all cores. It never changes the result.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same forest, however the stream is cut into batches.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X had names.
    feature_names_ : ndarray of shape (n_features,)
        The names of the features, if X had names: those of its columns, but of dates those of
        their parts, such as "when.hour", and without dropped columns.
    feature_importances_ : ndarray of shape (n_features,)
        The part of each feature in what the splits have saved of the loss so far, learned online.
    is_categorical_ : ndarray of shape (n_features,)
        Which features hold categories.
    categories_ : dict
        Their categories, in the order in which they appeared, by name or else index of the feature.
        Behind the first `max_categories`, one value stands for all others, if there were more.
    n_samples_seen_ : int
        How many rows were learned.

    Warns
    -----
    UnusedColumnWarning
        If nearly unique text is dropped, or with ``strict=False`` unknown columns are ignored.
    ScaleWarning
        Once, after row 100, if the spreads of the numeric features in the first 100 rows differ by
        a factor of more than 10⁴: then narrow features are hardly split.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Estimator._parameter_constraints,
        "dirichlet": [Interval(Real, 1e-100, 1e100, closed="both"), None],
        "classes": ["array-like", None],
        **_DECISION_CONSTRAINTS,
    }
    _scale_advice = (
        "use AdaptiveAMFClassifier, which needs no scaling, or scale the columns first, for "
        "instance with the StandardScaler of scikit-learn or of river"
    )

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
        split_prior: tuple[float, float] = (0.5, 0.0),
        partition: str = "restricted",
        bounds: ArrayLike | None = None,
        categorical_features: ArrayLike | str | None = "auto",
        max_categories: int | None = 256,
        strict: bool = True,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        classes: ArrayLike | None = None,
        class_weight: ClassWeight = None,
        threshold: float | None = None,
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
        self.split_prior = split_prior
        self.partition = partition
        self.bounds = bounds
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.strict = strict
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.classes = classes
        self.class_weight = class_weight
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _options(self, n_features: int) -> Options:
        return aggregation_options(self)

    def _box(self, encoder: Encoder) -> Features | None:
        return box_of(self, encoder)


class AdaptiveAMFClassifier(ForestClassifier):
    """Adaptive forest for classification: selects features, follows drift and forgets.

    Groups of aggregated Mondrian trees remember different numbers of rows. From time to time each
    tree is regrown from the rows that it remembers: labels choose its splits, and features may have
    any scale. A mixer, which learns online, combines the groups. There is nothing to tune, and
    memory is bounded, but for the trees that remember all rows.

    Parameters
    ----------
    n_estimators : int, default=5
        The number of trees of each group. 10 are about 4 % better, and take twice as long.
    memories : sequence of int or None, default=(None, 4000, 1000, 250, 60, 15)
        For each of them a group of trees that remember so many rows, at least 8. None means all
        rows, as far as `row_limit` permits. One more group is never regrown from labels.
    honest_memories : sequence of int or None, default=(None, 4000)
        The memories of further groups, in which some rows choose the splits and others weigh the
        predictions. They are better where labels are noisy.
    n_candidates : int, default=30
        The number of random splits of which a regrown tree takes the best. 1 means splits that do
        not depend on labels.
    mixer_rate : float, default=0.01
        The learning rate of the mixer. 0 means that all groups always have the same weight.
    row_limit : int, default=65536
        How many of the last rows are stored, from which trees are regrown.
    step : float, default=1.0
        η, the learning rate of the aggregation in each tree.
    use_aggregation : bool, default=True
        Average over all prunings. If False, a tree predicts with the leaf alone.
    dirichlet : float, default=None
        α, the count of each class before any label is seen: a node predicts class k with
        probability (n_k + α) / (n + α n_classes). None means 1 / n_classes.
    split_pure : bool, default=False
        Whether nodes whose labels are all equal are split, too.
    categorical_features : array-like of bool, int or str, "auto", "from_dtype" or None, \
            default="auto"
        The columns that hold categories: a mask, their indices or their names. "auto" means text
        and columns with a categorical dtype; then text that is nearly unique in the first X, as an
        ID is, is dropped with a warning. "from_dtype" means columns with a categorical dtype only.
        With "auto" and with a list, dates become numbers: year, month, day, weekday and hour.
        Other text and dates are an error. Each tree turns a category into a
        number: the smoothed frequency of a class among some of the rows that it remembers. Any
        hashable value may be a category, and new categories may appear at any time.
    max_categories : int, default=10000
        So many categories of a feature are distinguished; all later ones count as one. At most
        65,534. None means no limit; then more than 65,535 are an error.
    strict : bool, default=True
        Whether later data frames must have the columns of the first X in the same order, as
        everywhere in scikit-learn, and named rows its names. False matches columns by name: absent
        ones are missing values, unknown ones are ignored with one warning. It may be changed at
        any time.
    max_nodes, max_bytes : int, default=None
        The largest size of the forest, in nodes and in bytes of memory, the stored rows included.
        Trees that reach their part of it are regrown from the newest rows, so that the forest
        continues to learn. Short memories get what they need first.
    classes : array-like, default=None
        Classes that are known before they appear. Others are added with their first row; `fit`
        adds all classes of y at the start.
    class_weight : dict or "balanced", default=None
        Factors of the weights of rows. A dict has them by class; a class that it does not name has
        the factor 1. "balanced" gives a row of class k the factor n / (K n_k): n rows were learned
        so far, n_k of them of class k, and K classes were seen, this row included, whatever the
        `sample_weight` of rows. Probabilities are those of the weighted stream.
    threshold : float, default=None
        The least probability with which `predict` and `predict_one` choose the second of two
        classes. None means the most probable class. It may change at any time.
    n_jobs : int, default=None
        The number of threads. None means 1, -1 all cores. It never changes the result.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same forest, however the stream is cut into batches.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    memory_names_ : list of str
        The groups: "all", "4000", …, "all, honest", …, and "plain" for the group that is never
        regrown from labels.
    memory_weights_ : ndarray of shape (n_groups,)
        The weights of the groups in the mixer. Their sum may differ from 1: beyond it predictions
        are sharper than the groups'.
    memory_weights_history_ : tuple of ndarrays
        Numbers of rows learned, of shape (n_points,), and the weights after them, of shape
        (n_points, n_groups): at most 256 points at equal distances, and one for now.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X had names.
    feature_names_ : ndarray of shape (n_features,)
        The names of the features, if X had names: those of its columns, but of dates those of
        their parts, such as "when.hour", and without dropped columns.
    feature_importances_ : ndarray of shape (n_features,)
        The part of each feature in what the splits have saved of the loss so far, learned online.
    is_categorical_ : ndarray of shape (n_features,)
        Which features hold categories.
    categories_ : dict
        Their categories, in the order in which they appeared, by name or else index of the feature.
        Behind the first `max_categories`, one value stands for all others, if there were more.
    n_samples_seen_ : int
        How many rows were learned.

    See Also
    --------
    AMFClassifier : The paper's forest, which never forgets.

    Examples
    --------
    Labels are flipped halfway, and the forest recovers:

    >>> import numpy as np
    >>> from amforest import AdaptiveAMFClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)) * [1, 1e6, 1e-6]
    >>> y = (X[:, 1] > 0) ^ (np.arange(2000) >= 1000)
    >>> forest = AdaptiveAMFClassifier(random_state=0)
    >>> is_right = forest.partial_fit_predict_proba(X, y).argmax(axis=1) == y
    >>> [round(float(is_right[i : i + 200].mean()), 2) for i in (800, 1000, 1200)]
    [1.0, 0.97, 1.0]
    >>> forest.memory_names_[:3]
    ['all', '4000', '1000']
    """

    is_adaptive: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ADAPTIVE_CONSTRAINTS,
        "step": Estimator._parameter_constraints["step"],
        "honest_memories": [tuple, list],
        "mixer_rate": [Interval(Real, 0, 1, closed="both")],
        "dirichlet": [Interval(Real, 1e-100, 1e100, closed="both"), None],
        "classes": ["array-like", None],
        **_DECISION_CONSTRAINTS,
    }

    def __init__(
        self,
        n_estimators: int = 5,
        *,
        memories: Sequence[int | None] = (None, 4000, 1000, 250, 60, 15),
        honest_memories: Sequence[int | None] = (None, 4000),
        n_candidates: int = 30,
        mixer_rate: float = 0.01,
        row_limit: int = 65_536,
        step: float = 1.0,
        use_aggregation: bool = True,
        dirichlet: float | None = None,
        split_pure: bool = False,
        categorical_features: ArrayLike | str | None = "auto",
        max_categories: int | None = 10_000,
        strict: bool = True,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        classes: ArrayLike | None = None,
        class_weight: ClassWeight = None,
        threshold: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.memories = memories
        self.honest_memories = honest_memories
        self.n_candidates = n_candidates
        self.mixer_rate = mixer_rate
        self.row_limit = row_limit
        self.step = step
        self.use_aggregation = use_aggregation
        self.dirichlet = dirichlet
        self.split_pure = split_pure
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.strict = strict
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.classes = classes
        self.class_weight = class_weight
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def memory_names_(self) -> list[str]:
        """The names of the groups."""
        self._attributes()
        return [
            "plain" if plain else f"{memory or 'all'}{', honest' if honest else ''}"
            for memory, honest, plain in self._adaptive_core().groups
        ]

    @property
    def memory_weights_(self) -> Floats:
        """The weights of the groups in the mixer."""
        self._attributes()
        return self._adaptive_core().mixer_weights

    @property
    def memory_weights_history_(self) -> tuple[NDArray[np.int64], Floats]:
        """Numbers of rows learned, and the weights of the groups after them."""
        self._attributes()
        return self._adaptive_core().weight_history

    def stats(self) -> dict[str, Any]:
        """Return the size of the model, its progressive loss, and what it remembers.

        Returns
        -------
        dict
            As for `AMFClassifier`; also `regrows`, how many trees of each group were regrown, and
            `remembered_rows`, the rows that are stored.
        """
        if self._handle.fitted is None:
            return super().stats() | memory_stats(None, [])
        return super().stats() | memory_stats(self._adaptive_core(), self.memory_names_)

    def _adaptive_core(self) -> AdaptiveClassifierForest:
        return cast(AdaptiveClassifierForest, self._fitted().core)

    def _n_trees(self) -> int:
        return count_trees(self._groups(), int(self.n_estimators))

    def predict_proba_by_memory(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes with each group: the mean of its trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_groups, n_classes)
            Groups are in the order of `memory_names_`.
        """
        return self._predict("predict_by_expert", X)[0]

    def predict_proba_by_tree(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes with each tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_trees, n_classes)
            The trees of the first group come first.
        """
        return super().predict_proba_by_tree(X)

    def explain(self, X: ArrayLike) -> Explanation:
        """Return what each feature contributes to the log-odds of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Explanation
            Of two classes, the `values` of shape (n_samples, n_features) are contributions to the
            log-odds of the second one: with s the sum of a row's, 1 / (1 + exp(-base - s)) is the
            second column of `predict_proba`. Otherwise they have the shape
            (n_samples, n_features, n_classes), and softmax(base + s) is the prediction; the mean
            over the classes is 0.
        """
        terms, classes, fitted = self._explain(X)
        if len(classes) == 2:
            log_odds = terms[..., 1] - terms[..., 0]
            return self._explanation(fitted, X, log_odds, "log-odds", classes[1])
        return self._explanation(fitted, X, terms, "score", classes)

    def _new_core(self, labels: Any, **features: Any) -> Core:
        del features["bounds"]
        return super()._new_core(
            labels,
            mixer_rate=float(self.mixer_rate),
            **core_arguments(self, self._groups()),
            **features,
        )

    def _groups(self) -> list[Group]:
        groups = [(memory, False, False) for memory in checked_memories(self, "memories")]
        honest = [(memory, True, False) for memory in checked_memories(self, "honest_memories")]
        return [*groups, *honest, (None, False, True)]

    def _dirichlet(self, n_classes: int) -> float:
        return float(1 / n_classes if self.dirichlet is None else self.dirichlet)

    def _options(self, n_features: int) -> Options:
        return adaptive_tree_options(self, step=float(self.step), charge_first=False)
