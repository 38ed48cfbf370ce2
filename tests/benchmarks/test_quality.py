"""The parts of the quality benchmark that compute: scores, recovery, figures and variants."""

import numpy as np
import pytest
from benchmarks.quality.checks import Check, checks
from benchmarks.quality.latency import summarize
from benchmarks.quality.page import write_page
from benchmarks.quality.recovery import WINDOW, recovery
from benchmarks.quality.results import Results
from benchmarks.quality.scores import BLOCK, probabilities, score
from benchmarks.quality.streams import flipped
from benchmarks.quality.variants import with_noise, with_scales


def test_predictions_become_probabilities_above_zero():
    p = probabilities(np.array([[0.0, 2.0], [0.0, 0.0]]))
    np.testing.assert_allclose(p, [[0.0005, 0.9995], [0.5, 0.5]])


def test_scores_of_the_first_rows_are_those_of_these_rows_alone():
    rng = np.random.default_rng(0)
    predictions, y = rng.random((2 * BLOCK + 10, 3)), rng.integers(3, size=2 * BLOCK + 10)
    first = score(predictions, y, 1.0).first(BLOCK)
    alone = score(predictions[:BLOCK], y[:BLOCK], 1.0)
    assert first.log_loss == pytest.approx(alone.log_loss)
    assert first.accuracy == alone.accuracy


@pytest.mark.parametrize("n_wrong", [0, 300])
def test_recovery_counts_rows_until_the_window_is_as_good_as_before(n_wrong):
    is_correct = np.ones(4_000)
    is_correct[2_000 : 2_000 + n_wrong] = 0
    result = recovery(is_correct)
    # At most 2 % of the last 200 rows may be wrong.
    assert result.rows == max(WINDOW, n_wrong + WINDOW - 4)
    assert result.is_complete


def test_a_stream_that_does_not_recover_is_reported():
    is_correct = np.repeat([1.0, 0.0], 1_000)
    assert not recovery(is_correct).is_complete


def test_a_row_is_late_only_if_it_is_late_in_both_runs():
    first, second = np.full((2, 2, 1_000), 1e5)  # the CPU and the wall time of each row, in ns
    first[:, 7] = second[:, 8] = 9e6  # interrupted
    first[:, 9] = second[:, 9] = 4e6  # real work
    result = summarize([tuple(first), tuple(second)])
    assert result["cpu median"] == result["wall median"] == 100
    assert result["cpu max"] == result["wall max"] == 4_000
    assert result["cpu, one run max"] == 9_000


def test_labels_are_exchanged_half_way():
    stream = flipped(10_000)
    side = stream.X[:, :5].sum(axis=1) > 0
    assert np.mean(side[:5_000] == stream.y[:5_000]) > 0.95
    assert np.mean(side[5_000:] == stream.y[5_000:]) < 0.05


def test_variants_change_the_features_only():
    stream = flipped(100)
    assert with_noise(stream, 0).X.shape == (100, 70)
    factors = with_scales(stream, 0).X / stream.X
    np.testing.assert_allclose(factors.std(axis=0) / factors.mean(axis=0), 0, atol=1e-9)
    assert with_scales(stream, 0).y is stream.y


def test_a_figure_is_compared_with_its_bar_in_its_direction():
    assert Check("", 0.5, 0.55).is_met
    assert not Check("", 2.9, 3, at_least=True).is_met


def test_figures_need_both_contenders():
    scores = {"log_loss": 0.2, "accuracy": 0.9, "us_per_row": 1.0, "n_rows": 1, "n_seeds": 1}
    results = Results({"streams": {"car": {"adaptive": scores}}})
    assert checks(results) == []
    results.sections["streams"]["car"]["AMF"] = scores | {"log_loss": 0.4}
    assert [check.value for check in checks(results)] == [pytest.approx(0.5)] * 2


def test_the_best_of_the_contenders_shown_is_bold(tmp_path):
    # river's forests have few rows only, and no column in the first table.
    losses = {"adaptive": 0.2, "AMF": 0.3, "river ARF": 0.1}
    row = {
        name: {"log_loss": loss, "accuracy": 0.9, "us_per_row": 1} for name, loss in losses.items()
    }
    write_page(tmp_path, Results({"streams": {"car": row}}))
    assert "| car | **0.200** / 0.900 | 0.300 / 0.900 |" in (tmp_path / "quality.md").read_text()
