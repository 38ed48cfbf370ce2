"""Files and folders that cannot be written, or are read, are refused before the first row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import amforest
from amforest.cli.outputs import check_distinct
from amforest.cli.run import Session
from amforest.cli.settings import demo_stream
from command import amf


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_bytes(demo_stream(200).getvalue())
    Path("file").touch()
    Path("folder").mkdir()


@pytest.mark.parametrize(
    ("option", "path"),
    [
        *(("--save", path) for path in ("no/m.amf", "file/m.amf", "/proc/m.amf", "folder")),
        *(("--predictions", path) for path in ("no/p.csv", "file/p.csv", "/proc/p.csv")),
        *(("--rejects", path) for path in ("no/r.csv", "file/r.csv", "/proc/r.csv")),
        *(("--checkpoint", path) for path in ("file", "file/saved", "/proc", "/proc/saved")),
        *(("--report", path) for path in ("file", "file/report", "/proc", "/proc/report")),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_first_row(option, path, monkeypatch):
    learned = []
    monkeypatch.setattr(Session, "run", lambda self, *_: learned.append(self))
    Path("p.csv").write_text("kept")
    how = ["run", "s.csv", "-t", "buys", "-q"]
    if option != "--predictions":
        how += ["--predictions", "p.csv"]
    error = amf(*how, option, path, code=1).stderr
    assert error.startswith(f"amforest: {option} is {path}, ")
    assert len(error.splitlines()) == 1
    assert not learned
    assert Path("p.csv").read_text() == "kept"


def test_folders_of_checkpoints_and_reports_are_created():
    how = ["run", "s.csv", "-t", "buys", "--trees", 2, "-q"]
    amf(*how, "--checkpoint", "a/b/saved", "--report", "a/c/report", "--save", "folder/m.amf")
    assert sorted(path.name for path in Path().iterdir()) == ["a", "file", "folder", "s.csv"]
    assert [path.name for path in Path("folder").iterdir()] == ["m.amf"]


def test_a_plot_that_cannot_be_written_is_refused_before_the_comparison():
    error = amf("compare", "s.csv", "-t", "buys", "--plot", "no/c.png", code=1).stderr
    assert "--plot is no/c.png, but the folder no does not exist" in error


# Outputs that are also inputs, or each other

RUN = ["run", "s.csv", "-t", "buys", "--trees", 1, "-q"]


def contents():
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*RUN, "--rejects", "s.csv"], "--rejects is s.csv, which is also an input"),
        ([*RUN, "--save", "s.csv"], "--save is s.csv"),
        ([*RUN, "--predictions", "folder/../s.csv"], "--predictions is folder/../s.csv"),
        ([*RUN, "--predictions", "linked.csv"], "--predictions is linked.csv"),
        (["run", "d*.csv", "linked.csv", *RUN[2:], "--save", "s.csv"], "--save is s.csv"),
        (["run", "data", *RUN[2:], "--predictions", "data/d.csv"], "--predictions is data/d.csv"),
        (["run", "data", *RUN[2:], "--report", "./data"], "--report is ./data"),
        ([*RUN, "--warm-start", "m.amf", "--rejects", "m.amf"], "--rejects is m.amf"),
        (["predict", "m.amf", "s.csv", "-o", "s.csv"], "--output is s.csv"),
        (["predict", "m.amf", "s.csv", "-o", "m.amf"], "--output is m.amf"),
        (["explain", "m.amf", "s.csv", "-o", "s.csv"], "--output is s.csv"),
        (["explain", "m.amf", "s.csv", "--plot", "s.png"], "--plot is s.png"),
        (["inspect", "m.amf", "--tree", 0, "-o", "m.amf"], "--output is m.amf"),
        (["compare", "s.csv", "-t", "buys", "--plot", "s.csv"], "--plot is s.csv"),
    ],
)
def test_an_output_that_is_also_an_input_is_refused_and_nothing_changes(options, words):
    amf(*RUN, "--save", "m.amf")
    for name in ("linked.csv", "s.png"):
        Path(name).symlink_to("s.csv")
    Path("data").mkdir()
    for name in ("dd.csv", "data/d.csv"):
        Path(name).write_bytes(Path("s.csv").read_bytes())
    before = contents()
    error = amf(*options, code=1).stderr
    assert error.startswith(f"amforest: {words}")
    assert error.endswith("which is also an input: give another path\n")
    assert contents() == before


@pytest.mark.parametrize(
    ("one", "path", "other", "name"),
    [
        ("--predictions", "p.csv", "--rejects", "./p.csv"),
        ("--save", "p.csv", "--predictions", "folder/../p.csv"),
        ("--checkpoint", "k", "--report", "k/"),
    ],
)
def test_two_outputs_of_the_same_path_are_refused(one, path, other, name):
    before = contents()
    error = amf(*RUN, one, path, other, name, code=1).stderr
    assert error == f"amforest: {other} is {name}, which is also {one}: give another path\n"
    assert contents() == before


def test_a_model_is_continued_in_place():
    amf(*RUN, "--save", "m.amf")
    amf(*RUN, "--warm-start", "m.amf", "--save", "m.amf")
    assert amforest.load("m.amf").n_samples_seen_ == 400


def test_devices_and_standard_output_may_be_named_twice():
    check_distinct(["/dev/null", "-"], dict.fromkeys(["--predictions", "--rejects"], "/dev/null"))
    check_distinct(["-"], dict.fromkeys(["--predictions", "--rejects"], "-"))


def test_standard_input_from_a_file_is_an_input():
    with open("s.csv") as file:
        command = [sys.executable, "-m", "amforest", "run", "-", "-t", "buys", "--save", "s.csv"]
        out = subprocess.run(command, check=False, stdin=file, capture_output=True, text=True)
    assert out.returncode == 1
    assert "--save is s.csv, which is also an input" in out.stderr
    assert Path("s.csv").read_bytes() == demo_stream(200).getvalue()
