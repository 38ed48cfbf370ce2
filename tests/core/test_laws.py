"""The trees obey the laws of the Mondrian process: exact statistical tests, with fixed seeds.

The restricted Mondrian partition of points with the box R = Π_j [a_j, b_j], of side lengths
L_j = b_j - a_j and perimeter |R| = Σ_j L_j: after a time T ~ Exp(|R|) the box is cut, through
feature J = j with probability L_j / |R|, at a threshold S ~ U([a_j, b_j]). Both sides then go on
by themselves, each with the box of its own points, until single points are left. Whatever the
order in which the points came, this is the law of the tree. Mutants of the reference show that
the tests see what they should.
"""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from amforest import AMFRegressor, reference
from helpers import learn_all, reference_table, reference_trees

# 43 p-values must exceed it: a correct library fails with probability below 1e-6.
LEVEL = 1e-8

# All coordinates and all differences of neighbouring ones are different, within a feature.
FOUR_POINTS = np.array([[3, 0], [0, 5], [12, 4], [7, 11]], dtype=np.float32)
TEN_POINTS = np.random.default_rng(1).gamma(1.0, size=(10, 5)).astype(np.float32)
ORDERS = list(permutations(range(4)))


# Sampling: all trees of a sample as one table, with a row for each tree and a column for each node


def grow(X, order, *, n_trees, seed, tree_class=None):
    """Grow independent trees on the points, in the given order: the core's, or reference trees."""
    model = AMFRegressor(n_trees, step=1.0, split_pure=True, random_state=seed)
    rows, y = X[list(order)], np.zeros(len(X))
    model.partial_fit(rows, y)
    if tree_class is None:
        return np.stack([model.tree_table(i) for i in range(n_trees)])
    trees = learn_all(reference_trees(model, tree_class), rows, y)
    dtype = model.tree_table(0).dtype
    return np.stack([reference_table(tree, dtype) for tree in trees])


def members(X, trees):
    """Return for each tree, node and point whether the thresholds above send the point there."""
    tree = np.arange(len(trees))
    inside = np.ones((*trees.shape, len(X)), dtype=bool)
    for node in range(1, trees.shape[1]):  # in preorder the parent is done before
        above = trees["parent"][:, node]
        parent = trees[tree, above]
        goes_left = parent["threshold"][:, None] >= X[:, parent["feature"]].T
        is_left = parent["left"] == node
        inside[:, node] = inside[tree, above] & (goes_left == is_left[:, None])
    return inside


# The restricted partition


def partition_law(X, points):
    """Return the probability of each outcome: the nodes' (feature, bits of points) in preorder."""
    node = sum(1 << i for i in points)
    if len(points) == 1:
        return {((-1, node),): Fraction(1)}
    law = {}
    perimeter = sum(Fraction(float(side)) for side in np.ptp(X[points], axis=0))
    for j in range(X.shape[1]):
        row = sorted(points, key=lambda i: X[i, j])
        for k in range(1, len(row)):
            cut = Fraction(float(X[row[k], j] - X[row[k - 1], j])) / perimeter
            halves = partition_law(X, row[:k]), partition_law(X, row[k:])
            for (left, p), (right, q) in product(*(half.items() for half in halves)):
                law[((j, node), *left, *right)] = cut * p * q
    return law


LAW = partition_law(FOUR_POINTS, list(range(4)))


def outcomes(X, trees):
    """Count the trees of each outcome, written as in `partition_law`."""
    points = members(X, trees) @ (1 << np.arange(len(X)))
    nodes = np.stack([trees["feature"], points], axis=2)
    return Counter(tuple(map(tuple, tree)) for tree in nodes.tolist())


def partition_p_value(X, trees):
    """χ² over the outcomes; what is impossible is merged with the rarest of them."""
    counts = outcomes(X, trees)
    observed = np.array([counts.pop(outcome, 0) for outcome in LAW])
    expected = len(trees) * np.array([float(p) for p in LAW.values()])
    observed[np.argmin(expected)] += counts.total()
    assert expected.min() >= 5
    return stats.chisquare(observed, expected).pvalue


# Times and cuts. In preorder, the splits before an inner node decide which points it holds. Given
# these its waiting time and its cut have the law above, and there are n - 1 inner nodes in any
# tree: so the numbers below, of all inner nodes of all trees, are independent.


def split_times(trees):
    """Return when each node is split: its left child's birth. A leaf takes any number."""
    return np.take_along_axis(trees["birth_time"], trees["left"], axis=1)


def root_time_p_value(X, trees):
    """T |R| ~ Exp(1) at the root."""
    perimeter = np.ptp(X.astype(np.float64), axis=0).sum()
    return stats.kstest(split_times(trees)[:, 0] * perimeter, "expon").pvalue


def waiting_time_p_value(X, trees):
    """T |R| ~ Exp(1) at all inner nodes, T counting from the node's birth."""
    inner = trees["left"] >= 0
    wait = (split_times(trees) - trees["birth_time"])[inner]
    perimeter = sides(trees[inner]).sum(axis=1)
    return stats.kstest(wait * perimeter, "expon").pvalue


