"""What holds for each forest of the core: six, of three label models on two partitions."""

import numpy as np
import pytest
from core_forests import OPTIONS, assert_same_forest, restored, rows, seeds

from amforest import _core

BOX = np.array([[-9.0] * 3, [9.0] * 3], dtype=np.float32)
CLASSES = {"n_classes": 2, "capacity": 2, "dirichlet": 0.5}
FORESTS = {
    "ClassifierForest": CLASSES,
    "WeightedClassifierForest": CLASSES,
    "RegressorForest": {},
    "UnrestrictedClassifierForest": CLASSES | {"bounds": BOX},
    "UnrestrictedWeightedClassifierForest": CLASSES | {"bounds": BOX},
    "UnrestrictedRegressorForest": {"bounds": BOX},
}


def build(name, **options):
    return getattr(_core, name)(
        n_numbers=3,
        options=_core.Options(**OPTIONS | options),
        seeds=seeds(3),
        **FORESTS[name],
    )


def stream(name):
    """Rows, labels and weights that the forest learns."""
    X, y = rows(120, 3)
    has_whole_weights = name.removeprefix("Unrestricted") == "ClassifierForest"
    weights = np.resize([1.0, 2.0, 0.0, 3.0] if has_whole_weights else [0.5, 2.0, 0.0, 1.25], 120)
    return X, y if "Classifier" in name else y + X[:, 1].astype(np.float64), weights


@pytest.fixture(params=FORESTS)
def grown(request):
    forest = build(request.param)
    X, y, weights = stream(request.param)
    forest.learn(X[:60], y[:60], 1, weights[:60])
    forest.predict_then_learn(X[60:], y[60:], 2, weights[60:])
    return request.param, forest


def test_a_forest_is_restored_and_learns_on_to_the_same_bits(grown):
    name, forest = grown
    same = restored(forest.state(), getattr(_core, name))
    X, y, weights = stream(name)
    for twin in (forest, same):
        twin.learn(X, y, 1, weights)
        assert twin.learn_row(X[0], y[0].item(), 2.0)
    assert_same_forest(same, forest)


def test_a_copy_with_more_room_is_the_same_forest(grown):
    name, forest = grown
    room = {"capacity": 5} if "Classifier" in name else {}
    copy = forest.reserve(**room)
    X, y, weights = stream(name)
    for twin in (forest, copy):
        twin.learn(X, y, 1, weights)
    assert_same_forest(copy, forest)


def test_real_counts_are_the_whole_ones(grown):
    name, forest = grown
    if not hasattr(forest, "with_real_counts"):
        assert "Weighted" in name or "Regressor" in name
        return
    assert_same_forest(forest.with_real_counts(), forest)


def test_rows_are_predicted_and_inspected_alike_by_all_calls(grown):
    name, forest = grown
    X = stream(name)[0]
    predictions = forest.predict(X, 2)
    np.testing.assert_array_equal(predictions[7], forest.predict_row(X[7]))
    np.testing.assert_allclose(predictions, forest.predict_by_tree(X, 1).mean(axis=1), rtol=1e-12)
    leaves, depths = forest.apply(X, 2), forest.weighted_depth(X, 2)
    for t in range(forest.n_trees):
        table = forest.tree_table(t)
        assert (table["feature"][leaves[:, t]] == -1).all()
        assert (depths[:, t] <= table["depth"][leaves[:, t]] + 1e-12).all()
    assert forest.depths().tolist() == [
        forest.tree_table(t)["depth"].max() for t in range(forest.n_trees)
    ]


@pytest.mark.parametrize("name", FORESTS)
@pytest.mark.parametrize("extends", [False, True])
def test_before_any_row_a_forest_predicts_the_prior(name, extends):
    forest = build(name, predict_extends=extends)
    expected = 0.5 if "Classifier" in name else 0.0
    np.testing.assert_array_equal(forest.predict(rows(3, 3)[0], 1), expected)
    np.testing.assert_array_equal(forest.predict_row(np.zeros(3)), expected)
    assert (forest.n_samples, forest.total_weight, forest.n_nodes) == (0, 0, 0)


