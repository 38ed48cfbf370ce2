"""Frozen copies of the forests for river."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river")

import amforest
from amforest import river
from exported_models import stream

CLASSES = [river.AMFClassifier, river.AdaptiveAMFClassifier]
NUMBERS = [river.AMFRegressor, river.AdaptiveAMFRegressor]


def rows(n_rows=200):
    X, y = stream("categories", n_rows)
    return X.astype(object).where(X.notna(), None).to_dict("records"), y


@pytest.mark.parametrize("cls", CLASSES + NUMBERS)
def test_rows_frames_and_saved_copies_have_the_live_predictions(cls, tmp_path):
    X, y = rows()
    model = cls(n_estimators=2, seed=1)
    for x, label in zip(X[:150], y[:150], strict=True):
        model.learn_one(x, label > 0 if cls in CLASSES else label)
    frozen = model.freeze()
    amforest.save(frozen, tmp_path / "model.amf")
    again = amforest.load(tmp_path / "model.amf")
    for copy in (frozen, pickle.loads(pickle.dumps(frozen)), again):
        for x in [*X[150:160], {"a": 0.5, "unknown": 3}]:
            assert copy.predict_one(x) == model.predict_one(x)
            if cls in CLASSES:
                assert copy.predict_proba_one(x) == model.predict_proba_one(x)
        frame = pd.DataFrame(X[150:])
        assert copy.predict_many(frame).equals(model.predict_many(frame))
    assert not hasattr(frozen, "learn_one")
    expected = model.predict_one(X[0])
    for x in X[:50]:
        model.learn_one(x, 1 if cls in CLASSES else 100.0)
    assert frozen.predict_one(X[0]) == expected


def test_an_adaptive_regressor_keeps_its_intervals():
    X, y = rows()
    model = river.AdaptiveAMFRegressor(seed=1)
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
    frozen = model.freeze()
    assert frozen.predict_interval_one(X[0]) == model.predict_interval_one(X[0])
    np.testing.assert_array_equal(
        frozen.predict_dist_one(X[0]).mean(), model.predict_dist_one(X[0]).mean()
    )
