"""The command line: a stream in, predictions and a model out, and clear words when it cannot be."""

import csv
import io
import json
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import amforest
from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.cli.comparison import compare
from amforest.cli.console import LastView
from amforest.cli.row_file import RowFile
from amforest.cli.run import run
from amforest.cli.settings import Settings, demo_stream
from amforest.reading import KINDS, open_stream
from command import amf, rows_of
from helpers import tables

COMMAND = [sys.executable, "-W", "ignore", "-m", "amforest"]


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """A file of CSV with words, dates and gaps."""
    path = tmp_path_factory.mktemp("streams") / "visits.csv"
    path.write_bytes(demo_stream(3000).getvalue())
    return path


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_each_row_is_predicted_and_then_learned(stream, tmp_path):
    out = amf(
        "run", stream, "-t", "buys", "--save", "m.amf", "--predictions", "f.csv", "--json", "-q"
    )
    summary, rows = json.loads(out.stdout), rows_of("f.csv")
    labels = pd.read_csv(stream)["buys"].tolist()
    assert [row["label"] for row in rows] == labels
    assert rows[0]["prediction"] == ""  # nothing was known
    hits = [row["label"] == row["prediction"] for row in rows[1:]]
    assert summary["metrics"]["accuracy"] == pytest.approx(np.mean(hits))
    assert summary["rows"] == summary["samples"] == 3000
    model = amforest.load("m.amf")
    assert isinstance(model, AdaptiveAMFClassifier)
    assert model.stats()["nodes"] == summary["nodes"]
    assert summary["metrics"]["log_loss"] < 0.55


def test_the_same_stream_gives_the_same_files_in_every_format(stream):
    table = pd.read_csv(stream)
    table.to_csv("s.tsv", sep="\t", index=False)
    table.to_json("s.ndjson", orient="records", lines=True)
    table.assign(time=pd.to_datetime(table["time"])).to_parquet("s.parquet")
    models = []
    for source in (stream, "s.tsv", "s.ndjson", "s.parquet"):
        amf("run", source, "-t", "buys", "--save", "m.amf", "-q")
        models.append(amforest.load("m.amf").to_bytes())
    assert len(set(models)) == 1
    args = ("run", "-", "-t", "buys", "--save", "m.amf", "-q")
    with open(stream) as file:
        subprocess.run([*COMMAND, *args], stdin=file, check=True)
    assert amforest.load("m.amf").to_bytes() == models[0]


def test_without_a_source_there_is_an_embedded_stream():
    out = amf("run", "--json", "-q", "--trees", 2)
    assert json.loads(out.stdout)["rows"] == 20_000


# The two families


@pytest.mark.parametrize(
    ("options", "kind", "n_estimators"),
    [
        (["buys"], AdaptiveAMFClassifier, 5),
        (["buys", "--model", "adaptive", "--trees", 3], AdaptiveAMFClassifier, 3),
        (["buys", "--model", "amf"], AMFClassifier, 10),
        (["basket"], AdaptiveAMFRegressor, 3),
        (["basket", "--model", "adaptive", "--trees", 2], AdaptiveAMFRegressor, 2),
        (["basket", "--model", "amf", "--trees", 3], AMFRegressor, 3),
    ],
)
def test_the_model_depends_on_the_target_and_on_the_option(options, kind, n_estimators, stream):
    amf("run", stream, "--save", "m.amf", "-q", "-t", *options)
    model = amforest.load("m.amf")
    assert type(model) is kind
    assert model.n_estimators == n_estimators


@pytest.mark.parametrize(
    ("n_distinct", "words"),
    [
        (2, None),
        (5, "5 different whole numbers in the first rows: they are classes; --task regression"),
        (26, "26 different whole numbers in the first rows: they are numbers; --task classif"),
        (200, None),
    ],
)
def test_whole_numbers_that_may_be_classes_or_numbers_are_noted(n_distinct, words):
    lines = [f"{k % 7},{k % n_distinct}" for k in range(400)]
    Path("s.csv").write_text("\n".join(["x,y", *lines]))
    how = ["run", "s.csv", "-t", "y", "--trees", 1]
    notes = [line for line in amf(*how).stderr.splitlines() if "the target 'y'" in line]
    assert len(notes) == (words is not None)
    assert all(words in note for note in notes)
    assert "the target" not in amf(*how, "--task", "regression").stderr


