"""Columns on comparable scales, row by row or in batches."""

import json

import numpy as np
import pytest

from amforest.reading.running_scale import FIRST_UPDATE, RunningScale

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(900, 6)) * [1, 1e-6, 1e6, 1, 0, 0] + [0, 0, 1e9, 5, 3, 0]
ROWS[:, 5] = np.arange(900.0)  # drifts
ROWS[RNG.uniform(size=ROWS.shape) < 0.2] = np.nan
ROWS[:300, 3] = 5.0  # varies late


def in_force(count):
    """How many values the scale of the count-th value is of."""
    power = FIRST_UPDATE
    while 2 * power <= count:
        power *= 2
    return count if count < FIRST_UPDATE else power


def test_values_are_standardised_by_those_up_to_the_last_doubling():
    scaled = RunningScale(6).transform(ROWS)
    for j in range(6):
        seen = np.flatnonzero(~np.isnan(ROWS[:, j]))
        values = ROWS[seen, j]
        for k, i in enumerate(seen):
            known = values[: in_force(k + 1)]
            spread = known.std()
            expected = (values[k] - known.mean()) / spread if spread > 1e-9 else 0.0
            assert scaled[i, j] == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert (np.isnan(scaled) == np.isnan(ROWS)).all()
    assert np.nanmax(np.abs(scaled[:, 5])) < 6


@pytest.mark.parametrize("size", [1, 7, 99, 100, 101, 250])
def test_batches_and_saving_never_change_the_result(size):
    expected = RunningScale(6).transform(ROWS)
    scale, parts = RunningScale(6), []
    for first in range(0, len(ROWS), size):
        parts.append(scale.transform(ROWS[first : first + size]))
        scale = RunningScale.from_json(json.loads(json.dumps(scale.to_json())))
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_applying_takes_in_nothing():
    scale = RunningScale(6)
    scaled = scale.transform(ROWS)
    state = scale.to_json()
    np.testing.assert_allclose(scale.apply(ROWS[850:]), scaled[850:], rtol=1e-9, atol=1e-9)
    assert scale.to_json() == state
    assert (RunningScale(6).apply(np.ones((2, 6))) == 0).all()


@pytest.mark.parametrize(
    "change", [{"count": [1.0]}, {"sum": [float("nan")] * 6}, {"first": [[1.0]] * 6}]
)
def test_a_broken_state_is_refused(change):
    with pytest.raises(ValueError, match="scales must be"):
        RunningScale.from_json(RunningScale(6).to_json() | change)
