"""What `amforest.inspection` returns is what the trees' tables hold."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from amforest import AdaptiveAMFClassifier, AMFClassifier, AMFRegressor
from amforest.inspection import bounds_of, cells_of, count_trees, flat_trees, total_weight

X = np.random.default_rng(0).uniform(size=(80, 2)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(int)
BOX = {"partition": "unrestricted", "bounds": [[0.0, 1.0], [-1.0, 2.0]]}


def test_a_restricted_forest_has_no_bounds_and_a_box_has_its_own():
    assert bounds_of(AMFClassifier(1).fit(X, Y)) is None
    bounds = bounds_of(AMFRegressor(1, **BOX).fit(X, Y))
    np.testing.assert_array_equal(bounds, [[0, -1], [1, 2]])


def test_flat_trees_are_the_tables_one_after_the_other():
    model = AMFClassifier(3, random_state=0).fit(X, Y)
    tables = [model.tree_table(i) for i in range(count_trees(model))]
    trees = flat_trees(model)
    assert trees["n_nodes"].tolist() == [len(table) for table in tables]
    np.testing.assert_array_equal(
        trees["n_samples"], np.concatenate([table["n_samples"] for table in tables])
    )


def test_the_total_weight_is_the_sum_of_the_weights():
    weights = np.linspace(0.5, 2, len(Y))
    model = AMFClassifier(2, random_state=0).fit(X, Y, sample_weight=weights)
    assert total_weight(model) == pytest.approx(weights.sum())


def test_the_cells_of_the_leaves_fill_the_box():
    model = AMFClassifier(1, split_pure=True, random_state=0).fit(X, Y)
    table = model.tree_table(0)
    cells = cells_of(table, np.array([[0.0, 0.0], [1.0, 1.0]], dtype=np.float32))
    sides = (cells["upper"] - cells["lower"])[table["left"] < 0]
    assert sides.min() > 0
    assert sides.prod(axis=1).sum() == pytest.approx(1, rel=1e-5)


def test_a_forest_that_has_learned_nothing_is_named():
    with pytest.raises(NotFittedError, match="AMFRegressor is not fitted"):
        count_trees(AMFRegressor())


def test_tables_of_an_adaptive_forest_have_the_columns_of_x():
    rows = np.column_stack([X[:, 0], np.arange(80) % 3, X[:, 1] + 5])
    model = AdaptiveAMFClassifier(2, categorical_features=[1], random_state=0).fit(rows, Y)
    assert count_trees(model) == 18
    for i in range(18):
        table = model.tree_table(i)
        assert table["lower"].shape == table["upper"].shape == (len(table), 3)
        assert table["lower"][0, [0, 2]] == pytest.approx(rows[:, [0, 2]].min(axis=0), abs=0.2)
        is_split = table["left"] >= 0
        feature = table["feature"][is_split]
        assert (table["lower"][is_split, feature] <= table["threshold"][is_split]).all()
        assert (table["threshold"][is_split] < table["upper"][is_split, feature]).all()