def test_a_column_of_amounts_that_is_dropped_is_said_to_look_like_numbers():
    rows = [f'"${k + 1},{k:03}.50",{k % 3},{"yes" if k % 2 else "no"}' for k in range(300)]
    Path("s.csv").write_text("\n".join(["price,b,y", *rows]))
    lines = amf("run", "s.csv", "-t", "y", "--trees", 1, "-q").stderr.splitlines()
    notes = [line for line in lines if "'price'" in line]
    assert "its values look like numbers, such as '$1,000.50': write them like 12345" in notes[0]
    assert "column 'price' is dropped: 300 of its first 300 values differ" in notes[1]


def test_the_adaptive_forest_gets_columns_as_they_are(stream):
    amf("run", stream, "-t", "buys", "--drop", "time", "--save", "m.amf", "-q")
    table = pd.read_csv(stream)
    direct = AdaptiveAMFClassifier(categorical_features=["page", "device"], random_state=0)
    columns = ["seconds", "basket", "page", "device"]
    direct.partial_fit(table[columns], table["buys"].to_numpy(dtype=str))
    assert tables(amforest.load("m.amf")) == tables(direct)


def test_units_do_not_matter_to_the_adaptive_forest(stream):
    losses = []
    for factor in (1, 2.0**20):
        table = pd.read_csv(stream)
        table["basket"] *= factor
        table.to_csv("s.csv", index=False)
        out = amf("run", "s.csv", "-t", "buys", "--json", "-q")
        losses.append(json.loads(out.stdout)["metrics"]["log_loss"])
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_a_model_that_was_saved_keeps_its_family(stream):
    for family, other in (("adaptive", "amf"), ("amf", "adaptive")):
        amf("run", stream, "-t", "buys", "--model", family, "--trees", 2, "--save", "m.amf", "-q")
        again = ["run", stream, "-t", "buys", "--warm-start", "m.amf", "-q"]
        amf(*again)
        refused = amf(*again, "--model", other, code=1)
        assert f"--model is {other}, but m.amf is a model of class" in refused.stderr
    amf("run", stream, "-t", "buys", "--trees", 2, "--save", "m.amf", "-q")
    assert "--step is given" in amf(*again, "--step", 1, code=1).stderr


def test_checkpoints_of_the_other_family_are_refused(stream):
    how = ["run", stream, "-t", "buys", "--trees", 2, "--checkpoint", "saved", "-q"]
    amf(*how, "--model", "amf")
    assert "holds a amforest.classifier.AMFClassifier" in amf(*how, code=1).stderr
    amf(*how, "--model", "amf")


def test_the_adaptive_forest_recovers_from_the_sale():
    amf("run", "--predictions", "p.csv", "-q", "--trees", 2)
    amf("run", "--predictions", "q.csv", "-q", "--model", "amf")
    hits = [[row["label"] == row["prediction"] for row in rows_of(f)] for f in ("p.csv", "q.csv")]
    before, just_after, later = (
        np.mean(hits[0][part])
        for part in (slice(9000, 10000), slice(10000, 10300), slice(11500, 12500))
    )
    assert just_after < before - 0.05
    assert later > before - 0.02
    assert np.mean(hits[0][11500:]) > np.mean(hits[1][11500:]) + 0.02


def test_numbers_are_predicted_whatever_their_unit(stream):
    scores = []
    for factor in (1, 1e-3, 1e6):
        table = pd.read_csv(stream)
        table["target"] = factor * (table["basket"] + table["seconds"].fillna(80))
        table.to_csv("s.csv", index=False)
        out = amf("run", "s.csv", "-t", "target", "--json", "-q")
        scores.append(json.loads(out.stdout)["metrics"]["r2"])
    assert scores[0] > 0.6
    assert scores == pytest.approx([scores[0]] * 3, abs=1e-3)


