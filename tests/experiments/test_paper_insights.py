"""Figures 7 to 9: their measures are what they are called, and their claims can fail."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from experiments.paper import _fields, figure_07, figure_08, figure_09
from experiments.paper._curves import Curves
from experiments.paper._methods import AMF, ET, MF, RF
from experiments.paper._run import Run
from sklearn.metrics import log_loss

from amforest import datasets

FIGURES = (figure_07, figure_08, figure_09)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("found"), size="tiny")
    return {figure: figure.compute(run) for figure in FIGURES}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.__name__)
def test_each_figure_is_drawn_with_claims_and_a_table(figure, found):
    picture = figure.draw(found[figure])
    picture.draw_without_rendering()
    assert all(claim.text and claim.found for claim in figure.claims(found[figure]))
    for table in figure.tables(found[figure]):
        assert {len(row) for row in table.rows} == {len(table.headings)}


class Wave:
    """A model whose predictions follow a function of the first feature."""

    def __init__(self, function):
        self.function = function

    def predict_proba(self, X):
        p = self.function(X[:, 0])
        return np.stack([1 - p, p], axis=1)


def test_fields_are_predictions_with_the_first_feature_across():
    field = _fields.field_of(Wave(lambda x: x / 10), "linear")
    assert field.shape == (_fields.SIDE, _fields.SIDE)
    assert (field[0] == field[-1]).all()
    assert field[0, [0, -1]] == pytest.approx([-0.32, 0.32])


def test_variation_counts_ups_and_downs_and_jumps_count_steps():
    rise = _fields.field_of(Wave(lambda x: (x + 3.2) / 6.4), "linear")
    step = _fields.field_of(Wave(lambda x: (x > 0) * 1.0), "linear")
    bump = _fields.field_of(Wave(lambda x: (abs(x) < 1) * 1.0), "linear")
    # Half of the lines go across, the others see no change.
    assert [_fields.variation(f) for f in (rise, step, bump)] == pytest.approx([0.5, 0.5, 1])
    expected = [0.5 / (_fields.SIDE - 1), 0.5, 1]
    assert [_fields.jumps(f) for f in (rise, step, bump)] == pytest.approx(expected)


def test_the_factor_mends_log_odds_that_are_half_of_what_they_should_be():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=50_000)
    y = (rng.uniform(size=50_000) < 1 / (1 + np.exp(-2 * log_odds))).astype(int)
    found = figure_09._rescaled(1 / (1 + np.exp(-log_odds)), y)
    assert found["factor"] == pytest.approx(2, rel=0.05)
    assert found["rescaled"] == pytest.approx(
        log_loss(y, 1 / (1 + np.exp(-2 * log_odds))), rel=1e-3
    )


def test_shifts_tell_a_likeness_from_chance():
    x = np.linspace(0, 1, 500)
    peak, other = np.exp(-((x - 0.4) ** 2) / 0.01), np.exp(-((x - 0.8) ** 2) / 0.01)
    rho, p = figure_08._rank_correlation(peak**3, peak)
    assert rho == pytest.approx(1)
    assert p == pytest.approx(1 / 500)
    rho, p = figure_08._rank_correlation(other, peak)
    assert rho < 0.2
    assert p > 0.3


def test_depths_are_deeper_where_the_signal_is_rough():
    found = figure_08.depths_on_signal("bumps", figure_08.SHOWN, 0, 2_000, 20)
    assert found["rho"] > 0.8
    assert found["p"] < 0.05
    assert found["deepest"] > 2 * found["shallowest"]
    assert found["depths"].shape == (len(figure_08.PLACES), 20)


def followed(auc):
    """Return what Figure 7 would have found for a course of AUCs."""
    times = np.array(figure_07.TIMES)
    one = Curves(times, np.linspace(0.1, 0.01, len(times))[None])
    curves = {(m, method): one for m in figure_07.MEASURES for method in figure_07.METHODS}
    curves["auc", AMF] = Curves(times, np.array([auc]))
    for rougher in (MF, figure_07.PLAIN):
        curves["jumps", rougher] = Curves(times, 2 * one.values)
    return figure_07.Followed(curves, np.zeros(0), (np.zeros(0), np.zeros(0)))


def test_an_auc_that_falls_or_is_late_breaks_the_claims():
    n = len(figure_07.TIMES)
    good = np.linspace(0.92, 0.98, n)
    assert [claim.holds for claim in figure_07.claims(followed(good))] == [True] * 5
    assert not figure_07.claims(followed(good - 0.1))[0].holds
    falling = np.append(good[:-1], 0.95)
    assert not figure_07.claims(followed(falling))[1].holds


def compared(**changed):
    """Return what Figure 9 would have found: AMF is better but for what is changed."""
    others = {
        "auc": 0.9,
        "log_loss": 0.2,
        "jumps": 0.2,
        "variation": 2.0,
        "factor": 1,
        "rescaled": 1,
    }
    ours = {
        "auc": 0.99,
        "log_loss": 0.1,
        "jumps": 0.1,
        "variation": 1.0,
        "factor": 1,
        "rescaled": 0,
    }
    cells = {
        (toy, forest): [others if forest in (MF, RF, ET) else ours | changed]
        for toy in datasets.TOYS
        for forest in figure_09.FORESTS
    }
    return figure_09.Compared(cells, {})


@pytest.mark.parametrize(
    ("worse", "broken"),
    [({}, None), ({"variation": 3.0}, 0), ({"auc": 0.8}, 1), ({"log_loss": 0.3}, 2)],
)
def test_a_forest_that_is_worse_breaks_its_claim(worse, broken):
    holds = [claim.holds for claim in figure_09.claims(compared(**worse))]
    assert holds == [i != broken for i in range(3)]
