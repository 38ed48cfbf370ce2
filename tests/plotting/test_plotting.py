"""What is drawn is what models and arrays say."""

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import same_color, to_hex
from matplotlib.figure import Figure
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from amforest import AMFClassifier, AMFRegressor, plotting, river
from amforest.baselines import MondrianForestClassifier, OnlineDummyClassifier
from amforest.evaluation import progressive_validation
from amforest.plotting import (
    plot_decision,
    plot_interval,
    plot_partition,
    plot_progress,
    plot_reliability,
    plot_tree,
    plot_weighted_depth,
)
from amforest.plotting._labels import place_labels
from amforest.theory import sample_mondrian

mpl.use("Agg")
X, Y = make_moons(120, noise=0.25, random_state=0)
BOX = [[-2, 3], [-1.5, 2]]
IRIS = load_iris(as_frame=True)
PETALS = IRIS.data[["petal length (cm)", "petal width (cm)"]]
SPECIES = IRIS.target_names[IRIS.target]
P = np.random.default_rng(0).uniform(size=300)
CAME = np.random.default_rng(1).uniform(size=300) < P


@pytest.fixture(autouse=True)
def _no_traces():
    """Figures are closed after a test, and no test may change matplotlib's settings."""
    before = mpl.rcParams.copy()
    yield
    plt.close("all")
    assert mpl.rcParams == before


def classifier(**params):
    return AMFClassifier(3, random_state=0, **params).fit(X, Y)


def regressor(**params):
    return AMFRegressor(3, random_state=0, **params).fit(X, X[:, 0] * X[:, 1])


def species():
    """A model of three classes that knows the names of its features."""
    return AMFClassifier(3, random_state=0).fit(PETALS[::3], SPECIES[::3])


def shop():
    """A model with categories, and their features."""
    rng = np.random.default_rng(0)
    towns = pd.Categorical(rng.choice(["Lima", "Oslo", "Rome"], 60))
    sales = pd.DataFrame({"town": towns, "price": rng.uniform(size=60)})
    return AMFClassifier(3, random_state=0).fit(sales, sales["town"] == "Oslo"), sales


def line(**params):
    """A model of one feature, and its values."""
    x = np.random.default_rng(0).uniform(size=(80, 1))
    return AMFRegressor(4, random_state=0, **params).fit(x, np.sign(x[:, 0] - 0.3)), x


def progress(model=None, metrics=("log_loss", "accuracy")):
    model = AMFClassifier(2, random_state=0) if model is None else model
    return progressive_validation(model, X, Y, metrics=metrics, window=40)


CALLS = {
    "partition": lambda **how: plot_partition(classifier(), 1, X, Y, **how),
    "mondrian": lambda **how: plot_partition(sample_mondrian([[0, 1]] * 2, 1.0, 0), **how),
    "tree": lambda **how: plot_tree(classifier(), **how),
    "decision": lambda **how: plot_decision(classifier(), X, Y, resolution=20, **how),
    "depth": lambda **how: plot_weighted_depth(line()[0], **how),
    "depth field": lambda **how: plot_weighted_depth(classifier(), resolution=20, **how),
    "progress": lambda **how: plot_progress(progress(), "accuracy", **how)[0],
    "reliability": lambda **how: plot_reliability(CAME, P, **how),
    "interval": lambda **how: plot_interval(P, CAME, np.outer(P, [0, 1]), **how),
}


def polygons(ax, n=0):
    """The corners of the boxes in a collection, of shape (n_boxes, 2, 2): lower, upper."""
    boxes = [child for child in ax.collections if isinstance(child, PolyCollection)]
    corners = np.array([path.vertices for path in boxes[n].get_paths()])
    return np.stack([corners.min(axis=1), corners.max(axis=1)], axis=1)


def areas(boxes):
    return np.prod(boxes[:, 1] - boxes[:, 0], axis=1)


def texts(ax):
    return [text.get_text() for text in ax.texts]


