"""AMF on the unrestricted partition satisfies the paper's bounds of regret, label by label.

The prediction of (x_t, y_t) is the paper's: the partition is extended by x_t, as in learning,
and the mixture over its prunings predicts y_t. Prunings and constants are those of the last tree.
"""

import math
from functools import partial

import numpy as np
import pytest

from amforest import AMFClassifier, AMFRegressor
from amforest._forest.core_options import tree_seeds
from amforest.reference import ClassCounts, Generator, RunningMean, UnrestrictedTree
from amforest.theory import (
    best_pruning,
    constants_losses,
    depth_bound,
    log_loss_regret_bound,
    online_losses,
    pruning_regret_bound,
    square_loss_regret_bound,
)

B = 2.0
STEP = {2: 1.0, 3: 1.0, None: 1 / (8 * B * B)}  # η, by the number of classes; None: square loss
VALUES = {2: [0, 1], 3: [0, 1, 2], None: [-B, B, B / 4]}
KINDS = ["random", "worst", "switching", "placed"]
every_task = pytest.mark.parametrize("n_classes", [2, 3, None])
every_kind = pytest.mark.parametrize("kind", KINDS)


def loss_of(prediction, y):
    return (prediction[0] - y) ** 2 if len(prediction) == 1 else -math.log(prediction[y])


def label(kind, values, rng, t, *, x, prediction):
    if kind == "worst":  # the least predicted label
        return max(values, key=lambda y: loss_of(prediction, y))
    if kind == "switching":  # blocks of 1, 2, 4, … labels
        return values[int(math.log2(t + 1)) % len(values)]
    if kind == "placed" and rng.random() < 0.9:
        return values[int(x[0] > 0.5)]
    return values[rng.integers(len(values))]


def new_tree(n_classes, d, seed, **how):
    new_labels = RunningMean if n_classes is None else partial(ClassCounts, n_classes, 0.5)
    box = {"lower": np.zeros(d, dtype=np.float32), "upper": np.ones(d, dtype=np.float32)}
    rng = Generator(tree_seeds(seed, 1).tolist()[0])
    return UnrestrictedTree(
        new_labels, rng, **{"step": STEP[n_classes], "charge_first": True, **how}, **box
    )


