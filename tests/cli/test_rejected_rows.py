"""Rows that cannot be read: what a command says, writes and returns."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from amforest.cli.app import app
from command import amf, rows_of


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


def test_a_pipe_whose_labels_come_late_says_how_to_read_them():
    text = "a,y\n" + "1,\n" * 1_000 + "1,yes\n" * 3
    how = ["run", "-", "-t", "y", "-q", "--rejects", "r.csv"]
    result = CliRunner().invoke(app, how, input=text)
    note, error = result.stderr.splitlines()
    assert note.endswith("read as number; --types y=category reads text")
    assert error.startswith("amforest: all 1,003 rows were rejected: 1,000, the first at")
    assert len(rows_of("r.csv")) == 1_003
    learned = CliRunner().invoke(app, [*how, "--types", "y=category"], input=text)
    assert learned.exit_code == 0


# No row at all


def error_of(*args):
    errors = [line for line in amf(*args, code=1).stderr.splitlines() if "amforest: " in line]
    return errors[0].removeprefix("amforest: ")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["1,2,yes,9"] * 300, "all 300 rows were rejected, the first at s.csv:2: 4 fields instead"),
        (["1,2,yes,9"], "the only row was rejected, at s.csv:2: 4 fields instead of 3"),
        (
            ["1,2,"] * 3 + ["1,yes"] * 2,
            "all 5 rows were rejected: 3, the first at s.csv:2: column 'y': the label is missing; "
            "2, the first at s.csv:5: 2 fields instead of 3",
        ),
        ([], "there are no rows"),
    ],
)
def test_a_stream_without_rows_to_learn_names_the_cause_and_writes_rejects(rows, words):
    write("s.csv", rows)
    assert error_of("compare", "s.csv", "-t", "y").startswith(words)
    for name in ("new/r.csv", "old/r.csv"):
        Path(name).parent.mkdir()
        if name.startswith("old"):
            Path(name).write_text("of a run before")
        assert error_of("run", "s.csv", "-t", "y", "--rejects", name).startswith(words)
        assert Path(name).read_text().splitlines()[0] == "file,line,reason,text"
        assert len(rows_of(name)) == len(rows)


def train():
    write("s.csv", [f"{k},{k % 7},{'no' if k % 3 else 'yes'}" for k in range(100)])
    amf("run", "s.csv", "-t", "y", "--trees", 1, "--save", "m.amf", "-q")


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_a_saved_model_without_rows_to_predict_is_an_error(command):
    train()
    write("new.csv", ["one,2", "two,3"], header="a,b")
    words = "all 2 rows were rejected, the first at new.csv:2: column 'a': 'one' is not a number"
    assert error_of(command, "m.amf", "new.csv", "-q").endswith(words)
    assert error_of(command, "m.amf", "new.csv", "-q", "-o", "p.csv").endswith(words)
    write("none.csv", [], header="a,b")
    amf(command, "m.amf", "none.csv", "-q")


def test_the_first_value_that_was_rejected_for_a_reason_is_shown():
    train()
    write("new.csv", ["1,2", "one,2", "two,3"], header="a,b")
    out = amf("predict", "m.amf", "new.csv", "-q", "-o", "p.csv").stderr
    assert "Rejected 2 rows, the first at new.csv:3: column 'a': 'one' is not a number" in out
