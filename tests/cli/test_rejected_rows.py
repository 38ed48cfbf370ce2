"""Rows that cannot be read: what a command says, writes and returns."""

from pathlib import Path

import pytest

from command import amf


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, rows, header="a,b,y"):
    Path(name).write_text("\n".join([header, *rows]))


def test_labels_may_come_after_the_first_rows():
    rows = [f"{k},{k % 3}," for k in range(1_000)]
    write("s.csv", [*rows, *(f"{k},{k % 3},{'no' if k % 3 else 'yes'}" for k in range(300))])
    for options in ([], ["--task", "classification"]):
        out = amf("run", "s.csv", "-t", "y", "--trees", 1, "-q", *options).stderr
        assert "300 rows ·" in out
        assert "Rejected 1,000 rows, the first at s.csv:2: column 'y': the label is missing" in out
