"""`amforest compare` with streams that are too small to compare models on."""

import json
from pathlib import Path

import pytest

from command import amf


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_stream(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{k},{k % 3},{'yes' if k < 50 else 'no'}" for k in range(60)]
    Path("s.csv").write_text("\n".join(["a,b,y", *rows]))


@pytest.mark.parametrize("n_rows", [1, 2, 50])
def test_rows_of_one_class_are_a_clear_error(n_rows):
    (line,) = amf("compare", "s.csv", "-t", "y", "--rows", n_rows, code=1).stderr.splitlines()
    rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
    assert line == (
        f"amforest: --target is 'y', which has a single class in the {rows} that were read, and "
        "compare needs at least two: give more rows, or another target"
    )


def test_two_classes_and_a_single_number_are_compared():
    metrics = json.loads(amf("compare", "s.csv", "-t", "y", "--rows", 51, "--json").stdout)
    assert {row["rows"] for row in metrics.values()} == {51}
    lines = amf("compare", "s.csv", "-t", "a", "--rows", 1).stdout.splitlines()
    assert lines[0].strip() == "Test-then-train over 1 row"
