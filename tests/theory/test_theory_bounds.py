"""Bounds are the paper's formulas, and hold on frozen trees.

Frozen, because new nodes above old ones would change the prior.
"""

import math

import numpy as np
import pytest
from theory_helpers import SQUARE, Node, loss, path

from amforest import AMFRegressor
from amforest.theory import (
    best_constants_loss,
    best_pruning,
    constants_losses,
    depth_bound,
    holder_rate,
    holder_risk_bound,
    kt_regret_bound,
    lifetime_regret_bound,
    lifetime_risk_bound,
    log_loss_regret_bound,
    mean_regret_bound,
    online_losses,
    pruning_regret_bound,
    sample_mondrian,
    square_loss_regret_bound,
    time_pruning,
)


def aggregate(table, X, label_of, n_classes, *, step, use_aggregation=True):
    """Return the labels and the loss of the mixture over all prunings, by the recursion of w̄."""
    nodes, log_w, log_w_bar = [Node(n_classes) for _ in table], *np.zeros((2, len(table)))
    labels, total = [], 0.0
    for t, x in enumerate(X):
        on_path = path(table, x)
        mixture = nodes[on_path[-1]].prediction()
        for v in reversed(on_path[:-1] if use_aggregation else []):
            share = math.exp(log_w[v] - log_w_bar[v]) / 2
            mixture = share * nodes[v].prediction() + (1 - share) * mixture
        y = label_of(t, x, mixture)
        total += loss(mixture, y)
        for v in reversed(on_path):
            log_w[v] -= step * loss(nodes[v].prediction(), y)
            below = sum(log_w_bar[table[side][v]] for side in ("left", "right"))
            is_leaf = table["left"][v] < 0
            log_w_bar[v] = log_w[v] if is_leaf else np.logaddexp(log_w[v], below) - math.log(2)
            nodes[v].labels.append(y)
        labels.append(y)
    return np.array(labels), total


def label_sources(rng, n_classes):
    """Name ways to choose labels: at random, by x, and what hurts most; within [-1, 1]."""
    values = [-1.0, 1.0] if n_classes is None else list(range(n_classes))

    def against(t, x, mixture):
        return int(np.argmin(mixture)) if np.ndim(mixture) else math.copysign(1.0, -mixture)

    return [
        lambda t, x, mixture: rng.choice(values).item(),
        lambda t, x, mixture: values[int(x[0] > 0.5)],
        lambda t, x, mixture: values[t % 2],
        lambda t, x, mixture: values[int(t > 20)],
        against,
    ]


def frozen_runs(n_classes, n, step, **how):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(n, 2))
        trees = [sample_mondrian(SQUARE, lifetime, seed).table for lifetime in (0.7, 2.0)]
        forest = AMFRegressor(1, split_pure=True, random_state=seed).fit(X[:6], X[:6, 0])
        for table in [*trees, forest.tree_table(0)]:
            for label_of in label_sources(rng, n_classes):
                yield table, X, *aggregate(table, X, label_of, n_classes, step=step, **how)


@pytest.mark.parametrize(("n_classes", "step"), [(2, 1.0), (3, 1.0), (None, 1 / 8)])
@pytest.mark.parametrize("n", [1, 50])
def test_lemma_1_holds_against_the_best_pruning(n_classes, step, n):
    for table, X, y, total in frozen_runs(n_classes, n, step):
        losses = online_losses(table, X, y, n_classes=n_classes)
        assert total <= best_pruning(table, losses, math.log(2) / step)[1] + 1e-9
        # The prior of a finite tree, 2^-‖T‖, does not charge for its own leaves.
        free = np.where(table["left"] < 0, 0.0, math.log(2) / step)
        assert total <= best_pruning(table, losses, free)[1] + 1e-9


def test_a_tree_that_does_not_aggregate_violates_lemma_1():
    for table, X, y, total in frozen_runs(2, 50, 1.0, use_aggregation=False):
        losses = online_losses(table, X, y, n_classes=2)
        if total > best_pruning(table, losses, math.log(2))[1] + 1e-9:
            return
    pytest.fail("no violation")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n", [1, 21, 50])
def test_corollary_1_holds_against_constants_on_all_time_prunings(n_classes, n):
    for table, X, y, total in frozen_runs(n_classes, n, 1.0):
        for lifetime in (0.0, 0.5, 1.0, np.inf):
            leaves = time_pruning(table, lifetime)
            bound = log_loss_regret_bound(n, 2 * len(leaves) - 1, n_classes)
            assert total - best_constants_loss(table, leaves, X, y, n_classes=n_classes) <= bound


