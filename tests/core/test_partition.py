"""The partition is well-formed: every point is on its side of every split, whatever the floats."""

import os
import subprocess
import sys

import numpy as np
import pytest

from amforest import AMFClassifier, AMFRegressor

NEXT = np.nextafter(np.float32(0.1), np.float32(1))
POINTS = {
    "neighbouring floats": [np.float32(0.1), NEXT],
    "neighbours across a power of two": [np.nextafter(np.float32(1), np.float32(0)), 1, 1 + 2**-23],
    "denormals": [0, 1e-45, 3e-45, -1e-45, 1e-39],
    "zero and its neighbours": [0, np.nextafter(np.float32(0), np.float32(1)), -1e-45],
    "huge": [1e30, -1e30, np.nextafter(np.float32(1e30), np.float32(0)), 0],
    "huge beside tiny": [1e30, 1e-45, 1, -1e30, 0],
}


def assert_well_formed(table, X, *, one_point_per_leaf):
    """Route all points down; counts, ranges and times must be those of the points."""
    inside = {0: np.arange(len(X))}
    for i, v in enumerate(table):
        points = X[inside[i]]
        assert v["n_samples"] == len(points) > 0
        np.testing.assert_array_equal(v["lower"], points.min(axis=0))
        np.testing.assert_array_equal(v["upper"], points.max(axis=0))
        if v["left"] < 0:
            assert not one_point_per_leaf or (points == points[0]).all()
            continue
        left = points[:, v["feature"]] <= v["threshold"]
        inside[v["left"]], inside[v["right"]] = inside[i][left], inside[i][~left]
        assert table["birth_time"][v["left"]] == table["birth_time"][v["right"]] >= v["birth_time"]


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("n_features", [1, 2])
def test_a_split_always_separates(name, n_features):
    rng = np.random.default_rng(0)
    X = rng.choice(np.array(POINTS[name], dtype=np.float32), size=(60, n_features))
    model = AMFRegressor(n_estimators=50, split_pure=True, random_state=0).fit(
        X, rng.normal(size=60)
    )
    for i in range(50):
        assert_well_formed(model.tree_table(i), X, one_point_per_leaf=True)


def test_300_pairs_of_neighbouring_floats_end_up_in_leaves_of_their_own():
    rng = np.random.default_rng(1)
    x = rng.uniform(size=300).astype(np.float32)
    X = np.concatenate([x, np.nextafter(x, np.float32(2))])[:, None]
    y = np.repeat([0, 1], 300)
    model = AMFClassifier(n_estimators=5, split_pure=True, random_state=0).fit(X, y)
    for i, leaves in enumerate(model.apply(X).T):
        assert (model.tree_table(i)["lower"][leaves] == X).all()
        assert (model.tree_table(i)["upper"][leaves] == X).all()


@pytest.mark.parametrize("split_pure", [False, True])
def test_ranges_and_counts_are_those_of_the_points_inside(split_pure):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    X[:, 3] = 1.5
    y = (X[:, 0] > 0).astype(int)
    model = AMFClassifier(n_estimators=3, split_pure=split_pure, random_state=0).fit(X, y)
    for i in range(3):
        assert_well_formed(model.tree_table(i), X, one_point_per_leaf=split_pure)


def test_equal_rows_share_a_leaf():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0]])
    table = AMFRegressor(1, split_pure=True, random_state=0).fit(X, [1.0, 2.0, 3.0]).tree_table(0)
    assert table["n_samples"].tolist() == [3]
    assert table["mean"].tolist() == [2.0]


def test_many_sorted_points_are_learned_without_recursion():
    x = np.linspace(0, 1, 200_000, dtype=np.float32)
    model = AMFRegressor(n_estimators=1, split_pure=True, random_state=0)
    table = model.fit(x[:, None], x).tree_table(0)
    assert len(table) == 2 * len(np.unique(x)) - 1
    assert model.apply(x[:10, None]).shape == (10, 1)


def test_a_tree_as_deep_as_floats_allow_can_be_learned_and_copied():
    x = np.float32(2.0) ** np.arange(-140, 100, dtype=np.float32)
    model = AMFRegressor(n_estimators=2, random_state=0).fit(x[:, None], np.arange(240.0))
    assert model.tree_table(0)["depth"].max() > 100


DIGEST = """
import hashlib
import numpy as np
from amforest import AMFClassifier, AMFRegressor

rng = np.random.default_rng(0)
X, y = rng.normal(size=(2000, 21)), rng.integers(0, 3, size=2000)
digest = hashlib.sha256()
for width in (1, 3, 4, 8, 12, 21):
    for model in (AMFClassifier(2, random_state=0), AMFRegressor(2, random_state=0)):
        model.set_params(predict_extends=True)
        for gaps in (0.0, 0.2):
            rows = np.where(rng.random((2000, width)) < gaps, np.nan, X[:, :width])
            model.fit(rows[:1000], y[:1000])
            digest.update(model.predict(rows[1000:]).tobytes())
            for i in range(2):
                digest.update(model.tree_table(i).tobytes())
print(digest.hexdigest())
"""


def test_every_instruction_set_gives_the_same_bits():
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "AMFOREST_SIMD": kernels},
            check=True,
            capture_output=True,
        ).stdout
        for kernels in ("plain", "")
    }
    assert len(digests) == 1
