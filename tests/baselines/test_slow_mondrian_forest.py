"""The slow Mondrian forest is right: by hand, by integration, by insertion; and counts suffice."""

import math

import numpy as np
import pytest
import slow_mondrian_forest as slow
from scipy.integrate import quad

from amforest import AMFClassifier

GAMMAS = [0.01, 0.3, 20.0]


def grown(seed, n_rows=6, n_classes=3, **params):
    """A tree of up to `n_rows` leaves, its table, and points to predict: on a grid of 1/64."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 65, size=(n_rows, 2)) / 64
    y = rng.integers(0, n_classes, size=n_rows)
    model = AMFClassifier(1, classes=range(n_classes), random_state=seed, **params).fit(X, y)
    table = model.tree_table(0)
    queries = np.vstack([X, rng.integers(-40, 105, size=(10, 2)) / 64])
    return table, slow.from_table(table), queries.tolist()


@pytest.fixture(params=range(8))
def tree(request):
    return grown(request.param, split_pure=request.param % 2 == 0)


# By hand


def test_two_leaves_by_hand():
    """The root is split at time 1/2; class 0 is on the left, 0 twice and 1 on the right."""
    left = slow.Node(0.5, math.inf, [0.0], [0.0], [1, 0])
    right = slow.Node(0.5, math.inf, [1.0], [1.0], [2, 1])
    root = slow.Node(0.0, 0.5, [0.0], [1.0], [3, 1], 0, 0.25, (left, right))
    d = math.exp(-0.5 * 4)  # γ = 4
    of_root = [(2 - d + d * 2 / 2) / 3, (1 - d + d * 2 / 2) / 3]
    means = slow.posterior_means(root, gamma=4.0)
    assert means[root] == pytest.approx(of_root, rel=1e-15)
    assert means[left] == [1, 0]
    assert means[right] == [2 / 3, 1 / 3]
    assert slow.predict(root, [1.0], gamma=4.0) == pytest.approx([2 / 3, 1 / 3], rel=1e-15)
    # Between the leaves, x cannot branch off the root, and must branch off the leaf: η = 1/8.
    mean_discount = (1 / 8) / (1 / 8 + 4)
    expected = [1 - mean_discount + mean_discount * of_root[0], mean_discount * of_root[1]]
    assert slow.predict(root, [0.125], gamma=4.0) == pytest.approx(expected, rel=1e-15)


def test_the_table_is_read_with_split_times_of_parents_as_birth_times(tree):
    table, root, _ = tree
    for row, j in zip(table, slow.preorder(root), strict=True):
        is_leaf = row["left"] < 0
        assert j.birth_time == row["birth_time"]
        assert j.split_time == (math.inf if is_leaf else table["birth_time"][row["right"]])
        assert (j.children is None) == is_leaf
        assert j.counts == row["counts"].tolist()


# What must hold in any case


@pytest.mark.parametrize("gamma", [None, *GAMMAS])
def test_posterior_means_and_predictions_are_distributions(tree, gamma):
    _, root, queries = tree
    means = slow.posterior_means(root, gamma)
    for g in [*means.values(), *(slow.predict(root, x, gamma) for x in queries)]:
        assert sum(g) == pytest.approx(1, rel=1e-13)
        assert min(g) >= -1e-15


def test_within_a_leaf_its_labels_predict_and_far_away_nothing_does(tree):
    _, root, _ = tree
    for leaf in slow.preorder(root):
        if leaf.children is None:
            frequencies = [c / sum(leaf.counts) for c in leaf.counts]
            middle = [(a + b) / 2 for a, b in zip(leaf.lower, leaf.upper, strict=True)]
            assert slow.predict(root, middle) == pytest.approx(frequencies, abs=1e-15)
    assert slow.predict(root, [1e9, 0.0]) == pytest.approx([1 / 3] * 3, rel=1e-6)


# By integration


@pytest.mark.parametrize("gamma", [*GAMMAS, 1e3])
@pytest.mark.parametrize("eta", [1e-3, 0.5, 7.0])
@pytest.mark.parametrize("duration", [1e-2, 0.8, 30.0, math.inf])
def test_the_expected_discount_is_the_integral(gamma, eta, duration):
    end = min(duration, 50 / (gamma + eta))  # beyond, there is nothing left
    total, _ = quad(lambda t: math.exp(-gamma * t) * eta * math.exp(-eta * t), 0, end, epsabs=0)
    expected = total / (1 - math.exp(-eta * duration))
    assert slow.expected_discount(gamma, eta, duration) == pytest.approx(expected, rel=1e-9)


def with_leaf(j, target, x, time):
    """Copy the tree below j; above `target` there is a fresh node, born as it was, with {x}."""
    if j is target:
        rest = slow.Node(time, j.split_time, j.lower, j.upper, j.counts, j.feature, j.threshold)
        rest.children = j.children
        leaf = slow.Node(time, math.inf, x, x, [0] * len(j.counts))
        return slow.Node(j.birth_time, time, x, x, j.counts, children=(rest, leaf)), leaf
    left, leaf = with_leaf(j.children[0], target, x, time) if j.children else (None, None)
    right, other = with_leaf(j.children[1], target, x, time) if j.children else (None, None)
    children = (left, right) if j.children else None
    copied = slow.Node(j.birth_time, j.split_time, j.lower, j.upper, j.counts, children=children)
    return copied, leaf or other


def by_insertion(root, x, gamma):
    """Mean over the time at which x branches off: its leaf is put there, and G computed anew."""
    prediction, stays, j = np.zeros(len(root.counts)), 1.0, root
    while j is not None:
        eta = slow.extension(j, x)
        if eta > 0:
            end = min(j.duration, 50 / eta)

            def g(t, k, j=j, eta=eta):
                tree, leaf = with_leaf(root, j, x, j.birth_time + t)
                return slow.posterior_means(tree, gamma)[leaf][k] * eta * math.exp(-eta * t)

            prediction += [stays * quad(g, 0, end, args=(k,))[0] for k in range(len(prediction))]
            stays *= math.exp(-eta * j.duration)
        if j.children is None:
            return prediction + stays * np.array(slow.posterior_means(root, gamma)[j])
        j = slow.child_of(j, x)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gamma", [0.3, 20.0])
def test_the_prediction_is_the_mean_over_all_insertions_of_x(seed, gamma):
    _, root, queries = grown(seed, n_rows=4)
    for x in queries[3:7]:
        expected = by_insertion(root, x, gamma)
        np.testing.assert_allclose(slow.predict(root, x, gamma), expected, rtol=1e-6, atol=1e-9)


# Our trees count samples, in all nodes: that is enough, in one pass down or up


def path_of(table, x):
    """Rows of the table from the root to x's leaf, with η and Δ of each."""
    i, path = 0, []
    while i >= 0:
        row = table[i]
        eta = np.maximum(0, np.maximum(x - row["upper"], row["lower"] - x)).sum(dtype=float)
        end = table["birth_time"][row["left"]] if row["left"] >= 0 else math.inf
        path.append((i, eta, end - row["birth_time"]))
        goes_left = x[row["feature"]] <= row["threshold"]
        i = row["left"] if goes_left or row["left"] < 0 else row["right"]
    return path


