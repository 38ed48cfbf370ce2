"""Student-t labels: densities, Equation (6) by brute force over prunings, and any unit of y."""

import math
from itertools import product

import numpy as np
import pytest
from adaptive_forests import NUMBER_GROUPS, adaptive_regressor
from core_forests import seeds
from scipy import stats
from test_regrowth import as_rows

from amforest.reference import Generator
from amforest.reference.student_t import Posterior, StudentT, StudentTree

RAW, BASED = NUMBER_GROUPS[:2]  # of the longest memory
ALPHA = 0.8  # of the prior: a pruning goes on below a node


def posterior(labels, above, least):
    """Return μ, s², κ and ν of a node by the definition; `above` is (μ₀, s₀²)."""
    mu_0, variance_0 = above
    n, mean, m2 = len(labels), np.mean(labels or [0.0]), len(labels) * np.var(labels or [0.0])
    kappa, nu = 0.5 + n, 2.0 + n
    squares = 2 * variance_0 + m2 + 0.5 * n / kappa * (mean - mu_0) ** 2
    return mu_0 + n / kappa * (mean - mu_0), max(squares / nu, least), kappa, nu


def distributions(path_labels):
    """Return the t of each node of a path, from the labels of each, the root's first."""
    above = np.mean(path_labels[0]), np.var(path_labels[0])
    least, found = 1e-4 * above[1], []
    for labels in path_labels:
        mu, variance, kappa, nu = posterior(labels, above, least)
        found.append(stats.t(nu, mu, math.sqrt(variance * (kappa + 1) / kappa)))
        above = mu, variance
    return found


def children_of(table, v):
    return [int(table["left"][v]), int(table["right"][v])] if table["left"][v] >= 0 else []


def path_of(table, x):
    """Return the nodes whose cells contain x, from the root to a leaf."""
    path = [0]
    while below := children_of(table, path[-1]):
        path.append(below[int(x[table["feature"][path[-1]]] > table["threshold"][path[-1]])])
    return path


def log_weights(table, X, y):
    """Return log w of each node: Σ log density over its labels, each before it was counted."""
    log_w, labels = np.zeros(len(table)), [[] for _ in table]
    for x, label in zip(X, y, strict=True):
        path = path_of(table, x)
        if len(set(labels[0])) > 1:  # otherwise there is no scale
            for v, t in zip(path, distributions([labels[v] for v in path]), strict=True):
                log_w[v] += t.logpdf(label)
        for v in path:
            labels[v].append(label)
    return log_w, labels


def prunings(children, v):
    """Yield the leaves of all subtrees T rooted at v, and log π(T)."""
    if not children(v):
        yield (v,), 0.0
        return
    yield (v,), math.log(1 - ALPHA)
    for parts in product(*(list(prunings(children, child)) for child in children(v))):
        leaves, logs = zip(*parts, strict=True)
        yield sum(leaves, ()), math.log(ALPHA) + sum(logs)


def mixture(children, root, log_w, path, moments):
    """Σ_T π(T) w(T) (m, m² + s²)(v_T(x)) / Σ_T π(T) w(T), as a mean and a squared scale."""
    logs, predictions = [], []
    for leaves, log_pi in prunings(children, root):
        logs.append(log_pi + sum(log_w[v] for v in leaves))
        predictions.append(next(m for v, m in zip(path, moments, strict=True) if v in leaves))
    weights = np.exp(np.array(logs) - max(logs))
    mean, square = weights @ np.array(predictions) / weights.sum()
    return mean, square - mean**2


def moments_of(t):
    """Return the mean, and the mean square with the squared scale in the place of the variance."""
    _, mu, scale = t.args
    return mu, mu**2 + scale**2


