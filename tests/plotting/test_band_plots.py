"""Labels, predictions and intervals row after row."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection

from amforest import AdaptiveAMFRegressor
from amforest.plotting import plot_predictions, plot_tree

Y = np.array([1.0, 2.0, 5.0, 3.0])
MEANS = np.array([1.5, 2.0, 2.5, 3.0])
ENDS = np.stack([MEANS - 1, MEANS + 1], axis=1)


def points(ax, label):
    (line,) = (line for line in ax.lines if line.get_label() == label)
    return np.asarray(line.get_xydata()).tolist()


def test_labels_outside_their_intervals_are_set_apart():
    ax = plot_predictions(Y, MEANS, ENDS, rows=[11, 12, 13, 14])
    assert points(ax, "label") == [[11, 1], [12, 2], [14, 3]]
    assert points(ax, "label outside") == [[13, 5]]
    assert points(ax, "prediction") == np.stack([[11, 12, 13, 14], MEANS], axis=1).tolist()
    (band,) = (some for some in ax.collections if isinstance(some, PolyCollection))
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    expected = {(11.0 + i, end) for i, pair in enumerate(ENDS.tolist()) for end in pair}
    assert expected <= corners
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["interval", "prediction", "label", "label outside"]


def test_intervals_are_not_needed():
    ax = plot_predictions(Y, MEANS, legend=False, ax=plt.figure().subplots())
    assert not ax.collections
    assert [x for x, _ in points(ax, "label")] == [1, 2, 3, 4]
    assert ax.get_legend() is None


def test_intervals_that_are_far_too_wide_are_cut_off():
    ends = ENDS.copy()
    ends[0] = -1e9, 1e9
    low, high = plot_predictions(Y, MEANS, ends).get_ylim()
    assert -10 < low < 1
    assert 5 < high < 12


@pytest.mark.parametrize("value", [5.5, 0.0, 1e30])
def test_equal_labels_have_an_axis(value):
    same = np.full(4, value)
    low, high = plot_predictions(same, same, np.stack([same, same], axis=1)).get_ylim()
    assert low < value < high


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((Y, MEANS[:3]), "predictions has 3 values; there are 4 rows"),
        ((Y, MEANS, ENDS[:3]), r"intervals has shape \(3, 2\); it must have 2 columns for 4 rows"),
        ((ENDS, MEANS), r"y has shape \(4, 2\)"),
    ],
)
def test_bad_input_is_named(args, says):
    with pytest.raises(ValueError, match=says):
        plot_predictions(*args)


def test_a_tree_on_a_linear_regression_shows_residuals():
    X = np.random.default_rng(0).uniform(size=(100, 2))
    model = AdaptiveAMFRegressor(2, random_state=0).fit(X, X.sum(axis=1))
    assert plot_tree(model, 0).get_xlabel().startswith("mean and number of samples")
    assert plot_tree(model, -1).get_xlabel().startswith("mean residual and number of samples")
