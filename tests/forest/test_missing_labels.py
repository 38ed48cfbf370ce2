"""Labels that are missing are refused by their row, and the model stays as it was."""

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest import river as twins

MODELS = [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
TWINS = [getattr(twins, model.__name__) for model in MODELS]
X = np.random.default_rng(0).normal(size=(4, 2))
Y = [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.ma.array(Y, mask=[0, 1, 0, 0]), r"y\[1\] is masked; each row needs a label"),
        ([0, 1, None, 1], r"y\[2\] is None; each row needs a label"),
        (pd.Series([pd.NA, 1, 0, 1], dtype=object), r"y\[0\] is <NA>; each row needs a label"),
    ],
)
def test_a_label_that_is_missing_is_named(cls, y, words):
    model = cls(n_estimators=1, random_state=0)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, y)
    before = model.partial_fit(X, Y).to_bytes()
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, y)
    assert model.to_bytes() == before


@pytest.mark.parametrize("cls", MODELS)
def test_a_mask_without_masked_labels_changes_nothing(cls):
    one, two = (cls(n_estimators=1, random_state=0).fit(X, y) for y in (Y, np.ma.array(Y)))
    assert one.to_bytes() == two.to_bytes()


@pytest.mark.parametrize("cls", TWINS)
def test_river_twins_refuse_none_as_a_label_first_and_later(cls):
    model = cls(n_estimators=1, seed=0)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"y\[0\] is None; each row needs a label"):
            model.learn_one({"a": 1.0}, None)
        model.learn_one({"a": 1.0}, 1)


@pytest.mark.parametrize("cls", MODELS)
def test_a_number_beyond_float32_is_named_with_its_value(cls):
    rows = X.copy()
    rows[2, 1] = 6e38
    with pytest.raises(ValueError, match=r"X\[2, 1\] is 6e\+38; features must be finite and lie"):
        cls(n_estimators=1).fit(rows, Y)


@pytest.mark.parametrize("cls", TWINS)
def test_river_twins_name_it_too(cls):
    with pytest.raises(ValueError, match=r"6e\+38"):
        cls(n_estimators=1).learn_one({"a": 6e38}, 1)