def play(n_classes, kind, n, seed, d=2, **how):
    """Predict and learn n labels; return the tree, the samples and the loss of the predictions."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d)).astype(np.float32)
    if seed % 2:
        X[n // 2 :] = X[: n - n // 2]  # points that come again
    tree, y, total = new_tree(n_classes, d, seed, **how), [], 0.0
    for t, x in enumerate(X):
        tree.extend(x, math.nan)  # learning then extends it no further
        prediction = tree.predict(x)
        y.append(label(kind, VALUES[n_classes], rng, t, x=x, prediction=prediction))
        total += loss_of(prediction, y[-1])
        tree.learn(x, y[-1])
    return tree, X, y, total


def log_w_bar(table, log_w, prior=(0.5, 0.0)):
    """Return log w̄_root from w̄ = (1 - a) w + a w̄_0 w̄_1, a = α (1 + depth)^-β; w̄ = w in leaves."""
    log_w_bar = np.array(log_w)
    for v in reversed(np.flatnonzero(table["left"] >= 0)):
        a = prior[0] * (1.0 + table["depth"][v]) ** -prior[1]
        below = log_w_bar[table["left"][v]] + log_w_bar[table["right"][v]]
        log_w_bar[v] = np.logaddexp(math.log(1 - a) + log_w[v], math.log(a) + below)
    return log_w_bar[0]


def core_table(n_classes, X, y, seed, prior=(0.5, 0.0)):
    """Return the tree that the compiled forest grows from the same samples and seed."""
    how = {"partition": "unrestricted", "charge_first": True, "step": STEP[n_classes]}
    how |= {"split_prior": prior, "random_state": seed}
    if n_classes is None:
        return AMFRegressor(1, **how).partial_fit(X, y).tree_table(0)
    model = AMFClassifier(1, classes=range(n_classes), dirichlet=0.5, **how)
    return model.partial_fit(X, y).tree_table(0)


def online_loss(n_classes, y):
    """Return L_v of a node that learns these labels one by one."""
    if n_classes is None:
        return sum((sum(y[:t]) / max(t, 1) - label) ** 2 for t, label in enumerate(y))
    return -sum(math.log((y[:t].count(k) + 0.5) / (t + n_classes / 2)) for t, k in enumerate(y))


def constant_loss(n_classes, y):
    """Return the loss of the constant that is best for these labels."""
    if n_classes is None:
        return sum((label - sum(y) / len(y)) ** 2 for label in y)
    return -sum(math.log(y.count(k) / len(y)) for k in y)


def prunings(v, samples, loss, leaf_size):
    """List (Σ loss over the leaves, |T|) of every pruning T of the tree below v.

    Where T keeps a leaf of the tree it counts as `leaf_size` nodes, elsewhere as one.
    """
    children, here = v.children(), loss([y for _, y in samples])
    if children is None:
        return [(here, leaf_size)]
    sides = [], []
    for x, y in samples:
        sides[x[v.feature] > v.threshold].append((x, y))
    left, right = (prunings(*side, loss, leaf_size) for side in zip(children, sides, strict=True))
    return [(here, 1), *((a + b, 1 + m + n) for a, m in left for b, n in right)]


def excess(played, loss, bound, leaf_size=1):
    """Return the most by which the regret to a pruning exceeds its bound, over all prunings."""
    tree, X, y, total = played
    samples = list(zip(X.tolist(), y, strict=True))
    losses, sizes = np.array(prunings(tree.root, samples, loss, leaf_size)).T
    return (total - losses - bound(sizes)).max()


def least(table, losses, bound):
    """Return the least loss + bound(|T|) of all prunings T; the bound is affine in |T|."""
    slope = (bound(3) - bound(1)) / 2
    return best_pruning(table, losses, slope)[1] + bound(1) - slope


def lemma_1(n_classes):
    return lambda size: size * pruning_regret_bound(1, STEP[n_classes])


def corollary(n_classes, n, *, as_stated=False):
    """Return the bound of Corollary 1 or 2, as a function of |T|."""
    if n_classes is None:
        return lambda size: square_loss_regret_bound(n, size, B, as_stated=as_stated)
    return lambda size: log_loss_regret_bound(n, size, n_classes)


def short_runs(n_classes, kind, n_runs, d=2, **how):
    for seed in range(n_runs):
        yield 1 + seed % 9, play(n_classes, kind, 1 + seed % 9, seed, d, **how)


@pytest.mark.parametrize("d", [1, 2])
@every_kind
@every_task
def test_lemma_1_holds_against_every_pruning(n_classes, kind, d):
    """All prunings, by brute force: 24 × 150 sequences of up to 9 labels."""
    loss = partial(online_loss, n_classes)
    for _, played in short_runs(n_classes, kind, 150, d):
        assert excess(played, loss, lemma_1(n_classes)) <= 1e-9
        # The prior of a finite tree, 2^-‖T‖, does not charge for its own leaves.
        assert excess(played, loss, lemma_1(n_classes), leaf_size=0) <= 1e-9


@pytest.mark.parametrize(
    ("n_classes", "fault"),
    [
        (2, {"use_aggregation": False}),
        (3, {"use_aggregation": False}),
        (None, {"use_aggregation": False}),
        (None, {"step": 1.0}),  # η of labels within ±1/√8
        (2, {"charge_first": False}),
        (2, {"split_prior": (0.8, 0.0)}),
    ],
)
def test_trees_that_are_not_the_papers_violate_lemma_1(n_classes, fault):
    loss = partial(online_loss, n_classes)
    runs = short_runs(n_classes, "worst", 100, **fault)
    assert any(excess(played, loss, lemma_1(n_classes)) > 0.01 for _, played in runs)


@every_kind
@every_task
def test_corollaries_1_and_2_hold_against_constants_on_every_pruning(n_classes, kind):
    """By brute force: 12 × 200 sequences of up to 9 labels."""
    loss = partial(constant_loss, n_classes)
    for n, played in short_runs(n_classes, kind, 200):
        assert excess(played, loss, corollary(n_classes, n)) <= 1e-9


@pytest.mark.parametrize("n", [21, 50])
@every_kind
def test_corollary_2_holds_as_stated_from_21_labels_on(kind, n):
    for seed in range(20):
        _, X, y, total = play(None, kind, n, seed)
        constants = constants_losses(table := core_table(None, X, y, seed), X, y)
        assert total <= least(table, constants, corollary(None, n, as_stated=True)) + 1e-9


@pytest.mark.parametrize("prior", [(0.5, 0.0), (0.2, 0.0), (0.9, 0.0), (0.95, 2.0)])
@every_kind
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_log_loss_of_all_predictions_is_minus_log_w_bar_of_the_root(n_classes, kind, prior):
    """On the last tree, in 32 × 5 sequences of up to 100 labels."""
    for seed in range(0, 20, 4):
        n, d = 1 + (7 * seed) % 100, 1 + seed % 3
        _, X, y, total = play(n_classes, kind, n, seed, d, split_prior=prior)
        table = core_table(n_classes, X, y, seed, prior)
        losses = online_losses(table, X, y, n_classes=n_classes)
        assert total == pytest.approx(-log_w_bar(table, -losses, prior), rel=1e-9)


@every_kind
def test_the_square_loss_of_all_predictions_is_at_most_minus_log_w_bar_over_eta(kind):
    for seed in range(20):
        _, X, y, total = play(None, kind, 1 + 5 * seed, seed)
        losses = online_losses(table := core_table(None, X, y, seed), X, y)
        assert total <= -log_w_bar(table, -STEP[None] * losses) / STEP[None] + 1e-9


@pytest.mark.parametrize(
    ("n_classes", "kind"),
    [
        (2, "placed"),
        (None, "worst"),
        pytest.param(2, "worst", marks=pytest.mark.slow),
        pytest.param(2, "switching", marks=pytest.mark.slow),
        pytest.param(None, "switching", marks=pytest.mark.slow),
        pytest.param(None, "placed", marks=pytest.mark.slow),
    ],
)
def test_lemma_1_and_the_corollaries_hold_against_every_pruning_of_5000_labels(n_classes, kind):
    n, step = 5000, STEP[n_classes]
    _, X, y, total = play(n_classes, kind, n, seed=0)
    table = core_table(n_classes, X, y, seed=0)
    losses = online_losses(table, X, y, n_classes=n_classes)
    constants = constants_losses(table, X, y, n_classes=n_classes)
    root = -log_w_bar(table, -step * losses) / step
    assert total <= root * (1 + 1e-9)
    assert n_classes is None or total == pytest.approx(root, rel=1e-9)
    assert root <= least(table, losses, lemma_1(n_classes)) * (1 + 1e-9)
    for as_stated in (False, True):
        assert total <= least(table, constants, corollary(n_classes, n, as_stated=as_stated))


@pytest.mark.parametrize("M", [1, 3])
@pytest.mark.parametrize("x", [[0.0, 0.0], [0.5, 0.5], [0.3, 0.9]])
def test_the_mean_depth_in_the_restricted_tree_is_below_proposition_2_mended(M, x):
    """With the density ∝ M below ½ and 1 above, for each feature: M = 1 is uniform."""
    n, n_trees, depths = 2000, 10, []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = (rng.uniform(size=(n, 2)) + (rng.uniform(size=(n, 2)) > M / (M + 1))) / 2
        forest = AMFRegressor(n_trees, split_pure=True, random_state=seed)
        leaves = forest.fit(np.vstack([X, x]), np.zeros(n + 1)).apply([x])[0]
        depths += [forest.tree_table(i)["depth"][leaf] for i, leaf in enumerate(leaves)]
    assert math.log2(n) / 2 < np.mean(depths) < depth_bound(n, M, as_stated=False)
