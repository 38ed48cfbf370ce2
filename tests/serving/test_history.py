"""The history of a server, and sessions of the playground, without a server."""

from __future__ import annotations

import numpy as np
import pytest

from amforest.serving.history import History
from amforest.serving.playground_session import GRID, MOST_ROWS, UNITS, PlaygroundSession


def test_a_history_is_bounded_and_covers_all_of_the_past_evenly():
    history = History(n_recent=5, most=10)
    for tick in range(1_000):
        history.add({"tick": tick})
    kept = history.to_json()
    assert [point["tick"] for point in kept["recent"]] == list(range(995, 1_000))
    ticks = [point["tick"] for point in kept["all"]]
    assert 5 <= len(ticks) < 10
    assert ticks == list(range(0, 1_000, kept["spacing"]))


@pytest.mark.parametrize("memory", [0, 8])
def test_the_cells_of_a_partition_fill_the_plane_without_overlap(memory):
    session = PlaygroundSession("moons", 0)
    session.learn(150, 30.0, swapped=False)
    for plane in session.show("partition", memory, 1)["planes"].values():
        cells = np.array(plane["cells"])
        assert (cells[:, 2] * cells[:, 3]).sum() == UNITS**2
        assert cells[:, 4].min() < 0.5 < cells[:, 4].max()


def test_fields_hold_what_the_forests_predict_from_the_top_left_on():
    session = PlaygroundSession("empty", 0)
    session.add(-1.9, 1.9, 1, 20)
    session.add(1.9, -1.9, 0, 20)
    for name, plane in session.show("prediction", 0, 0)["planes"].items():
        field = plane["field"]
        assert len(field) == GRID**2
        assert field[0] > 0.8
        assert field[-1] < 0.2
        expected = session.models[name].predict_proba([[-2 + 2 / GRID, 2 - 2 / GRID]])[0, 1]
        assert field[0] == pytest.approx(expected, abs=1e-3)


def test_a_concept_that_is_rotated_by_half_a_turn_has_its_points_on_the_other_side():
    points = {}
    for rotation in (0, 180):
        session = PlaygroundSession("linear", 0)
        session.learn(100, rotation, swapped=False)
        points[rotation] = np.array(session.show("prediction", 0, 0)["points"])
    assert points[0][:, :2] == pytest.approx(-points[180][:, :2], abs=2e-3)
    assert (points[0][:, 2] == points[180][:, 2]).all()


def test_a_session_ends_when_it_is_full():
    session = PlaygroundSession("circles", 0)
    session.n_rows = MOST_ROWS - 3
    session.learn(10, 0.0, swapped=True)
    session.add(0.0, 0.0, 1, 5)
    assert session.n_rows == MOST_ROWS
    assert session.show("prediction", 0, 0)["is_full"]
