"""Trees, and the labels of their splits."""

import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from plotting_helpers import (
    X,
    Y,
    classifier,
    line,
    regressor,
    shop,
    species,
    texts,
)
from sklearn.datasets import make_moons

from amforest import AMFRegressor
from amforest.baselines import MondrianForestClassifier
from amforest.plotting import (
    plot_tree,
)
from amforest.plotting._tree_layout import place_labels
from amforest.theory import sample_mondrian


def lines_of(ax):
    (lines,) = (child for child in ax.collections if isinstance(child, LineCollection))
    return lines


@pytest.mark.parametrize("make", [classifier, regressor, lambda: shop()[0]])
def test_each_node_is_a_line_from_its_birth_to_its_split(make):
    table = make().tree_table(1)
    ax = plot_tree(make(), 1, max_depth=100)
    paths = np.array(lines_of(ax).get_segments())  # across, then down; in preorder as the table
    assert len(paths) == len(table)
    inner, bottom = table["left"] >= 0, ax.get_ylim()[0]
    births = table["birth_time"]
    np.testing.assert_array_equal(paths[:, :2, 1], np.stack([births] * 2, axis=1))
    np.testing.assert_array_equal(paths[inner, 2, 1], births[table["left"][inner]])
    assert set(paths[~inner, 2, 1]) == {bottom}
    x = paths[:, 2, 0]
    np.testing.assert_array_equal(paths[1:, 0, 0], x[table["parent"][1:]])
    np.testing.assert_array_equal(x[~inner], np.arange((~inner).sum()))  # from left to right
    assert bottom > births.max()
    assert ax.get_ylim()[1] == 0


@pytest.mark.parametrize("make", [classifier, line])
def test_the_weight_of_lines_adds_up_to_the_weighted_depth(make):
    model, rows = (make(), X) if make is classifier else make()
    weights = lines_of(plot_tree(model, 0, max_depth=100)).get_array()
    table = model.tree_table(0)
    for leaf, depth in zip(model.apply(rows)[:, 0], model.weighted_depth(rows)[:, 0], strict=True):
        total, v = 0.0, leaf
        while v > 0:  # the mean depth is the sum of the chances to get below each node
            total, v = total + weights[v], table["parent"][v]
        assert total == pytest.approx(depth)


@pytest.mark.parametrize(
    "model", [classifier(use_aggregation=False), MondrianForestClassifier(2).fit(X, Y)]
)
def test_where_prunings_have_no_weights_all_lines_are_alike(model):
    lines = lines_of(plot_tree(model))
    assert lines.get_array() is None
    assert len(set(lines.get_linewidth())) == 1


def test_a_large_tree_is_cut_and_says_so():
    model = AMFRegressor(1, random_state=0).fit(*make_moons(2000, noise=0.3, random_state=0))
    ax = plot_tree(model)
    n_ends = len(ax.get_xticks())
    assert 8 <= n_ends <= 24
    n_nodes, shown = len(model.tree_table(0)), len(lines_of(ax).get_segments())
    assert shown == 2 * n_ends - 1
    assert f"{shown} of {n_nodes:,} nodes" in ax.get_xlabel()
    (triangles,) = (line for line in ax.lines if line.get_marker() == "v")
    table = model.tree_table(0)
    depth = int(re.search(r"depth (\d+) of", ax.get_xlabel())[1])
    n_cut = ((table["depth"] == depth) & (table["left"] >= 0)).sum()
    assert len(triangles.get_xdata()) == n_cut


@pytest.mark.parametrize("max_depth", [0, 1, 3])
def test_max_depth_cuts_the_tree(max_depth):
    ax = plot_tree(classifier(), max_depth=max_depth)
    table = classifier().tree_table(0)
    assert len(lines_of(ax).get_segments()) == (table["depth"] <= max_depth).sum()


def test_the_numbers_below_are_the_samples_of_all_leaves():
    model = classifier()
    ax = plot_tree(model, max_depth=100)
    table = model.tree_table(0)
    leaves = table[table["left"] < 0]
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == [f"{n:g}" for n in leaves["n_samples"]]
    ends = [line for line in ax.lines if set(line.get_ydata()) == {ax.get_ylim()[0]}]
    best = leaves["counts"].argmax(axis=1)
    for k, line_ in enumerate(ends):  # a marker for each class
        np.testing.assert_array_equal(line_.get_xdata(), np.flatnonzero(best == k))


def test_in_regression_the_mean_is_below_as_well():
    x = np.array([[0.0], [1.0]])
    ax = plot_tree(AMFRegressor(1, random_state=0).fit(x, [-2.5, 1.25]))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["−2.5\n(1)", "1.25\n(1)"]


def test_splits_are_labelled_by_names_thresholds_and_categories():
    model, sales = shop()
    table = model.tree_table(0)
    ax = plot_tree(model, ax=Figure(figsize=(30, 20)).subplots())  # room for all
    categories = model.categories_["town"]
    wanted = [
        f"town is not {categories[node['category']]}"
        if node["category"] >= 0
        else f"price ≤ {node['threshold']:.4g}"
        for node in table[table["left"] >= 0]
    ]
    assert sorted(texts(ax)) == sorted(wanted)
    assert any("town" in text for text in wanted)
    # The root's label is true on its left.
    j, root = ["town", "price"].index(texts(ax)[0].split()[0]), table[0]
    is_left = sales["town"] != categories[root["category"]] if j == 0 else sales["price"] <= root[5]
    assert is_left.sum() == table["n_samples"][table["left"][0]]


@pytest.mark.parametrize("dpi", [80, 100, 220])
@pytest.mark.parametrize("make", [classifier, species])
def test_labels_cover_neither_lines_nor_each_other(make, dpi):
    ax = plot_tree(make(), max_depth=6)
    ax.figure.set_dpi(dpi)
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) >= 3
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    for path in lines_of(ax).get_paths():
        drawn = path.transformed(ax.transData)
        assert not any(drawn.intersects_bbox(box, filled=False) for box in boxes)


def test_where_many_labels_want_to_be_only_those_with_room_are_written():
    ax = Figure().subplots()
    place_labels(ax, [((0.5, 0.5), f"label {k}") for k in range(9)], [((0.2, 0.5), (0.8, 0.5))])
    assert texts(ax) == ["label 0", "label 1", "label 2"]  # right, left and below
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_time_is_logarithmic_if_splits_are_far_apart_or_on_request():
    model = AMFRegressor(1, random_state=0).fit(X, X[:, 0])
    assert plot_tree(model).get_yscale() == "symlog"
    assert plot_tree(model, scale="linear").get_yscale() == "linear"
    partition = sample_mondrian([[0, 1]], 2.0, random_state=3)
    assert plot_tree(partition).get_yscale() == "linear"
    assert plot_tree(partition, scale="log").get_yscale() == "symlog"


def test_a_mondrian_partition_is_drawn_until_its_lifetime():
    partition = sample_mondrian([[0, 1], [0, 1]], 1.5, random_state=5)
    assert partition.n_leaves > 3
    ax = plot_tree(partition)
    paths = np.array(lines_of(ax).get_segments())
    assert sorted(paths[:, 0, 1]) == sorted(partition.table["birth_time"])
    assert ax.get_ylim() == (1.5, 0.0)
    assert (paths[:, 2, 1] == 1.5).sum() == partition.n_leaves
