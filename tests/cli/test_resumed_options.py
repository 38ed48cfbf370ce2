"""A run that resumes from a checkpoint keeps its options: an option that differs is refused."""

from pathlib import Path

import pytest

from command import amf

N_ROWS = 400


@pytest.fixture(autouse=True)
def _in_a_folder_with_streams(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{k % 17},{k % 5},{k % 17 + k % 5},{1000 * (k % 5)},{'st'[k % 2]}" for k in range(N_ROWS)
    ]
    for name, n_rows in (("n1.csv", N_ROWS // 2), ("n.csv", N_ROWS)):
        Path(name).write_text("\n".join(["a,b,y,z,s", *rows[:n_rows]]))


def start(*options):
    amf("run", "n1.csv", "--checkpoint", "k", "--trees", 1, "-q", *options)


def refused(*options):
    """Return the error of a run that would resume, after which the checkpoints are as before."""
    before = sorted((path, path.stat().st_mtime_ns) for path in Path("k").rglob("*"))
    out = amf("run", "n.csv", "--checkpoint", "k", "--trees", 1, "-q", *options, code=1)
    assert sorted((path, path.stat().st_mtime_ns) for path in Path("k").rglob("*")) == before
    assert "Resuming" not in out.stderr
    (line,) = out.stderr.splitlines()
    return line.removeprefix("amforest: ")


@pytest.mark.parametrize("key", [(), ("--key", "s")])
def test_another_target_is_refused_even_if_the_columns_differ(key):
    start("-t", "y", "--drop", "z", *key)
    words = "--target is 'z', but k predicts 'y'"
    assert refused("-t", "z", "--drop", "y", *key) == words
    assert refused("-t", "z", "--types", "a=category", *key) == words


REGRESSION = ("-t", "y", "--drop", "z", "--task", "regression")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "amf"], "--model is amf, but k is a model of class AdaptiveAMFRegressor"),
        (["--task", "classification"], "--task is classification, but k is a model of regression"),
        (["--trees", 2], "--trees is 2, but k has 1,"),
        (["--seed", 3], "--seed is 3, but k has 0,"),
        (["--max-nodes", 900], "--max-nodes is 900, but k has no such limit,"),
        (["--key", "s"], "--key is 's', but k holds one model for all rows: "),
        (["--drop", "a"], "--drop is given, but k has learned a=number, b=number, s=category"),
        (["--types", "a=category"], "--types is given, but k has learned a=number, b=number"),
        (["--use", "a"], "--use is given, but k has learned a=number, b=number"),
    ],
)
def test_options_that_differ_from_those_of_a_checkpoint_are_refused(options, words):
    start(*REGRESSION)
    assert refused(*REGRESSION, *options).startswith(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "k holds a model for each 's': give --key 's', or another folder"),
        (["--key", "b"], "--key is 'b', but k holds a model for each 's': "),
        (["--key", "s", "--seed", 3], "--seed is 3, but k has 0,"),
    ],
)
def test_another_key_than_that_of_a_checkpoint_is_refused(options, words):
    start(*REGRESSION, "--key", "s")
    assert refused(*REGRESSION, *options).startswith(words)


@pytest.mark.parametrize(
    "options",
    [
        ["--use", "a", "--use", "s", "--key", "s"],
        ["--use", "a", "--use", "b", "--use", "z", "--use", "y", "--types", "a=category,y=number"],
        ["--model", "amf", "--no-scale", "--seed", 4, "--max-nodes", 999, "--max-bytes", 10**7],
    ],
)
def test_the_options_of_the_first_run_resume_it(options):
    start(*REGRESSION, *options)
    again = ["n.csv", "--checkpoint", "k", "--trees", 1, "-q", *REGRESSION, *options]
    assert "Resuming from k" in amf("run", *again).stderr


def test_dates_with_times_may_be_requested_as_dates_again():
    rows = [f"2024-03-{k % 28 + 1:02} 12:30,{k % 2}" for k in range(100)]
    for name, n_rows in (("n1.csv", 50), ("n.csv", 100)):
        Path(name).write_text("\n".join(["when,y", *rows[:n_rows]]))
    how = ["-t", "y", "--types", "when=date", "--checkpoint", "k", "-q", "--trees", 1]
    amf("run", "n1.csv", *how)
    assert "Resuming from k" in amf("run", "n.csv", *how).stderr
