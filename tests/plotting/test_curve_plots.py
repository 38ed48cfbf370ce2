"""Curves of progress, and of reliability."""

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from plotting_helpers import CAME, P, progress
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve

from amforest.baselines import OnlineDummyClassifier
from amforest.plotting import (
    plot_progress,
    plot_reliability,
)


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
        assert ax.get_xlabel() == "rows learned"
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


def test_scales_are_logarithmic_only_on_request():
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
    fraction, prediction = calibration_curve(CAME, p, n_bins=bins)
    curve = ax.containers[0].lines[0]
    np.testing.assert_allclose(curve.get_xydata(), np.column_stack([prediction, fraction]))


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
