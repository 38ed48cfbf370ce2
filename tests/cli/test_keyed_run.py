"""``amforest run --key``: a model for each value of a column."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from amforest.cli.app import app
from amforest.distributed import KeyedForests
from amforest.model_io import from_bytes
from helpers import tables

HOW = ["-t", "alarm", "--key", "sensor", "--model", "amf", "--trees", "2", "-q"]


def amf(*args, code=0):
    """Run the command in this process."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def stream(tmp_path, monkeypatch):
    """Readings of sensors, half of which have labels that are the opposite of the others'."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    keys, x = (20 * rng.uniform(size=6000) ** 2).astype(int), rng.normal(size=(6000, 2))
    lines = ["sensor,a,colour,alarm"]
    for key, (a, b) in zip(keys, x, strict=True):
        label = "yes" if (a > 0) ^ (key % 2 == 0) else "no"
        lines.append(f"{key},{a:.4f},{'red' if b > 0 else 'blue'},{label}")
    Path("readings.csv").write_text("\n".join(lines))
    return Path("readings.csv")


def test_each_key_has_a_model_of_its_own(stream):
    out = amf("run", stream, *HOW, "--save", "models", "--json", "--report", "report")
    summary = json.loads(out.stdout)
    assert summary["metrics"]["accuracy"] > 0.95  # one model for all cannot exceed 0.5 by much
    assert summary["keys"] == 20
    assert "20 keys" in Path("report/index.html").read_text()
    with KeyedForests.load("models") as forests:
        assert forests.keys() == sorted(map(str, range(20)))
        assert forests.classes_.tolist() == ["no", "yes"]
        assert forests.n_samples_seen_ == 6000
    amf("predict", "models", stream, "-o", "predictions.csv", "-q")
    assert len(Path("predictions.csv").read_text().splitlines()) == 6001


def test_a_run_resumes_from_its_folder(stream):
    amf("run", stream, *HOW, "--predictions", "a.csv", "--save", "a")
    with stream.open() as file:
        Path("first.csv").write_text("".join(islice(file, 4001)))
    again = [*HOW, "--predictions", "b.csv", "--checkpoint", "saved", "--every", 1000]
    amf("run", "first.csv", *again)
    amf("run", stream, *again, "--max-bytes", 100_000, "--save", "b")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    for other in ("b", "saved"):
        with KeyedForests.load("a") as one, KeyedForests.load(other) as two:
            keys = one.keys()
            assert keys == two.keys()
            for key in keys:  # the room that files reserve depends on how rows are cut
                loaded = (from_bytes(forests.model(key).to_bytes()) for forests in (one, two))
                first, second = map(tables, loaded)
                assert first == second


def test_numbers_are_predicted_too(stream):
    how = ["-t", "a", "--key", "sensor", "--model", "amf", "--drop", "alarm", "--json", "-q"]
    summary = json.loads(amf("run", stream, *how).stdout)
    assert summary["task"] == "regression"
    assert summary["keys"] == 20


def test_rows_without_a_key_share_one(stream):
    Path("gaps.csv").write_text("sensor,a,alarm\n,1,no\nx,2,yes\n,3,yes\n")
    amf("run", "gaps.csv", *HOW, "--save", "models")
    with KeyedForests.load("models") as forests:
        assert forests.keys() == ["", "x"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--key", "sensr"], "no column 'sensr'; did you mean 'sensor'?"),
        (["--key", "sensor", "--delay", 3], "--delay is given, but cannot be used with --key"),
        (["--key", "sensor", "--warm-start", "m"], "--warm-start is given"),
        (["--key", "alarm"], "--key is 'alarm', which is the target"),
    ],
)
def test_options_that_do_not_fit_are_refused(stream, options, words):
    assert words in amf("run", stream, "-t", "alarm", *options, code=1).output.replace("\n", " ")


def test_folders_in_use_are_refused(stream):
    amf("run", stream, *HOW, "--save", "models", "--checkpoint", "saved")
    assert "holds models already" in amf("run", stream, *HOW, "--save", "models", code=1).output
    other = amf("run", stream, *HOW, "--checkpoint", "saved", "--seed", 1, code=1).output
    assert "--seed is 1, but saved has 0," in " ".join(other.split())
