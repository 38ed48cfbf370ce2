"""Files and folders that cannot be written are refused before the first row is learned."""

from __future__ import annotations

from pathlib import Path

import pytest

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