# Intervals


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """A file of CSV with a target of numbers, whose noise grows."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.uniform(size=1500), "place": rng.choice(["a", "b"], 1500)})
    noise = np.linspace(0.5, 5, 1500) * rng.normal(size=1500)
    table["price"] = 20 * table["size"] + 10 * (table["place"] == "a") + noise
    path = tmp_path_factory.mktemp("streams") / "prices.csv"
    table.to_csv(path, index=False)
    return path


def test_numbers_are_predicted_with_intervals_that_hold_as_many_as_requested(prices):
    for requested, options in ((0.9, ()), (0.5, ("--coverage", 0.5))):
        how = ("run", prices, "-t", "price", "--predictions", "p.csv", "--json", "-q", *options)
        summary, rows = json.loads(amf(*how).stdout), rows_of("p.csv")
        assert list(rows[0]) == ["row", "label", "prediction", "lower", "upper"]
        assert [*rows[0].values()][2:] == ["", "", ""]  # nothing was known
        y, f, lower, upper = (
            np.array([float(row[name]) for row in rows[1:]]) for name in [*rows[0]][1:]
        )
        metrics = summary["metrics"]
        assert summary["requested_coverage"] == requested
        assert list(metrics) == ["rmse", "mae", "r2", "coverage", "interval_width"]
        assert metrics["rmse"] == pytest.approx(np.sqrt(np.mean((y - f) ** 2)))
        assert metrics["coverage"] == pytest.approx(np.mean((lower <= y) & (y <= upper)))
        assert metrics["coverage"] == pytest.approx(requested, abs=0.03)
        assert metrics["interval_width"] == pytest.approx(np.mean(upper - lower))


def test_intervals_are_those_of_the_estimator(prices):
    amf("run", prices, "-t", "price", "--predictions", "p.csv", "--save", "m.amf", "-q")
    # Not read_csv: that of pandas 2 errs in the last bits.
    table = pd.DataFrame(rows_of(prices)).astype({"size": float, "price": float})
    X, y = table[["size", "place"]], table["price"]
    direct = AdaptiveAMFRegressor(categorical_features=["place"], random_state=0)
    ends = direct.partial_fit_predict_interval(X, y)
    written = [[float(row["lower"]), float(row["upper"])] for row in rows_of("p.csv")[1:]]
    np.testing.assert_array_equal(written, ends[1:])
    for options, coverage in (((), 0.9), (("--coverage", 0.6), 0.6)):
        amf("predict", "m.amf", prices, "-o", "p.ndjson", "-q", *options)
        rows = pd.read_json("p.ndjson", lines=True, precise_float=True)
        assert list(rows) == ["row", "prediction", "lower", "upper"]
        expected = direct.predict_interval(X, coverage)
        np.testing.assert_allclose(rows[["lower", "upper"]], expected, rtol=1e-12)
        np.testing.assert_allclose(rows["prediction"], direct.predict(X), rtol=1e-12)


def test_a_stopped_run_resumes_with_the_same_intervals(prices):
    lines = prices.read_text().splitlines(keepends=True)
    how = ["-t", "price", "--trees", 2, "--coverage", 0.7, "-q"]
    amf("run", prices, *how, "--predictions", "a.csv")
    again = [*how, "--predictions", "b.csv", "--checkpoint", "saved"]
    Path("s.csv").write_text("".join(lines[:701]))
    amf("run", "s.csv", *again)
    Path("s.csv").write_text("".join(lines))
    amf("run", "s.csv", *again)
    assert len(rows_of("b.csv")) == 1500
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_the_paper_s_regressor_writes_predictions_alone(prices):
    how = ("-t", "price", "--model", "amf", "--predictions", "p.csv", "--save", "m.amf")
    amf("run", prices, *how, "-q")
    assert list(rows_of("p.csv")[0]) == ["row", "label", "prediction"]
    amf("predict", "m.amf", prices, "-o", "p.tsv", "-q")
    assert Path("p.tsv").read_text().startswith("row\tprediction\n1\t")
    refused = amf("predict", "m.amf", prices, "--coverage", 0.8, code=1)
    assert "--coverage is given, but AMFRegressor" in refused.stderr


def test_inspect_shows_an_adaptive_regressor(prices):
    amf("run", prices, "-t", "price", "--trees", 2, "--save", "m.amf", "-q")
    memories = json.loads(amf("inspect", "m.amf", "--json").stdout)["memories"]
    assert [row["memory"] for row in memories] == amforest.load("m.amf").memory_names_
    assert [row["regrows"] is None for row in memories] == 12 * [False] + 4 * [True]
    assert "linear, 0.999" in amf("inspect", "m.amf").stdout
    labels, residuals = (amf("inspect", "m.amf", "--tree", k).stdout for k in (0, 23))
    assert labels.startswith("memory all: 1500 samples, mean ")
    assert residuals.startswith("memory 15, linear: ")
    assert "mean residual" in residuals
    amf("inspect", "m.amf", "--tree", 23, "-o", "tree.png")
    assert Path("tree.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("options", [(), ("--model", "amf", "--no-scale")])
def test_a_row_is_predicted_by_the_labels_that_have_come(options, stream):
    how = ("-t", "buys", *options, "-q", "--trees", 3)
    lines = stream.read_text().splitlines(keepends=True)
    parts = {"all.csv": lines[:1001], "known.csv": lines[:960], "row.csv": [lines[0], lines[1000]]}
    for name, part in parts.items():
        with open(name, "w") as file:
            file.writelines(part)
    amf("run", "all.csv", *how, "--delay", 40, "--predictions", "f.ndjson")
    amf("run", "known.csv", *how, "--save", "k.amf")
    amf("predict", "k.amf", "row.csv", "-o", "p.ndjson", "-q")
    rows = [json.loads(line) for line in Path("f.ndjson").read_text().splitlines()]
    assert all(row["prediction"] is None for row in rows[:41])
    expected = json.loads(Path("p.ndjson").read_text())["probabilities"]
    assert rows[999]["probabilities"] == expected


def test_delayed_labels_are_all_learned_in_the_end(stream):
    for delay in (0, 7):
        amf("run", stream, "-t", "buys", "--delay", delay, "--save", f"{delay}.amf", "-q")
    now, later = (amforest.load(f"{delay}.amf") for delay in (0, 7))
    assert tables(now) == tables(later)


def test_columns_can_be_chosen_left_and_typed(stream):
    amf("run", stream, "-t", "buys", "--use", "page", "--use", "basket", "--save", "a.amf", "-q")
    assert list(amforest.load("a.amf").feature_names_in_) == ["basket", "page"]
    amf("run", stream, "-t", "buys", "--drop", "time", "--save", "b.amf", "-q")
    assert "time.hour" not in amforest.load("b.amf").feature_names_in_
    amf("run", stream, "-t", "buys", "--types", "basket=category", "--save", "c.amf", "-q")
    assert "basket" in amforest.load("c.amf").categories_


@pytest.mark.parametrize("model", ["adaptive", "amf"])
def test_a_saved_model_goes_on_and_predicts(model, stream):
    how = ("-t", "buys", "--model", model, "-q")
    lines = stream.read_text().splitlines(keepends=True)
    for name, part in (("head.csv", lines[:2001]), ("tail.csv", [lines[0], *lines[2001:]])):
        with open(name, "w") as file:
            file.writelines(part)
    amf("run", stream, *how, "--save", "whole.amf")
    amf("run", "head.csv", *how, "--save", "head.amf")
    amf("run", "tail.csv", *how, "--warm-start", "head.amf", "--save", "both.amf")
    whole, both = (amforest.load(name) for name in ("whole.amf", "both.amf"))
    assert tables(whole) == tables(both)
    out = amf("predict", "whole.amf", "tail.csv", "-q")
    rows = list(csv.DictReader(io.StringIO(out.stdout)))
    hits = [
        r["prediction"] == line.rsplit(",", 1)[1].strip()
        for r, line in zip(rows, lines[2001:], strict=True)
    ]
    assert np.mean(hits) > 0.88  # of rows that it has learned
    amf("predict", "whole.amf", "tail.csv", "-o", "p.ndjson", "-q")
    assert json.loads(Path("p.ndjson").read_text().splitlines()[0])["probabilities"].keys() == {
        "no",
        "yes",
    }


def test_rows_of_standard_input_are_predicted(stream):
    amf("run", stream, "-t", "buys", "--trees", 2, "--save", "m.amf", "-q")
    amf("predict", "m.amf", stream, "-o", "p.csv", "-q")
    with open(stream) as file:
        args = [*COMMAND, "predict", "m.amf", "-", "-q"]
        out = subprocess.run(args, stdin=file, stdout=subprocess.PIPE, check=True).stdout
    assert out == Path("p.csv").read_bytes()


def test_rows_that_cannot_be_read_are_set_aside(stream):
    lines = stream.read_text().splitlines(keepends=True)
    lines[10] = "2026-03-01T00:00:00,toys,phone,many,1.0,no\n"
    lines[20] = "2026-03-01T00:00:00,toys\n"
    lines[30] = lines[30].rsplit(",", 1)[0] + ",\n"
    with open("s.csv", "w") as file:
        file.writelines(lines)
    out = amf("run", "s.csv", "-t", "buys", "--rejects", "r.csv", "--json", "-q")
    assert json.loads(out.stdout)["rejected"] == 3
    assert json.loads(out.stdout)["rows"] == 2997
    rejected = rows_of("r.csv")
    assert [row["line"] for row in rejected] == ["11", "21", "31"]
    assert "'many' is not a number" in rejected[0]["reason"]
    strict = amf("run", "s.csv", "-t", "buys", "--strict", "-q", code=1)
    errors = [line for line in strict.stderr.splitlines() if line.startswith("amforest: ")]
    assert len(errors) == 1
    assert errors[0].startswith("amforest: s.csv:11")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["no.csv", "-t", "buys"], "no.csv: No such file"),
        (["{stream}", "-t", "bys"], "no column 'bys'; did you mean 'buys'?"),
        (["{stream}"], "--target is missing"),
        (["empty.csv", "-t", "buys"], "empty.csv"),
        (["header.csv", "-t", "buys"], "no rows"),
        (["garbage.csv", "-t", "buys"], "garbage.csv"),
        (["{stream}", "-t", "page", "--task", "regression"], "not a number"),
        (["{stream}", "-t", "basket", "--task", "classification"], "fractions"),
        (["{stream}", "-t", "time"], "dates"),
        (["{stream}", "-t", "buys", "--types", "basket=nummer"], "nummer"),
        (["{stream}", "-t", "buys", "--predictions", "f.xls"], "f.xls: the name must end in"),
        (["{stream}", "-t", "buys", "--save", "no/such/folder.amf"], "no/such/folder.amf"),
        (["{stream}", "-t", "buys", "--warm-start", "garbage.csv"], "not a model of amforest"),
        (["{stream}", "-t", "buys", "--warm-start", "plain.amf"], "not saved by `amforest run`"),
        (["{stream}", "-t", "buys", "--trees", "70000"], "n_estimators"),
        (["{stream}", "-t", "basket", "--step", "1"], "--step is given, but has no meaning"),
        (["{stream}", "-t", "buys", "--coverage", "0.8"], "predicts classes without intervals"),
        (
            ["{stream}", "-t", "basket", "--model", "amf", "--coverage", "0.8"],
            "--coverage is given, but AMFRegressor predicts numbers without intervals: drop it, or",
        ),
        (["{stream}", "-t", "buys", "--step", "1"], "--step is given, but has no meaning"),
        (["{stream}", "-t", "buys", "--scale"], "--scale is given, but has no meaning"),
        (["{stream}", "-t", "buys", "--no-scale"], "--no-scale is given, but has no meaning"),
        (
            ["{stream}", "-t", "buys", "--checkpoint", "c", "--predictions", "p.parquet"],
            "a file of Parquet cannot be continued from a checkpoint",
        ),
    ],
)
def test_errors_are_one_line(args, words, stream):
    Path("empty.csv").touch()
    Path("header.csv").write_text("page,buys\n")
    Path("garbage.csv").write_bytes(random.Random(0).randbytes(5000))
    amforest.save(AMFClassifier().fit([[0.0]], [1]), "plain.amf")
    out = amf("run", *(arg.format(stream=stream) for arg in args), "-q", code=1)
    assert words in out.stderr
    assert len(out.stderr.strip().splitlines()) == 1
    assert out.stderr.startswith("amforest: ")


def test_a_table_in_the_place_of_a_model_is_named_with_what_was_expected(stream):
    for args in (["predict", stream, stream], ["inspect", stream]):
        out = amf(*args, code=1).stderr
        assert "it is text, such as CSV or JSON; expected a file that" in out
        assert "`amforest run --save` wrote" in out
    assert f"amforest: {stream}: " in amf("predict", stream, stream, code=1).stderr


@pytest.mark.parametrize("command", ["run", "compare", "serve", "consume"])
def test_help_lists_the_kinds_of_columns_at_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = amf(command, "--help").stdout
    words = text[text.index("--types") :].split(" --", 1)[0]
    assert "…" not in words
    assert all(kind in words for kind in (*KINDS, "zip=category"))


def test_with_debug_an_error_shows_where_it_is_from():
    with pytest.raises(FileNotFoundError):
        amf("run", "no.csv", "-t", "buys", "--debug")


def test_wrong_options_have_their_own_status():
    assert "neither classification nor regression" in amf("run", "--task", "x", code=2).stderr
    assert "neither adaptive nor amf" in amf("run", "--model", "x", code=2).stderr
    assert "90.0 is not between 0 and 1" in amf("run", "--coverage", "90", code=2).stderr
    amf("run", "--no-such-option", code=2)


def test_help_shows_examples_and_completion_is_there(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = amf("run", "--help").stdout
    assert "amforest run sales.csv --target bought" in text
    assert "\x1b" not in text
    assert "130" in text
    # The shell as an argument: otherwise it is the one that the tests run in, if that is found.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    for shell in ("bash", "zsh", "fish"):
        run = subprocess.run(
            [*COMMAND, "--show-completion", shell], capture_output=True, check=True
        )
        assert b"complet" in run.stdout.lower()
    assert amf("--version").stdout == f"amforest {amforest.__version__}\n"


def test_help_imports_nothing_that_takes_long():
    code = """import sys