def small_stream(seed, n=16):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    return X, np.round(2 * X[:, 0] + rng.normal(size=n), 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_regrown_tree_predicts_the_mixture_of_all_its_prunings(seed):
    X, y = small_stream(seed)
    forest = adaptive_regressor(2, groups=[RAW], n_estimators=1, seed=seed)
    forest.learn(X, y, 1)
    assert forest.n_regrows[0] == 1  # at row 16: all rows were replayed in this tree
    table = as_rows(forest.tree_table(0))
    log_w, labels = log_weights(table, X, y)
    for x, actual in zip(X[:5], forest.predict_by_tree(X[:5], 1)[:, 0], strict=True):
        path = path_of(table, x)
        moments = [moments_of(t) for t in distributions([labels[v] for v in path])]
        expected = mixture(lambda v: children_of(table, v), 0, log_w, path, moments)
        np.testing.assert_allclose(actual, expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_that_grows_online_predicts_the_mixture_of_all_its_prunings(seed):
    """The weights of its nodes are those kept by the reference: nodes above were inserted later."""
    X, y = small_stream(seed, 14)
    generator = Generator(seeds(1, seed)[0].tolist())
    tree = StudentTree(StudentT, generator, split_prior=(ALPHA, 0.0))
    forest = adaptive_regressor(2, groups=[RAW], n_estimators=1, seed=seed)
    for x, label in zip(X, y.tolist(), strict=True):
        tree.learn(x, label)
    forest.learn(X, y, 1)
    log_w, waiting = {}, [tree.root]
    while waiting:
        v = waiting.pop()
        log_w[v] = v.log_w
        waiting += v.children() or ()
    for x, actual in zip(X[:5], forest.predict_by_tree(X[:5], 1)[:, 0], strict=True):
        path = list(tree.path(x))
        known = [tree.posterior(v) for v in path]
        moments = [(p.mean, p.mean**2 + p.squared_scale()) for p in known]
        expected = mixture(lambda v: v.children() or (), tree.root, log_w, path, moments)
        np.testing.assert_allclose(tree.predict(x), expected, rtol=1e-10)
        np.testing.assert_allclose(actual, expected, rtol=1e-10)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 20, 1000])
def test_the_density_is_that_of_student_t(n):
    rng = np.random.default_rng(n)
    labels, above = rng.normal(3, 2, size=n).tolist(), Posterior(1.0, 4.0, 9.5, 11.0, 4e-4)
    node = StudentT()
    for y in labels:
        node.update(y, 1.0)
    mu, variance, kappa, nu = posterior(labels, (1.0, 4.0), 4e-4)
    t = stats.t(nu, mu, math.sqrt(variance * (kappa + 1) / kappa))
    for y in (-7.0, mu, 3.3, 1e3):
        assert node.posterior(above).log_density(y) == pytest.approx(t.logpdf(y), rel=1e-12)


def test_a_node_without_labels_predicts_as_its_parent_with_the_prior_counts():
    above = Posterior(1.0, 4.0, 9.5, 11.0, 4e-4)
    assert StudentT().posterior(above) == Posterior(1.0, 4.0, 0.5, 2.0, 4e-4)


@pytest.mark.parametrize("weight", [2, 5])
def test_a_whole_weight_has_the_likelihood_of_as_many_equal_rows_in_sequence(weight):
    above = Posterior(1.0, 4.0, 9.5, 11.0, 4e-4)
    node, again = StudentT(), StudentT()
    for y in (0.3, 2.0, 5.5):
        node.update(y, 1.0)
        again.update(y, 1.0)
    at_once = node.posterior(above).log_density(7.0, weight)
    in_sequence = 0.0
    for _ in range(weight):
        in_sequence += again.posterior(above).log_density(7.0)
        again.update(7.0, 1.0)
    assert at_once == pytest.approx(in_sequence, rel=1e-12)
    node.update(7.0, weight)
    assert node.posterior(above).variance == pytest.approx(again.posterior(above).variance)


# Units and origins of labels

