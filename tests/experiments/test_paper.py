"""The paper is reproduced: computed cells are kept, and the report says what was found."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from experiments.paper import __main__ as command
from experiments.paper import _report, figure_10
from experiments.paper._findings import Claim, Table
from experiments.paper._run import Run, _used_by, name_of

from experiments import paper


def cubes(n, seed):
    return {"cubes": np.random.default_rng(seed).normal(size=n) ** 3, "n": np.array(n)}


def failing(n):
    if n == 2:
        raise ArithmeticError("two is too many")
    return {"n": np.array(n)}


CELLS = [(3, 0), (3, 1), (5, 0)]


@pytest.mark.parametrize("attempt", range(5))  # the signal comes at another moment each time
def test_ctrl_c_waits_for_the_file_that_is_being_written(tmp_path, monkeypatch, attempt):
    save = np.savez_compressed

    def save_meanwhile(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(attempt * 6e-3)
        save(*args, **kwargs)

    monkeypatch.setattr(np, "savez_compressed", save_meanwhile)
    with pytest.raises(KeyboardInterrupt):
        Run(tmp_path).cells(cubes, CELLS, "cubes")
    (path,) = tmp_path.iterdir()
    assert np.array_equal(np.load(path)["cubes"], cubes(*CELLS[0])["cubes"])


def test_cells_are_computed_once(tmp_path):
    told = []
    run = Run(tmp_path, report=lambda *what: told.append(what))
    first = run.cells(cubes, CELLS, "cubes")
    assert told == [("cubes", k, 3) for k in range(4)]
    again = Run(tmp_path, report=lambda *what: told.append(what)).cells(cubes, CELLS, "cubes")
    assert told[4:] == [("cubes", 3, 3)]
    for found, kept, cell in zip(first, again, CELLS, strict=True):
        assert np.array_equal(found["cubes"], kept["cubes"])
        assert np.array_equal(found["cubes"], cubes(*cell)["cubes"])


@pytest.mark.slow  # starting them takes seconds
def test_processes_give_the_same_numbers(tmp_path):
    with Run(tmp_path / "two", n_jobs=2).open() as run:
        by_two = run.cells(cubes, CELLS, "cubes")
    for found, cell in zip(by_two, CELLS, strict=True):
        assert np.array_equal(found["cubes"], cubes(*cell)["cubes"])


def test_what_was_done_before_an_error_is_kept(tmp_path):
    run = Run(tmp_path)
    with pytest.raises(ArithmeticError):
        run.cells(failing, [(1,), (2,), (3,)], "failing")
    assert [path.name for path in tmp_path.iterdir()] == [f"{name_of(failing, (1,))}.npz"]


def test_names_tell_cells_apart():
    names = {name_of(cubes, cell) for cell in CELLS} | {name_of(failing, CELLS[0])}
    assert len(names) == 4


def test_names_follow_the_code_that_is_used():
    used = _used_by(figure_10.__name__)
    assert {"experiments.paper.figure_10", "experiments.paper._methods"} <= used
    assert "experiments.paper._run" not in used


def test_unknown_exhibits_are_named(tmp_path):
    with pytest.raises(ValueError, match="unknown exhibit 'figure_99'; known are figure_01"):
        paper.reproduce(tmp_path, only=["figure_99"])
    assert not list(tmp_path.iterdir())


def test_the_report_shows_tables_claims_and_reasons(tmp_path):
    claims = [Claim("it is so", "1 | 2", True), Claim("it is not", "3", False, "Because.")]
    table = Table(("a", "b"), [("x", "1")])
    finding = paper.Finding("table_3", "Data sets", "About *them*.", None, [table], claims)
    text = _report.markdown([finding], "full")
    assert "**1 of 2 claims hold.**" in text
    assert "| [Table 3: Data sets](#table-3-data-sets) | 1 of 2 |" in text
    assert "| it is so | 1 \\| 2 | yes |" in text
    assert "*“it is not”*: Because." in text
    page = _report.page(text, tmp_path)
    assert '<h2 id="table-3-data-sets">Table 3: Data sets</h2>' in page
    assert "<td>1 | 2</td>" in page
    assert "About <em>them</em>." in page


def reproduced(folder):
    return paper.reproduce(folder, size="tiny")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    return folder, reproduced(folder)


@pytest.mark.slow
def test_every_exhibit_runs_on_tiny_sizes(tiny):
    folder, findings = tiny
    assert tuple(finding.name for finding in findings) == paper.NAMES
    text = folder.joinpath("paper.md").read_text("utf-8")
    page = folder.joinpath("paper.html").read_text("utf-8")
    for finding in findings:
        assert finding.claims
        assert all(claim.text and claim.found for claim in finding.claims)
        assert f"## {_report.label(finding.name)}: {finding.title}" in text
        if finding.picture is not None:
            assert folder.joinpath(finding.picture).read_bytes()[1:4] == b"PNG"
    assert page.count("data:image/png;base64,") == sum(f.picture is not None for f in findings)
    assert "http" not in page.replace("https://", "")  # no part of it is elsewhere


@pytest.mark.slow
def test_a_second_run_gives_the_same_numbers(tiny, tmp_path):
    folder, _ = tiny
    reproduced(tmp_path)
    first, second = (f.joinpath("paper.json").read_text("utf-8") for f in (folder, tmp_path))
    assert json.loads(first) == json.loads(second)


def test_the_command_prints_the_claims(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    to = str(tmp_path)
    assert command.main(["--quick", "--quiet", "--only", "figure_02", "--to", to]) == 0
    printed = capsys.readouterr()
    assert "The paper's claims" in printed.out
    assert str(tmp_path / "paper.html") in printed.out
    assert not printed.err
    assert command.main(["--only", "figure_99", "--to", to]) == 1
    assert "error: unknown exhibit 'figure_99'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--processes", "0"])


@pytest.mark.slow
@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_continues_where_it_was(tmp_path, how, status):
    command = [sys.executable, "-m", "experiments.paper", "--quick", "--only", "figure_07"]
    command += ["--to", str(tmp_path), "--processes", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    kept = tmp_path / "found"
    deadline = time.monotonic() + 120
    while not list(kept.glob("*.npz")):
        assert time.monotonic() < deadline, "no cell was done in two minutes"
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does
    else:
        process.send_signal(how)
    _, said = process.communicate(timeout=60)  # returns when none of its processes is left
    assert process.returncode == status, said
    assert "Traceback" not in said
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.npz")}
    assert before
    subprocess.run(command, check=True, capture_output=True)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert tmp_path.joinpath("paper.md").exists()
