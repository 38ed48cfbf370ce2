"""Regressors: AMFRegressor, the paper's forest, and AdaptiveAMFRegressor."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import Interval, StrOptions

from amforest._core import AdaptiveRegressorForest, Options, RegressorForest
from amforest._forest.adaptive import (
    ADAPTIVE_CONSTRAINTS,
    core_arguments,
    count_trees,
    memory_stats,
)
from amforest._forest.class_labels import NumberLabels
from amforest._forest.core_handle import Core, Labels, build_core, predict_row
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
from amforest._forest.given_labels import check_numbers
from amforest._forest.input_errors import argument_named, refuse_times
from amforest._forest.inputs import Features
from amforest._forest.limits import LARGEST_LABEL
from amforest._forest.losses import Floats
from amforest.distribution import PredictiveDistribution, check_levels
from amforest.frozen import FrozenAdaptiveRegressor, FrozenRegressor


class ForestRegressor(RegressorMixin, Estimator):
    """The base of all regressors that are forests. A core predicts the mean first."""

    _frozen_type = FrozenRegressor

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows of X, in their order, on top of what was learned before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are stored as float32; NaN is a missing value.
        y : array-like of shape (n_samples,)
            The labels, within ±1e75.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows; a row of weight 0 is not learned.

        Returns
        -------
        self
        """
        return self._learn(X, y, sample_weight=sample_weight)

    def partial_fit_predict(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Floats:
        """Test, then train: predict each row just before it is learned.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Entry i is what `predict` returned after rows 0 to i - 1 were learned; 0 before the
            first row.
        """
        return self._test_then_train(X, y, sample_weight)[:, 0]

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._run(self._fitted(), "predict", X)[:, 0]

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> float:
        """Predict the label of one row, fast.

        Parameters
        ----------
        x : sequence of n_features numbers, dict or Series

        Returns
        -------
        float
        """
        return float(predict_row(self._fitted(), x, self)[0])

    def predict_by_tree(self, X: ArrayLike) -> Floats:
        """Predict the labels with each tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_trees)
            In an adaptive forest, the trees of the first group come first.
        """
        return self._run(self._fitted(), "predict_by_tree", X)[:, :, 0]

    def explain(self, X: ArrayLike) -> Explanation:
        """Return what each feature contributes to the predicted label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Explanation
            Its `values` have the shape (n_samples, n_features). Summed over features, and with
            `base_values`, they are what `predict` returns.
        """
        fitted = self._fitted()
        return self._explanation(fitted, X, self._run_explain(fitted, X)[..., 0], "prediction")

    def _test_then_train(self, X: ArrayLike, y: ArrayLike, sample_weight: Any) -> Floats:
        return np.concatenate(self._predict_then_learn(X, y, sample_weight=sample_weight))

    def _validate_labels(self, y: ArrayLike) -> ArrayLike:
        if y is None:
            return y
        refuse_times(np.asarray(y), "y")
        with argument_named("y"):
            labels: Floats = check_array(
                y, ensure_2d=False, dtype=np.float64, ensure_all_finite=False, input_name="y"
            )
        if labels.ndim == 2 and labels.shape[1] > 1:
            raise ValueError(
                f"y has shape {labels.shape}; a forest learns one label per row: wrap it in "
                "scikit-learn's MultiOutputRegressor"
            )
        check_numbers(labels.ravel())
        return labels

    def _new_labels(self, labels: NDArray[Any], classes: Any) -> Labels:
        return NumberLabels()

    def _new_core(self, labels: Any, **features: Any) -> Core:
        return build_core(**features)


class AMFRegressor(ForestRegressor):
    """Aggregated Mondrian forest for regression.

    An online random forest: trees grow one sample at a time, and the prediction of each tree is
    the exact average over all its prunings, weighted by how well they have predicted so far.

    Parameters
    ----------
    n_estimators : int, default=10
        The number of trees.
    step : float, "auto" or None, default="auto"
        η, the learning rate of the aggregation. It scales with 1 / y². "auto" means 1 / (4 v),
        where v is the variance of the labels: multiplying y by a constant multiplies predictions by
        it. The variance is that of the first 1, 2, 4, …, 128 labels, by their weights; each time
        the small forest is built again with the new step, and after 128 rows the step is settled.
        Until then, the model keeps the rows. If the first 128 labels are all equal, the first other
        label settles the step. None means the paper's choice for labels within ±B, 1 / (8 B²),
        where B is `bound`.
    bound : float, default=None
        B, for ``step=None``.
    use_aggregation : bool, default=True
        Average over all prunings. If False, a tree predicts with the leaf alone.
    split_pure : bool, default=False
        Whether nodes whose labels are all equal are split, too.
    charge_first : bool, default=False
        Whether a node is charged for the loss of its first label, which it predicts as 0.
        True in the paper's algorithms, False in the experiments.
    predict_extends : bool, default=False
        Whether predicting x first extends the partition by x, in expectation over the random
        split. True in the paper's algorithms, False in the experiments.
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
    n_jobs : int, default=None
        The number of threads. None means 1, -1 all cores. It never changes the result.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same forest, however the stream is cut into batches.

    Attributes
    ----------
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
    step_ : float
        The step in use. The forest is the one that this step would have given from the first row.

    Warns
    -----
    UnusedColumnWarning
        If nearly unique text is dropped, or with ``strict=False`` unknown columns are ignored.
    ScaleWarning
        Once, after row 100, if the spreads of the numeric features in the first 100 rows differ by
        a factor of more than 10⁴: then narrow features are hardly split.

    See Also
    --------
    AMFClassifier : The same for classification.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AMFRegressor
    >>> X = np.random.default_rng(0).uniform(size=(500, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> forest = AMFRegressor(random_state=0).fit(X, y)
    >>> forest.predict([[0.25], [0.75]]).round(2)
    array([ 0.94, -0.91])
    >>> round(forest.step_, 2)
    0.52
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Estimator._parameter_constraints,
        "step": [Interval(Real, 0, 1e100, closed="right"), StrOptions({"auto"}), None],
        "bound": [Interval(Real, 0, LARGEST_LABEL, closed="right"), None],
    }
    _scale_advice = (
        "use AdaptiveAMFRegressor, which needs no scaling, or scale the columns first, for "
        "instance with the StandardScaler of scikit-learn or of river"
    )

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float | str | None = "auto",
        bound: float | None = None,
        use_aggregation: bool = True,
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
        self.max_categories = max_categories
        self.strict = strict
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        # A leaf that is charged for predicting 0 starts with weight exp(-step y²): with labels
        # that are not small against 1 / sqrt(step) the forest prefers few leaves.
        tags.regressor_tags.poor_score = bool(self.charge_first)
        return tags

    @property
    def step_(self) -> float:
        """The step in use."""
        self._attributes()
        return cast(RegressorForest, self._core).step

    def _settles_step(self) -> bool:
        return self.step == "auto"

    def _options(self, n_features: int) -> Options:
        return aggregation_options(self)

    def _box(self, encoder: Encoder) -> Features | None:
        return box_of(self, encoder)


class AdaptiveAMFRegressor(ForestRegressor):
    """Adaptive forest for regression: predicts a distribution, follows drift, needs no scaling.

    Groups of aggregated Mondrian trees remember different numbers of rows, and are regrown from
    them: labels choose the splits. Half of the groups learn the residuals of a linear
    regression on the remembered rows; three more linear regressions learn row by row. A mixer,
    which learns online, combines all of them to a mean, and follows the errors around it. Neither
    features nor labels need scaling, and there is nothing to tune.

    Parameters
    ----------
    n_estimators : int, default=3
        The number of trees of each group.
    memories : sequence of int or None, default=(None, 4000, 1000, 250, 60, 15)
        For each of them two groups of trees that remember so many rows, at least 8: one learns the
        labels, the other the residuals of a linear regression. None means all rows, as far as
        `row_limit` permits.
    n_candidates : int, default=30
        The number of random splits of which a regrown tree takes the best. 1 means splits that do
        not depend on labels.
    row_limit : int, default=65536
        How many of the last rows are stored, from which trees are regrown.
    use_aggregation : bool, default=True
        Average over all prunings. If False, a tree predicts with the leaf alone.
    split_pure : bool, default=False
        Whether nodes whose labels are all equal are split, too.
    categorical_features : array-like of bool, int or str, "auto", "from_dtype" or None, \
            default="auto"
        The columns that hold categories: a mask, their indices or their names. "auto" means text
        and columns with a categorical dtype; then text that is nearly unique in the first X, as an
        ID is, is dropped with a warning. "from_dtype" means columns with a categorical dtype only.
        With "auto" and with a list, dates become numbers: year, month, day, weekday and hour.
        Other text and dates are an error. Each tree turns a category into a
        number: the smoothed mean of the labels of some of the rows that it remembers. Any hashable
        value may be a category, and new categories may appear at any time.
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
    n_jobs : int, default=None
        The number of threads. None means 1, -1 all cores. It never changes the result.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same forest, however the stream is cut into batches.

    Attributes
    ----------
    memory_names_ : list of str
        What the mixer combines: "all", "4000", …, then "all, linear", … for the groups on a linear
        regression, "linear", "linear, 0.999", "linear, 0.98" for the linear regressions that learn
        row by row and forget at these rates, and "mean", the mean of all labels.
    memory_weights_ : ndarray of shape (n_memories,)
        The parts of these in the predicted mean. They add up to 1, and some may be negative. A mean
        far from all of them is clipped.
    memory_weights_history_ : tuple of ndarrays
        Numbers of rows learned, of shape (n_points,), and the weights after them, of shape
        (n_points, n_memories): at most 256 points at equal distances, and one for now.
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
    AMFRegressor : The paper's forest.
    AdaptiveAMFClassifier : The same for classification.
    sklearn.multioutput.MultiOutputRegressor : For several labels per row.

    Notes
    -----
    Linear regressions use 100 features at most: those on remembered rows the ones that correlate
    most with the label, the others the first ones. Categories take part in the former only.

    Examples
    --------
    The relation changes halfway, and the forest recovers:

    >>> import numpy as np
    >>> from amforest import AdaptiveAMFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(4000, 3)) * [1, 1e6, 1e-6]
    >>> sign = np.where(np.arange(4000) < 2000, 1, -1)
    >>> y = sign * np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=4000)
    >>> forest = AdaptiveAMFRegressor(random_state=0)
    >>> error = abs(forest.partial_fit_predict(X, y) - y)
    >>> [bool(error[i : i + 500].mean() < 0.1) for i in (1500, 2000, 3500)]
    [True, False, True]
    >>> low, high = forest.predict_interval([[0.25, 5e5, 5e-7]], coverage=0.9)[0]
    >>> bool(low < -np.sin(1.5) < high)
    True
    """

    is_adaptive: ClassVar[bool] = True
    _frozen_type = FrozenAdaptiveRegressor

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**ADAPTIVE_CONSTRAINTS}

    def __init__(
        self,
        n_estimators: int = 3,
        *,
        memories: Sequence[int | None] = (None, 4000, 1000, 250, 60, 15),
        n_candidates: int = 30,
        row_limit: int = 65_536,
        use_aggregation: bool = True,
        split_pure: bool = False,
        categorical_features: ArrayLike | str | None = "auto",
        max_categories: int | None = 10_000,
        strict: bool = True,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.memories = memories
        self.n_candidates = n_candidates
        self.row_limit = row_limit
        self.use_aggregation = use_aggregation
        self.split_pure = split_pure
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.strict = strict
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def memory_names_(self) -> list[str]:
        """The names of what the mixer combines: groups of trees, and linear regressions."""
        self._attributes()
        groups = [
            f"{memory or 'all'}{', linear' if has_base else ''}"
            for memory, _, _, has_base in self._adaptive_core().groups
        ]
        return [*groups, "linear", "linear, 0.999", "linear, 0.98", "mean"]

    @property
    def memory_weights_(self) -> Floats:
        """The parts of these in the predicted mean."""
        self._attributes()
        return self._adaptive_core().mixer_weights

    @property
    def memory_weights_history_(self) -> tuple[NDArray[np.int64], Floats]:
        """Numbers of rows learned, and these parts after them."""
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

    def _adaptive_core(self) -> AdaptiveRegressorForest:
        return cast(AdaptiveRegressorForest, self._fitted().core)

    def _n_trees(self) -> int:
        return count_trees(self._groups(), int(self.n_estimators))

    # Test, then train

    @overload
    def partial_fit_predict(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = ...,
        *,
        return_std: Literal[False] = ...,
    ) -> Floats: ...
    @overload
    def partial_fit_predict(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = ...,
        *,
        return_std: Literal[True],
    ) -> tuple[Floats, Floats]: ...
    def partial_fit_predict(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        return_std: bool = False,
    ) -> Floats | tuple[Floats, Floats]:
        """Test, then train: predict each row just before it is learned.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.
        return_std : bool, default=False
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples,), or a pair of them
            Entry i is what `predict` returned after rows 0 to i - 1 were learned; the mean is 0
            before the first row.
        """
        dist = self.partial_fit_predict_dist(X, y, sample_weight)
        return (dist.mean(), dist.std()) if return_std else dist.mean()

    def partial_fit_predict_dist(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> PredictiveDistribution:
        """Test, then train: predict the distribution of each row just before it is learned.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.

        Returns
        -------
        PredictiveDistribution
        """
        return PredictiveDistribution(self._test_then_train(X, y, sample_weight))

    def partial_fit_predict_quantiles(
        self,
        X: ArrayLike,
        y: ArrayLike,
        q: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Floats:
        """Test, then train: predict quantiles of each row just before it is learned.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.
        q : float or array-like of shape (n_quantiles,), within (0, 1)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_quantiles)
            As in `predict_quantiles`.
        """
        levels = check_levels(np.atleast_1d(q))
        quantiles = self.partial_fit_predict_dist(X, y, sample_weight).quantiles(levels)
        return quantiles if np.ndim(q) else quantiles[:, 0]

    def partial_fit_predict_interval(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        coverage: float = 0.9,
    ) -> Floats:
        """Test, then train: predict an interval for each row just before it is learned.

        Parameters
        ----------
        X, y, sample_weight
            As in `partial_fit`.
        coverage : float, default=0.9
            As in `predict_interval`.

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        ends = ends_of(coverage)
        return self.partial_fit_predict_dist(X, y, sample_weight).quantiles(ends)

    # Predictions

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = ...) -> Floats: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...
    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Predict the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the standard deviations of the predicted distributions, too.

        Returns
        -------
        ndarray of shape (n_samples,), or a pair of them
        """
        outputs = self._run(self._fitted(), "predict", X)
        if return_std:
            return outputs[:, 0].copy(), PredictiveDistribution(outputs).std()
        return outputs[:, 0].copy()

    def predict_dist(self, X: ArrayLike) -> PredictiveDistribution:
        """Predict the distributions of the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        PredictiveDistribution
            With `mean`, `std`, `pdf`, `logpdf`, `cdf`, `ppf` and `rvs` as in `scipy.stats`.
        """
        return PredictiveDistribution(self._run(self._fitted(), "predict", X))

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike) -> Floats:
        """Predict quantiles of the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,), within (0, 1)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_quantiles)
            Their levels are corrected by how often labels were below such quantiles so far; those
            of `predict_dist` are not.
        """
        quantiles = self.predict_dist(X).quantiles(np.atleast_1d(q))
        return quantiles if np.ndim(q) else quantiles[:, 0]

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Floats:
        """Predict intervals that hold a part `coverage` of the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Within (0, 1). As many labels are below the interval as above.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            The lower and the upper end for each row.
        """
        return self.predict_dist(X).quantiles(ends_of(coverage))

    def predict_by_memory(self, X: ArrayLike) -> Floats:
        """Predict the labels with each group and each linear regression, before they are mixed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_memories)
        """
        return self._run(self._fitted(), "predict_by_expert", X)[:, :, 0]

    def _groups(self) -> list[Group]:
        memories = checked_memories(self, "memories")
        return [
            (memory, False, False, has_base) for has_base in (False, True) for memory in memories
        ]

    def _options(self, n_features: int) -> Options:
        return adaptive_tree_options(self, step=1.0, charge_first=True, split_prior=(0.8, 0.0))

    def _new_core(self, labels: Any, **features: Any) -> Core:
        del features["bounds"]
        return super()._new_core(labels, **core_arguments(self, self._groups()), **features)


def ends_of(coverage: float) -> Floats:
    """Return the levels of the ends of an interval."""
    if not (isinstance(coverage, Real) and 0 < float(coverage) < 1):
        raise ValueError(f"coverage is {coverage!r}; it must be a number within (0, 1)")
    return np.array([(1 - float(coverage)) / 2, (1 + float(coverage)) / 2])
