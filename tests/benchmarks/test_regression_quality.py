"""The parts of the quality benchmark that compute figures of regressors."""

import re

import matplotlib as mpl
import numpy as np
import pytest
from benchmarks.quality import kept, regression_runs
from benchmarks.quality.checks import checks
from benchmarks.quality.measuring import BY_REQUEST, SECTIONS, sections_of
from benchmarks.quality.pictures import change
from benchmarks.quality.plan import QUICK
from benchmarks.quality.regression_contenders import EVERYONE, REGRESSORS
from benchmarks.quality.regression_distribution import UNSCORED, coverage, running_normal
from benchmarks.quality.regression_measuring import average_distribution
from benchmarks.quality.regression_page import regression_part
from benchmarks.quality.regression_scores import score_numbers
from benchmarks.quality.regression_streams import (
    NOISE,
    REGRESSION_STREAMS,
    friedman,
    friedman_with_change,
    permuted,
)
from benchmarks.quality.results import Results
from benchmarks.quality.scores import BLOCK
from benchmarks.quality.session import wanted_streams
from benchmarks.quality.targets import Check
from scipy import stats


def _noiseless(function, X):
    if function == 1:
        a, b, c, d, e = X[:, :5].T
        return 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    a, b, c, d = X[:, :4].T
    side = b * c - 1 / (b * d)
    return np.sqrt(a**2 + side**2) if function == 2 else np.arctan(side / a)


# Streams


@pytest.mark.parametrize("n_features", [10, 50])
@pytest.mark.parametrize("function", [1, 2, 3])
def test_friedman_streams_have_normal_noise_of_the_stated_size(function, n_features):
    stream = friedman(function, n_features, 20_000)
    noise = (stream.y - _noiseless(function, stream.X)) / NOISE[function]
    assert stream.X.shape == (20_000, n_features)
    assert noise.mean() == pytest.approx(0, abs=0.03)
    assert noise.std() == pytest.approx(1, abs=0.02)
    assert stats.kstest(noise, "norm").pvalue > 0.001


@pytest.mark.parametrize("function", [2, 3])
def test_the_noise_is_about_a_tenth_of_the_standard_deviation_of_y(function):
    assert friedman(function, 10, 20_000).y.std() / NOISE[function] == pytest.approx(10, rel=0.05)


def test_unused_features_are_uniform_and_say_nothing():
    stream = friedman(2, 50, 20_000)
    unused = stream.X[:, 4:]
    assert stats.kstest(unused[:, 0], "uniform").pvalue > 0.001
    correlations = [np.corrcoef(column, stream.y)[0, 1] for column in unused.T]
    assert np.abs(correlations).max() < 0.03


def test_a_longer_friedman_stream_begins_with_the_shorter_one():
    short, long = friedman(1, 10, 100), friedman(1, 10, 1_000).first(100)
    np.testing.assert_array_equal(short.X, long.X)
    np.testing.assert_array_equal(short.y, long.y)


def test_half_way_the_other_features_take_over():
    stream = friedman_with_change(10_000)
    for rows, strong, weak in ((slice(5_000), 3, 8), (slice(5_000, None), 8, 3)):
        X, y = stream.X[rows], stream.y[rows]
        assert np.corrcoef(X[:, strong], y)[0, 1] > 0.5
        assert abs(np.corrcoef(X[:, weak], y)[0, 1]) < 0.05


def test_permuting_changes_the_order_of_y_only():
    stream = friedman(1, 10, 100)
    changed = permuted(stream, 0)
    assert changed.X is stream.X
    np.testing.assert_array_equal(np.sort(changed.y), np.sort(stream.y))
    assert (changed.y != stream.y).any()


# Scores


def test_the_first_row_is_not_scored():
    y = np.array([100.0, 1.0, 2.0])
    assert score_numbers(np.array([0.0, 2.0, 2.0]), y, 1.0).rmse == pytest.approx(np.sqrt(1 / 2))


def test_scores_of_the_first_rows_are_those_of_these_rows_alone():
    rng = np.random.default_rng(0)
    predictions, y = rng.random((2, 2 * BLOCK + 10))
    first = score_numbers(predictions, y, 1.0).first(BLOCK)
    assert first.rmse == pytest.approx(score_numbers(predictions[:BLOCK], y[:BLOCK], 1.0).rmse)


def test_coverage_is_counted_after_the_first_rows_and_in_whole_blocks():
    is_covered = np.repeat([False, True, False], [UNSCORED, 1_000, 600])
    result = coverage(is_covered)
    assert result["n_counted"] == 1_600
    assert result["coverage"] == pytest.approx(1_000 / 1_600)
    assert result["blocks"] == [1.0]
    assert coverage(is_covered[:UNSCORED]) == {"n_counted": 0, "coverage": None, "blocks": []}


def test_blocks_are_averaged_over_seeds_before_the_lowest_is_taken():
    densities = {"n_counted": 2_000, "log_density": -1.0, "running_normal": -2.0}
    densities["uncorrected"] = -1.5
    runs = [densities | {"coverage": c, "blocks": b} for c, b in ((0.9, [1, 0.8]), (0.8, [0.6, 1]))]
    result = average_distribution(runs)
    assert result["lowest_block"] == pytest.approx(0.8)
    assert result["coverage"] == pytest.approx(0.85)
    assert result["uncorrected"] == -1.5


def test_the_running_normal_has_the_moments_of_the_values_so_far():
    y = 1e6 + np.random.default_rng(0).standard_normal(50)
    result = running_normal(y)
    for i in (2, 10, 49):
        expected = stats.norm(y[:i].mean(), y[:i].std(ddof=1)).logpdf(y[i])
        assert result[i] == pytest.approx(expected)


