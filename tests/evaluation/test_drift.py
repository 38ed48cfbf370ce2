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
    assert drift.since == 10_000
    assert 10_000 < drift.row <= 10_500


def test_drifts_do_not_depend_on_batches_or_units():
    rng = np.random.default_rng(0)
    losses = rng.uniform(size=3_000) * np.where(np.arange(3_000) < 1_990, 0.3, 1)
    by_row = DriftDetector(is_bounded=False)
    for loss in losses:
        by_row.update([1024 * loss])
    assert by_row.drifts == detect(losses, is_bounded=False) != []
