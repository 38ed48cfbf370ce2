"""Forests are those of the versions before: the structure to the bit, predictions to 1e-12."""

import json

import pytest
from record import FILE, cases, data, differences, predictions_of, structure_of

EXPECTED = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_forest_is_the_one_that_was_recorded(case):
    stream = data(case.kind)
    model = case.learn(case.model(), stream)
    found = {"structure": structure_of(model), "predictions": predictions_of(model, stream)}
    assert not list(differences({case.name: found}, {case.name: EXPECTED[case.name]}))


def test_all_recorded_forests_are_compared():
    assert {case.name for case in cases()} == EXPECTED.keys()
