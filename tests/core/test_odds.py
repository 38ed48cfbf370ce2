"""Odds and shares of nodes against exact `Fraction`s: η = 1, log-loss, α and a rational.

w_v is a product of (n_k + α) / (n + αK), so that it follows from the counts in v's cell:
Π_k α (α + 1) … (α + n_k - 1) / (αK) (αK + 1) … (αK + n - 1). Then w̄_v = (1 - a) w_v + a w̄_v0 w̄_v1,
the odds are (1 - a) w_v / (a w̄_v0 w̄_v1), and the share is (1 - a) w_v / w̄_v.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from amforest import AMFClassifier
from helpers import NEGLIGIBLE

RELATIVE = Fraction(1, 10**13)


def exact_weight(counts, alpha, charge_first):
    """w_v, with integers only: α = p / q, and all factors times q."""
    (p, q), n_classes = alpha.as_integer_ratio(), len(counts)
    above = math.prod(p + q * i for count in counts for i in range(count))
    below = math.prod(p * n_classes + q * i for i in range(sum(counts)))
    is_free = not charge_first and sum(counts) > 0  # the first label, predicted with 1 / K
    return Fraction(above * (n_classes if is_free else 1), below)


def exact_terms(table, alpha, prior, charge_first):
    """Return (1 - a) w_v and a w̄_v0 w̄_v1 of each inner node v."""
    w_bar, terms = {}, {}
    for v in reversed(range(len(table))):  # children come after parents
        w = exact_weight(table["counts"][v].tolist(), alpha, charge_first)
        left, right = int(table["left"][v]), int(table["right"][v])
        if left < 0:
            w_bar[v] = w
            continue
        a = Fraction(prior[0]) / (1 + int(table["depth"][v])) ** int(prior[1])
        terms[v] = (1 - a) * w, a * w_bar[left] * w_bar[right]
        w_bar[v] = sum(terms[v])
    return terms


def assert_exact(model):
    """Compare all odds and shares; return the table."""
    table = model.tree_table(0)
    terms = exact_terms(table, Fraction(model.dirichlet), model.split_prior, model.charge_first)
    for v, (ends, goes_on) in terms.items():
        scale = Fraction(2) ** (256 * int(table["odds_scale"][v]))
        odds, share = Fraction(table["odds"][v]) * scale, Fraction(table["share"][v])
        assert abs(odds / (ends / goes_on) - 1) < RELATIVE
        exact_share = ends / (ends + goes_on)
        if exact_share < NEGLIGIBLE and share == 0:
            continue
        assert abs(share / exact_share - 1) < RELATIVE
    return table


def learn_in_parts(model, X, y, n_parts):
    """Learn, and yield the exactly compared table after each part."""
    for part in np.array_split(np.arange(len(y)), n_parts):
        model.partial_fit(X[part], y[part])
        yield assert_exact(model)


def new(n_classes=2, **params):
    params = {"dirichlet": 0.5, "split_pure": True, "random_state": 0} | params
    return AMFClassifier(1, classes=range(n_classes), **params)


@pytest.mark.parametrize("seed", range(40))
def test_odds_and_shares_are_exact_in_small_trees(seed):
    rng = np.random.default_rng(seed)
    n_classes = 2 + seed % 3
    X = rng.integers(0, 3, size=(60, 2)) / 2
    y = np.where(rng.random(60) < 0.7, 2 * X[:, 0], rng.integers(n_classes, size=60)) % n_classes
    unrestricted = seed % 4 == 3
    model = new(
        n_classes,
        dirichlet=[0.5, 0.01, 1.7][seed % 3],
        charge_first=bool(seed & 1),
        split_pure=bool(seed & 2),
        split_prior=(0.3, 2.0 if unrestricted else 0.0) if seed & 8 else (0.5, 0.0),
        partition="unrestricted" if unrestricted else "restricted",
        random_state=seed,
    )
    n_nodes = [len(table) for table in learn_in_parts(model, X, y, 12)]
    assert n_nodes[-1] > 1 or not model.split_pure


@pytest.mark.parametrize("charge_first", [False, True])
def test_odds_far_below_doubles_are_exact_after_thousands_of_labels(charge_first):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(3_000, 2)).astype(np.float32)
    y = X[:, 0] > 0
    *_, table = learn_in_parts(new(charge_first=charge_first), X, y, 10)
    assert len(table) >= 11
    assert table["odds_scale"].min() < -3


def test_odds_far_above_doubles_are_exact():
    """A class that is new to a cell costs it a factor α: its children pay that more often."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 2)).astype(np.float32)
    y = rng.integers(0, 4, size=200)
    *_, table = learn_in_parts(new(4, dirichlet=2.0**-100), X, y, 10)
    assert (table["odds_scale"] > 0).sum() >= 5  # odds of 2^128 and more


@pytest.mark.parametrize("n_classes", [2, 5])
def test_nodes_that_lose_and_regain_their_shares_have_exact_odds(n_classes):
    rng = np.random.default_rng(n_classes)
    X = rng.integers(0, 2, size=(1_500, 2)).astype(np.float32)  # four points
    y = np.concatenate([X[:600, 0], 1 - X[600:1_200, 0], rng.integers(0, n_classes, size=300)])
    shares = [table["share"][0] for table in learn_in_parts(new(n_classes), X, y, 15)]
    assert 0 in shares
    assert shares[-1] > 0
