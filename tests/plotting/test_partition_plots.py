"""The cells and ranges of a tree."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from plotting_helpers import (
    BOX,
    PETALS,
    SPECIES,
    X,
    Y,
    areas,
    classifier,
    polygons,
    regressor,
    species,
)

from amforest import AMFClassifier
from amforest.plotting import (
    plot_partition,
)
from amforest.plotting.colours import get_colour
from amforest.theory import sample_mondrian


def test_the_cells_of_an_unrestricted_tree_fill_its_box():
    model = classifier(partition="unrestricted", bounds=BOX)
    boxes = polygons(plot_partition(model, 1))
    leaves = model.tree_table(1)["left"] < 0
    np.testing.assert_array_equal(boxes[:, 0], model.tree_table(1)["lower"][leaves])
    np.testing.assert_array_equal(boxes[:, 1], model.tree_table(1)["upper"][leaves])
    assert areas(boxes).sum() == pytest.approx(5 * 3.5)


@pytest.mark.parametrize("split_pure", [False, True])
def test_the_cells_of_a_restricted_tree_fill_the_range_of_the_data(split_pure):
    model = classifier(split_pure=split_pure)
    boxes = polygons(plot_partition(model, 2))
    assert len(boxes) == (model.tree_table(2)["left"] < 0).sum()
    assert areas(boxes).sum() == pytest.approx(np.prod(np.ptp(X, axis=0)), rel=1e-5)


@pytest.mark.parametrize("partition", ["restricted", "unrestricted"])
@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_cell_has_the_colour_of_the_trees_predictions_in_it(make, partition):
    how = {} if partition == "restricted" else {"bounds": BOX}
    model = make(partition=partition, **how)
    ax = plot_partition(model, 1)
    boxes, values = polygons(ax), ax.collections[0].get_array()
    inside = (X[:, None] > boxes[:, 0]) & (X[:, None] <= boxes[:, 1])
    rows, cells = np.nonzero(inside.all(axis=2))
    assert len(rows) > 0.9 * len(X)  # the others are on the border
    if make is classifier:
        predictions = model.predict_proba_by_tree(X)[:, 1, 1]
    else:
        predictions = model.predict_by_tree(X)[:, 1]
    np.testing.assert_array_equal(values[cells], predictions[rows])


def test_the_colour_is_the_prediction_of_the_leaf_also_where_values_are_missing():
    rows = X.copy()
    rows[::3, 0] = np.nan
    rows[1::3, 1] = np.nan
    model = AMFClassifier(2, split_pure=True, random_state=0).fit(rows, Y)
    ax = plot_partition(model, 0, rows, Y)
    boxes, values = polygons(ax), ax.collections[0].get_array()
    leaves = np.flatnonzero(model.tree_table(0)["left"] < 0)
    np.testing.assert_array_equal(model.apply(boxes[:, 1])[:, 0], leaves)
    np.testing.assert_array_equal(values, model.predict_proba_by_tree(boxes[:, 1])[:, 0, 1])


def test_ranges_are_boxes_around_the_points_of_leaves_and_of_other_nodes():
    model = classifier()
    ax = plot_partition(model, 0, X, Y)
    table = model.tree_table(0)
    table = table[(table["upper"] > table["lower"]).any(axis=1)]
    for n, is_leaf in ((1, False), (2, True)):
        nodes = table[(table["left"] < 0) == is_leaf]
        np.testing.assert_array_equal(polygons(ax, n)[:, 0], nodes["lower"])
        np.testing.assert_array_equal(polygons(ax, n)[:, 1], nodes["upper"])
    assert len(plot_partition(model, ranges=False).collections) == 1
    unrestricted = classifier(partition="unrestricted", bounds=BOX)
    assert len(plot_partition(unrestricted).collections) == 1


def test_points_have_the_colours_and_markers_of_their_classes():
    model = species()
    ax = plot_partition(model, 0, PETALS, SPECIES)
    points = ax.collections[-3:]
    assert len({to_hex(group.get_facecolor()[0]) for group in points}) == 3
    assert len({group.get_paths()[0].vertices.shape for group in points}) > 1
    for group, label in zip(points, model.classes_, strict=True):
        np.testing.assert_array_equal(group.get_offsets(), PETALS[label == SPECIES])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == model.classes_.tolist()


def test_cells_of_three_classes_have_the_colour_of_the_most_probable_one():
    model = species()
    ax = plot_partition(model)
    corners = pd.DataFrame(polygons(ax)[:, 1], columns=PETALS.columns)
    best = model.predict_proba_by_tree(corners)[:, 0].argmax(axis=1)
    colours = ax.collections[0].get_facecolor()[:, :3]
    pure = np.array([mpl.colors.to_rgb(get_colour(k)) for k in range(3)])
    # A mixture with white has the same direction from white.
    for colour, k in zip(1 - colours, best, strict=True):
        wanted = 1 - pure[k]
        assert np.allclose(colour / np.linalg.norm(colour), wanted / np.linalg.norm(wanted))


def test_the_cells_of_a_mondrian_partition_are_drawn():
    partition = sample_mondrian([[0, 2], [0, 1]], 1.0, random_state=2)
    ax = plot_partition(partition, X=[[0.5, 0.5]])
    boxes = polygons(ax)
    np.testing.assert_array_equal(boxes, np.stack(partition.cells, axis=1))
    assert areas(boxes).sum() == pytest.approx(2)
    np.testing.assert_array_equal(ax.collections[-1].get_offsets(), [[0.5, 0.5]])