def cut_p_value(X, trees):
    """Lay the sides of R end to end: the cut (Σ_{i<J} L_i + S - a_J) / |R| is U([0, 1])."""
    nodes = trees[trees["left"] >= 0]
    feature = nodes["feature"][:, None]
    before = np.cumsum(sides(nodes), axis=1) - sides(nodes)
    before, lower = (np.take_along_axis(a, feature, 1)[:, 0] for a in (before, nodes["lower"]))
    cut = (before + nodes["threshold"] - lower) / sides(nodes).sum(axis=1)
    return stats.kstest(cut, "uniform").pvalue


def sides(nodes):
    return nodes["upper"].astype(np.float64) - nodes["lower"]


@pytest.fixture(
    scope="module",
    params=[
        (FOUR_POINTS, (0, 1, 2, 3)),
        (FOUR_POINTS, (2, 1, 3, 0)),
        (TEN_POINTS, range(10)),
        (TEN_POINTS, range(9, -1, -1)),
        (TEN_POINTS, np.argsort(TEN_POINTS[:, 0])),
    ],
    ids=["4", "4-mixed", "10", "10-backwards", "10-sorted"],
)
def sample(request):
    """Points and the core's trees on them."""
    X, order = request.param
    return X, grow(X, order, n_trees=5_000, seed=100 + request.param_index)


# The laws hold


def test_the_law_of_four_points_in_the_plane_has_forty_outcomes():
    assert len(LAW) == 40
    assert sum(LAW.values()) == 1


@pytest.mark.parametrize(
    "order",
    [pytest.param(o, marks=[pytest.mark.slow] if i % 6 else []) for i, o in enumerate(ORDERS)],
    ids=str,
)
def test_the_restricted_partition_has_its_law_for_every_order_of_insertion(order):
    trees = grow(FOUR_POINTS, order, n_trees=10_000, seed=ORDERS.index(order))
    assert outcomes(FOUR_POINTS, trees).keys() <= LAW.keys()
    assert partition_p_value(FOUR_POINTS, trees) > LEVEL


def test_the_root_is_split_at_a_time_exponential_in_the_perimeter(sample):
    assert root_time_p_value(*sample) > LEVEL


def test_every_split_waits_exponentially_in_its_own_perimeter(sample):
    assert waiting_time_p_value(*sample) > LEVEL


def test_every_cut_is_uniform_on_the_sides_of_its_range(sample):
    assert cut_p_value(*sample) > LEVEL


def test_ranges_are_the_boxes_of_the_points_and_siblings_are_born_together(sample):
    X, trees = sample
    where = members(X, trees)[..., None]
    points = np.broadcast_to(X, (*where.shape[:3], X.shape[1]))
    np.testing.assert_array_equal(trees["lower"], points.min(2, where=where, initial=np.inf))
    np.testing.assert_array_equal(trees["upper"], points.max(2, where=where, initial=-np.inf))
    right_born = np.take_along_axis(trees["birth_time"], trees["right"], axis=1)
    inner = trees["left"] >= 0
    np.testing.assert_array_equal(split_times(trees)[inner], right_born[inner])


# The tests see what they should


class UniformFeature(reference.Tree):
    """All features that extend the range are as likely."""

    def choose_feature(self, delta):
        return self.rng.discrete((delta > 0).astype(np.float32))


class ForgottenRange(reference.Tree):
    """A node's range is not widened by a point that goes on to a child."""

    def widen(self, v, x):
        pass

    def split(self, v, x, delta, time):
        leaf = super().split(v, x, delta, time)
        super().widen(v, x)
        return leaf


class OldBirthTime(reference.Tree):
    """What moves down keeps the birth time it had above."""

    def move_down(self, v, time):
        return super().move_down(v, v.tau)


class ThresholdInWholeRange(reference.Tree):
    """The threshold is drawn from the extended range, not from the extension."""

    def split(self, v, x, delta, time):
        leaf = super().split(v, x, delta, time)
        low, high = v.lower[v.feature], v.upper[v.feature]
        v.threshold = self.choose_threshold(float(low), float(high))
        return leaf


LAWS = (partition_p_value, root_time_p_value, waiting_time_p_value, cut_p_value)


def p_values_of(tree_class):
    trees = grow(FOUR_POINTS, (3, 2, 1, 0), n_trees=3000, seed=200, tree_class=tree_class)
    return {law: law(FOUR_POINTS, trees) for law in LAWS}


def test_the_reference_obeys_the_laws():
    assert min(p_values_of(reference.Tree).values()) > LEVEL


@pytest.mark.parametrize(
    ("mutant", "broken"),
    [
        (UniformFeature, {partition_p_value, cut_p_value}),
        (ForgottenRange, {partition_p_value, waiting_time_p_value, cut_p_value}),
        (OldBirthTime, set(LAWS)),
        (ThresholdInWholeRange, {partition_p_value, cut_p_value}),
    ],
)
def test_each_mutant_is_rejected(mutant, broken):
    p_values = p_values_of(mutant)
    assert {law for law in LAWS if p_values[law] < LEVEL} >= broken
