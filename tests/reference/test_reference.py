"""The reference by itself: it stands alone, and its feature weights scale features."""

import ast
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from amforest import reference
from amforest.reference import ClassCounts, Generator, RunningMean, Tree, UnrestrictedTree
from helpers import learn_all, preorder

N_FEATURES = 5


def test_it_imports_nothing_else_of_amforest():
    for path in Path(reference.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = [name for name in names if name.partition(".")[0] == "amforest"]
            assert all(f"{name}.".startswith("amforest.reference.") for name in ours)


@pytest.mark.parametrize(
    ("new_labels", "expected"), [(partial(ClassCounts, 4, 0.5), [0.25] * 4), (RunningMean, [0.0])]
)
def test_an_empty_tree_predicts_the_default(new_labels, expected):
    tree = Tree(new_labels, Generator([1, 2, 3, 4]))
    np.testing.assert_array_equal(tree.predict(np.zeros(2, np.float32)), expected)


@pytest.mark.parametrize("labels", [partial(ClassCounts, 2, 0.5), RunningMean])
def test_a_whole_weight_equals_as_many_samples(labels):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(50, 2)).astype(np.float32)
    y, weights = rng.integers(0, 2, size=50), rng.integers(1, 5, size=50)
    for charge_first in (False, True):
        trees = [Tree(labels, Generator([1, 2, 3, 4]), charge_first=charge_first) for _ in "ab"]
        learn_all(trees[:1], X, y, weights.astype(float))
        learn_all(trees[1:], X.repeat(weights, axis=0), y.repeat(weights))
        for (v, _), (w, _) in zip(*map(preorder, trees), strict=True):
            assert (v.tau, v.threshold, v.labels.n) == (w.tau, w.threshold, w.labels.n)
            assert v.log_w_bar == pytest.approx(w.log_w_bar, rel=1e-11)


# Feature weights


def new_tree(cls, scale, **options):
    if cls is UnrestrictedTree:
        options |= {"lower": -scale.astype(np.float32), "upper": scale.astype(np.float32)}
    labels = partial(ClassCounts, 2, 0.5)
    return cls(labels, Generator([1, 2, 3, 4]), predict_extends=True, **options)


def stream(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(80, N_FEATURES)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] > rng.normal(size=80) / 4).astype(int)


def splits(tree):
    return np.array([(v.feature, v.threshold, v.tau, v.log_w_bar) for v, _ in preorder(tree)])


@pytest.mark.parametrize("cls", [Tree, UnrestrictedTree])
def test_weights_of_one_change_no_bit(cls):
    X, y = stream()
    ones = np.ones(N_FEATURES, dtype=np.float32)
    tree, weighted = learn_all(
        [new_tree(cls, ones), new_tree(cls, ones, feature_weights=ones)], X, y
    )
    np.testing.assert_array_equal(splits(tree), splits(weighted))
    np.testing.assert_array_equal(tree.predict(-X[0]), weighted.predict(-X[0]))


@pytest.mark.parametrize("cls", [Tree, UnrestrictedTree])
def test_weights_do_what_scaling_the_features_does(cls):
    """Bit for bit, because multiplying by powers of two is exact."""
    X, y = stream()
    scale = np.array([1, 8, 0.25, 2, 0.5], dtype=np.float32)
    (weighted,) = learn_all([new_tree(cls, np.ones(N_FEATURES), feature_weights=scale)], X, y)
    (scaled,) = learn_all([new_tree(cls, scale)], X * scale, y)
    rows, expected = splits(weighted), splits(scaled)
    is_split = rows[:, 0] >= 0
    rows[is_split, 1] *= scale[rows[is_split, 0].astype(int)]
    np.testing.assert_array_equal(rows, expected)
    for x in -X[:10]:
        np.testing.assert_allclose(weighted.predict(x), scaled.predict(x * scale), rtol=1e-12)


def test_a_feature_of_weight_zero_is_never_split_but_its_range_is_kept():
    X, y = stream()
    weights = np.array([1, 1, 0, 1, 1], dtype=np.float32)
    (tree,) = learn_all([new_tree(Tree, None, feature_weights=weights)], X, y)
    (without,) = learn_all([new_tree(Tree, None)], X * (weights > 0), y)
    np.testing.assert_array_equal(splits(tree), splits(without))
    assert 2 not in splits(tree)[:, 0]
    assert tree.root.lower[2] == X[:, 2].min()
