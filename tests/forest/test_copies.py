"""A model that is saved and loaded goes on as if it never had been: the short form of `torture`."""

import sys
from pathlib import Path

import numpy as np
import pytest

from amforest import AMFClassifier
from amforest.model_io.model_file import from_bytes

sys.path.append(str(Path(__file__).parents[1] / "torture"))
import continuing


@pytest.mark.parametrize(
    "number", [*range(10), *(pytest.param(k, marks=pytest.mark.slow) for k in range(10, 25))]
)
def test_copies_by_file_pickle_and_deepcopy_go_on_like_the_original(number):
    continuing.compare(number)


def test_the_configurations_are_many_kinds():
    cases = [continuing.Case(number) for number in range(40)]
    assert {case.kind for case in cases} == set(continuing.MODELS)
    assert {case.form for case in cases} == {"array", "lists", "frame"}
    assert {case.weights for case in cases} == {None, "whole", "real"}
    assert any(case.is_box for case in cases)
    assert any(column.is_category for case in cases for column in case.columns)


def test_the_comparison_sees_a_single_bit():
    X = np.random.default_rng(0).uniform(size=(30, 2))
    model = AMFClassifier(1, random_state=0).fit(X, X[:, 0] > 0.5)
    probabilities = model.predict_proba(X)
    other = probabilities.copy()
    other[7, 1] = np.nextafter(other[7, 1], 1)
    assert continuing.as_bits([probabilities]) == continuing.as_bits([probabilities.copy()])
    assert continuing.as_bits([probabilities]) != continuing.as_bits([other])
    assert continuing.as_bits([0.0]) != continuing.as_bits([-0.0])


def test_a_save_is_no_step_of_the_model():
    X = np.random.default_rng(1).uniform(size=(40, 2))
    y = (X[:, 0] > 0.5).astype(int)
    model = AMFClassifier(2, random_state=0).fit(X[:20], y[:20])
    before = model.to_bytes()
    assert from_bytes(before).partial_fit(X[20:], y[20:]).to_bytes() != before
    assert model.to_bytes() == before
