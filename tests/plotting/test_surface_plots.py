"""Predictions and depths over one feature or two."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from plotting_helpers import PETALS, X, Y, classifier, line, regressor, species, texts
from sklearn.naive_bayes import GaussianNB

from amforest import AMFClassifier, AMFRegressor, river
from amforest.plotting import (
    plot_decision,
    plot_interval,
    plot_partition,
    plot_tree,
    plot_weighted_depth,
)
from amforest.plotting.colours import get_colour


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
    ("make", "how", "predict"),
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
def test_the_field_of_decisions_is_what_the_model_predicts(make, how, predict):
    model = make()
    # Whole numbers of a power of two: the rows computed here are exactly those predicted.
    ax = plot_decision(model, bounds=[[-2, 2], [-1, 1]], resolution=33, **how)
    values, rows = field_of(ax)
    np.testing.assert_array_equal(np.unique(rows[:, 0]), np.linspace(-2, 2, 33))
    np.testing.assert_array_equal(values, predict(model, rows))


def test_of_several_classes_the_most_probable_has_its_colour_the_paler_the_less_sure():
    model = species()
    values, rows = field_of(plot_decision(model, PETALS, resolution=20))
    probabilities = model.predict_proba(pd.DataFrame(rows, columns=PETALS.columns))
    best = probabilities.argmax(axis=1)
    for k in range(3):
        sure, colours = probabilities[best == k, k], values[best == k]
        order = np.argsort(sure)
        assert (np.diff(colours[order, :3].sum(axis=1)) <= 1e-9).all()
        wanted = 1 - np.array(mpl.colors.to_rgb(get_colour(k)))
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
    assert labels == ["80 % of days", "prediction"]