def branch(gamma, eta, duration):
    """p and q = p · expected discount: no division by p is needed."""
    if eta == 0:
        return 0.0, 0.0
    p, q = -math.expm1(-eta * duration), -math.expm1(-(gamma + eta) * duration)
    return p, eta / (gamma + eta) * q


def downward(table, x, gamma):
    seen, n_classes = table["counts"] > 0, table["counts"].shape[1]
    prediction, base, stays = np.zeros(n_classes), np.full(n_classes, 1 / n_classes), 1.0
    for i, eta, duration in path_of(table, x):
        p, q = branch(gamma, eta, duration)
        prediction += stays * ((p - q) / seen[i].sum() * seen[i] + q * base)
        stays *= 1 - p
        if table["left"][i] < 0:
            return prediction + stays * table["counts"][i] / table["n_samples"][i]
        a, b = seen[table["left"][i]], seen[table["right"][i]]
        d = math.exp(-gamma * duration)
        base = (1.0 * a + b - d * seen[i] + d * seen[i].sum() * base) / (a.sum() + b.sum())


def upward(table, x, gamma):
    """Here `below` is the weight of G_i in the prediction: it shrinks, and one may stop early."""
    seen, n_classes = table["counts"] > 0, table["counts"].shape[1]
    path, weights, stays = path_of(table, x), [], 1.0
    for _, eta, duration in path:
        p, q = branch(gamma, eta, duration)
        weights.append((stays * (p - q), stays * q))
        stays *= 1 - p
    leaf = path[-1][0]
    prediction, below = stays * table["counts"][leaf] / table["n_samples"][leaf], 0.0
    for (i, eta, duration), (of_seen, of_base) in zip(path[::-1], weights[::-1], strict=True):
        if i != leaf:
            a, b = seen[table["left"][i]], seen[table["right"][i]]
            d, customers = math.exp(-gamma * duration), a.sum() + b.sum()
            prediction = prediction + below / customers * (1.0 * a + b - d * seen[i])
            below *= d * seen[i].sum() / customers
        prediction = prediction + of_seen / seen[i].sum() * seen[i]
        below += of_base
        if eta == 0 and below < 2.0**-64:  # boxes are nested: x is in those above, too
            break
    return prediction + below / n_classes


@pytest.mark.parametrize("one_pass", [downward, upward])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_counts_of_samples_are_all_that_a_prediction_needs(tree, one_pass, gamma):
    table, root, queries = tree
    for x in queries:
        expected = slow.predict(root, x, gamma)
        np.testing.assert_allclose(one_pass(table, np.array(x), gamma), expected, atol=1e-14)
