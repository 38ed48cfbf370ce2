"""Whatever allocation of the core fails: MemoryError, and the model is as it was.

The calls and what must hold of them are in torture/faulty_calls.py.
"""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "torture"))

from faulty_calls import build, every_fault


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each call had to tell after all its allocations had failed, one after another."""
    compiler = shutil.which("g++")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and g++")
    library = build(tmp_path_factory.mktemp("faults"), compiler)
    return list(every_fault(library, quick=True))


def test_every_failed_allocation_leaves_the_model_as_it_was(told):
    wrong = {call["call"]: call["wrong"] for call in told if call["wrong"]}
    assert not wrong


def test_every_call_has_allocations_that_fail(told):
    assert [call["call"] for call in told if not call["errors"]] == []


def test_threads_that_cannot_be_started_are_done_without(told):
    """Only there an allocation may fail without an error."""
    tolerant = [call["call"] for call in told if call["errors"] < call["faults"]]
    assert tolerant
    assert all("two threads" in name for name in tolerant)
