"""Shapley values of exported trees, compared with brute force over all subsets of features."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from amforest import AMFClassifier, AMFRegressor
from amforest.export import to_treeshap
from exported_models import fitted, labels, predict, stream

N_FEATURES = 4
CASES = [(AMFClassifier, "numbers"), (AMFRegressor, "numbers"), (AMFRegressor, "gaps")]


def small(cls, kind):
    X, y = stream(kind)
    model = cls(n_estimators=3, random_state=0)
    return model.fit(X[:60], labels(cls.__name__, y)[:60]), X[:60], X[60:64]


def shapley(value_of, n_features=N_FEATURES):
    """Return Σ_S |S|! (d - |S| - 1)! / d! (v(S + j) - v(S)) for each feature j."""
    values = []
    for j in range(n_features):
        others = [k for k in range(n_features) if k != j]
        total = 0.0
        for size in range(n_features):
            weight = factorial(size) * factorial(n_features - size - 1) / factorial(n_features)
            for subset in combinations(others, size):
                total = total + weight * (value_of({*subset, j}) - value_of(set(subset)))
        values.append(total)
    return np.array(values)


def path_dependent(tree, x, known, v=0):
    """Return the prediction of x where only some features are known: others by their weights."""
    left, right = tree["children_left"][v], tree["children_right"][v]
    if left < 0:
        return tree["values"][v]
    j = tree["features"][v]
    if j in known:
        goes_left = x[j] <= tree["thresholds"][v]
        child = tree["children_default"][v] if np.isnan(x[j]) else left if goes_left else right
        return path_dependent(tree, x, known, child)
    weights = tree["node_sample_weight"][[left, right]]
    sides = [path_dependent(tree, x, known, child) for child in (left, right)]
    return np.average(sides, axis=0, weights=weights)


@pytest.mark.parametrize(("cls", "kind"), CASES)
def test_the_trees_predict_what_the_forest_predicts(cls, kind):
    model, _, X = small(cls, kind)
    trees, everything = to_treeshap(model)["trees"], set(range(N_FEATURES))
    for x, expected in zip(X, predict(model, X), strict=True):
        found = sum(path_dependent(tree, x, everything) for tree in trees)
        np.testing.assert_allclose(found, np.atleast_1d(expected), rtol=1e-12)


@pytest.mark.parametrize(("cls", "kind"), CASES)
def test_path_dependent_values_of_shap_are_those_of_brute_force(cls, kind):
    shap = pytest.importorskip("shap")
    model, _, X = small(cls, kind)
    exported = to_treeshap(model)
    found = shap.TreeExplainer(exported).shap_values(X)
    for x, values in zip(X, found, strict=True):
        expected = shapley(
            lambda known, x=x: sum(path_dependent(t, x, known) for t in exported["trees"])
        )
        np.testing.assert_allclose(values.reshape(N_FEATURES, -1), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("cls", "kind"), CASES[:2])
def test_interventional_values_of_shap_are_those_of_brute_force(cls, kind):
    shap = pytest.importorskip("shap")
    model, background, X = small(cls, kind)
    background = background[:20]

    def value_of(known, x):
        rows = background.copy()
        rows[:, sorted(known)] = x[sorted(known)]
        return predict(model, rows).mean(axis=0)

    found = shap.TreeExplainer(to_treeshap(model), background).shap_values(X)
    for x, values in zip(X, found, strict=True):
        expected = shapley(lambda known, x=x: value_of(known, x))
        # Here shap computes in single precision.
        np.testing.assert_allclose(
            values.reshape(N_FEATURES, -1), expected.reshape(N_FEATURES, -1), rtol=0, atol=1e-7
        )


def test_what_tree_explainer_cannot_express_is_refused():
    with pytest.raises(ValueError, match="feature 'colour' holds categories"):
        to_treeshap(fitted("AMFClassifier", "categories")[0])
    with pytest.raises(
        TypeError, match="an AdaptiveAMFClassifier, whose mixer is not a mean of trees"
    ):
        to_treeshap(fitted("AdaptiveAMFClassifier", "numbers")[0])