HOSTILE = {
    "rows of too few trees": ({"n_rows": lambda column: column[1:]}, "one for each tree"),
    "weights of too few trees": (
        {"feature_weights": lambda column: np.ones((2, 3), np.float32)},
        "one for each tree and feature",
    ),
    "a weight below 0": (
        {"feature_weights": lambda column: np.full((3, 3), -1, np.float32)},
        r"lie in \[0",
    ),
    "an empty tree with rows": ({"n_rows": lambda column: column * 0}, "0 where a tree is empty"),
    "seeds of 0": ({"seeds": lambda column: column * 0}, "seeds must not be 0"),
    "seeds of too few trees": ({"seeds": lambda column: column[1:]}, "four words"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_trees_that_cannot_be_are_refused(grown, what):
    name, forest = grown
    changes, message = HOSTILE[what]
    state = forest.state()
    for column, change in changes.items():
        state["trees"][column] = np.ascontiguousarray(change(state["trees"][column]))
    with pytest.raises(ValueError, match=message):
        restored(state, getattr(_core, name))


@pytest.mark.parametrize("n_samples", [2**31, 2**40])
def test_more_rows_than_a_forest_learns_are_refused(grown, n_samples):
    name, forest = grown
    with pytest.raises(ValueError, match=r"below 2\*\*31"):
        restored(forest.state() | {"n_samples": n_samples}, getattr(_core, name))


@pytest.mark.parametrize(
    "parameters",
    [{"n_classes": 0}, {"n_classes": 9}, {"capacity": 65_536}, {"dirichlet": 0.0}],
)
def test_parameters_of_classes_that_cannot_be_are_refused(parameters):
    forest = build("ClassifierForest")
    with pytest.raises(ValueError, match="must"):
        forest.reserve(**parameters)
    with pytest.raises(ValueError, match="must"):
        restored(forest.state() | parameters | {"trees": None, "seeds": seeds(3)})


def test_a_batch_cannot_claim_room_that_nodes_do_not_have():
    X, y, _ = stream("ClassifierForest")
    forest = build("ClassifierForest")
    with pytest.raises(ValueError, match=r"capacity changes by reserve\(\) alone"):
        forest.learn(X, y, 1, None, {"n_classes": 4, "capacity": 9})
    assert forest.n_samples == 0


@pytest.mark.parametrize("value", [np.nan, -10.0, 10.0, 1e31])
def test_values_that_cannot_be_are_refused_by_all_calls(grown, value):
    """A box has no place for what is outside, and none for what is missing."""
    name, forest = grown
    X, y, _ = stream(name)
    X = X[:2].copy()
    X[1, 2] = value
    y, calls = y[:2], (forest.predict, forest.predict_by_tree, forest.weighted_depth, forest.apply)
    if not name.startswith("Unrestricted") and value != 1e31:
        assert forest.predict(X, 1).shape[0] == 2
        return
    n_samples = forest.n_samples
    for call in calls:
        with pytest.raises(ValueError, match=r"X\[1, 2\] is .*; features must"):
            call(X, 1)
    for call in (forest.learn, forest.predict_then_learn):
        with pytest.raises(ValueError, match=r"X\[1, 2\] is .*; features must"):
            call(X, y, 1)
    with pytest.raises(ValueError, match=r"x\[2\] is .*; features must"):
        forest.learn_row(X[1], y[1].item())
    with pytest.raises(ValueError, match=r"x\[2\] is .*; features must"):
        forest.predict_row(X[1])
    assert forest.n_samples == n_samples


def test_a_row_that_is_no_array_of_floats_is_left_to_the_caller(grown):
    name, forest = grown
    x, y = stream(name)[0][0], stream(name)[1][0].item()
    for row in (x.tolist(), x.astype(int), np.stack([x, x])[:, 0], x[None]):
        assert forest.predict_row(row) is None
        assert not forest.learn_row(row, y)
