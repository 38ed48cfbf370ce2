"""Files of predictions: IDs that are passed through, all classes' probabilities, Parquet."""

import json
import math
import random
from pathlib import Path

import pandas as pd
import pytest

import amforest
from amforest.reading import open_stream
from command import amf, rows_of

N_ROWS, FIRST_LATE = 400, 320


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_stream(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(0)
    lines = ["nr,size,class"]
    for k in range(N_ROWS):
        size = rng.random()
        label = "late" if k >= FIRST_LATE and k % 4 == 0 else "yes" if size > 0.5 else "no"
        lines.append(f"K-{k % 90:03},{size},{label}")
    Path("s.csv").write_text("\n".join(lines))


def test_an_id_column_is_passed_through_and_not_learned():
    amf("run", "s.csv", "-t", "class", "--id-column", "nr", "--predictions", "p.csv", "--save", "m")
    assert [row["nr"] for row in rows_of("p.csv")] == [f"K-{k % 90:03}" for k in range(N_ROWS)]
    assert list(amforest.load("m").feature_names_in_) == ["size"]
    amf("predict", "m", "s.csv", "--id-column", "nr", "-o", "q.csv")
    assert [row["nr"] for row in rows_of("q.csv")] == [f"K-{k % 90:03}" for k in range(N_ROWS)]
    amf("run", "s.csv", "-t", "class", "--drop", "nr", "--predictions", "without.csv")
    rows = pd.read_csv("p.csv")
    pd.testing.assert_frame_equal(rows.drop(columns="nr"), pd.read_csv("without.csv"))


@pytest.mark.parametrize("options", [(), ("--delay", 7)])
def test_ids_are_those_of_their_rows_with_delayed_labels_and_after_a_resume(options):
    always = "-t", "class", "--id-column", "nr", "--checkpoint", "c", "--predictions", "p.csv"
    lines = Path("s.csv").read_text().splitlines(keepends=True)
    Path("s.csv").write_text("".join(lines[:201]))
    amf("run", "s.csv", *always, *options)
    Path("s.csv").write_text("".join(lines))
    amf("run", "s.csv", *always, *options)
    assert [row["nr"] for row in rows_of("p.csv")] == [f"K-{k % 90:03}" for k in range(N_ROWS)]


@pytest.mark.parametrize("name", ["prediction", "label", "row"])
def test_an_id_column_of_a_reserved_name_is_refused(name):
    Path("s.csv").write_text(Path("s.csv").read_text().replace("nr", name, 1))
    options = "-t", "class", "--id-column", name, "--predictions", "p.csv"
    error = amf("run", "s.csv", *options, code=1).stderr
    assert f"--id-column is '{name}', which is the name of a column of predictions" in error


def test_all_classes_have_a_column_and_later_ones_share_one():
    amf("run", "s.csv", "-t", "class", "--proba", "all", "--predictions", "p.csv", "--save", "m")
    whole = pd.read_csv("p.csv")
    known = ["probability_late", "probability_no", "probability_yes"]
    assert whole.columns.tolist()[4:] == [*known, "probability_of_other_classes"]
    sums = whole.iloc[1:, 4:].sum(axis=1)
    assert sums.to_numpy() == pytest.approx(1)
    head = Path("s.csv").read_text().splitlines(keepends=True)
    Path("start.csv").write_text("".join(head[:200]))
    Path("rest.csv").write_text(head[0] + "".join(head[200:]))
    files = "start.csv", "rest.csv"  # the first one decides on columns
    amf("run", *files, "-t", "class", "--proba", "all", "--predictions", "q.csv")
    others = pd.read_csv("q.csv")
    assert others.columns.tolist()[4:] == [*known[1:], "probability_of_other_classes"]
    late = "probability_of_other_classes", "probability_late"
    assert others[late[0]][1:].tolist() == whole[late[1]][1:].tolist()
    amf("predict", "m", "s.csv", "--proba", "all", "-o", "r.csv")
    predicted = pd.read_csv("r.csv")
    model = amforest.load("m")
    assert predicted.columns.tolist() == ["row", "prediction", "probability", *known]
    assert predicted[known].to_numpy() == pytest.approx(
        model.predict_proba(pd.read_csv("s.csv")[["nr", "size"]][list(model.feature_names_in_)])
    )


def test_parquet_holds_what_csv_holds():
    for name in ("p.csv", "p.parquet"):
        amf("run", "s.csv", "-t", "class", "--id-column", "nr", "--predictions", name)
    expected = pd.read_csv("p.csv")
    found = pd.read_parquet("p.parquet")
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    amf("run", "s.csv", "-t", "size", "--predictions", "n.parquet", "--save", "n")
    amf("predict", "n", "s.csv", "-o", "o.parquet")
    assert pd.read_parquet("n.parquet").dtypes.astype(str).tolist() == ["int64"] + ["float64"] * 4
    assert len(pd.read_parquet("o.parquet")) == N_ROWS
    with open_stream("o.parquet") as stream:
        assert sum(map(len, stream)) == N_ROWS


def test_a_class_that_nobody_announced_is_left_out_of_the_log_loss_and_counted():
    options = "-t", "class", "--drop", "nr"
    summary = json.loads(
        amf("run", "s.csv", *options, "--json", "--predictions", "p.ndjson").stdout
    )
    rows = [json.loads(line) for line in Path("p.ndjson").read_text().splitlines()][1:]
    p = [row["probabilities"].get(row["label"], 0.0) for row in rows]
    assert summary["unknown_class_rows"] == p.count(0.0) == 2
    losses = [-math.log(x) for x in p if x > 0]
    assert summary["metrics"]["log_loss"] == pytest.approx(sum(losses) / len(losses))
    hits = [row["label"] == row["prediction"] for row in rows]
    assert summary["metrics"]["accuracy"] == pytest.approx(sum(hits) / len(rows))  # of all
    line = amf("run", "s.csv", *options, "-q").stderr
    assert "log_loss without 2 rows of a class not seen before" in line