# Axes, and what is never done


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_without_axes_a_figure_is_made_and_its_axes_returned(call):
    ax = call()
    assert isinstance(ax, Axes)
    assert [plt.figure(number) for number in plt.get_fignums()] == [ax.figure]
    assert ax.get_ylabel()
    ax.figure.draw_without_rendering()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_given_axes_are_used_even_without_pyplot(call):
    ax = Figure().subplots(1, 2)[1]
    assert call(ax=ax) is ax
    assert ax.has_data()
    assert plt.get_fignums() == []
    ax.figure.draw_without_rendering()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_not_axes_is_refused(call):
    with pytest.raises(TypeError, match="ax is 'left'; it must"):
        call(ax="left")


def test_without_matplotlib_only_plotting_fails_and_says_what_it_needs():
    code = """
import sys
sys.modules["matplotlib"] = None
import amforest, amforest.classifier, amforest.evaluation, amforest.theory
try:
    import amforest.plotting
except ImportError as error:
    print(error)
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    wanted = "amforest.plotting needs matplotlib: pip install amforest[plot]\n"
    assert (output.stdout, output.stderr) == (wanted, "")


@pytest.mark.parametrize("model", [AMFClassifier(), AMFRegressor(), river.AMFClassifier()])
@pytest.mark.parametrize("plot", [plot_partition, plot_tree, plot_decision, plot_weighted_depth])
def test_a_model_that_has_learnt_nothing_is_not_drawn(plot, model):
    with pytest.raises(NotFittedError):
        plot(model)
    assert plt.get_fignums() == []


def test_the_gallery_shows_every_plot_and_is_small():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "gallery.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in plotting.__all__)
    pictures = [docs / path for path in re.findall(r"\((images/gallery_\w+\.png)\)", page)]
    assert sorted(pictures) == sorted(docs.glob("images/gallery_*.png"))
    assert sum(path.stat().st_size for path in pictures) < 1e6


# Partitions


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
def test_a_cell_has_the_colour_of_the_trees_forecasts_in_it(make, partition):
    how = {} if partition == "restricted" else {"bounds": BOX}
    model = make(partition=partition, **how)
    ax = plot_partition(model, 1)
    boxes, values = polygons(ax), ax.collections[0].get_array()
    inside = (X[:, None] > boxes[:, 0]) & (X[:, None] <= boxes[:, 1])
    rows, cells = np.nonzero(inside.all(axis=2))
    assert len(rows) > 0.9 * len(X)  # the others are on the border
    if make is classifier:
        forecasts = model.predict_proba_by_tree(X)[:, 1, 1]
    else:
        forecasts = model.predict_by_tree(X)[:, 1]
    np.testing.assert_array_equal(values[cells], forecasts[rows])


def test_the_colour_is_the_forecast_of_the_leaf_also_where_values_are_missing():
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
    pure = np.array([mpl.colors.to_rgb(plotting._common.colour(k)) for k in range(3)])
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


# Trees


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
        f"town ≠ {categories[node['category']]}"
        if node["category"] >= 0
        else f"price ≤ {node['threshold']:.3g}"
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


def test_time_is_logarithmic_if_splits_are_far_apart_or_if_asked():
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


# Decisions and depths


def field_of(ax):
    """The numbers of a field, and the rows to which they belong, in the same order."""
    (image,) = ax.images
    assert image.origin == "lower"
    values = image.get_array()
    left, right, low, high = image.get_extent()
    height, width = values.shape[:2]
    x = left + (np.arange(width) + 0.5) * (right - left) / width
    y = low + (np.arange(height) + 0.5) * (high - low) / height
    rows = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return values.reshape(len(rows), -1).squeeze(), rows


@pytest.mark.parametrize(
    ("make", "how", "ask"),
    [
        (classifier, {}, lambda m, rows: m.predict_proba(rows)[:, 1]),
        (classifier, {"positive": 0}, lambda m, rows: m.predict_proba(rows)[:, 0]),
        (classifier, {"tree": 2}, lambda m, rows: m.predict_proba_by_tree(rows)[:, 2, 1]),
        (classifier, {"tree": -1}, lambda m, rows: m.predict_proba_by_tree(rows)[:, 2, 1]),
        (regressor, {}, lambda m, rows: m.predict(rows)),
        (regressor, {"tree": 1}, lambda m, rows: m.predict_by_tree(rows)[:, 1]),
        (lambda: GaussianNB().fit(X, Y), {}, lambda m, rows: m.predict_proba(rows)[:, 1]),
    ],
)
def test_the_field_of_decisions_is_what_the_model_forecasts(make, how, ask):
    model = make()
    # Whole numbers of a power of two: the rows computed here are exactly those asked.
    ax = plot_decision(model, bounds=[[-2, 2], [-1, 1]], resolution=33, **how)
    values, rows = field_of(ax)
    np.testing.assert_array_equal(np.unique(rows[:, 0]), np.linspace(-2, 2, 33))
    np.testing.assert_array_equal(values, ask(model, rows))


def test_of_several_classes_the_most_probable_has_its_colour_the_paler_the_less_sure():
    model = species()
    values, rows = field_of(plot_decision(model, PETALS, resolution=20))
    probabilities = model.predict_proba(pd.DataFrame(rows, columns=PETALS.columns))
    best = probabilities.argmax(axis=1)
    for k in range(3):
        sure, colours = probabilities[best == k, k], values[best == k]
        order = np.argsort(sure)
        assert (np.diff(colours[order, :3].sum(axis=1)) <= 1e-9).all()
        wanted = 1 - np.array(mpl.colors.to_rgb(plotting._common.colour(k)))
        assert np.allclose(np.cross(1 - colours[:, :3], wanted), 0)


def test_the_field_covers_the_range_of_the_points_or_what_the_model_has_seen():
    for ax in (plot_decision(classifier(), X, resolution=9), plot_decision(classifier())):
        left, right, low, high = ax.images[0].get_extent()
        assert (np.array([left, low]) < X.min(axis=0)).all()
        assert (np.array([right, high]) > X.max(axis=0)).all()
        assert right - left < 1.3 * np.ptp(X[:, 0])


def test_a_model_of_river_is_drawn_with_its_names():
    model = river.AMFClassifier(n_estimators=2, seed=0)
    model.learn_many(pd.DataFrame(X, columns=["height", "width"]), pd.Series(Y))
    for ax in (plot_decision(model, resolution=9), plot_partition(model)):
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "width")
    assert any(text.startswith(("height ≤", "width ≤")) for text in texts(plot_tree(model)))


@pytest.mark.parametrize("plot", [plot_partition, plot_decision, plot_weighted_depth])
def test_axes_have_the_names_of_the_features(plot):
    ax = plot(species())
    assert (ax.get_xlabel(), ax.get_ylabel()) == tuple(PETALS.columns)
    ax = plot(classifier())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 0", "feature 1")


def test_weighted_depths_are_lines_for_trees_and_their_mean():
    model, _ = line()
    x = np.array([0.7, 0.1, 0.4])
    drawn = plot_weighted_depth(model, x).lines
    depths = model.weighted_depth(np.sort(x)[:, None])
    assert len(drawn) == 5
    for curve, values in zip(drawn, [*depths.T, depths.mean(axis=1)], strict=True):
        np.testing.assert_array_equal(curve.get_xydata(), np.column_stack([np.sort(x), values]))


def test_weighted_depth_over_two_features_is_a_field_of_means():
    model = classifier()
    values, rows = field_of(plot_weighted_depth(model, resolution=12))
    # Rows are rounded here once more, which matters where a threshold is: nowhere so near.
    np.testing.assert_allclose(values, model.weighted_depth(rows).mean(axis=1))


@pytest.mark.parametrize("plot", [plot_partition, plot_decision, plot_tree, plot_weighted_depth])
@pytest.mark.parametrize(
    "model", [AMFClassifier(2).fit(X, Y * 0), AMFRegressor(2).fit(np.zeros((3, 2)), [1, 1, 1])]
)
def test_one_class_or_one_point_can_be_drawn(plot, model):
    plot(model).figure.draw_without_rendering()


# Progress


def test_progress_is_the_curve_over_all_and_over_the_last_rows():
    result = progress()
    axes = result.plot()
    assert [ax.get_ylabel() for ax in axes] == ["log loss", "accuracy"]
    for ax, metric in zip(axes, ("log_loss", "accuracy"), strict=True):
        window, whole = ax.lines
        for curve, name in ((whole, metric), (window, f"{metric}_window")):
            wanted = np.column_stack([result.curve["row"], result.curve[name]])
            np.testing.assert_array_equal(curve.get_xydata(), wanted)
        assert whole.get_linestyle() == "-"
        assert window.get_linestyle() == "--"
        assert window.get_linewidth() < whole.get_linewidth()
        assert ax.get_xlabel() == "rows learnt"
        assert ax.xaxis.get_major_formatter()(12_000, 0) == "12,000"
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == [
        "all rows so far",
        "last 40 rows",
    ]


def test_a_model_has_the_same_colour_in_all_panels():
    results = {"AMF": progress(), "dummy": progress(OnlineDummyClassifier())}
    axes = plot_progress(results)
    for ax in axes:
        for k in range(2):
            window, whole = ax.lines[2 * k : 2 * k + 2]
            assert same_color(window.get_color(), axes[0].lines[2 * k].get_color())
            assert same_color(window.get_color(), whole.get_color())
    assert not same_color(axes[0].lines[0].get_color(), axes[0].lines[2].get_color())
    assert axes[0].lines[1].get_marker() != axes[0].lines[3].get_marker()
    labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert labels == ["AMF", "dummy", "last 40 rows"]


def test_scales_are_logarithmic_only_if_asked():
    given = Figure().subplots(1, 2)
    for log, ax in zip(("", "xy"), given, strict=True):
        (drawn,) = plot_progress(progress(), "log_loss", log=log, ax=ax)
        assert drawn is ax
        scale = "log" if log else "linear"
        assert (ax.get_xscale(), ax.get_yscale()) == (scale, scale)


def test_many_metrics_are_panels_in_rows():
    metrics = ["log_loss", "accuracy", "auc", "brier", "kappa"]
    axes = plot_progress(progress(metrics=metrics))
    assert axes.shape == (5,)
    assert axes[0].figure.axes == list(axes)
    assert axes[2].get_ylabel() == "AUC"


# Reliability


@pytest.mark.parametrize("p", [P, P.round(1)], ids=["any", "on the edges"])
@pytest.mark.parametrize("bins", [1, 7, 10])
def test_reliability_is_scikit_learns_calibration_curve(bins, p):
    ax = plot_reliability(CAME, p, bins=bins)
    share, forecast = calibration_curve(CAME, p, n_bins=bins)
    curve = ax.containers[0].lines[0]
    np.testing.assert_allclose(curve.get_xydata(), np.column_stack([forecast, share]))


def test_bars_are_wilsons_intervals_and_the_strip_below_has_the_counts():
    p, came = np.repeat([0.05, 0.35, 0.95], [4, 30, 6]), np.arange(40) % 3 == 0
    ax = plot_reliability(came, p, level=0.9)
    bars = ax.containers[0].lines[2][0].get_segments()
    for bar, place in zip(bars, np.unique(p), strict=True):
        k, n = came[p == place].sum(), (p == place).sum()
        wanted = binomtest(int(k), int(n)).proportion_ci(0.9, "wilson")
        np.testing.assert_allclose(bar[:, 1], [wanted.low, wanted.high], atol=1e-12)
    (strip,) = ax.child_axes
    counts = strip.patches[0].get_data().values
    np.testing.assert_array_equal(counts, [4, 0, 0, 30, 0, 0, 0, 0, 0, 6])


def test_the_legend_has_the_expected_calibration_error():
    y, p = [1, 0, 1, 1], [0.25, 0.25, 0.75, 0.75]
    ax = plot_reliability(y, p, bins=2)  # ½ |½ - ¼| + ½ |1 - ¾|
    assert ax.get_legend().get_texts()[0].get_text() == "expected calibration error 0.250"


@pytest.mark.parametrize(
    ("y", "p", "how"),
    [
        (CAME, np.column_stack([1 - P, P]), {}),
        (np.where(CAME, "yes", "no"), P, {}),
        (np.where(CAME, "b", "a"), np.column_stack([P, P, P]), {"classes": "xab", "positive": "b"}),
        (np.where(CAME, 3, 2), 1 - P, {"positive": 2}),
    ],
)
def test_the_class_is_the_second_of_two_or_that_named(y, p, how):
    if isinstance(how.get("classes"), str):
        how = how | {"classes": list(how["classes"])}
    drawn = plot_reliability(y, p, **how).containers[0].lines[0].get_ydata()
    wanted = plot_reliability(CAME, P).containers[0].lines[0].get_ydata()
    if how.get("positive") == 2:
        wanted = 1 - wanted[::-1]
    np.testing.assert_allclose(drawn, wanted)


def test_of_zeros_and_ones_the_event_is_one_even_if_it_never_came():
    ax = plot_reliability([0, 0, 0], [0.1, 0.2, 0.1])
    assert set(ax.containers[0].lines[0].get_ydata()) == {0.0}


def test_another_model_goes_into_the_same_axes():
    ax = plot_reliability(CAME, P, label="one")
    assert plot_reliability(CAME, P**2, label="two", ax=ax) is ax
    assert len(ax.child_axes) == 1
    colours = [bars.lines[0].get_color() for bars in ax.containers]
    markers = [bars.lines[0].get_marker() for bars in ax.containers]
    assert len(set(colours)) == len(set(markers)) == 2
    labels = [text.get_text().split(":")[0] for text in ax.get_legend().get_texts()]
    assert labels == ["one", "two"]


# Intervals


def test_the_band_holds_a_share_of_the_trees():
    model, x = line()
    by_tree = model.predict_by_tree(x)
    ax = plot_interval(x, np.sign(x[:, 0]), by_tree, level=0.5)
    order = np.argsort(x[:, 0])
    mean = np.column_stack([x[order], by_tree[order].mean(axis=1)])
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), mean)
    corners = ax.collections[1].get_paths()[0].vertices
    for quantile in (0.25, 0.75):
        wanted = np.column_stack([x[order], np.quantile(by_tree, quantile, axis=1)[order]])
        assert (wanted[:, None] == corners).all(axis=2).any(axis=1).all()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[1] == "spread of the trees, 50 %\n(no confidence interval)"


def test_a_band_may_be_given_and_data_left_out():
    ax = plot_interval([1, 0], None, ([1.0, 2.0], [2.0, 3.0], [4.0, 5.0]), label="80 % of days")
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 3], [1, 2]])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["80 % of days", "forecast"]


# What is refused

THREE_D = AMFClassifier(2).fit(IRIS.data.iloc[:, :3].to_numpy(), SPECIES)
BAND = ([1.0, 2.0], [1.0, 1.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_partition(THREE_D), "model has 3 features; a model with 2 can be drawn"),
        (lambda: plot_decision(THREE_D), "model has 3 features; a model with 2 can be drawn"),
        (lambda: plot_weighted_depth(THREE_D), "model has 3 features; a model with 1 or 2"),
        (lambda: plot_partition(shop()[0]), "model has categories in 'town'; only numbers"),
        (lambda: plot_partition(GaussianNB().fit(X, Y)), "it must be a forest of amforest"),
        (lambda: plot_tree(X), "it must be a model that has learnt"),
        (lambda: plot_decision(LinearSVC().fit(X, Y), X), "a classifier needs predict_proba"),
        (lambda: plot_decision(GaussianNB().fit(X, Y)), "X is None; it is needed for the range"),
        (lambda: plot_partition(classifier(), 3), "tree is 3; it must be .* one of 3 trees"),
        (lambda: plot_tree(classifier(), -4), "tree is -4; it must be .* one of 3 trees"),
        (lambda: plot_decision(GaussianNB().fit(X, Y), X, tree=0), "tree is 0; only the trees of"),
        (lambda: plot_partition(classifier(), y=Y), "X is None; it must hold the points"),
        (lambda: plot_partition(classifier(), X=X[:, :1]), "X has 1 features"),
        (lambda: plot_decision(classifier(), X, Y + 1), "y holds .*2.*; the model's classes are"),
        (lambda: plot_decision(classifier(), X, Y[1:]), r"y has shape \(119,\); .* 120 rows"),
        (lambda: plot_decision(regressor(), X, Y[1:]), "y has 119 values; there are 120 rows"),
        (lambda: plot_decision(classifier(), positive=7), r"positive is 7; .* one of \[0, 1\]"),
        (lambda: plot_decision(classifier(), resolution=1), "resolution is 1; .* from 2 on"),
        (lambda: plot_decision(classifier(), bounds=[[1, 0], [0, 1]]), "bounds is .* must be"),
        (lambda: plot_decision(classifier(), X * [np.nan, 1]), "'feature 0' is missing in all"),
        (lambda: plot_partition(sample_mondrian([[0, 1]], 1.0)), "model has 1 features"),
        (
            lambda: plot_partition(sample_mondrian([[0, 1]] * 2, 1.0), X=[[0, 0]], y=[0]),
            "y must be None: a MondrianPartition",
        ),
        (lambda: plot_tree(classifier(), max_depth=-1), "max_depth is -1; .* from 0 on"),
        (lambda: plot_tree(classifier(), scale="cubic"), "scale is 'cubic'; it must be"),
        (lambda: plot_progress(progress(), "mse"), r"metrics has 'mse'; there are \['log_loss'"),
        (lambda: plot_progress(progress(), []), "metrics is empty"),
        (lambda: plot_progress({}), "progress is empty"),
        (lambda: plot_progress({"AMF": 3}), r"progress\['AMF'\] is 3; it must be a result of"),
        (
            lambda: plot_progress(progress(), ax=Figure().subplots()),
            "ax has 1 axes; 2 metrics need",
        ),
        (lambda: plot_progress(progress(), log="z"), "log is 'z'; it must be"),
        (lambda: plot_reliability(CAME, P[1:]), "probabilities has 299 values; there are 300"),
        (lambda: plot_reliability([0, 1], [0.5, 1.5]), r"probabilities holds 1.5; .* \[0, 1\]"),
        (lambda: plot_reliability([0, 1, 2], [0.1] * 3), "positive is None; it must be one of"),
        (lambda: plot_reliability(["a", "a"], [0.1] * 2), "positive is None; it must be one of"),
        (lambda: plot_reliability(CAME, P, positive=7), "positive is 7; it must be one of"),
        (lambda: plot_reliability([0, 3], P[:2], classes=[0, 1]), r"y holds .*3.*; classes are"),
        (lambda: plot_reliability([0, 1], np.eye(3)[:2]), "probabilities has 3 columns; .* 2"),
        (lambda: plot_reliability(CAME, P, bins=0), "bins is 0; .* from 1 on"),
        (lambda: plot_reliability(CAME, P, level=1), "level is 1; it must lie between 0 and 1"),
        (lambda: plot_interval([0, 1], [0], [[0.0]] * 2), "y has 1 values; there are 2 rows"),
        (lambda: plot_interval([0, 1], None, [[0.0]]), "forecasts has 1 rows; x has 2"),
        (lambda: plot_interval([0, 1], None, BAND[:2]), "forecasts is a tuple of 2; it must be"),
        (lambda: plot_interval([0, 1], None, BAND), "lower is 2 and upper 1 in row 1"),
        (lambda: plot_interval([0], None, [[0.0]], level=2), "level is 2; it must be above 0"),
        (lambda: plot_interval([[0, 1]], None, [[0.0]]), r"x has shape \(1, 2\); .* one dimension"),
    ],
)
def test_errors_name_the_argument_and_what_would_be_right(call, message):
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        call()
    assert plt.get_fignums() == []  # nothing was begun
