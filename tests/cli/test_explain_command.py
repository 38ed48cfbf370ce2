"""`amforest explain`: contributions in files, as a list, as a picture; importances in `inspect`."""

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import amforest
from command import amf, rows_of

N_ROWS = 300
CONTRIBUTIONS = ["contribution_size", "contribution_age", "contribution_town"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a stream and models of two classes, three classes and numbers."""
    folder = tmp_path_factory.mktemp("explain")
    draw = random.Random(0)
    lines = ["nr,size,age,town,yes,kind,price"]
    for k in range(N_ROWS):
        size, age, town = draw.random(), draw.randrange(20, 80), draw.choice(["Rome", "Oslo"])
        bought = "yes" if (size > 0.5) ^ (town == "Oslo") else "no"
        kind = "abc"[int(3 * size)]
        shown = "" if k % 10 == 3 else age
        lines.append(f"K{k},{size},{shown},{town},{bought},{kind},{10 * size + age}")
    path = folder / "s.csv"
    path.write_text("\n".join(lines))
    for target, options in {
        "yes": ["--trees", 1],
        "kind": ["--model", "amf", "--trees", 2],
        "price": ["--trees", 1],
    }.items():
        use = [word for name in ("size", "age", "town") for word in ("--use", name)]
        amf("run", path, "-t", target, "--save", folder / target, "-q", *use, *options)
    return folder


@pytest.fixture(autouse=True)
def _in_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def features():
    return pd.read_csv("s.csv")[["size", "age", "town"]]


def test_contributions_and_base_add_up_to_the_prediction(folder):
    amf("explain", "price", "s.csv", "-o", "c.csv", "--id-column", "nr")
    table = pd.read_csv("c.csv")
    assert list(table) == ["row", "nr", "base", *CONTRIBUTIONS, "prediction"]
    assert table["row"].tolist() == list(range(1, N_ROWS + 1))
    assert table["nr"][7] == "K7"
    sums = table["base"] + table[CONTRIBUTIONS].sum(axis=1)
    np.testing.assert_allclose(sums, table["prediction"], rtol=1e-12)
    np.testing.assert_allclose(
        table["prediction"], amforest.load("price").predict(features()), rtol=1e-9
    )


def test_each_row_has_its_predicted_class_or_the_one_requested():
    amf("explain", "kind", "s.csv", "-o", "c.ndjson")
    amf("predict", "kind", "s.csv", "-o", "p.ndjson")
    amf("explain", "kind", "s.csv", "-o", "b.csv", "--class", "b")
    lines = [
        [json.loads(line) for line in Path(name).read_text().splitlines()]
        for name in ("c.ndjson", "p.ndjson")
    ]
    for explained, predicted in zip(*lines, strict=True):
        assert explained["class"] == predicted["prediction"]
        assert explained["prediction"] == pytest.approx(predicted["probability"])
    p = [line["probabilities"].get("b", 0.0) for line in lines[1]]
    np.testing.assert_allclose([float(row["prediction"]) for row in rows_of("b.csv")], p, atol=1e-9)


def test_formats_have_the_same_rows_and_standard_output_is_the_default():
    amf("explain", "yes", "s.csv", "-o", "c.parquet", "-q")
    amf("explain", "yes", "s.csv", "-o", "c.csv", "-q")
    table = pd.read_csv("c.csv")
    pd.testing.assert_frame_equal(pd.read_parquet("c.parquet"), table)
    assert set(table["class"]) == {"yes"}
    one = amf("explain", "yes", "s.csv", "--row", 17, "-q").stdout.splitlines()
    assert one == [Path("c.csv").read_text().splitlines()[k] for k in (0, 17)]


def test_the_list_has_the_largest_contributions_with_values_as_read():
    out = amf("explain", "kind", "s.csv", "--top", 1, "--row", 14, "--id-column", "nr").stdout
    head, base, first, rest = out.splitlines()
    assert head.startswith("row 14 (K13): probability of ")
    assert base.split()[:2] == ["base", "value"]
    assert first.split()[:3] == ["size", "=", f"{features()['size'][13]:.4g}"]  # not standardised
    assert rest.split()[:3] == ["2", "other", "features"]
    total = float(head.split()[-1])
    assert sum(float(line.split()[-1]) for line in (base, first, rest)) == pytest.approx(
        total, abs=2e-3
    )
    assert "age = missing" in amf("explain", "kind", "s.csv", "--top", 9, "--row", 4).stdout
    assert amf("explain", "yes", "s.csv", "--top", 3).stdout.count("row ") == N_ROWS


def test_a_picture_is_of_one_row_or_of_all():
    amf("explain", "yes", "s.csv", "--plot", "all.svg", "-q")
    amf("explain", "yes", "s.csv", "--plot", "one.svg", "--row", 4, "-q")
    everything, one = Path("all.svg").read_text(), Path("one.svg").read_text()
    assert "contribution to the log-odds of yes" in everything
    assert "<!-- age = missing -->" in one
    assert "<!-- base value -->" in one


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["yes", "--class", "maybe"],
            "--class is 'maybe', which is not a class; expected one of 'no', 'yes'",
        ),
        (["yes", "--class", "no"], "--class is 'no', but the log-odds of 'yes' are explained"),
        (["price", "--class", "no"], "--class is no, but the model predicts numbers"),
        (["yes", "--row", 301], "--row is 301; there are 300 rows"),
        (["yes", "--plot", "nowhere/a.png"], "--plot is nowhere/a.png, but the folder nowhere"),
        (["yes", "--output", "a.txt"], "a.txt: the name must end in one of .csv"),
        (["yes", "--plot", "a.doc"], "--plot is a.doc; the name must end in"),
    ],
)
def test_what_cannot_be_done_is_named(options, says):
    model, *rest = options
    assert says in " ".join(amf("explain", model, "s.csv", *rest, "-q", code=1).stderr.split())


def test_the_models_of_keys_are_refused():
    amf("run", "s.csv", "-t", "yes", "--key", "town", "--save", "keyed", "-q", "--use", "size")
    assert "keyed holds a model for each 'town'" in amf("explain", "keyed", "s.csv", code=1).stderr


# Importances


def test_inspect_shows_recent_importances_beside_long_term_ones():
    out = amf("inspect", "yes").stdout
    table = out[out.index("importance") :]
    assert table.splitlines()[0].split() == ["importance", "last", "1,000", "rows"]
    described = json.loads(amf("inspect", "yes", "--json").stdout)
    uses = {use["name"]: use for use in described["features"]}
    model = amforest.load("yes")
    found = amforest.inspection.importances(model)
    for name, part, recent in zip(found.names, found.long_term(), found.recent(), strict=True):
        assert uses[name]["importance"] == part
        assert uses[name]["recent"] == recent
        assert f"{part:.1%}" in table
    assert described["recent_rows"] == 1_000
    assert next(iter(uses)) == max(uses, key=lambda name: uses[name]["importance"])
    assert "█" in table
    assert "last 1,000 rows" not in amf("inspect", "kind").stdout
