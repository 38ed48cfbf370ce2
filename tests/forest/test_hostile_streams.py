"""Streams made to hurt are borne, whatever the depth: the short form of `torture`."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "torture"))
import streams

NAME = "geometric spacing"


@pytest.mark.filterwarnings("ignore::amforest.ScaleWarning")
@pytest.mark.parametrize("name", streams.STREAMS)
def test_a_hostile_stream_is_borne(name):
    answer = streams.bear(name, streams.STREAMS[name].n_quick)
    assert answer["nodes"] > 0


def test_geometric_spacing_makes_trees_as_deep_as_the_stream_is_long():
    depths = {n: streams.bear(NAME, n)["depth"] for n in (300, 1_200)}
    assert depths[300] > 100
    assert depths[1_200] > 3 * depths[300]


def test_depth_takes_no_stack():
    answers = []
    before = threading.stack_size(streams.STACK)
    try:
        body = threading.Thread(target=lambda: answers.append(streams.bear(NAME, 8_000)))
        body.start()
    finally:
        threading.stack_size(before)
    body.join()
    assert streams.STACK / answers[0]["depth"] < 80  # bytes: less than a function call takes


def test_streams_are_what_they_say():
    X, _ = streams.adjacent(100)
    np.testing.assert_array_equal(np.nextafter(X[:-1], np.float32(2)), X[1:])
    X, _ = streams.denormal(100)
    assert 0 < np.abs(X).max() < np.finfo(np.float32).tiny
    X, _ = streams.geometric(1_000)
    assert (np.count_nonzero(X, axis=1) == 1).all()
    assert len(np.unique(X, axis=0)) == 1_000
