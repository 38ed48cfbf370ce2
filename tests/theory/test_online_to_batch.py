"""The number of samples of Lemma 2 is uniform, and the model is the one after that many.

Statistical tests have fixed seeds; each raises a false alarm with probability of about 1e-6.
"""

import copy
import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks
from theory_helpers import stream

from amforest import AMFClassifier, AMFRegressor
from amforest.theory import OnlineToBatch

LEVEL = 1e-6
N = 5_000


class Counting(RegressorMixin, BaseEstimator):
    """Predicts how many rows it has learned; counts how often it is copied."""

    copies = 0

    def partial_fit(self, X, y):
        self.n_ = getattr(self, "n_", 0) + len(X)
        return self

    def predict(self, X):
        return np.full(len(X), self.n_)

    def __deepcopy__(self, memo):
        Counting.copies += 1
        return copy.copy(self)


def order_matters(estimator):
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": "order matters" for kind in kinds}


@parametrize_with_checks(
    [OnlineToBatch(cls(2, random_state=0)) for cls in (AMFClassifier, AMFRegressor)],
    expected_failed_checks=order_matters,
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def test_the_number_of_samples_is_uniform_from_0_to_n_minus_1():
    X, y, counts = np.zeros((10, 1)), np.zeros(10), np.zeros(10)
    for seed in range(N):
        model = OnlineToBatch(Counting(), random_state=seed).fit(X, y)
        counts[model.retained_at_] += 1
    assert stats.chisquare(counts).pvalue > LEVEL


def test_with_weights_a_sample_is_drawn_in_proportion_to_its_weight():
    X, y, counts = np.zeros((5, 1)), np.zeros(5), np.zeros(4)
    weights = np.array([2.0, 1.0, 0.0, 0.5, 3.0])
    model = OnlineToBatch(AMFRegressor(1, random_state=0))
    for seed in range(400):
        model.set_params(random_state=seed).fit(X, y, weights)
        counts[model.retained_at_] += 1
    assert model.n_samples_seen_ == 4
    expected = 400 * weights[weights > 0] / weights.sum()
    assert stats.chisquare(counts, expected).pvalue > LEVEL


@pytest.mark.parametrize("cuts", [[50], [1, 2, 3], list(range(1, 100))], ids=len)
def test_batches_never_change_what_is_retained(cuts):
    X, y = stream(100, 0)
    for seed in range(10):
        model = OnlineToBatch(Counting(), random_state=seed)
        for rows in np.split(np.arange(100), cuts):
            model.partial_fit(X[rows], y[rows])
            whole = OnlineToBatch(Counting(), random_state=seed).fit(
                X[: rows[-1] + 1], y[: rows[-1] + 1]
            )
            assert model.retained_at_ == whole.retained_at_
            assert model.n_samples_seen_ == whole.n_samples_seen_ == rows[-1] + 1
            assert model.predict(X[:1]) == model.retained_at_


def test_copies_are_rare():
    n, before = 5000, Counting.copies
    model = OnlineToBatch(Counting(), random_state=0)
    for _ in range(n):
        model.partial_fit([[0.0]], [0.0])
    # Σ_{t=2}^n 1/t = 8.1 on average, with a variance below that
    assert Counting.copies - before < 8.1 + 5 * math.sqrt(8.1)
    assert model.n_samples_seen_ == n


@pytest.mark.parametrize(
    "forest", [AMFClassifier(3, random_state=0), AMFRegressor(3, random_state=0)]
)
def test_it_predicts_as_the_forest_did_after_that_many_samples(forest):
    X, y = stream(200, 0, n_classes=2)
    for seed in range(5):
        model = OnlineToBatch(forest, random_state=seed).fit(X, y)
        early = clone(forest).fit(X[: model.retained_at_], y[: model.retained_at_])
        assert 1 < model.retained_at_ < 200
        np.testing.assert_array_equal(model.predict(X), early.predict(X))
        np.testing.assert_array_equal(
            model.estimator_.predict(X), clone(forest).fit(X, y).predict(X)
        )
        if hasattr(forest, "predict_proba"):
            np.testing.assert_array_equal(model.predict_proba(X), early.predict_proba(X))
            assert model.score(X, y) == early.score(X, y)


def test_before_the_first_sample_all_classes_are_alike_and_numbers_are_0():
    model = OnlineToBatch(AMFClassifier(random_state=0)).partial_fit([[0.0]], ["b"], ["a", "b"])
    assert model.retained_at_ == 0 < model.n_samples_seen_
    np.testing.assert_array_equal(model.predict_proba([[1.0]]), [[0.5, 0.5]])
    assert model.predict([[1.0], [2.0]]).tolist() == ["a", "a"]
    model = OnlineToBatch(AMFRegressor(random_state=0)).partial_fit([[0.0]], [5.0])
    assert model.predict([[1.0]]).tolist() == [0.0]


def test_classes_that_came_later_have_probability_0():
    X, y = stream(200, 0, n_classes=2)
    model = OnlineToBatch(AMFClassifier(random_state=0), random_state=3)
    model.partial_fit(X, y + 1).partial_fit([[0.5, 0.5]], [0])
    assert model.classes_.tolist() == [0, 1, 2]
    prediction = model.predict_proba(X)
    assert np.all(prediction[:, 0] == 0)
    np.testing.assert_allclose(prediction.sum(axis=1), 1.0)


def test_a_failed_call_leaves_the_model_as_it_was():
    X, y = stream(40, 0)
    bad = X.copy()
    bad[-1] = np.inf
    for seed in range(20):
        model = OnlineToBatch(AMFRegressor(1, random_state=0), random_state=seed)
        model.partial_fit(X[:10], y[:10])
        before = model.retained_at_, model.predict(X).tolist(), model.estimator_.n_samples_seen_
        with pytest.raises(ValueError, match="X"):
            model.partial_fit(bad, y)
        after = model.retained_at_, model.predict(X).tolist(), model.estimator_.n_samples_seen_
        assert after == before
        whole = OnlineToBatch(AMFRegressor(1, random_state=0), random_state=seed)
        whole.partial_fit(X[:10], y[:10]).partial_fit(X[10:], y[10:])
        assert model.partial_fit(X[10:], y[10:]).retained_at_ == whole.retained_at_


def test_other_learners_can_be_wrapped():
    X, y = stream(300, 0, n_classes=3)
    model = OnlineToBatch(GaussianNB(), random_state=3).fit(X, y)
    assert 0 < model.retained_at_ < 300
    assert model.predict_proba(X).shape == (300, 3)
    assert not hasattr(OnlineToBatch(AMFRegressor()), "predict_proba")


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0], [np.nan, 1.0]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="sample_weight"):
        OnlineToBatch(AMFRegressor()).fit([[0.0], [1.0]], [0.0, 1.0], weights)
