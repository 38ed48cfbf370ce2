"""Columns are selected by name; their kinds are requested, or inferred from the first rows."""

import pytest
from stream_files import csv_file, read_rows

from amforest.reading import StreamError, open_stream, parse_types


def infer_kind(values, types=None):
    """Return the kind of a column of CSV with some values, and the notes."""
    with open_stream(csv_file("\n".join(["x,y", *(f'"{v}",' for v in values)])), types=types) as s:
        return s.schema["x"], s.notes


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("number", ["1", "-2.5e3", " .5 ", "+7", "", "NA", "?", "null", "1e30"]),
        ("number", ["0", "1", "1", "0"]),
        ("number", [*["1"] * 9, "word"]),
        ("bool", ["true", "False", "TRUE", "", "NA"]),
        ("category", ["yes", "no"]),
        ("category", ["1,000", "2,000"]),
        ("category", [*["1"] * 8, "word"]),
        ("date", ["2024-02-29", "", " 1969-12-31"]),
        ("datetime", ["2024-02-29", "2024-02-29 12:30"]),
        ("datetime", ["2024-02-29T12:30:01.123456789+01:00", "2024-02-29T12:30:01Z"]),
        ("date", ["29.2.2024", "01.03.2024", "", "2024-02-29"]),
        ("datetime", ["29.2.2024", "01.03.2024 12:30"]),
        ("category", ["2024-02", "29.2.24"]),
        ("category", ["31.2.2024", "3/4/2024"]),
        ("number", ["", "NA"]),
        ("number", []),
    ],
)
def test_kinds_are_those_of_nine_tenths_of_the_values(kind, values):
    assert infer_kind(values)[0] == kind


def test_doubts_about_a_kind_are_noted():
    assert infer_kind(["1"] * 9 + ["word"])[1][0] == (
        "column 'x' is read as number, and rows are rejected whose value is none, such as 'word' "
        "(10.0% of the first values); --types x=category keeps them"
    )
    assert infer_kind(["1"] * 8 + ["word"])[1][0] == (
        "column 'x' is read as category: 89% of the first values are of kind number, others are "
        "not, such as 'word'; --types x=number rejects their rows"
    )
    assert infer_kind(["?"])[1][0] == (
        "column 'x' has no value in the first rows: read as number; --types x=category reads text"
    )
    (note,) = open_stream(csv_file("1,2.5\n3,4.5\n")).notes
    assert note == "<BytesIO>: the column names are numbers; is the header missing?"


@pytest.mark.parametrize("date", ["3/14/2024", "03-04-24", "14.3.24", "3/14/2024 12:30"])
def test_dates_whose_month_is_not_known_are_noted(date):
    kind, notes = infer_kind([date, "1/2/2024", ""])
    assert kind == "category"
    assert notes[0] == (
        f"column 'x' is read as category: dates such as {date!r} may begin with the day or the "
        "month; write 2024-02-29 or 29.02.2024"
    )


@pytest.mark.parametrize(
    "values",
    [
        ["12,345.67", "999.10", "1,000"],
        ["$12.30", "-$1,200", "7"],
        ["12.30 €", "1.200,50 €", "7 €"],
        ["12%", "3.5 %", "7"],
        ["1'234.50", "1 234", "(12.30)"],
    ],
)
def test_text_that_looks_like_numbers_is_noted(values):
    kind, notes = infer_kind(values)
    assert kind == "category"
    assert notes[-2] == (
        f"column 'x' is read as category, but its values look like numbers, such as {values[0]!r}: "
        "write them like 12345.67, without currency, percent signs and thousands separators"
    )


@pytest.mark.parametrize("values", [["a", "b"], ["1-2", "3-4"], ["10:30", "7:15"], ["v1.2", "5kg"]])
def test_other_text_is_not_said_to_look_like_numbers(values):
    assert not any("look like numbers" in note for note in infer_kind(values)[1])
    zips = csv_file('{"zip": "01234"}\n{"zip": "4001"}')
    assert open_stream(zips, format="ndjson").notes == []


def test_strings_of_json_are_not_numbers():
    rows = ['{"zip": "01234", "x": 1.5, "ok": true, "mixed": 1}', '{"mixed": "a", "x": null}', ""]
    with open_stream(csv_file("\n".join(rows)), format="ndjson") as stream:
        assert stream.schema == {
            "zip": "category",
            "x": "number",
            "ok": "bool",
            "mixed": "category",
        }
        (batch,) = stream
    assert batch.table.to_pylist() == [
        {"zip": "01234", "x": 1.5, "ok": 1.0, "mixed": "1"},
        {"zip": None, "x": None, "ok": None, "mixed": "a"},
    ]
    with open_stream(csv_file('{"x": 1}\n' * 9 + '{"x": "2"}'), format="ndjson") as stream:
        (note,) = stream.notes
    assert "rows are rejected whose value is none, such as '2' (10.0%" in note
    source = csv_file('{"x": "1.5"}\n{"x": 2}')
    assert read_rows(source, format="ndjson", types="x=number")[0] == [{"x": 1.5}, {"x": 2.0}]


