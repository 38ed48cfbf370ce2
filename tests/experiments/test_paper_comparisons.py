"""Figures 10 to 12 and Tables 2 and 3: what they measure, on a few rows of stand-in data."""

import numpy as np
import pytest
from experiments.paper import figure_10, figure_11, figure_12, table_2, table_3
from experiments.paper._aucs import auc_after_all, auc_along, checkpoints
from experiments.paper._curves import Curves, mean_text
from experiments.paper._losses import SMALLEST, average_loss, sgd_predictions
from experiments.paper._methods import AMF, DUMMY, MF, RF, SGD, new
from experiments.paper._run import Run
from experiments.paper._streams import _loaded, must_stand_in, split, stream
from numpy.testing import assert_allclose
from sklearn.linear_model import SGDClassifier

from amforest import AMFClassifier, datasets

EXHIBITS = (figure_10, figure_11, figure_12, table_2, table_3)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny run, on stand-in data wherever the tests are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMFOREST_DATA", str(tmp_path_factory.mktemp("empty")))
        _loaded.cache_clear()  # of what other tests have loaded
        yield Run(tmp_path_factory.mktemp("found"), size="tiny")


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda module: module.__name__.split(".")[-1])
def test_exhibits_draw_tell_and_check(run, exhibit):
    found = exhibit.compute(run)
    figure, tables = exhibit.draw(found), exhibit.tables(found)
    assert (figure is None) == (exhibit is table_3)
    if figure is not None:
        figure.canvas.draw()
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.headings)}
        assert "nan" not in str(table.rows)
    for claim in exhibit.claims(found):
        assert claim.text
        assert type(claim.holds) is bool
        assert "nan" not in claim.found


def test_absent_data_are_replaced_in_tiny_runs_only(run, tmp_path):
    assert must_stand_in(run)
    for size in ("full", "quick"):
        assert not must_stand_in(Run(tmp_path, size=size))
    with pytest.raises(FileNotFoundError, match="AMFOREST_DATA"):
        table_3.compute(Run(tmp_path, size="full"))


def test_table_3_has_every_data_set():
    assert tuple(datasets.SHAPES) == datasets.NAMES


@pytest.mark.parametrize("name", ["spambase", "satimage"])
def test_sgd_does_what_scikit_learn_does_row_by_row(name):
    data = stream(name, 0, 60, stands_in=True)
    ours = sgd_predictions(new(SGD, n_classes=data.n_classes, seed=0), data)
    theirs = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1)
    for i, x in enumerate(data.X.astype(float)):
        if i > 0:
            assert_allclose(ours[i], theirs.predict_proba([x])[0], rtol=1e-8)
        theirs.partial_fit([x], data.y[i : i + 1], classes=np.arange(data.n_classes))


def test_losses_are_averaged_from_the_second_row_on():
    data = stream("car", 1, 100, stands_in=True)
    found = average_loss(AMF, "car", 1, 100, True)
    model, losses = AMFClassifier(classes=range(4), random_state=1), []
    for i in range(100):
        if i > 0:
            losses.append(-np.log(model.predict_proba(data.X[i : i + 1])[0, data.y[i]]))
        model.partial_fit(data.X[i : i + 1], data.y[i : i + 1])
    assert found["t"][-1] == 99
    for t, loss in zip(found["t"], found["loss"], strict=True):
        assert_allclose(loss, np.mean(losses[:t]))


def test_predictions_below_the_smallest_are_left_out():
    averages = np.array([[1.0], [(9 - np.log(SMALLEST)) / 10]])  # one is clipped, the others are 1
    curves = {MF: Curves(np.array([10]), averages)}
    assert_allclose(figure_10.Found({"car": curves}, {"car": 1}).without_clipped("car"), 1)


def test_online_methods_are_tested_every_100_rows():
    assert checkpoints(250) == [100, 200, 250]
    assert checkpoints(300) == [100, 200, 300]


def test_auc_along_the_stream_ends_with_that_after_all():
    along = auc_along(AMF, "spambase", 0, 400, True)
    assert along["t"].tolist() == [100, 200, 280]
    assert along["auc"][-1] == auc_after_all(AMF, "spambase", 0, 10, 400, True)["auc"]
    assert auc_along(DUMMY, "spambase", 0, 400, True)["auc"].tolist() == [0.5] * 3
    assert auc_after_all(RF, "spambase", 0, 10, 400, True)["auc"] > 0.5


def test_streams_are_the_same_rows_in_another_order():
    whole, (train, test) = (
        stream("car", 3, None, stands_in=True),
        split("car", 3, None, stands_in=True),
    )
    assert len(test) == round(0.3 * 1728)
    assert np.array_equal(np.concatenate([test.X, train.X]), whole.X)
    other = stream("car", 4, None, stands_in=True)
    assert not np.array_equal(other.X, whole.X)
    assert np.array_equal(np.bincount(other.y), np.bincount(whole.y))


def test_visits_are_those_of_the_trees_paths():
    found = table_2.visits(0, [1000])
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(1000, 2)).astype(np.float32), rng.integers(2, size=1000)
    tree = AMFClassifier(1, split_pure=True, random_state=0).fit(X[:900], y[:900])
    visits = []
    for i in range(900, 1000):
        tree.partial_fit(X[i : i + 1], y[i : i + 1])
        leaf = tree.apply(X[i : i + 1])[0, 0]
        visits.append(2 * (tree.tree_table(0)["depth"][leaf] + 1))
    assert found["update"] == np.mean(visits)
    assert found["nodes"] == 1999


def test_means_have_deviations_where_there_are_several_seeds():
    assert mean_text(np.array([0.5])) == "0.500"
    assert mean_text(np.array([0.4, 0.6])) == "0.500 ± 0.141"
    curves = Curves(np.array([1, 10, 100]), np.array([[3.0, 2.0, 1.0], [5.0, 2.0, 3.0]]))
    assert (curves.last, curves.at(2), curves.at(90)) == (2.0, 4.0, 2.0)