from amforest.cli.app import app
slow = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "narwhals", "matplotlib", "river"}
print(sorted(slow & sys.modules.keys()))"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


def test_inspect_tells_what_a_model_is(stream):
    amf("run", stream, "-t", "buys", "--model", "amf", "--save", "m.amf", "-q")
    text = amf("inspect", "m.amf").stdout
    assert "buys" in text
    assert "3,000" in text
    described = json.loads(amf("inspect", "m.amf", "--json").stdout)
    assert described["samples"] == 3000
    assert described["classes"] == ["no", "yes"]
    model = amforest.load("m.amf")
    splits = {use["name"]: use["n_splits"] for use in described["features"]}
    names = model.feature_names_in_.tolist()
    for j, name in enumerate(names):
        tables = [model.tree_table(i) for i in range(10)]
        assert splits[name] == sum(int((table["feature"] == j).sum()) for table in tables)
    tree = amf("inspect", "m.amf", "--tree", 3, "--depth", 1).stdout
    assert "3000 samples" in tree
    assert "--tree is 10" in amf("inspect", "m.amf", "--tree", 10, code=1).stderr
    amf("inspect", "m.amf", "--tree", 0, "-o", "tree.png")
    assert Path("tree.png").read_bytes()[:4] == b"\x89PNG"


