"""How large a forest may become, what it does then, and what `stats` tells of it."""

import numpy as np
import pytest

from amforest import AMFClassifier, AMFRegressor
from amforest.baselines import MondrianForestClassifier
from amforest.reference import Tree, UnrestrictedTree
from amforest.river import AMFClassifier as RiverClassifier
from helpers import SWITCHES, assert_equal_tables, reference_table, tables
from helpers import reference_trees as unlimited_trees

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(400, 3)).astype(np.float32)
Y = (X.sum(axis=1) + RNG.normal(size=400) / 4 > 1.5).astype(int)


def limited_trees(model, max_leaves):
    kind = UnrestrictedTree if model.partition == "unrestricted" else Tree
    trees = unlimited_trees(model, kind)
    for tree in trees:
        tree.max_leaves = max_leaves
    return trees


@pytest.mark.parametrize("partition", ["restricted", "unrestricted"])
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_full_tree_equals_the_reference_that_splits_no_more(partition, switch):
    params = {"classes": [0, 1], "random_state": 1, "partition": partition, switch: True}
    model = AMFClassifier(2, max_nodes=2 * 21 + 1, **params)  # 11 leaves of each tree
    trees = limited_trees(model.partial_fit(X[:1], Y[:1]), 11)
    model.partial_fit(X[1:80], Y[1:80])
    for i, tree in enumerate(trees):
        for x, y in zip(X[:80], Y[:80], strict=True):
            tree.learn(x, int(y))
        table = model.tree_table(i)
        expected = reference_table(tree, table.dtype)
        for name in ("lower", "upper") if partition == "unrestricted" else ():
            expected[name] = table[name]  # cells here, points there
        assert_equal_tables(table, expected)
        assert len(table) == 21
    predictions = [np.mean([tree.predict(x) for tree in trees], axis=0) for x in X[80:100]]
    np.testing.assert_allclose(model.predict_proba(X[80:100]), predictions, rtol=1e-12)


@pytest.mark.parametrize("max_nodes", [3, 7, 100, 101, 600])
@pytest.mark.parametrize(
    "cls", [AMFClassifier, AMFRegressor, MondrianForestClassifier, RiverClassifier]
)
def test_a_forest_never_has_more_nodes_than_it_may(cls, max_nodes):
    seed = {"seed" if cls is RiverClassifier else "random_state": 0}
    model = cls(3, max_nodes=max_nodes, **seed)
    for x, y in zip(X, Y, strict=True):
        row = dict(enumerate(x.tolist())) if cls is RiverClassifier else x
        model.learn_one(row, int(y))
        assert model.stats()["nodes"] <= max_nodes
    assert model.stats()["nodes"] > max_nodes - 6
    assert model.stats()["samples"] == 400


@pytest.mark.parametrize("n_classes", [2, 50])
@pytest.mark.parametrize("partition", ["restricted", "unrestricted"])
def test_a_forest_never_takes_more_bytes_than_it_may(n_classes, partition):
    y = RNG.integers(n_classes, size=400)
    model = AMFClassifier(2, max_bytes=40_000, classes=range(n_classes), partition=partition)
    for first in range(0, 400, 20):
        model.partial_fit(X[first : first + 20], y[first : first + 20])
        assert model.stats()["bytes"] <= 40_000
    assert model.stats()["bytes"] > 15_000
    # Leaves that are full of different labels and points take the most.
    model.partial_fit(np.tile(X, (9, 1)), RNG.integers(n_classes, size=3600))
    assert model.stats()["bytes"] <= 40_000


def test_a_full_forest_goes_on_counting_widening_and_weighing():
    model = AMFClassifier(1, max_nodes=9, random_state=0).partial_fit(X[:200], Y[:200])
    before = model.tree_table(0)
    model.partial_fit(3 * X[200:], Y[200:])
    after = model.tree_table(0)
    assert len(before) == len(after) == 9
    np.testing.assert_array_equal(after["threshold"], before["threshold"])
    assert after["counts"][0].tolist() == np.bincount(Y).tolist()
    assert (after["upper"][0] == 3 * X[200:].max(axis=0)).all()
    assert (after["odds"] != before["odds"]).any()


