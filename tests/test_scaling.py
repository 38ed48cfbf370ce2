"""Columns on comparable scales, row by row or in batches."""

import json

import numpy as np
import pytest

from amforest._scaling import ENOUGH, RunningScale

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(500, 5)) * [1, 1e-6, 1e6, 1, 0] + [0, 0, 1e9, 5, 3]
ROWS[RNG.uniform(size=ROWS.shape) < 0.2] = np.nan
ROWS[:300, 3] = 5.0  # varies late


def test_values_are_standardised_by_those_up_to_them_until_there_are_enough():
    scaled = RunningScale(5).transform(ROWS)
    for j in range(4):
        column, seen = ROWS[:, j], np.flatnonzero(~np.isnan(ROWS[:, j]))
        varies = seen[np.argmax(column[seen] != column[seen][0])]
        settled = max(seen[ENOUGH - 1], varies)
        for i in seen:
            known = column[: min(i, settled) + 1]
            spread = np.nanstd(known)
            expected = (column[i] - np.nanmean(known)) / spread if spread > 0 else 0.0
            assert scaled[i, j] == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert (np.isnan(scaled) == np.isnan(ROWS)).all()
    assert (scaled[~np.isnan(ROWS[:, 4]), 4] == 0).all()


@pytest.mark.parametrize("size", [1, 7, 99, 100, 101, 250])
def test_batches_and_saving_never_change_the_result(size):
    expected = RunningScale(5).transform(ROWS)
    scale, parts = RunningScale(5), []
    for first in range(0, len(ROWS), size):
        parts.append(scale.transform(ROWS[first : first + size]))
        scale = RunningScale.from_json(json.loads(json.dumps(scale.to_json())))
    np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize(
    "change", [{"count": [1.0]}, {"sum": [float("nan")] * 5}, {"first": [[1.0]] * 5}]
)
def test_a_broken_state_is_refused(change):
    with pytest.raises(ValueError, match="scales must be"):
        RunningScale.from_json(RunningScale(5).to_json() | change)
