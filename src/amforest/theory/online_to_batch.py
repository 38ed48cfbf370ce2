"""From online to batch (Lemma 2): the model as it was after a random number of samples."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import base, utils
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from amforest._forest.inputs import validate_weights
from amforest.theory.prunings import Floats


@dataclass(frozen=True)
class _Reservoir:
    """Draws the samples at which the retained model is replaced: t with probability w_t / W_t.

    W_t = w_1 + … + w_t are the weights so far. After a replacement at s the next one is later than
    t with probability W_s / W_t = P(W_s / U >= W_t), U uniform: one draw says when it is.
    """

    seed: int
    n_draws: int = 0
    weight: float = 0.0  # W_t
    threshold: float = 0.0  # the next replacement is at the first t with W_t above it

    def after(self, weights: Floats) -> tuple[_Reservoir, int | None]:
        """Go through samples; return also the last one at which there is a replacement."""
        total = np.cumsum(np.append(self.weight, weights))
        n_draws, threshold, row = self.n_draws, self.threshold, None
        while total[-1] > threshold:
            row = int(np.searchsorted(total, threshold, side="right")) - 1
            word = np.random.SeedSequence([self.seed, n_draws]).generate_state(1, np.uint64)[0]
            threshold = float(total[row + 1]) / (1.0 - int(word >> 11) * 2.0**-53)
            n_draws += 1
        return _Reservoir(self.seed, n_draws, float(total[-1]), threshold), row


def _predicts_proba(self: OnlineToBatch) -> bool:
    return hasattr(self.estimator, "predict_proba")


class OnlineToBatch(base.MetaEstimatorMixin, base.BaseEstimator):
    """Predicts with the model as it was after a random number of samples (Lemma 2).

    After n samples this number is uniform on {0, …, n - 1}: the paper's f̂_t, t uniform on
    {1, …, n}, has learned t - 1 samples. For i.i.d. samples the mean risk is then the mean loss of
    learning online (Equation 15), and a bound of the regret becomes one of the risk.

    One copy of the learner is retained, and replaced at sample t with probability 1 / t. It does
    not matter how the stream is cut into batches. A model that has learned nothing predicts 0, or
    all classes as equally probable.

    Parameters
    ----------
    estimator : classifier or regressor with `partial_fit`
        The learner. Its own `random_state` is not changed.
    random_state : int, RandomState instance or None, default=None
        Determines the number of samples.

    Attributes
    ----------
    estimator_ : estimator
        The learner after all samples.
    retained_ : estimator or None
        The copy that predicts; None if it has learned nothing.
    retained_at_, n_samples_seen_ : int
        How many samples the copy and the learner have learned. Those of weight 0 do not count.
    classes_ : ndarray of shape (n_classes,)
        The classes known to `estimator_`, if it is a classifier.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X had some.

    Examples
    --------
    >>> from amforest import AMFClassifier
    >>> X, y = np.arange(20.0).reshape(-1, 1), np.arange(20) % 2
    >>> model = OnlineToBatch(AMFClassifier(random_state=0), random_state=3).fit(X, y)
    >>> model.n_samples_seen_, model.retained_at_
    (20, 10)
    """

    estimator_: Any
    retained_: Any
    retained_at_: int
    n_samples_seen_: int
    _reservoir: _Reservoir

    def __init__(self, estimator: Any, *, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn the rows of X in their order; return self.

        All classes in y are known from the start. With weights, a number of samples is
        drawn with a probability proportional to the weight of the sample that follows.
        """
        return self._learn(X, y, None, sample_weight, afresh=True)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows of X, in their order, after what was learned before; return self.

        `classes`, for a classifier, are known before they appear.
        """
        return self._learn(X, y, classes, sample_weight)

    def _learn(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, afresh: bool = False
    ) -> Self:
        """Learn a batch, in two parts if there is a replacement within; on error change nothing."""
        X, y = utils.indexable(X, column_or_1d(y, warn=True))
        if base.is_classifier(self):
            utils.assert_all_finite(y, input_name="y")
            check_classification_targets(y)
            classes = np.unique(y) if afresh else classes
        weights = np.ones(len(y))
        if sample_weight is not None:
            weights = validate_weights(sample_weight, len(y))
        new = copy(self)
        if afresh or not hasattr(self, "estimator_"):
            new.estimator_, new.retained_ = base.clone(self.estimator), None
            new.n_samples_seen_ = new.retained_at_ = 0
            seed = utils.check_random_state(self.random_state).randint(2**32, dtype=np.uint32)
            new._reservoir = _Reservoir(int(seed))
        new._reservoir, row = new._reservoir.after(weights)

        def learn(rows: slice) -> None:
            how = {"classes": classes} if classes is not None and rows.start == 0 else {}
            if sample_weight is not None:
                how["sample_weight"] = weights[rows]
            part = X if rows == slice(0, len(y)) else utils._safe_indexing(X, rows)
            new.estimator_.partial_fit(part, y[rows], **how)

        start = 0
        if row is not None:
            new.retained_at_ = new.n_samples_seen_ + int(np.count_nonzero(weights[:row]))
            if row > 0 and new.retained_at_ > 0:
                new.estimator_ = deepcopy(new.estimator_)  # in case that the second part fails
                learn(slice(0, row))
                start = row
            new.retained_ = deepcopy(new.estimator_) if new.retained_at_ > 0 else None
        learn(slice(start, len(y)))
        new.n_samples_seen_ += int(np.count_nonzero(weights))
        self.__dict__.update(new.__dict__)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the labels of the rows of X."""
        check_is_fitted(self)
        if self.retained_ is not None:
            labels: NDArray[Any] = self.retained_.predict(X)
            return labels
        default = self.classes_[:1] if base.is_classifier(self) else np.zeros(1)
        return default.repeat(len(self.estimator_.predict(X)))  # the learner checks X

    @available_if(_predicts_proba)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of `classes_`; 0 for those that appeared later."""
        check_is_fitted(self)
        n_classes = len(self.classes_)
        if self.retained_ is None:
            return np.full((len(self.estimator_.predict(X)), n_classes), 1 / n_classes)
        known = self.retained_.predict_proba(X)
        probabilities = np.zeros((len(known), n_classes))
        probabilities[:, np.searchsorted(self.classes_, self.retained_.classes_)] = known
        return probabilities

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of a classifier, or R² of a regressor."""
        mixin = base.ClassifierMixin if base.is_classifier(self) else base.RegressorMixin
        return float(mixin.score(self, X, y, sample_weight))

    @property
    def classes_(self) -> NDArray[Any]:  # noqa: D102
        return np.asarray(self._of_learner("classes_"))

    @property
    def n_features_in_(self) -> int:  # noqa: D102
        return int(self._of_learner("n_features_in_"))

    @property
    def feature_names_in_(self) -> NDArray[Any]:  # noqa: D102
        return np.asarray(self._of_learner("feature_names_in_"))

    def _of_learner(self, name: str) -> Any:
        check_is_fitted(self)
        return getattr(self.estimator_, name)

    def __sklearn_tags__(self) -> utils.Tags:
        tags = utils.get_tags(self.estimator)
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True  # the model may have learned next to nothing
        return tags
