"""Drift is detected where losses rise, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from amforest.evaluation.drift import Drift, DriftDetector

N_ROWS = 100_000


def detect(losses: np.ndarray, *, is_bounded: bool = True) -> list[Drift]:
    detector = DriftDetector(is_bounded=is_bounded)
    detector.update(losses)
    return detector.drifts


@pytest.mark.parametrize("kind", ["uniform", "mostly small", "rare errors"])
def test_a_stationary_stream_has_no_drift(kind):
    rng = np.random.default_rng(0)
    losses = {
        "uniform": rng.uniform(size=N_ROWS),
        "mostly small": rng.beta(0.3, 2, size=N_ROWS),
        "rare errors": (rng.uniform(size=N_ROWS) < 0.01).astype(float),
    }
    assert not detect(losses[kind])


def test_heavy_errors_of_a_stationary_stream_are_no_drift():
    errors = np.abs(np.random.default_rng(0).standard_t(3, N_ROWS))
    assert not detect(errors, is_bounded=False)


def test_a_model_that_becomes_better_is_no_drift():
    rng = np.random.default_rng(0)
    assert not detect(rng.uniform(size=20_000) * np.linspace(1, 0.1, 20_000))


@pytest.mark.parametrize("is_bounded", [True, False])
def test_a_rise_is_detected_soon_and_once(is_bounded):
    rng = np.random.default_rng(0)
    losses = 0.4 * rng.uniform(size=20_000) * np.where(np.arange(20_000) < 10_000, 1, 2.5)
    (drift,) = detect(losses if is_bounded else 1_000 * losses, is_bounded=is_bounded)
    assert 9_950 <= drift.since <= 10_000
    assert 10_000 < drift.row <= 10_150


def test_drifts_do_not_depend_on_batches_or_units():
    rng = np.random.default_rng(0)
    losses = rng.uniform(size=3_000) * np.where(np.arange(3_000) < 1_990, 0.3, 1)
    by_row = DriftDetector(is_bounded=False)
    for loss in losses:
        by_row.update([1024 * loss])
    (one,), (other,) = by_row.drifts, detect(losses, is_bounded=False)
    assert (one.row, one.since) == (other.row, other.since)
    assert (one.before, one.after) == (1024 * other.before, 1024 * other.after)


def test_unbounded_losses_that_fall_while_a_model_learns_are_no_drift():
    rng = np.random.default_rng(0)
    scale = np.maximum(np.exp(-np.arange(20_000) / 1_000), 0.05)
    assert not detect(np.abs(rng.normal(size=20_000)) * scale, is_bounded=False)


def test_a_drift_has_the_mean_losses_before_and_after_it():
    (drift,) = detect(np.repeat([0.25, 0.75], 1_000))
    assert (drift.since, drift.before, drift.after) == (1_000, 0.25, 0.75)


def test_rows_without_a_loss_are_counted():
    losses = np.repeat([0.25, 0.75], 1_000)
    with_gaps = np.full(4_000, np.nan)
    with_gaps[1::2] = losses
    (drift,), (other,) = detect(losses), detect(with_gaps)
    assert (other.since, other.row) == (2 * drift.since, 2 * drift.row)


@pytest.mark.parametrize("name", ["ADWIN", "PageHinkley"])
def test_detectors_of_river_can_take_the_place_of_ours(name):
    river = pytest.importorskip("river.drift")
    rng = np.random.default_rng(0)
    losses = rng.uniform(size=4_000) * np.where(np.arange(4_000) < 2_000, 0.3, 1)
    template = getattr(river, name)()
    detector = DriftDetector(detector=template)
    for some in np.array_split(losses, 7):
        detector.update(some)
    (drift,) = detector.drifts
    assert abs(drift.since - 2_000) <= 50
    assert 2_000 < drift.row <= 2_300
    assert not template.drift_detected  # a copy of it was used
    falling = DriftDetector(detector=template)
    assert not falling.update(losses[::-1])  # the model has learned