UNITS = [*NUMBER_GROUPS[:6], NUMBER_GROUPS[7]]
STRUCTURE = ("threshold", "feature", "split_time", "kind", "odds", "odds_scale")


def stream_of(kind, n=400):
    """Return rows, and labels: of real numbers, or of few values, which have many equal gains."""
    rng = np.random.default_rng(0)
    if kind == "numbers":
        X = rng.normal(size=(n, 4))
        return X.astype(np.float32), X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=n)
    if kind == "categories":
        X = np.column_stack([rng.integers(0, 6, size=n), rng.normal(size=(n, 2))])
        return X.astype(np.float32), X[:, 0] % 3 + X[:, 1] + 0.3 * rng.normal(size=n)
    X = rng.integers(0, 5, size=(n, 4))
    y = X[:, 0] + (X[:, 1] != X[:, 2]) + rng.integers(0, 3, size=n)
    return X.astype(np.float32), y.astype(float)


def learned(kind, X, y):
    categories = [6] if kind == "categories" else []
    n_numbers = X.shape[1] - len(categories)
    forest = adaptive_regressor(n_numbers, groups=UNITS, categories=categories, n_candidates=30)
    return forest, forest.predict_then_learn(X, y, 2)


every_kind = pytest.mark.parametrize("kind", ["numbers", "few values", "categories"])


@every_kind
@pytest.mark.parametrize("power", [-100, -20, 1, 10, 100])
def test_a_power_of_two_changes_no_bit_of_weights_and_scales_predictions(kind, power):
    """Nor of splits, but for thresholds of categories: their numbers are means of labels."""
    X, y = stream_of(kind)
    (forest, predictions), (other, scaled) = learned(kind, X, y), learned(kind, X, 2.0**power * y)
    for name in STRUCTURE if kind != "categories" else STRUCTURE[1:]:
        arrays = (f.state()["trees"][name] for f in (forest, other))
        np.testing.assert_array_equal(*arrays, err_msg=name)
    np.testing.assert_array_equal(forest.mixer_weights, other.mixer_weights)
    np.testing.assert_array_equal(2.0**power * predictions[:, :2], scaled[:, :2])
    np.testing.assert_array_equal(predictions[:, 2:], scaled[:, 2:])


@every_kind
@pytest.mark.parametrize("factor", [1e-50, 1e-6, 1e6, 1e50])
def test_a_factor_of_labels_multiplies_predictions(kind, factor):
    X, y = stream_of(kind)
    (_, predictions), (_, scaled) = learned(kind, X, y), learned(kind, X, factor * y)
    np.testing.assert_allclose(
        scaled[:, :2] / factor, predictions[:, :2], rtol=0, atol=1e-6 * y.std()
    )
    np.testing.assert_allclose(scaled[:, 2:], predictions[:, 2:], atol=1e-6)


@every_kind
def test_a_summand_of_labels_is_added_to_predictions(kind):
    X, y = stream_of(kind)
    shift = 1e6 * y.std()
    (_, predictions), (_, shifted) = learned(kind, X, y), learned(kind, X, y + shift)
    assert (shifted[0, 0], predictions[0, 0]) == (0, 0)  # nothing is known yet
    shifted[1:, 0] -= shift
    np.testing.assert_allclose(shifted[:, :2], predictions[:, :2], rtol=0, atol=1e-6 * y.std())
    np.testing.assert_allclose(shifted[:, 2:], predictions[:, 2:], atol=1e-6)


def test_labels_far_from_zero_are_mixed_from_the_first_rows_on():
    """The error of the first prediction, which is 0, must not be taken for noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)).astype(np.float32)
    y = 1e6 + X[:, 0].astype(float)
    forest = adaptive_regressor(2, groups=UNITS)
    predictions = forest.predict_then_learn(X, y, 1)
    assert np.abs(forest.mixer_weights).max() > 0.1
    assert np.abs(predictions[100:, 0] - y[100:]).mean() < 0.05
