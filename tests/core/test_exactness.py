"""Predictions are Equation (6) to rounding: brute force over prunings, and a per-step identity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import compress, product

import numpy as np
import pytest

from amforest import AMFClassifier, AMFRegressor

HALF = Fraction(1, 2)


@dataclass(eq=False)
class Node:
    """A node with its weight and prediction as exact numbers."""

    weight: Fraction
    prediction: list[Fraction]
    children: tuple[Node, ...] = ()
    split: tuple[int, float] = (-1, 0.0)
    birth_time: Fraction = Fraction(0)
    pure: bool = False
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None

    def child(self, x):
        feature, threshold = self.split
        return self.children[0 if x[feature] <= threshold else 1]


def exp(exponent: Fraction) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())


def class_weight(labels, n_classes, alpha, charge_first):
    """∏ (n_y + α) / (n + αK) over the labels in their order, and the prediction after them."""
    counts, weight = [0] * n_classes, Fraction(1)
    for n, y in enumerate(labels):
        if n > 0 or charge_first:
            weight *= (counts[y] + alpha) / (n + alpha * n_classes)
        counts[y] += 1
    return weight, [(count + alpha) / (len(labels) + alpha * n_classes) for count in counts]


def mean_weight(labels, step, charge_first):
    """Exp(-η Σ (mean of the labels before - y)²), and the mean."""
    total = loss = Fraction(0)
    for n, y in enumerate(labels):
        if n > 0 or charge_first:
            loss += (total / max(n, 1) - y) ** 2
        total += y
    return exp(-step * loss), [total / max(len(labels), 1)]


def exact_tree(table, X, y, weigh, row=0):
    """The tree, its weights computed from nothing but its splits and the points in its cells."""
    v = table[row]
    weight, prediction = weigh(y)
    children = ()
    if v["left"] >= 0:
        left = X[:, v["feature"]] <= v["threshold"]
        children = tuple(
            exact_tree(table, X[side], list(compress(y, side)), weigh, v[name])
            for side, name in ((left, "left"), (~left, "right"))
        )
    ends = (X.min(axis=0), X.max(axis=0)) if len(X) else (None, None)
    return Node(
        weight, prediction, children, (v["feature"], v["threshold"]), Fraction(v["birth_time"]),
        len(set(y)) == 1, *ends,
    )  # fmt: skip


def prunings(v, prior, depth=0):
    """Yield the leaves of all subtrees T rooted at v, and π(T), by a = α (1 + depth)^-β."""
    if not v.children:
        yield (v,), Fraction(1)
        return
    alpha, beta = prior
    a = Fraction(alpha) / (1 + depth) ** beta
    yield (v,), 1 - a
    below = (list(prunings(child, prior, depth + 1)) for child in v.children)
    for (left, pi_left), (right, pi_right) in product(*below):
        yield left + right, a * pi_left * pi_right


def mixture(root, x, value, prior):
    """Σ_T π(T) w(T) value(v_T(x), its depth) / Σ_T π(T) w(T)."""
    path = [root]
    while path[-1].children:
        path.append(path[-1].child(x))
    total, sums = Fraction(0), [Fraction(0)] * len(value(root, 0))
    for leaves, pi in prunings(root, prior):
        weight = pi * math.prod((leaf.weight for leaf in leaves), start=Fraction(1))
        depth = next(i for i, v in enumerate(path) if v in leaves)
        total += weight
        sums = [s + weight * f for s, f in zip(sums, value(path[depth], depth), strict=True)]
    return np.array([float(s / total) for s in sums])


def prediction_of(v, depth):
    return v.prediction


def branch_off(root, at, x, default):
    """A copy of the tree in which x has branched off at the given node of its path."""
    if root is at:
        fresh = Node(Fraction(1), default)
        # x_0 <= inf: x goes to child 0, the fresh leaf.
        return Node(root.weight, root.prediction, (fresh, root), (0, math.inf))
    side = root.children.index(root.child(x))
    children = list(root.children)
    children[side] = branch_off(children[side], at, x, default)
    return Node(root.weight, root.prediction, tuple(children), root.split)


def extended_mixture(root, x, default, split_pure, prior):
    """The mean of the mixtures over the places where x may branch off."""
    prediction, stays, v = 0.0, Fraction(1), root
    while True:
        delta = np.maximum(v.lower - x, 0) + np.maximum(x - v.upper, 0)
        extension = Fraction(float(delta.sum())) if split_pure or not v.pure else Fraction(0)
        leaf = not v.children
        p = Fraction(int(leaf and extension > 0))
        if not leaf:
            p = 1 - exp(-extension * (v.children[0].birth_time - v.birth_time))
        if p > 0:
            extended = branch_off(root, v, x, default)
            prediction += float(stays * p) * mixture(extended, x, prediction_of, prior)
            stays *= 1 - p
        if leaf:
            return prediction + float(stays) * mixture(root, x, prediction_of, prior)
        v = v.child(x)


@pytest.mark.parametrize("seed", range(60))
def test_predictions_and_depths_are_the_mixture_over_all_prunings(seed):
    """60 streams of 20 trees each, with up to six points on a grid whose sums are exact."""
    rng = np.random.default_rng(seed)
    n_rows, n_features, n_classes = rng.integers(1, 7), rng.integers(1, 4), rng.integers(2, 4)
    X = rng.integers(0, 65, size=(n_rows, n_features)).astype(np.float32) / 64
    X[rng.integers(n_rows)] = X[0]
    queries = np.concatenate([X[:2], rng.integers(-16, 81, size=(2, n_features)) / 64])
    queries = queries.astype(np.float32)
    charge_first, predict_extends, split_pure, regression = (bool(seed >> b & 1) for b in range(4))
    unrestricted = seed % 5 == 4
    prior = (0.3, 2) if unrestricted else [(0.5, 0), (0.3, 0), (0.5, 0), (0.9, 0)][seed >> 4]
    if unrestricted:
        predict_extends, queries = False, np.clip(queries, 0, 1)
    params = {
        "n_estimators": 20, "charge_first": charge_first, "predict_extends": predict_extends,
        "split_pure": split_pure, "random_state": seed, "split_prior": prior,
        "partition": "unrestricted" if unrestricted else "restricted",
    }  # fmt: skip
    if regression:
        step = Fraction(3, 4)
        model = AMFRegressor(step=float(step), **params)
        y = rng.integers(-8, 9, size=n_rows) / 4
        labels, default = [Fraction(label) for label in y], [Fraction(0)]
        weigh = lambda labels: mean_weight(labels, step, charge_first)  # noqa: E731
        predictions = model.fit(X, y).predict_by_tree(queries)[..., None]
    else:
        alpha = Fraction(0.01) if n_classes > 2 else HALF
        model = AMFClassifier(classes=range(n_classes), **params)
        y = rng.integers(0, n_classes, size=n_rows)
        labels, default = y.tolist(), [Fraction(1, int(n_classes))] * n_classes
        weigh = lambda labels: class_weight(labels, n_classes, alpha, charge_first)  # noqa: E731
        predictions = model.fit(X, y).predict_proba_by_tree(queries)
    depths = model.weighted_depth(queries)
    for t in range(4 if unrestricted else 20):  # trees with empty leaves have many more prunings
        root = exact_tree(model.tree_table(t), X, labels, weigh)
        for i, x in enumerate(queries):
            expected = (
                extended_mixture(root, x, default, split_pure, prior)
                if predict_extends
                else mixture(root, x, prediction_of, prior)
            )
            np.testing.assert_allclose(predictions[i, t], expected, rtol=0, atol=1e-12)
            depth = mixture(root, x, lambda v, depth: [Fraction(depth)], prior)
            np.testing.assert_allclose(depths[i, t], depth, rtol=0, atol=1e-12)


def path_before_the_label(old, new, x, n_classes, alpha):
    """Follow x in the tree extended by it, with the weights from before its label and the new node.

    Yields (row in `new`, odds, ŷ for each class, whether the node is new) from the root to the
    leaf. `old` and `new` are the tables before and after learning.
    """
    o, n = 0, 0
    while True:
        fresh = o is None
        counts = np.zeros(n_classes) if fresh else old["counts"][o]
        prediction = (counts + alpha) / (counts.sum() + alpha * n_classes)
        if new["left"][n] < 0:
            yield n, None, prediction, fresh
            return
        feature, threshold = new["feature"][n], new["threshold"][n]
        side = "left" if x[feature] <= threshold else "right"
        inserted = old["feature"][o] != feature or old["threshold"][o] != threshold
        odds = old["odds"][o]  # 1 in a leaf
        # A new split has w_v against w̄_v of the old node, which is now below it beside x's leaf.
        yield n, 2 * odds / (1 + odds) if inserted else odds, prediction, inserted
        o = None if inserted else old[side][o]
        n = new[side][n]


@pytest.mark.parametrize("stream", range(6))
def test_every_node_gains_the_prediction_of_the_label_at_each_step(stream):
    """w̄_v after the label / before = p̂_v(y), with charge_first and η = 1: 6,000 steps.

    p̂_v is the mixture of the tree below v. A node's odds w_v / (w̄_v0 w̄_v1) show the gain of the
    child on the path, and at the root p̂ is the prediction.
    """
    rng = np.random.default_rng(stream)
    n_classes, alpha = 2 + stream % 3, 0.5
    for repetition in range(5):
        X = rng.uniform(size=(201, 2)).astype(np.float32)
        y = (rng.uniform(size=201) < X[:, 0]) * rng.integers(1, n_classes, size=201)
        model = AMFClassifier(
            n_estimators=1, charge_first=True, split_pure=bool(stream % 2), dirichlet=alpha,
            classes=range(n_classes), random_state=repetition,
        )  # fmt: skip
        old = model.learn_one(X[0], y[0])._core.tree_table(0)
        for x, label in zip(X[1:], y[1:].tolist(), strict=True):
            prediction = model.predict_proba_one(x)[label]
            new = model.learn_one(x, label)._core.tree_table(0)
            assert not new["odds_scale"].any()
            gain, insertion = 0.0, 1.0  # of w̄ below: by the label, and by the new node before
            for n, odds, predictions, is_new in reversed(
                list(path_before_the_label(old, new, x, n_classes, alpha))
            ):
                if odds is None:
                    gain = predictions[label]
                    continue
                after = odds / insertion
                insertion = (1 + odds) / 2 if is_new else (odds + insertion) / (odds + 1)
                assert new["odds"][n] * gain == pytest.approx(after * predictions[label], rel=1e-12)
                gain = (after * predictions[label] + gain) / (after + 1)
            if len(new["left"]) == len(old["left"]):  # x has split nothing: p̂ was our prediction
                assert gain == pytest.approx(prediction, rel=1e-12)
            old = new