def test_inspect_shows_the_memories_of_an_adaptive_forest(stream):
    amf("run", stream, "-t", "buys", "--trees", 2, "--save", "m.amf", "-q")
    model = amforest.load("m.amf")
    described = json.loads(amf("inspect", "m.amf", "--json").stdout)
    assert (described["trees"], described["remembered_rows"]) == (18, 3000)
    memories = described["memories"]
    assert [row["memory"] for row in memories] == model.memory_names_
    assert [row["weight"] for row in memories] == model.memory_weights_.tolist()
    assert [row["regrows"] for row in memories] == list(model.stats()["regrows"].values())
    tables = [model.tree_table(i) for i in range(18)]
    for use in described["features"]:
        j = model.feature_names_in_.tolist().index(use["name"])
        assert use["n_splits"] == sum(int((table["feature"] == j).sum()) for table in tables)
    text = amf("inspect", "m.amf").stdout
    assert "4000, honest" in text
    assert "remembered rows" in text
    tree = amf("inspect", "m.amf", "--tree", 2).stdout
    assert tree.startswith("memory 4000: ")
    pages = sorted({"shoes", "books", "garden", "toys", "music"})
    assert any(f"page is {page}" in tree for page in pages)
    assert "has trees 0 to 17" in amf("inspect", "m.amf", "--tree", 18, code=1).stderr
    amf("inspect", "m.amf", "--tree", 17, "-o", "tree.png")
    assert Path("tree.png").read_bytes()[:4] == b"\x89PNG"


