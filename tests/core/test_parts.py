"""Parts of a forest, each with some of its trees, are together the forest: bit for bit."""

import numpy as np
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._forest.core_handle import restore_core

MODELS = {
    "classifier": AMFClassifier(5, random_state=0, max_nodes=400),
    "regressor": AMFRegressor(5, step=1.0, random_state=0),
    "unrestricted": AMFClassifier(4, partition="unrestricted", bounds=(-9, 9), random_state=0),
    "adaptive classifier": AdaptiveAMFClassifier(2, random_state=0),
    "adaptive regressor": AdaptiveAMFRegressor(2, memories=(None, 60, 15), random_state=0),
    "limited": AdaptiveAMFClassifier(2, memories=(None, 60), max_nodes=6000, random_state=0),
}
N_FIRST, N_ROWS, N_EACH = 50, 900, 170


def rows(name):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, 3)).astype(np.float32)
    y = (
        (X[:, 0] > 0).astype(np.uint32)
        if "regressor" not in name
        else 2 * X[:, 0].astype(np.float64)
    )
    if name != "unrestricted":
        X[rng.random(X.shape) < 0.05] = np.nan
    return X, y, rng.integers(0, 3, N_ROWS).astype(np.float64)


def started(name):
    """Return a core that has learned some rows, and the next ones."""
    X, y, weights = rows(name)
    first = slice(N_FIRST)
    core = MODELS[name].fit(X[first], y[first])._core
    rest = range(N_FIRST, N_ROWS, N_EACH)
    return core, [(X[i : i + N_EACH], y[i : i + N_EACH], weights[i : i + N_EACH]) for i in rest]


def parts_of(core, n_parts):
    return [core.take(list(range(k, core.n_trees, n_parts))) for k in range(n_parts)]


def together(by_part, n_trees):
    n_parts, (n_rows, _, size) = len(by_part), by_part[0].shape
    by_tree = np.empty((n_rows, n_trees, size))
    for k, part in enumerate(by_part):
        by_tree[:, k::n_parts] = part
    return by_tree


def mean_in_order(by_tree):
    total = np.zeros_like(by_tree[:, 0])
    for t in range(by_tree.shape[1]):
        total += by_tree[:, t]
    return total / by_tree.shape[1]


def assert_same(core, expected):
    states = [dict(some.state()) for some in (core, expected)]
    trees, others = (state.pop("trees") for state in states)
    assert trees.keys() == others.keys()
    for name, values in others.items():
        assert trees[name].tobytes() == values.tobytes(), name
    assert str(states[0]) == str(states[1])


@pytest.mark.parametrize("n_parts", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_parts_learn_as_the_forest_does(name, n_parts):
    core, batches = started(name)
    base, parts, n_trees = core.take([]), parts_of(core, n_parts), core.n_trees
    for X, y, weights in batches:
        expected = core.predict_then_learn(X, y, 2, weights)
        by_part = [part.predict_then_learn_by_tree(X, y, 1, weights) for part in parts]
        by_tree = together(by_part, n_trees)
        if hasattr(base, "mix"):
            mixed = base.mix_then_learn(X, y, by_tree, weights)
        else:
            mixed = mean_in_order(by_tree)
        assert mixed.tobytes() == expected.tobytes()
        parts = [restore_core(part.state()) for part in parts]  # in the middle of regrows
        base = restore_core(base.state() | {"n_samples": core.n_samples})
    assert_same(base.join(parts), core)


@pytest.mark.parametrize("name", ["adaptive classifier", "adaptive regressor"])
def test_predictions_of_other_trees_are_mixed_as_their_own_are(name):
    core, batches = started(name)
    X, y, _ = batches[0]
    core.learn(X, y, 1)
    base, by_tree = core.take([]), core.predict_by_tree(X, 1)
    assert base.mix(X, by_tree).tobytes() == core.predict(X, 1).tobytes()
    expected = core.predict_by_expert(X, 1)
    assert base.mix_by_expert(X, by_tree).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_parts_that_do_not_make_a_forest_are_refused(name):
    core, batches = started(name)
    base, parts = core.take([]), parts_of(core, 2)
    with pytest.raises(ValueError, match=r"hold all trees|no part holds tree"):
        base.join(parts[:1])
    parts[1].learn(*batches[0][:2], 1)
    with pytest.raises(ValueError, match="the same rows"):
        base.join(parts)
    with pytest.raises(ValueError, match="must ascend"):
        core.take([1, 0])
    with pytest.raises(ValueError, match="must ascend"):
        core.take([core.n_trees])


def test_rows_can_be_checked_without_learning_them():
    core, [(X, y, _), *_] = started("classifier")
    core.check_batch(X, y)
    with pytest.raises(ValueError, match="must be finite"):
        core.check_batch(np.full_like(X, np.inf), y)
    assert core.n_samples == N_FIRST
