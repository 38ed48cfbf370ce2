"""Labels that come after the first rows: their kind is that of the first ones that there are."""

import pytest
from stream_files import csv_file, read_rows

from amforest.reading import open_stream

LATE = 2_500  # rows before the first label


def write_late(path, labels, *, mark=","):
    """Write a table whose first rows have no label; a cell of the others has two words."""
    rows = [f"{k}{mark}0{mark}" for k in range(LATE)]
    rows += [f"{k}{mark}a b{mark}{label}" for k, label in enumerate(labels)]
    path.write_text("\n".join([f"x{mark}word{mark}y", *rows]))
    return path


@pytest.mark.parametrize("block_bytes", [500, 2**22])
@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("category", ["low", "high", "", "low"]),
        ("number", ["1.5", "NA", "2"]),
        ("bool", ["true", "false"]),
        ("category", ["1", "2", "low"]),
    ],
)
def test_the_kind_of_labels_is_that_of_the_first_ones(kind, labels, block_bytes, tmp_path):
    path = write_late(tmp_path / "t.csv", labels)
    with open_stream(path, target="y", types="word=category", block_bytes=block_bytes) as stream:
        assert stream.schema["y"] == kind
        n_labels = sum(label not in ("", "NA") for label in labels)
        assert sum(map(len, stream)) == n_labels
    assert not any("has no value" in note for note in stream.notes)


def test_late_labels_of_json_and_of_a_later_file_have_their_kind(tmp_path):
    lines = ['{"x": 1, "y": null}'] * LATE + ['{"x": 2, "y": "low"}']
    (tmp_path / "t.ndjson").write_text("\n".join(lines))
    rows, _ = read_rows(tmp_path / "t.ndjson", target="y")
    assert rows == [{"x": 2.0, "y": "low"}]
    (tmp_path / "a.csv").write_text("x,y\n1,\n2,\n")
    (tmp_path / "b.csv").write_text("y,x\n,1\nlow,2\n")
    rows, _ = read_rows([tmp_path / "a.csv", tmp_path / "b.csv"], target="y")
    assert rows == [{"x": 2.0, "y": "low"}]


def test_late_labels_may_have_decimal_commas(tmp_path):
    path = write_late(tmp_path / "t.csv", ["1,5", "2,25"], mark=";")
    text = path.read_text().replace("\n0;", "\n0,5;", 1)
    path.write_text(text)
    rows, _ = read_rows(path, target="y", types="word=category")
    assert [row["y"] for row in rows] == [1.5, 2.25]


def test_labels_that_come_late_in_a_pipe_are_numbers_unless_requested():
    text = "x,y\n" + "1,\n" * LATE + "1,low\n"
    with open_stream(csv_file(text), target="y") as stream:
        assert stream.schema["y"] == "number"
        (note,) = stream.notes
    assert note == (
        "column 'y' has no value in the first rows: read as number; --types y=category reads text"
    )
    assert len(read_rows(csv_file(text), target="y", types="y=category")[0]) == 1
