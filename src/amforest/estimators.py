"""AMFClassifier and AMFRegressor: the Aggregated Mondrian Forest for scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import Interval

from amforest._core import Options, RegressorForest
from amforest._forest.base import Encoded, Forest
from amforest._forest.classifier_base import ForestClassifier
from amforest._forest.features import Floats, naming


class AMFClassifier(ForestClassifier):
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
        Classes that are known before they appear. Others become known with their first row;
        `fit` knows all that it is given.
    split_prior : (float, float), default=(0.5, 0.0)
        α and β: a priori, a pruning goes on below a node of its tree with probability
        α (1 + depth)^-β. The paper's is (½, 0). β must be 0 unless `partition` is "unrestricted".
    partition : {"restricted", "unrestricted"}, default="restricted"
        "restricted" splits within the range of the points seen (Algorithms 4 to 6 of the paper);
        "unrestricted" splits the whole of a box until each leaf holds one point at the most
        (Algorithm 2), whatever `split_pure` is: the object of the paper's theorems.
    bounds : pair of floats, or array-like of shape (n_features, 2), default=None
        The box, for "unrestricted": low and high, of all features or of each. None means [0, 1].
    categorical_features : array-like of bool, int or str, "from_dtype" or None, \
            default="from_dtype"
        The columns that hold categories: a mask, their numbers or their names. "from_dtype" means
        those of a data frame that are of a categorical type. Each category is treated as a column
        of its own that is 1 or 0; all hashable values may be categories, and new ones may come at
        any time.
    max_nodes, max_bytes : int, default=None
        How large the forest may become, in nodes and in bytes of memory. Each tree has an equal
        part; one that is full splits no more, and goes on learning with the leaves it has.
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
    is_categorical_ : ndarray of shape (n_features_in_,)
        Which of them hold categories.
    categories_ : dict
        Their categories, in the order in which they came, by name or else number of the feature.
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
        split_prior: tuple[float, float] = (0.5, 0.0),
        partition: str = "restricted",
        bounds: ArrayLike | None = None,
        categorical_features: ArrayLike | str | None = "from_dtype",
        max_nodes: int | None = None,
        max_bytes: int | None = None,
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
        self.split_prior = split_prior
        self.partition = partition
        self.bounds = bounds
        self.categorical_features = categorical_features
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _eta(self) -> float:
        return float(self.step)


class AMFRegressor(RegressorMixin, Forest):
    """Aggregated Mondrian forest for regression.

    An online random forest: trees grow one sample at a time, and the forecast of each tree is the
    exact average over all its prunings, weighted by how well they have forecast so far.

    Parameters
    ----------
    n_estimators : int, default=10
        The number of trees.
    step : float or None, default=1.0
        η, the learning rate of the aggregation. It belongs to the square of the labels' unit. None
        means the paper's choice for labels within ±B, 1 / (8 B²), B being `bound`.
    bound : float, default=None
        B, for ``step=None``.
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
    split_prior : (float, float), default=(0.5, 0.0)
        α and β: a priori, a pruning goes on below a node of its tree with probability
        α (1 + depth)^-β. The paper's is (½, 0). β must be 0 unless `partition` is "unrestricted".
    partition : {"restricted", "unrestricted"}, default="restricted"
        "restricted" splits within the range of the points seen (Algorithms 4 to 6 of the paper);
        "unrestricted" splits the whole of a box until each leaf holds one point at the most
        (Algorithm 2), whatever `split_pure` is: the object of the paper's theorems.
    bounds : pair of floats, or array-like of shape (n_features, 2), default=None
        The box, for "unrestricted": low and high, of all features or of each. None means [0, 1].
    categorical_features : array-like of bool, int or str, "from_dtype" or None, \
            default="from_dtype"
        The columns that hold categories: a mask, their numbers or their names. "from_dtype" means
        those of a data frame that are of a categorical type. Each category is treated as a column
        of its own that is 1 or 0; all hashable values may be categories, and new ones may come at
        any time.
    max_nodes, max_bytes : int, default=None
        How large the forest may become, in nodes and in bytes of memory. Each tree has an equal
        part; one that is full splits no more, and goes on learning with the leaves it has.
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
    is_categorical_ : ndarray of shape (n_features_in_,)
        Which of them hold categories.
    categories_ : dict
        Their categories, in the order in which they came, by name or else number of the feature.
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
    array([ 0.96, -0.93])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Forest._parameter_constraints,
        "step": [Interval(Real, 0, 1e100, closed="right"), None],
        "bound": [Interval(Real, 0, 1e75, closed="right"), None],
    }

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float | None = 1.0,
        bound: float | None = None,
        use_aggregation: bool = True,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
        split_prior: tuple[float, float] = (0.5, 0.0),
        partition: str = "restricted",
        bounds: ArrayLike | None = None,
        categorical_features: ArrayLike | str | None = "from_dtype",
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.step = step
        self.bound = bound
        self.use_aggregation = use_aggregation
        self.split_pure = split_pure
        self.charge_first = charge_first
        self.predict_extends = predict_extends
        self.split_prior = split_prior
        self.partition = partition
        self.bounds = bounds
        self.categorical_features = categorical_features
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows of X, in their order, on top of what was learnt before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are kept as float32; NaN is a value that is missing.
        y : array-like of shape (n_samples,)
            The labels, within ±1e75.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows; one of weight 0 is not learnt.

        Returns
        -------
        self
        """
        return self._learn(X, y, sample_weight=sample_weight)

    def partial_fit_predict(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Floats:
        """Test, then train: forecast each row just before it is learnt.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Entry i is what `predict` gave after rows 0 to i - 1 were learnt; 0 before the first.
        """
        return np.concatenate(self._predict_then_learn(X, y, sample_weight=sample_weight))[:, 0]

    def predict(self, X: ArrayLike) -> Floats:
        """Forecast the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._by_blocks(self._grown().predict, X)[:, 0]

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> float:
        """Forecast the label of one row, the quick way.

        Parameters
        ----------
        x : sequence of n_features numbers

        Returns
        -------
        float
        """
        return float(self._predict_row(x)[0])

    def predict_by_tree(self, X: ArrayLike) -> Floats:
        """Forecast the labels with each tree; `predict` is their mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
        """
        return self._by_blocks(self._grown().predict_by_tree, X)[:, :, 0]

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        # A leaf that is charged for having forecast 0 starts with weight exp(-step y²): with labels
        # that are not small against 1 / sqrt(step) the forest prefers few leaves.
        tags.regressor_tags.poor_score = bool(self.charge_first)
        return tags

    def _eta(self) -> float:
        if self.step is not None:
            return float(self.step)
        if self.bound is None:
            raise ValueError("step is None, which needs bound: labels lie within ±bound")
        return 1 / (8 * float(self.bound) ** 2)

    def _as_labels(self, y: ArrayLike) -> ArrayLike:
        if y is None:
            return y
        with naming("y"):
            labels: Floats = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        return labels

    def _losses(self, forecasts: Floats, labels: NDArray[Any]) -> Floats:
        losses: Floats = (forecasts[:, 0] - labels) ** 2
        return losses

    def _encode(self, y: NDArray[Any], learnt: NDArray[np.intp], classes: Any) -> Encoded:
        if np.abs(y).max(initial=0) > 1e75:
            raise ValueError("y holds values beyond ±1e75, whose squares overflow: scale it down")
        return Encoded(np.ascontiguousarray(y, dtype=np.float64))

    def _encode_plain(self, y: NDArray[Any]) -> Floats:
        return np.ascontiguousarray(y, dtype=np.float64)

    def _encode_one(self, y: Any) -> float:
        with naming("y"):
            return float(y)  # the core checks its size

    def _new_core(self, **features: Any) -> RegressorForest:
        return RegressorForest(**features)

    def _core_from(self, state: dict[str, Any]) -> RegressorForest:
        return RegressorForest(options=Options(**state.pop("options")), **state)