@pytest.mark.parametrize(("n", "as_stated"), [(1, False), (2, False), (21, True), (50, True)])
def test_corollary_2_holds_as_stated_from_21_samples_on(n, as_stated):
    for table, X, y, total in frozen_runs(None, n, 1 / 8):
        for lifetime in (0.0, 0.5, 1.0, np.inf):
            leaves = time_pruning(table, lifetime)
            bound = square_loss_regret_bound(n, 2 * len(leaves) - 1, 1.0, as_stated=as_stated)
            assert total - best_constants_loss(table, leaves, X, y) <= bound


def test_corollary_2_as_stated_is_wrong_for_one_sample():
    table = sample_mondrian(SQUARE, 0.0).table
    regret = online_losses(table, [[0.5, 0.5]], [1.0])[0]
    assert square_loss_regret_bound(1, 1, 1.0) == 0 < regret


@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_lemmas_5_and_6_bound_the_regret_of_a_node(n):
    table = sample_mondrian([[0, 1]], 0.0).table
    X, rng = np.full((n, 1), 0.5), np.random.default_rng(0)
    for ones in range(n + 1):
        for y, n_classes in ((np.arange(n) < ones) * 1, 2), ((np.arange(n) < ones) * 3, 4):
            regret = online_losses(table, X, y, n_classes=n_classes)[0]
            regret -= constants_losses(table, X, y, n_classes=n_classes)[0]
            assert regret <= kt_regret_bound(n, n_classes) + 1e-9
        y = rng.permutation(np.where(np.arange(n) < ones, 2.0, -2.0))
        regret = online_losses(table, X, y)[0] - constants_losses(table, X, y)[0]
        assert regret <= 2.0**2 * (1 + 4 * math.log(n)) + 1e-9 <= mean_regret_bound(n, 2.0) + 1e-9


def test_the_depth_of_uniform_samples_exceeds_proposition_2_unless_it_is_mended():
    n = 2000
    X = np.random.default_rng(0).uniform(size=(n + 1, 2))
    forest = AMFRegressor(50, split_pure=True, random_state=0).fit(X, np.zeros(n + 1))
    tables = [forest.tree_table(i) for i in range(50)]
    depth = np.mean([t["depth"][t["left"] < 0].mean() for t in tables])  # of one of n + 1 points
    assert depth_bound(n, 1) < depth < depth_bound(n, 1, as_stated=False)
    assert depth == pytest.approx(2 * math.log(n), abs=2)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (pruning_regret_bound(5, 0.125), 40 * math.log(2)),
        (kt_regret_bound(25, 3), math.log(100)),
        (mean_regret_bound(math.e, 0.5), 4.0),
        (log_loss_regret_bound(25, 5, 3), 5 * math.log(2) + 3 * math.log(100)),
        (square_loss_regret_bound(math.e, 5, 0.5), 6.0),
        (square_loss_regret_bound(math.e, 5, 0.5, as_stated=False), 10 * math.log(2) + 12),
        (lifetime_regret_bound(math.e, 1.0, 3, 0.5), 16.0),
        (lifetime_regret_bound(math.e, 1.0, 3, 0.5, as_stated=False), 30 * math.log(2) + 32),
        (lifetime_risk_bound(math.e, 1.0, 3, 0.5), 16 / math.e),
        (holder_rate(math.e, 2, 1.0), math.exp(-0.5)),
        (holder_risk_bound(math.e, 2.0, 4, 0.5, beta=0.5, holder_constant=3.0),
         4 / 2 * 9 + 2 * 81 / math.e),
        (depth_bound(8, 1), 3 + 2),
        (depth_bound(4**3, 1, as_stated=False), 3 * math.log(4) / math.log(4 / 3) + 5),
        (depth_bound(1, 2.5), 5.0),
    ],
)  # fmt: skip
def test_bounds_are_the_papers_formulas(bound, expected):
    assert bound == pytest.approx(expected)


def test_bounds_take_many_numbers_of_samples_at_once():
    n = np.array([1, 10, 100])
    for bound in (lambda n: lifetime_risk_bound(n, 1.0, 2, 0.5), lambda n: holder_rate(n, 2, 1.0)):
        np.testing.assert_allclose(bound(n), [bound(m) for m in n])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: pruning_regret_bound(0, 1), "n_nodes is 0"),
        (lambda: pruning_regret_bound(1, 0), "step is 0"),
        (lambda: log_loss_regret_bound(0, 1, 2), "n is 0"),
        (lambda: log_loss_regret_bound(1, 1, 0), "n_classes is 0"),
        (lambda: square_loss_regret_bound(1, 1, 0), "label_bound is 0"),
        (lambda: lifetime_regret_bound(1, -1, 1, 1), "lifetime is -1"),
        (lambda: holder_rate(1, 1, 2), "beta is 2"),
        (lambda: depth_bound(1, 0.5), "density_ratio is 0.5"),
    ],
)
def test_bounds_refuse_what_makes_no_sense(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
