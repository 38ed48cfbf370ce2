"""A table with everything that goes wrong on a first day is learned without options."""

import json
import random

import pytest
from typer.testing import CliRunner

from amforest.cli.app import app

N_ROWS = 400


def run_command(*args):
    """Run the command in this process; return its result."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == 0, result.output
    return result


def tortured_rows(n_rows, *, with_weight):
    """Return rows of a spreadsheet: decimal commas, gaps, mixed types, quotes, a late class."""
    rng = random.Random(with_weight)
    rows = ["id;größe;preis;" + ("gewicht;" if with_weight else "") + "tag;menge;notiz;klasse"]
    for k in range(n_rows):
        size = f"{rng.gauss(170, 10):.1f}".replace(".", ",")
        price = "" if k % 9 == 0 else f"{rng.gauss(0, 5):.2f}".replace(".", ",")
        weight = [f"{rng.randint(50, 90)}"] if with_weight else []
        label = "spät" if k > 300 and k % 4 == 0 else ("ja" if size > "170" else "nein")
        note = '"zwei\nZeilen; und ""Zitat"""' if k % 50 == 0 else rng.choice(["gut", "17", "groß"])
        row = [
            f"K-{with_weight}-{k:05d}",
            size,
            price,
            *weight,
            f"{k % 28 + 1:02d}.03.2024",
            "k.A." if k % 6 == 0 else str(k % 5),
            note,
            label,
        ]
        rows.append(";".join(row))
    return rows


def write_tortured(folder, encoding):
    """Write two files: in the second one a column has vanished."""
    first = tortured_rows(N_ROWS, with_weight=True)
    first[40] = first[40].replace(";", ";viel", 1)  # no number
    first[60] = first[60].replace(";", ";viel", 1)
    first[80] = "K;1,5"  # too few fields
    first[90] = first[90].rsplit(";", 1)[0] + ";"  # no label
    for name, rows in (("tag1.csv", first), ("tag2.csv", tortured_rows(100, with_weight=False))):
        (folder / name).write_bytes(("\r\n".join(rows) + "\r\n").encode(encoding))
    return folder / "tag1.csv", folder / "tag2.csv"


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("utf-8-sig", "the text is UTF-8 with a byte order mark"),
        ("cp1252", "the text is not UTF-8; it is read as cp1252"),
        ("utf-16", "the text is read as UTF-16"),
    ],
)
def test_a_tortured_table_is_learned_and_notes_name_what_was_done(encoding, words, tmp_path):
    files = write_tortured(tmp_path, encoding)
    model = tmp_path / "m.amf"
    out = run_command("run", *files, "--target", "klasse", "--json", "--save", model)
    summary = json.loads(out.stdout)
    assert summary["rows"] == summary["samples"] == N_ROWS + 96
    assert summary["rejected"] == 4
    for text in (
        words,
        "the delimiter is ';'",
        "numbers are read with decimal commas, as in column",
        "column 'id' is dropped: 399 of its first 399 values differ; --types id=category keeps it",
        "tag2.csv: no column 'gewicht', unlike in",
        "column 'menge' is read as category: 83% of the first values are of kind number, others "
        "are not, such as 'k.A.'; --types menge=number rejects their rows",
    ):
        assert sum(text in note for note in summary["notes"]) == 1
        assert text in out.stderr
    assert [(r["reason"], r["rows"], r["first_line"]) for r in summary["rejected_by_reason"]] == [
        ("column 'größe': a value is not a number", 2, 42),
        ("2 fields instead of 8", 1, 83),
        ("column 'klasse': the label is missing", 1, 93),
    ]
    assert "Rejected 2 rows, the first at" in out.stderr
    described = json.loads(run_command("inspect", model, "--json").stdout)
    assert described["classes"] == ["ja", "nein", "spät"]
    names = {"größe", "preis", "gewicht", "menge", "notiz"}
    names |= {f"tag.{part}" for part in ("year", "month", "day", "weekday")}
    assert {feature["name"] for feature in described["features"]} == names
    predicted = run_command("predict", model, files[0], "-q").stdout.splitlines()
    assert len(predicted) == 1 + N_ROWS - 3


def test_a_saved_model_predicts_files_of_either_dialect(tmp_path):
    files = write_tortured(tmp_path, "cp1252")
    model = tmp_path / "m.amf"
    run_command("run", files[0], "-t", "klasse", "--save", model, "-q", "--drop", "notiz")
    rows = [row.split(";") for row in tortured_rows(10, with_weight=True) if "Zeilen" not in row]
    (tmp_path / "a.csv").write_text("\n".join(";".join(row) for row in rows))
    plain = [",".join(cell.replace(",", ".") for cell in row) for row in rows]
    (tmp_path / "b.csv").write_text("\n".join(plain))
    a, b = (run_command("predict", model, tmp_path / f"{n}.csv", "-q").stdout for n in "ab")
    assert a == b
    given = ("--delimiter", ";", "--decimal", ",", "--encoding", "utf-8")
    assert run_command("predict", model, tmp_path / "a.csv", "-q", *given).stdout == a


def test_an_identifier_is_kept_if_its_type_is_given(tmp_path):
    files = write_tortured(tmp_path, "utf-8")
    options = ("-t", "klasse", "--json", "--types", "id=category")
    summary = json.loads(run_command("run", files[0], *options).stdout)
    assert not any("dropped" in note for note in summary["notes"])
