"""What splits save: credited as the reference says, however the stream is cut."""

import numpy as np
import pytest
from core_forests import classifier, restored, rows

from amforest import AMFClassifier, AMFRegressor, _core, reference
from helpers import assert_equal_importances, learn_all, reference_trees

N_ROWS = 240
BOX = {"partition": "unrestricted", "bounds": (-9.0, 9.0)}
MODELS = {
    "classifier": lambda: AMFClassifier(12, classes=range(3), random_state=0),
    "no aggregation": lambda: AMFClassifier(
        2, classes=range(3), use_aggregation=False, random_state=0
    ),
    "exact": lambda: AMFClassifier(
        2, classes=range(3), split_pure=True, charge_first=True, dirichlet=1e-3, random_state=0
    ),
    "regressor": lambda: AMFRegressor(2, step=0.7, random_state=0),
    "unrestricted classifier": lambda: AMFClassifier(
        2, classes=range(3), random_state=0, split_prior=(0.5, 0.5), **BOX
    ),
    "unrestricted regressor": lambda: AMFRegressor(2, step=0.7, random_state=0, **BOX),
}


def stream(n_rows=N_ROWS, *, regression=False, gaps=0.1):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    y = np.digitize(X[:, 1] + 0.3 * rng.normal(size=n_rows), [-0.5, 0.5])
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y - 7.5 if regression else y, rng.choice([0.5, 1.0, 3.0], n_rows)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_credit_equals_the_reference(name, weighted):
    model = MODELS[name]()
    is_box = "unrestricted" in name
    X, y, weights = stream(regression="regressor" in name, gaps=0 if is_box else 0.1)
    weights = weights if weighted else None
    model.fit(X, y, weights)
    trees = reference_trees(model, reference.UnrestrictedTree if is_box else reference.Tree)
    learn_all(trees, X, y, weights)
    assert_equal_importances(model._core, [tree.importance for tree in trees])
    assert model._core.importances()[0].any(axis=1).all()


def test_features_together_save_what_the_tree_predicts_better_than_its_root():
    X, y = rows(400, 3)
    forest, expected, n_credited = classifier(3, n_trees=1), 0.0, 0
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        if reference.is_credited(i, 0):
            n_credited += 1
            root = (np.bincount(y[:i], minlength=2)[label] + 0.5) / (i + 1)
            expected += np.log(forest.predict(x[None], 1)[0, label] / root)
        forest.learn_row(x, label)
    saved, weights = forest.importances()
    assert expected > 5
    assert weights.tolist() == [n_credited]
    np.testing.assert_allclose(saved.sum(), expected, rtol=1e-10)


def test_of_ten_trees_each_row_is_credited_to_another():
    X, y = rows(1000, 2)
    forest = classifier(2, n_trees=10)
    forest.learn(X, y, 1)
    weights = forest.importances()[1]
    assert weights.sum() == 1000
    assert (np.abs(weights - 100) <= 2).all()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_batches_and_threads_change_no_bit(n_threads):
    X, y = rows(600, 4)
    one_by_one, batches = classifier(4, n_trees=11), classifier(4, n_trees=11)
    for x, label in zip(X, y.tolist(), strict=True):
        one_by_one.learn_row(x, label)
    for part in np.array_split(np.arange(600), [1, 2, 50, 51, 400]):
        batches.learn(X[part], y[part], n_threads)
    tested = classifier(4, n_trees=11)
    tested.predict_then_learn(X, y, n_threads)
    for other in (batches, tested):
        for found, expected in zip(other.importances(), one_by_one.importances(), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_rows_of_weight_zero_take_no_turn():
    X, y = rows(300, 2)
    weights = np.tile([0.0, 1.0, 2.0], 100)
    forest, without = classifier(2), classifier(2)
    forest.learn(X, y, 1, weights)
    kept = weights > 0
    without.learn(X[kept], y[kept], 1, weights[kept])
    for found, expected in zip(forest.importances(), without.importances(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_state_goes_on_as_it_did():
    X, y = rows(500, 3)
    forest = classifier(3)
    forest.learn(X[:200], y[:200], 1)
    copy = restored(forest.state())
    for some in (forest, copy):
        some.learn(X[200:], y[200:], 1)
    for found, expected in zip(copy.importances(), forest.importances(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_columns_that_come_later_leave_the_others_where_they_belong():
    X, y = rows(300, 3)
    X[:, 0] = np.arange(300) % 4
    forest = classifier(2, categories=[4])
    forest.learn(X, y, 1)
    saved, weights = forest.importances()
    wider = forest.reserve(categories=[4, 2], n_numbers=4)
    found, same = wider.importances()
    np.testing.assert_array_equal(found[:, [0, 2, 3]], saved)
    assert not found[:, [1, 4, 5]].any()
    np.testing.assert_array_equal(same, weights)


def test_real_counts_keep_what_was_credited():
    X, y = rows(300, 3)
    forest = classifier(3)
    forest.learn(X, y, 1)
    for found, expected in zip(
        forest.with_real_counts().importances(), forest.importances(), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_an_adaptive_forest_credits_one_tree_of_each_group():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3)).astype(np.float32)
    forest = _core.AdaptiveClassifierForest(
        n_numbers=3,
        options=_core.Options(
            step=1.0,
            use_aggregation=True,
            split_pure=False,
            charge_first=False,
            predict_extends=False,
        ),
        seeds=rng.integers(1, 2**63, (6, 4), dtype=np.uint64),
        groups=[(None, False, False), (40, False, False)],
        n_estimators=3,
        n_candidates=5,
        row_limit=500,
        n_classes=2,
        capacity=2,
        dirichlet=0.5,
    )
    forest.learn(X, (X[:, 2] > 0).astype(np.uint32), 1)
    _, weights = forest.importances()
    assert weights[:3].tolist() == [300] * 3
    # With a memory, the sum of factors: 250 rows, although 40 would do for the trees.
    factor = 250 / 253
    np.testing.assert_allclose(weights[3:], (1 - factor**300) / (1 - factor))
