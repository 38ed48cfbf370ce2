"""What all plots have in common: axes, and what they refuse."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plotting_helpers import (
    CAME,
    IRIS,
    SPECIES,
    P,
    X,
    Y,
    classifier,
    line,
    progress,
    regressor,
    shop,
)
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from amforest import AMFClassifier, AMFRegressor, plotting, river
from amforest.plotting import (
    plot_decision,
    plot_interval,
    plot_partition,
    plot_progress,
    plot_reliability,
    plot_tree,
    plot_weighted_depth,
)
from amforest.theory import sample_mondrian

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
import amforest, amforest.evaluation, amforest.theory
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
def test_a_model_that_has_learned_nothing_is_not_drawn(plot, model):
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


# Errors

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
        (lambda: plot_tree(X), "it must be a fitted model"),
        (lambda: plot_decision(LinearSVC().fit(X, Y), X), "a classifier needs predict_proba"),
        (lambda: plot_decision(GaussianNB().fit(X, Y)), "X is None; it is needed for the range"),
        (lambda: plot_partition(classifier(), 3), "tree is 3; it must be .* one of 3 trees"),
        (lambda: plot_tree(classifier(), -4), "tree is -4; it must be .* one of 3 trees"),
        (lambda: plot_decision(GaussianNB().fit(X, Y), X, tree=0), "tree is 0; only trees of"),
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
        (lambda: plot_interval([0, 1], None, [[0.0]]), "predictions has 1 rows; x has 2"),
        (lambda: plot_interval([0, 1], None, BAND[:2]), "predictions is a tuple of 2; it must be"),
        (lambda: plot_interval([0, 1], None, BAND), "lower is 2 and upper 1 in row 1"),
        (lambda: plot_interval([0], None, [[0.0]], level=2), "level is 2; it must be above 0"),
        (lambda: plot_interval([[0, 1]], None, [[0.0]]), r"x has shape \(1, 2\); .* one dimension"),
    ],
)
def test_errors_name_the_argument_and_what_would_be_right(call, message):
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        call()
    assert plt.get_fignums() == []  # no figure was created