def start(*args, **how):
    return subprocess.Popen([*COMMAND, *map(str, args)], stderr=subprocess.PIPE, **how)


@pytest.mark.parametrize("model", ["adaptive", "amf"])
def test_a_killed_run_goes_on_to_the_same_files(model, stream):
    options = ["-t", "buys", "--every", "300", "-q", "--trees", "2", "--model", model]
    amf("run", stream, *options, "--save", "a.amf", "--predictions", "a.csv", "--rejects", "a.tsv")
    again = [*options, "--checkpoint", "saved", "--save", "b.amf"]
    again += ["--predictions", "b.csv", "--rejects", "b.tsv"]
    for kills in range(4):
        process = start("run", stream, *again)
        while process.poll() is None and not Path("saved").exists():
            time.sleep(0.01)
        time.sleep(0.05 * kills)
        process.kill()
        process.communicate()
    amf("run", stream, *again)
    for a, b in (("a.amf", "b.amf"), ("a.csv", "b.csv"), ("a.tsv", "b.tsv")):
        assert Path(a).read_bytes() == Path(b).read_bytes()


def test_a_killed_run_with_delayed_labels_goes_on_exactly(stream):
    options = ["-t", "buys", "--delay", "30", "--every", "100", "-q", "--trees", "3"]
    amf("run", stream, *options, "--save", "a.amf", "--predictions", "a.csv")
    process = start("run", stream, *options, "--checkpoint", "saved", "--predictions", "b.csv")
    while process.poll() is None and not Path("saved").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    process.kill()
    process.communicate()
    more = ["--checkpoint", "saved", "--predictions", "b.csv", "--save", "b.amf"]
    amf("run", stream, *options, *more)
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert Path("a.amf").read_bytes() == Path("b.amf").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run_after_its_block_and_it_resumes_exactly(number, stream, monkeypatch):
    options = ["-t", "buys", "--delay", "30", "-q", "--trees", "3"]
    amf("run", stream, *options, "--save", "a.amf", "--predictions", "a.csv")
    again = [*options, "--checkpoint", "saved", "--save", "b.amf", "--predictions", "b.csv"]
    write, last = RowFile.write, []

    def write_and_signal(self, rows):
        write(self, rows := list(rows))
        if rows[-1][0] >= 1_500:
            last.append(rows[-1][0])
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(RowFile, "write", write_and_signal)
        amf("run", stream, *again, code=128 + number)
    assert amforest.load("b.amf").n_samples_seen_ == last[0] - 30
    assert len(last) == 1
    amf("run", stream, *again)
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert Path("a.amf").read_bytes() == Path("b.amf").read_bytes()