def test_limits_do_not_depend_on_batches_or_threads():
    expected = AMFClassifier(7, max_nodes=300, random_state=0).fit(X, Y)
    for n_jobs, size in ((1, 1), (2, 7), (7, 150)):
        model = AMFClassifier(7, max_nodes=300, random_state=0, n_jobs=n_jobs, classes=[0, 1])
        for first in range(0, 400, size):
            model.partial_fit(X[first : first + size], Y[first : first + size])
        assert tables(model) == tables(expected)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_nodes": 9}, "max_nodes is 9; the 10 trees divide it"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"max_nodes": 1.5}, "max_nodes"),
        ({"max_bytes": 9}, "max_bytes is 9; the 10 trees divide it"),
        ({"max_bytes": 1000}, "max_nodes and max_bytes must let each tree have a node"),
    ],
)
def test_limits_that_leave_no_room_are_refused(params, message):
    model = AMFRegressor(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not model.__sklearn_is_fitted__()


def test_stats_tell_size_and_success():
    model = AMFClassifier(3, random_state=0, classes=[0, 1])
    assert model.stats() == {
        **{"samples": 0, "nodes": 0, "depth": 0, "bytes": 0},
        **{"progressive_loss": None, "rejected_rows": 0},
    }
    predictions = model.partial_fit_predict_proba(X, Y)
    stats = model.stats()
    trees = [model.tree_table(i) for i in range(3)]
    assert stats["samples"] == 400
    assert stats["nodes"] == sum(map(len, trees))
    assert stats["depth"] == max(tree["depth"].max() for tree in trees)
    assert stats["progressive_loss"] == pytest.approx(-np.log(predictions[range(400), Y]).mean())


def test_nobody_is_charged_for_rows_before_anything_is_known():
    model = AMFClassifier(3, random_state=0)
    weights = np.append([0, 0], np.ones(398))
    predictions = model.partial_fit_predict_proba(X, Y, sample_weight=weights)
    assert not predictions[:3].any()
    chances = np.maximum(predictions[range(3, 400), Y[3:]], np.finfo(float).eps)
    assert model.stats()["progressive_loss"] == pytest.approx(-np.log(chances).mean())


def test_the_progressive_loss_weighs_rows_and_starts_afresh_with_fit():
    model = AMFRegressor(3, random_state=0)
    weights = RNG.uniform(size=400)
    predictions = model.partial_fit_predict(X, X[:, 0], weights)
    expected = np.average((predictions - X[:, 0]) ** 2, weights=weights)
    assert model.stats()["progressive_loss"] == pytest.approx(expected)
    assert model.partial_fit(X, X[:, 0]).stats()["progressive_loss"] == pytest.approx(expected)
    assert model.fit(X, X[:, 0]).stats()["progressive_loss"] is None


def test_refused_rows_are_counted_and_change_nothing():
    model = AMFClassifier(3, random_state=0).fit(X, Y)
    before = model.to_bytes()
    for learn, bad, label in (
        (model.learn_one, [np.inf] * 3, 0),
        (model.learn_one, [1.0], 0),
        (model.partial_fit, np.full((5, 3), np.inf), [0] * 5),
        (model.partial_fit, np.full((4, 2), 0.0), [0] * 4),
        (model.partial_fit_predict_proba, [["x"] * 3] * 2, [0, 1]),
    ):
        with pytest.raises(ValueError, match=r"inf|features|could not convert|must"):
            learn(bad, label)
    assert model.to_bytes() == before
    assert model.stats()["rejected_rows"] == 1 + 1 + 5 + 4 + 2
    river = RiverClassifier()
    with pytest.raises(TypeError, match="must be a number"):
        river.learn_one({"a": object()}, 1)
    assert river.stats()["rejected_rows"] == 1
