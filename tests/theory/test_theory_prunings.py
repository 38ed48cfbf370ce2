"""Prunings are those of brute force; losses are those of nodes that learn label by label."""

import math
from itertools import product

import numpy as np
import pytest
from theory_helpers import SQUARE, Node, loss, path, stream

from amforest import AMFClassifier, AMFRegressor
from amforest.theory import (
    best_constants_loss,
    best_pruning,
    constants_losses,
    leaves_of,
    node_predictions,
    online_losses,
    sample_mondrian,
    time_pruning,
)


def trees():
    """A tree of each kind with its stream and number of classes."""
    for seed, n_classes in product(range(5), [None, 2, 3]):
        X, y = stream(40, seed, n_classes)
        yield sample_mondrian(SQUARE, 1.0, random_state=seed).table, X, y, n_classes
        model = AMFRegressor if n_classes is None else AMFClassifier
        forest = model(1, random_state=seed, split_pure=True).fit(X[:8], y[:8])
        yield forest.tree_table(0), X, y, n_classes


def prunings(table, v=0):
    """Yield the leaves and the nodes of all prunings below v."""
    yield [v], [v]
    if table["left"][v] >= 0:
        children = (list(prunings(table, table[side][v])) for side in ("left", "right"))
        for (leaves, nodes), (more_leaves, more_nodes) in product(*children):
            yield leaves + more_leaves, [v, *nodes, *more_nodes]


def test_online_losses_are_those_of_nodes_that_learn_one_label_at_a_time():
    for table, X, y, n_classes in trees():
        nodes, expected = [Node(n_classes) for _ in table], np.zeros(len(table))
        for x, label in zip(X, y, strict=True):
            for v in path(table, x):
                expected[v] += loss(nodes[v].prediction(), label)
                nodes[v].labels.append(label)
        losses = online_losses(table, X, y, n_classes=n_classes)
        np.testing.assert_allclose(losses, expected, rtol=1e-12, atol=1e-12)


def test_no_constants_are_better_than_the_best_constants():
    rng = np.random.default_rng(0)
    for table, X, y, n_classes in trees():
        losses = constants_losses(table, X, y, n_classes=n_classes)
        for v, best in enumerate(losses):
            labels = [label for x, label in zip(X, y, strict=True) if v in path(table, x)]
            if not labels:
                assert best == 0
                continue
            if n_classes is None:
                constant = np.mean(labels)
                others = constant + rng.normal(0, 0.1, 5)
            else:
                constant = np.bincount(labels, minlength=n_classes) / len(labels)
                others = 0.9 * constant + 0.1 * rng.dirichlet(np.ones(n_classes), 5)
            assert best == pytest.approx(sum(loss(constant, label) for label in labels))
            assert all(best <= sum(loss(o, label) for label in labels) + 1e-9 for o in others)


@pytest.mark.parametrize("penalty", [0.0, 0.1, math.log(2)])
def test_the_best_pruning_is_that_of_brute_force(penalty):
    for table, X, y, n_classes in trees():
        for losses_of in (online_losses, constants_losses):
            losses = losses_of(table, X, y, n_classes=n_classes)
            leaves, value = best_pruning(table, losses, penalty)
            values = {
                tuple(sorted(leaves)): losses[leaves].sum() + penalty * len(nodes)
                for leaves, nodes in prunings(table)
            }
            assert value == pytest.approx(min(values.values()), abs=1e-9)
            assert values[tuple(leaves)] == pytest.approx(value, abs=1e-9)


def test_a_penalty_may_differ_from_node_to_node():
    table, X, y, _ = next(trees())
    losses, penalty = online_losses(table, X, y), np.random.default_rng(0).uniform(size=len(table))
    values = [losses[leaves].sum() + penalty[nodes].sum() for leaves, nodes in prunings(table)]
    assert best_pruning(table, losses, penalty)[1] == pytest.approx(min(values))