@pytest.mark.parametrize("drop", [None, ["d"]])
def test_new_keys_of_json_are_ignored_and_noted_once(drop):
    rows = ['{"x": 1, "d": "a"}'] * 1500 + ['{"x": 2, "d": "b", "new": 3}'] * 2 + ['{"newer": 1}']
    with open_stream(csv_file("\n".join(rows)), format="ndjson", drop=drop) as stream:
        assert sum(map(len, stream)) == 1503
    assert stream.notes == [
        "<BytesIO>:1501: key 'new' is not in the first rows; new keys are ignored"
    ]


def test_the_second_file_of_json_has_the_columns_of_the_first(tmp_path):
    (tmp_path / "a.ndjson").write_text('{"x": 1, "y": "a"}\n')
    (tmp_path / "b.ndjson").write_text('{"y": "b", "new": 1}\n{"x": "word"}\n')
    with open_stream(tmp_path) as stream:
        batches = list(stream)
    assert stream.schema == {"x": "number", "y": "category"}
    rows = [row for batch in batches for row in batch.table.to_pylist()]
    assert rows == [{"x": 1.0, "y": "a"}, {"x": None, "y": "b"}]
    assert [reject.line for reject in batches[1].rejects] == [2]
    assert stream.notes == [
        f"{tmp_path / 'b.ndjson'}:1: key 'new' is not in the first rows; new keys are ignored"
    ]


def test_a_requested_key_may_be_missing_in_the_first_rows_of_json():
    rows = ['{"x": 1}'] * 1500 + ['{"x": 2, "late": "a"}']
    with open_stream(csv_file("\n".join(rows)), format="ndjson", types="late=category") as stream:
        rows = [row for batch in stream for row in batch.table.to_pylist()]
    assert rows[-2:] == [{"x": 1.0, "late": None}, {"x": 2.0, "late": "a"}]
    assert stream.notes == ["<BytesIO>: no key 'late' in the first rows; expected one of 'x'"]


def test_bad_lines_before_the_first_object_of_json_are_rejected():
    source = csv_file("oops\n" * 3 + '{"x": 1}\n')
    rows, rejects = read_rows(source, format="ndjson", block_bytes=5)
    assert rows == [{"x": 1.0}]
    assert [reject.line for reject in rejects] == [1, 2, 3]
    assert rejects[0].reason == "invalid JSON: Expecting value at character 1"


def test_columns_describe_the_first_rows():
    with open_stream(csv_file("x,y,z\n1,a,0.5\n2,b,1\n1,a,\n")) as stream:
        x, y, z = stream.columns
    assert (x.n_distinct, x.n_known, x.is_whole) == (2, 3, True)
    assert (y.n_distinct, y.n_known, y.is_whole) == (2, 3, False)
    assert (z.n_distinct, z.n_known, z.is_whole) == (2, 2, False)


def test_columns_are_selected_and_dropped_and_names_are_checked():
    text = "x, y ,,z\n1,2,3,a\n"
    assert read_rows(csv_file(text), columns=["z", "x"])[0] == [{"x": 1.0, "z": "a"}]
    assert read_rows(csv_file(text), drop=["z", "column 3"])[0] == [{"x": 1.0, "y": 2.0}]
    assert read_rows(csv_file(text), columns=["x"], target="z")[0] == [{"x": 1.0, "z": "a"}]
    assert read_rows(csv_file("x,y\n1,oops"), types="y=number", drop=["y"]) == ([{"x": 1.0}], [])
    for options in (
        {"columns": ["Xx"]},
        {"drop": ["Xx"]},
        {"target": "Xx"},
        {"types": "Xx=number"},
    ):
        with pytest.raises(StreamError, match="no column 'Xx'; did you mean 'x'"):
            open_stream(csv_file(text), **options)
    with pytest.raises(
        StreamError, match="no column 'label'; expected one of 'x', 'y', 'column 3', 'z'"
    ):
        open_stream(csv_file(text), target="label")
    with pytest.raises(StreamError, match="'x' is the target and cannot be dropped"):
        open_stream(csv_file(text), target="x", drop=["x"])
    with pytest.raises(StreamError, match="no column remains"):
        open_stream(csv_file(text), columns=[])


def test_types_of_a_command_line_are_parsed_or_the_error_explains():
    assert parse_types(" a = b=number, zip=category,") == {"a = b": "number", "zip": "category"}
    for text, message in {
        "age": "'age' must have the form name=kind, such as age=number",
        "=number": "'=number' must have the form name=kind",
        "x=nubmer": "column 'x': no kind 'nubmer'; did you mean 'number'",
        "x=7": "column 'x': no kind '7'; expected one of 'number', 'category'",
        "x=bool,x=date": "'x' is given twice",
    }.items():
        with pytest.raises(StreamError, match=message):
            parse_types(text)
    with pytest.raises(StreamError, match="column 'x': no kind 'int'"):
        open_stream(csv_file("x\n1\n"), types={"x": "int"})
