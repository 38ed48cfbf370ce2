"""The adaptive forest of the core equals the reference: bit for bit but for rounding in weights."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from adaptive_forests import (
    GROUPS,
    LONGEST,
    PLAIN,
    adaptive,
    assert_equals_reference,
    reference_of,
)
from hypothesis import given
from hypothesis import strategies as st

from amforest.reference.adaptive_classes import set_classes

N_CATEGORIES = 6


def stream(rng, n_rows, *, n_codes=0, n_numbers=3, n_classes=2, gaps=0.0, scale=1.0):
    """Return codes beside numbers, and labels that depend on both, with noise."""
    X = scale * rng.normal(size=(n_rows, n_codes + n_numbers)).astype(np.float32)
    X[:, n_codes] = np.round(2 * X[:, n_codes]) / 2  # ties
    X[:, :n_codes] = rng.integers(0, N_CATEGORIES, size=(n_rows, n_codes))
    y = (X[:, 0] > 0).astype(int) + (X[:, -1] > 0)
    y = np.where(rng.random(n_rows) < 0.2, rng.integers(0, n_classes, size=n_rows), y % n_classes)
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y.astype(np.uint32)


def learn_row_by_row(reference, X, y, weights):
    for x, label, weight in zip(X, y.tolist(), weights.tolist(), strict=True):
        reference.learn(x, label, weight)


def assert_equal_on_stream(rng, X, y, weights, *, n_parts=4, **parameters):
    """Learn both forests, the core in batches cut anywhere, and compare them after each."""
    n_codes = parameters.pop("n_codes", 0)
    categories = [N_CATEGORIES] * n_codes
    forest = adaptive(X.shape[1] - n_codes, categories=categories, **parameters)
    reference = reference_of(forest)
    cuts = np.sort(rng.integers(0, len(X) + 1, size=n_parts - 1))
    for first, last in pairwise([0, *cuts.tolist(), len(X)]):
        part = slice(first, last)
        forest.learn(X[part], y[part], int(rng.choice([1, 2, 7])), weights=weights[part])
        learn_row_by_row(reference, X[part], y[part], weights[part])
        assert_equals_reference(forest, reference, X[:3])
    return forest


@st.composite
def parameters(draw):
    groups = draw(st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2, unique=True))
    return {
        "groups": groups,
        "n_classes": draw(st.integers(1, 4)),
        "n_candidates": draw(st.sampled_from([1, 2, 6, 30])),
        "dirichlet": draw(st.sampled_from([0.01, 0.5, 1.7])),
        "mixer_rate": draw(st.sampled_from([0.0, 0.01, 0.3])),
        "row_limit": draw(st.sampled_from([16, 30, 200])),
        "seed": draw(st.integers(0, 1000)),
        "step": draw(st.sampled_from([1.0, 0.3])),
        "split_pure": draw(st.booleans()),
        "use_aggregation": draw(st.booleans()),
        "n_codes": draw(st.sampled_from([0, 0, 1, 2])),
    }


@given(st.integers(0, 2**32 - 1), st.integers(1, 50), parameters(), st.data())
def test_forests_equal_the_reference(seed, n_rows, parameters, data):
    rng = np.random.default_rng(seed)
    n_codes, n_classes = parameters["n_codes"], parameters["n_classes"]
    n_numbers = data.draw(st.sampled_from([1, 2, 3, 9]))
    gaps = data.draw(st.sampled_from([0.0, 0.0, 0.2]))
    scale = data.draw(st.sampled_from([1.0, 1e-30, 1e25]))
    how = {"n_codes": n_codes, "n_numbers": n_numbers, "gaps": gaps, "scale": scale}
    X, y = stream(rng, n_rows, n_classes=n_classes, **how)
    weights = np.ones(n_rows)
    if data.draw(st.booleans()):
        weights = rng.choice([0.0, 0.3, 1.0, 2.5], size=n_rows)
    assert_equal_on_stream(rng, X, y, weights, n_parts=2, **parameters)


FIXED = {
    "two classes": {},
    "weights": {"weighted": True},
    "five classes": {"n_classes": 5, "dirichlet": 0.01, "groups": GROUPS[1:4]},
    "categories": {"n_codes": 2, "groups": [PLAIN, LONGEST, (40, True, False)]},
    "weighted categories": {"n_codes": 1, "weighted": True, "groups": GROUPS[2:4]},
    "categories and gaps": {"n_codes": 2, "n_classes": 3, "gaps": 0.2, "groups": GROUPS[2:]},
    "weighted gaps": {"gaps": 0.3, "weighted": True, "groups": GROUPS[2:]},
    "one candidate": {"n_candidates": 1, "groups": GROUPS[1:4]},
    "leaves only": {"use_aggregation": False, "groups": GROUPS[2:]},
    "full trees": {"groups": [PLAIN, LONGEST], "max_nodes": 240},
    "slow regrows": {"groups": [(30, False, False)], "n_candidates": 150, "row_limit": 30},
}


@pytest.mark.parametrize("kind", FIXED)
def test_forests_that_were_regrown_many_times_equal_the_reference(kind):
    rng = np.random.default_rng(list(FIXED).index(kind))
    how = {"n_classes": 2} | FIXED[kind]
    gaps, n_codes = how.pop("gaps", 0.0), how.get("n_codes", 0)
    X, y = stream(rng, 100, n_codes=n_codes, n_classes=how["n_classes"], gaps=gaps)
    weights = np.ones(100)
    if how.pop("weighted", False):
        weights = rng.choice([0.0, 0.3, 1.0, 7.5], size=100)
    forest = assert_equal_on_stream(rng, X, y, weights, **how)
    assert (forest.n_regrows > 1).all()


@pytest.mark.parametrize("n_codes", [0, 2])
def test_classes_that_appear_restart_regrows_as_in_the_reference(n_codes):
    rng = np.random.default_rng(n_codes)
    X, y = stream(rng, 120, n_codes=n_codes, n_classes=4)
    how = {"groups": GROUPS[1:], "categories": [N_CATEGORIES] * n_codes, "n_candidates": 80}
    forest = adaptive(3, n_classes=1, **how)
    reference, n_classes = reference_of(forest), 1
    for first in range(0, 120, 2):
        part = slice(first, first + 2)
        is_regrown = any(slot.regrowth for slot in reference.slots)
        if first == 6 or (n_classes < 4 and first > 25 * n_classes and is_regrown):
            n_classes += 1
            set_classes(reference, n_classes, 0.5 if n_classes == 2 else 0.01)
        labels = y[part] % n_classes
        now = {"n_classes": n_classes, "capacity": 8, "dirichlet": reference.task.dirichlet}
        forest.learn(X[part], labels, 1, parameters=now)
        learn_row_by_row(reference, X[part], labels, np.ones(2))
        if first % 10 == 0:
            assert_equals_reference(forest, reference, X[:3])
    assert n_classes == 4


def test_nodes_of_more_than_a_thousand_rows_are_judged_on_the_same_thousand():
    rng = np.random.default_rng(0)
    X, y = stream(rng, 1_200, n_numbers=2)
    how = {"groups": [LONGEST], "n_estimators": 1, "n_candidates": 2, "row_limit": 2_000}
    forest = assert_equal_on_stream(rng, X, y, np.ones(1_200), n_parts=1, **how)
    assert forest.n_regrows[0] == 7


def test_predictions_of_trees_groups_and_rows_equal_the_reference():
    rng = np.random.default_rng(3)
    X, y = stream(rng, 60, n_codes=1)
    forest = adaptive(3, categories=[N_CATEGORIES])
    reference = reference_of(forest)
    predictions = forest.predict_then_learn(X, y, 2)
    for x, label, prediction in zip(X, y.tolist(), predictions, strict=True):
        np.testing.assert_allclose(prediction, reference.predict(x), rtol=1e-10)
        reference.learn(x, label)
    X[:, 0] = -1  # a category that was never seen
    by_tree = [[s.tree.predict(s.numbers.encode(x)) for s in reference.slots] for x in X[:5]]
    np.testing.assert_allclose(forest.predict_by_tree(X[:5], 1), by_tree, rtol=1e-10)
    by_group = [reference.predict_by_expert(x) for x in X[:5]]
    np.testing.assert_allclose(forest.predict_by_expert(X[:5], 1), by_group, rtol=1e-10)


DIGEST = """
import hashlib, sys
sys.path[:0] = sys.argv[1:]
import numpy as np
from adaptive_forests import adaptive

digest = hashlib.sha256()
for width in (1, 4, 9, 21):
    rng = np.random.default_rng(width)
    X = rng.normal(size=(500, 1 + width)).astype(np.float32)
    y = ((X[:, -1] > 0) + (rng.random(500) < 0.2)).astype(np.uint32)
    X[rng.random(X.shape) < width % 2 / 5] = np.nan
    X[:, 0] = rng.integers(0, 6, size=500)
    forest = adaptive(width, categories=[6], n_classes=3)
    forest.learn(X, y, 1)
    for _, array in sorted(forest.state()["trees"].items()):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_every_instruction_set_gives_the_same_bits():
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST, *sys.path],
            env={**os.environ, "AMFOREST_SIMD": kernels},
            check=True,
            capture_output=True,
        ).stdout
        for kernels in ("plain", "")
    }
    assert len(digests) == 1