def test_deep_trees_are_pruned_without_recursion():
    depth = 20_000
    table = np.full(2 * depth + 1, -1, dtype=[(s, int) for s in ("parent", "left", "right")])
    inner = 2 * np.arange(depth)
    table["left"][inner], table["right"][inner] = inner + 1, inner + 2
    table["parent"][inner + 1] = table["parent"][inner + 2] = inner
    losses = np.zeros(len(table))
    losses[inner] = 1.0
    leaves, value = best_pruning(table, losses)
    assert (len(leaves), value) == (depth + 1, 0.0)


def test_leaves_are_found_as_the_forest_finds_them_also_with_missing_values():
    X, y = stream(500, 0)
    X[np.random.default_rng(1).uniform(size=X.shape) < 0.1] = np.nan
    forest = AMFRegressor(1, use_aggregation=False, random_state=0).fit(X[:300], y[:300])
    table = forest.tree_table(0)
    leaves = leaves_of(table, X)
    np.testing.assert_array_equal(leaves, forest.apply(X)[:, 0])
    np.testing.assert_array_equal(node_predictions(table)[leaves], forest.predict(X))


def test_the_leaves_of_a_classifier_predict_as_the_forest_does():
    X, y = stream(300, 0, n_classes=3)
    forest = AMFClassifier(1, use_aggregation=False, dirichlet=0.1, random_state=0).fit(X, y)
    table = forest.tree_table(0)
    prediction = node_predictions(table, dirichlet=0.1)[leaves_of(table, X)]
    np.testing.assert_allclose(prediction, forest.predict_proba(X), rtol=1e-12)


def test_a_time_pruning_of_a_tree_keeps_what_was_born_until_then():
    X, y = stream(300, 0)
    table = AMFRegressor(1, random_state=0).fit(X, y).tree_table(0)
    assert time_pruning(table, 0.0).tolist() == [0]
    np.testing.assert_array_equal(time_pruning(table, np.inf), np.flatnonzero(table["left"] < 0))
    at = {lifetime: leaves_of(table, X, time_pruning(table, lifetime)) for lifetime in (2.0, 5.0)}
    for lifetime, leaves in at.items():
        for x, leaf in zip(X, leaves, strict=True):
            assert leaf == [v for v in path(table, x) if table["birth_time"][v] <= lifetime][-1]
    assert len(set(at[2.0])) < len(set(at[5.0]))


def test_the_loss_of_a_pruning_is_the_sum_over_its_leaves():
    X, y = stream(300, 0)
    table = AMFRegressor(1, random_state=0).fit(X, y).tree_table(0)
    leaves = time_pruning(table, 3.0)
    at = leaves_of(table, X, leaves)
    residuals = [y[at == v] - y[at == v].mean() for v in leaves]
    expected = sum(float(r @ r) for r in residuals)
    assert best_constants_loss(table, leaves, X, y) == pytest.approx(expected)


def test_what_cannot_be_compared_is_refused():
    table, X, y, _ = next(trees())
    with pytest.raises(ValueError, match="leaves are not those of a pruning"):
        leaves_of(table, X, leaves=[1])
    with pytest.raises(ValueError, match="lifetime is -1"):
        time_pruning(table, -1.0)
    with pytest.raises(ValueError, match="y is not usable; it must be the numbers of classes"):
        online_losses(table, X, y, n_classes=2)
    with pytest.raises(ValueError, match="dirichlet is 0"):
        online_losses(table, X, np.zeros(len(X)), n_classes=2, dirichlet=0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        online_losses(table, X[1:], y)
    with pytest.raises(ValueError, match="losses is of shape"):
        best_pruning(table, [1.0, 2.0])
    with pytest.raises(ValueError, match="losses is not usable; it must be finite"):
        best_pruning(table, np.full(len(table), np.nan))
    forest = AMFClassifier(1, categorical_features=[0], random_state=0).fit([[0], [1]], [0, 1])
    with pytest.raises(ValueError, match="categorical"):
        leaves_of(forest.tree_table(0), [[0.0]])