def test_a_step_that_fits_y_makes_predictions_independent_of_its_unit(monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    moved = regression_runs.measure_units("friedman1", "AMF-Reg", 0, 200)
    assert max(moved[unit] for unit in ("y × 10⁶", "y × 10⁻⁶")) < 1e-6


# The command


def test_one_name_runs_all_regression_sections_that_a_usual_run_has():
    usual = sections_of([])
    assert sections_of(["regression"]) == [n for n in usual if n.startswith("regression-")]
    assert not {*usual} & {*BY_REQUEST}
    assert sections_of(["regression-long", "speed"]) == ["regression-long", "speed"]
    assert {*usual} < {*SECTIONS}


def test_streams_of_both_kinds_are_requested_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("AMFOREST_DATA", str(tmp_path))
    said = []
    assert wanted_streams(QUICK, ["friedman2", "hyperplane", "bike"], said.append) == (
        ["hyperplane"],
        ["friedman2"],
    )
    assert len(said) == 1
    assert "bike" in said[0]


def test_the_quick_plan_names_what_exists():
    assert {*QUICK.contenders} <= {*EVERYONE}
    assert {*QUICK.regression_streams, *QUICK.regression_speed_streams} <= {*REGRESSION_STREAMS}


# Figures


def _row(**errors):
    names = {name.replace("-", "_").replace(" ", "_"): name for name in REGRESSORS}
    return {
        names[key]: {"rmse": rmse, "us_per_row": 1.0, "n_rows": 1_000, "n_seeds": 1, "sd": 2.0}
        for key, rmse in errors.items()
    }


_PEERS = {"AMF_Reg": 4.0, "ARF_Reg": 3.0, "SOKNL": 2.0, "SGBR": 5.0}


def test_the_error_is_compared_with_the_lowest_one_of_all_four_peers():
    results = Results({"regression": {"friedman1": _row(adaptive_Reg=1.0, ARF_Reg=3.0)}})
    assert checks(results) == []
    results.sections["regression"]["friedman1"] = _row(adaptive_Reg=1.0, **_PEERS)
    results.sections["regression"]["friedman2"] = _row(adaptive_Reg=4.0, **_PEERS)
    mean, worst = checks(results)
    assert mean.value == pytest.approx(np.sqrt(0.5 * 2))
    assert (worst.value, worst.case, worst.is_met) == (2.0, "friedman2", False)


def test_streams_with_drift_have_no_bar():
    row = _row(adaptive_Reg=1.0, **_PEERS)
    assert checks(Results({"regression": {"friedman_drift": row}})) == []


def test_absurd_predictions_of_one_forest_of_river_do_not_count():
    row = _row(adaptive_Reg=1.0, river_AMF_Reg=2.0, river_ARF_Reg=1e11)
    [check] = checks(Results({"regression, first rows": {"friedman1": row}}))
    assert check.value == pytest.approx(0.5)


def test_coverage_has_a_bar_on_both_sides_where_enough_rows_are_counted():
    short = {"n_counted": 78, "coverage": 0.5, "lowest_block": None}
    low = {"n_counted": 9_500, "coverage": 0.87, "lowest_block": 0.86}
    high = {"n_counted": 9_500, "coverage": 0.91, "lowest_block": 0.84}
    density = {"log_density": -1.0, "running_normal": -2.0, "uncorrected": -0.9}
    table = {"chick_weights": short, "friedman1": low, "friedman2": high}
    results = Results(
        {"regression, distribution": {name: row | density for name, row in table.items()}}
    )
    figures = [(check.value, check.is_met) for check in checks(results)]
    assert figures == [
        (0.87, False),
        (0.91, True),
        (0.84, False),
        (pytest.approx(1.0), True),
        (pytest.approx(-0.1), False),
    ]


def test_figures_of_robustness_and_time_have_their_bars():
    results = Results(
        {
            "regression, permuted": {"bike": _row(adaptive_Reg=2.04)},
            "regression, noise": {"friedman1": _row(adaptive_Reg=1.2)},
            "regression, units": {"bike": {"adaptive-Reg": {"y × 10⁶": 1e-9, "shift": 2e-6}}},
            "regression, speed": {"bike": {"adaptive-Reg": 50.0, "ARF-Reg": 100.0}},
        }
    )
    figures = [(check.value, check.is_met) for check in checks(results)]
    assert figures == [
        (pytest.approx(1.2), False),
        (2e-6, False),
        (pytest.approx(1.02), True),
        (0.5, True),
        (0.5, True),
    ]
    assert Check("", 2e-6, 1e-6, digits=10).target_text == "≤ 1e-06"


def test_the_page_shows_losses_as_plainly_as_wins():
    results = Results({"regression": {"friedman1": _row(adaptive_Reg=3.0, **_PEERS)}})
    text = regression_part(results)
    assert "| friedman1 | 3 | 4 | 3 | **2** | 5 |" in text
    assert "it is above 1: friedman1 (1.500)" in text
    assert regression_part(Results()) == ""


def test_ticks_of_the_coverage_are_labelled_with_what_they_are(tmp_path):
    """They were rounded to whole numbers: 87.5 % to 88%, and 92.5 % to 92%."""
    is_outside = np.arange(2_000) % np.where(np.arange(2_000) < 1_000, 22, 8) == 0
    curve = {"y": 2.0 * is_outside, "mean": np.zeros(2_000)}
    curve |= {"lower": np.full(2_000, -1.0), "upper": np.ones(2_000)}
    with mpl.rc_context({"svg.fonttype": "none"}):
        change(tmp_path / "change.svg", curve)
    labels = re.findall(r">([\d.]+)%<", (tmp_path / "change.svg").read_text())
    steps = np.diff([float(label) for label in labels])
    assert len(steps) >= 2
    np.testing.assert_allclose(steps, steps[0])