def test_a_pipe_is_learned_as_it_comes_and_left_by_ctrl_c(stream):
    lines = stream.read_bytes().splitlines(keepends=True)
    args = ("run", "-", "-t", "buys", "--predictions", "-", "--save", "m.amf", "-q", "--trees", "2")
    process = start(*args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b"".join(lines[:2]))
    process.stdin.flush()
    assert process.stdout.readline() == b"row,label,prediction,probability\n"
    assert process.stdout.readline().startswith(b"1,")
    for i in range(2, 30):
        process.stdin.write(lines[i])
        process.stdin.flush()
        assert process.stdout.readline().startswith(f"{i},".encode())  # before the next one comes
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.startswith(b"29 rows ")  # results without progress
    assert errors.endswith(b"Model: m.amf\n")
    assert amforest.load("m.amf").n_samples_seen_ == 29


def test_sigterm_leaves_everything_saved(stream):
    args = ("run", "-", "-t", "buys", "--save", "m.amf", "--trees", "2", "-q", "--predictions", "-")
    process = start(*args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(stream.read_bytes()[:20_000].rsplit(b"\n", 1)[0] + b"\n")
    process.stdin.flush()
    for _ in range(302):
        process.stdout.readline()
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert amforest.load("m.amf").n_samples_seen_ > 300


def test_a_disk_that_is_full_is_one_line_and_keeps_the_old_model(stream):
    amf("run", stream, "-t", "buys", "--save", "m.amf", "-q", "--trees", 2)
    old = Path("m.amf").read_bytes()

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    for option in ("--save", "--predictions"):
        path = "m.amf" if option == "--save" else "f.csv"
        args = ("run", stream, "-t", "buys", option, path, "-q", "--trees", 2)
        process = start(*args, preexec_fn=limited)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 1
        lines = errors.decode().splitlines()
        failed = [line for line in lines if line.startswith("amforest: ")]
        assert failed == [f"amforest: {path}: File too large"]
    assert Path("m.amf").read_bytes() == old


def test_lines_are_not_wrapped_where_there_is_no_terminal(stream):
    folder = Path("a folder with [red] and a name that is long " * 3)
    folder.mkdir()
    how = ["run", stream, "-t", "buys", "--trees", 1, "--save", folder / "m.amf"]
    for _ in range(2):  # the second time it resumes
        lines = amf(*how, "--checkpoint", folder / "saved").stderr.splitlines()
        assert f"Model: {folder}/m.amf" in lines
    assert lines[0].startswith(f"Resuming from {folder}/saved")


def test_plain_lines_are_printed_where_there_is_no_terminal(stream, monkeypatch):
    monkeypatch.setattr("amforest.cli.console.SECONDS_BETWEEN_LINES", 0.0)
    lines = amf("run", stream, "-t", "buys").stderr.splitlines()
    assert len(lines) > 2
    assert all("rows/s" in line and line.endswith("not seen before") for line in lines[-2:])
    assert "log_loss" in lines[-1]
    assert "\x1b" not in "".join(lines)


def test_quiet_hides_progress_and_not_results(stream, monkeypatch):
    monkeypatch.setattr("amforest.cli.console.SECONDS_BETWEEN_LINES", 0.0)
    (last, saved) = amf("run", stream, "-t", "buys", "-q", "--save", "m.amf").stderr.splitlines()
    assert last.startswith("3,000 rows · ")
    assert saved == "Model: m.amf"
    assert "3,000 rows" in amf("predict", "m.amf", stream, "-q", "-o", "p.csv").stderr


def test_on_a_terminal_a_bar_and_a_table_are_redrawn(stream):
    console = Console(file=(screen := io.StringIO()), force_terminal=True, color_system=None)
    run(Settings((str(stream),), "buys", trees=2), console)
    text = screen.getvalue()
    assert "\x1b[" in text  # the cursor moves
    assert "Learning visits.csv" in text
    assert "100%" in text
    assert "last 1,000" in text
    assert "3,000 rows" in text


def test_progress_is_that_of_the_rows_that_were_learned(stream, monkeypatch):
    shown = []
    monkeypatch.setattr(LastView, "show", lambda self, status: shown.append(status))
    run(Settings((str(stream),), "buys", trees=1, quiet=True), Console(stderr=True))
    assert len(shown) > 5
    for status in shown:  # not of what was read ahead, which is the whole file
        read, learned = status.bytes_read / status.bytes_total, status.rows / 3_000
        assert read == pytest.approx(learned, abs=0.02)


def test_the_embedded_stream_is_the_same_each_time():
    assert demo_stream(500).getvalue() == demo_stream(500).getvalue()
    (batch,) = open_stream(demo_stream(50), format="csv")
    assert batch.table.num_rows == 50


def test_compare_tells_how_others_do_on_the_same_rows(stream):
    out = amf("compare", stream, "-t", "buys", "--rows", 400, "--json", "--plot", "c.png")
    metrics = json.loads(out.stdout)
    assert list(metrics)[:5] == ["adaptive", "AMF", "dummy", "SGD", "naive Bayes"]
    assert metrics["adaptive"]["log_loss"] < metrics["AMF"]["log_loss"]
    assert metrics["AMF"]["log_loss"] < metrics["dummy"]["log_loss"]
    assert Path("c.png").read_bytes()[:4] == b"\x89PNG"
    numbers = amf("compare", stream, "-t", "basket", "--rows", 200).stdout
    assert "AMF" in numbers
    assert "adaptive" in numbers
    assert "rmse" in numbers
    assert "naive Bayes" not in numbers
    assert "can be read only once" in amf("compare", "-", "-t", "buys", code=1).stderr


def test_compare_shows_the_rows_that_each_model_has_learned(stream):
    console = Console(file=(screen := io.StringIO()), force_terminal=True, color_system=None)
    compared = compare(Settings((str(stream),), "buys", trees=1), console, max_rows=300)
    for name in compared.results:
        assert f"{name}: 300 rows, " in screen.getvalue()


def test_compare_stops_a_model_whose_time_is_over_and_says_so(stream):
    out = amf("compare", stream, "-t", "buys", "--seconds", 0, "--json")
    metrics = json.loads(out.stdout)
    assert all(row["stopped"] for row in metrics.values())
    assert {row["rows"] for row in metrics.values()} == {100}
    words = " ".join(amf("compare", stream, "-t", "buys", "--seconds", 0).stdout.split())
    assert "stopped after 0 s: its figures are for fewer rows" in words
