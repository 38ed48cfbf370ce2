"""Later streams for a saved model: columns that are absent are missing, and keep their kinds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import amforest
from command import amf, rows_of
from helpers import tables

N_ROWS = 400


@pytest.fixture(autouse=True)
def frame(tmp_path, monkeypatch):
    """Write a stream with columns of each kind, and learn its first half."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=N_ROWS).round(3),
            "zip": rng.choice(["7", "8", "A9"], N_ROWS),
            "day": pd.date_range("2024-01-01", periods=N_ROWS).strftime("%d.%m.%Y"),
            "open": rng.choice(["true", "false"], N_ROWS),
        }
    )
    frame["label"] = np.where((frame["size"] > 0) ^ (frame["zip"] == "7"), "yes", "no")
    frame[:200].to_csv("first.csv", index=False)
    amf("run", "first.csv", "-t", "label", "--trees", 1, "--save", "m.amf", "-q")
    return frame[200:]


@pytest.mark.parametrize("name", ["s.csv", "s.ndjson", "s.parquet"])
@pytest.mark.parametrize("absent", ["size", "zip", "day", "open"])
def test_absent_columns_are_predicted_as_missing_values(absent, name, frame):
    rows = frame.drop(columns=["label", absent])
    empty = frame.drop(columns="label").assign(**{absent: ""})
    empty.to_csv("empty.csv", index=False)
    if name == "s.parquet":
        dates = pd.to_datetime(frame["day"], format="%d.%m.%Y").dt.date
        rows = frame.assign(day=dates, open=frame["open"] == "true").drop(columns=["label", absent])
    write = {"csv": "to_csv", "parquet": "to_parquet"}.get(name[2:])
    if write is None:
        rows.to_json(name, orient="records", lines=True)
    else:
        getattr(rows, write)(name, index=False)
    out = amf("predict", "m.amf", name, "-o", "p.csv", "-q")
    amf("predict", "m.amf", "empty.csv", "-o", "q.csv", "-q")
    assert rows_of("p.csv") == rows_of("q.csv")
    assert (
        out.stderr.count(f"no key '{absent}'" if "json" in name else f"no column '{absent}'") == 1
    )


def test_absent_columns_are_learned_and_explained_as_missing_values(frame):
    frame.drop(columns="zip").to_csv("s.csv", index=False)
    frame.assign(zip="").to_csv("empty.csv", index=False)
    models = []
    for name in ("s.csv", "empty.csv"):
        amf("run", name, "-t", "label", "--warm-start", "m.amf", "--save", "n.amf", "-q")
        models.append(tables(amforest.load("n.amf")))
    assert models[0] == models[1]
    amf("explain", "m.amf", "s.csv", "-o", "a.csv", "-q")
    amf("explain", "m.amf", "empty.csv", "-o", "b.csv", "-q")
    assert Path("a.csv").read_text() == Path("b.csv").read_text()


def test_a_column_keeps_its_kind_where_its_values_look_like_another(frame):
    """Categories 7 and 8 were learned as 7.0 and 8.0, which are new ones."""
    some = frame[frame["zip"] != "A9"]
    some.to_csv("s.csv", index=False)
    amf("run", "s.csv", "-t", "label", "--warm-start", "m.amf", "--save", "n.amf", "-q")
    assert sorted(amforest.load("n.amf").categories_["zip"]) == ["7", "8", "A9"]


def test_a_stream_without_any_known_column_is_refused_and_keeps_older_predictions():
    Path("s.csv").write_text("a,b\n1,2\n")
    Path("p.csv").write_text("kept")
    error = amf("predict", "m.amf", "s.csv", "-o", "p.csv", code=1).stderr
    assert "no column 'size'; expected one of 'a', 'b'" in error
    assert Path("p.csv").read_text() == "kept"


def test_an_absent_id_column_is_an_error(frame):
    frame.to_csv("s.csv", index=False)
    error = amf("predict", "m.amf", "s.csv", "--id-column", "sizes", code=1).stderr
    assert "no column 'sizes'; did you mean 'size'?" in error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--use", "size"], "--use is given, but m.amf has learned size=number, zip=category,"),
        (["--drop", "zip"], "--drop is given, but m.amf has learned"),
        (["--types", "zip=number"], "--types is given, but m.amf has learned"),
    ],
)
def test_other_columns_than_a_model_to_continue_has_are_refused(options, words):
    again = ["run", "first.csv", "-t", "label", "--warm-start", "m.amf", "-q"]
    assert f"amforest: {words}" in amf(*again, *options, code=1).stderr
    amf(*again, "--types", "zip=category")
