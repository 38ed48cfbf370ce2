"""The handle on a core: published parts belong together, and errors restore them."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._forest.class_labels import ClassLabels
from amforest._forest.core_handle import can_count, count_exactly, handle_of, restore_core
from amforest._forest.estimator import Estimator
from amforest.baselines import MondrianForestClassifier
from amforest.river import AMFClassifier as RiverClassifier

X = np.random.default_rng(0).uniform(size=(60, 3)).astype(np.float32)
Y = np.arange(60) % 3


def fitted_classifier(**params):
    return AMFClassifier(2, random_state=0, **params).partial_fit(X, Y)


@pytest.mark.parametrize(
    "cls",
    [
        AMFClassifier,
        AdaptiveAMFClassifier,
        AMFRegressor,
        AdaptiveAMFRegressor,
        MondrianForestClassifier,
    ],
)
def test_at_most_three_classes_of_ours_lie_between_an_estimator_and_scikit_learn(cls):
    ours = [base for base in cls.__mro__ if base.__module__.startswith("amforest")]
    assert len(ours) <= 3
    assert ours[-1] is Estimator


def test_fitted_parts_are_replaced_as_one_and_never_changed():
    fitted = handle_of(fitted_classifier()).fitted
    with pytest.raises(FrozenInstanceError):
        fitted.core = None


def test_a_label_that_the_core_does_not_learn_is_removed():
    model = fitted_classifier()
    handle, before = handle_of(model), handle_of(model).fitted
    known = handle.fitted.labels.known
    with pytest.raises(ValueError, match=r"X\[.*\] is .*2\*\*100"):  # the core's check
        model.partial_fit(np.array([[2.0**101, 0, 0]]), np.array([7]))
    assert handle.fitted is before
    assert handle.fitted.labels.known == known
    assert model.classes_.tolist() == [0, 1, 2]


def test_k_columns_belong_to_the_first_k_labels():
    labels = ClassLabels.announce([5, 3])
    labels.add(4)
    labels.add(1)
    by_index = np.array([0.1, 0.2, 0.3, 0.4])
    assert labels.sort_columns(by_index).tolist() == [0.4, 0.1, 0.3, 0.2]
    assert labels.sort_columns(by_index[:3]).tolist() == [0.1, 0.3, 0.2]
    assert labels.first(3)[0].tolist() == [3, 4, 5]
    assert labels.names(3) == [3, 4, 5]
    assert labels.by_label(by_index[:2]) == {3: 0.1, 5: 0.2}


def test_a_restored_core_is_of_the_same_kind():
    models = fitted_classifier(), AMFRegressor(2).fit(X, Y), AdaptiveAMFClassifier(2).fit(X, Y)
    for model in models:
        core = handle_of(model).fitted.core
        assert type(restore_core(core.state())) is type(core)


@pytest.mark.parametrize(
    ("weight", "whole", "real"),
    [(1, True, True), (2.0, True, True), (0.5, False, True), (2**31, False, True),
     (-1.0, False, False), (np.nan, False, False), ("heavy", False, False), (None, False, False)],
)  # fmt: skip
def test_whole_counts_take_whole_weights_and_real_ones_all(weight, whole, real):
    core = handle_of(fitted_classifier()).fitted.core
    assert can_count(core, weight) is whole
    assert can_count(count_exactly(core, np.array([0.5])), weight) is real


def test_a_twin_for_river_has_the_handle_of_its_estimator():
    twin = RiverClassifier(2, seed=0)
    twin.learn_one({"a": 1.0, "b": 2.0}, "x")
    assert handle_of(twin).fitted.encoder.named.numbers == ["a", "b"]


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 2.3, 60)])
def test_the_progressive_loss_does_not_depend_on_batches(weights):
    losses = set()
    for size in (1, 7, 60):
        model = AMFClassifier(2, classes=[0, 1, 2], random_state=0)
        for first in range(0, 60, size):
            part = slice(first, first + size)
            some = None if weights is None else weights[part]
            model.partial_fit_predict_proba(X[part], Y[part], sample_weight=some)
        losses.add(model.stats()["progressive_loss"])
    assert len(losses) == 1
