"""Files of all formats give the same typed rows; what cannot be read is said in one line."""

import bz2
import gzip
import io
import json
import os
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from amforest import AMFClassifier
from amforest.reading import (
    Reject,
    RejectedRow,
    StreamError,
    expand_dates,
    open_stream,
    parse_types,
    split_target,
)

KINDS = {
    "x": "number",
    "n": "number",
    "colour": "category",
    "ok": "bool",
    "day": "date",
    "when": "datetime",
}


def a_table(n=300):
    """Rows of all kinds, with gaps."""
    rng = np.random.default_rng(0)
    rows = range(n)
    columns = {
        "x": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.1),
        "n": pa.array(rng.integers(0, 3, size=n)),
        "colour": pa.array(
            [["red", "light blue", 'a "b", c', "grün\n", None][k % 5] for k in rows]
        ),
        "ok": pa.array([[True, False, None][k % 3] for k in rows]),
        "day": pa.array([date(2024, 2, 27) + timedelta(days=k) if k % 7 else None for k in rows]),
        "when": pa.array(
            [datetime(2024, 1, 1) + timedelta(seconds=k, microseconds=k) for k in rows]
        ),
    }
    return pa.table(columns)


def as_json(table):
    def plain(value):
        return value.isoformat() if isinstance(value, date) else value

    rows = ({name: plain(value) for name, value in row.items()} for row in table.to_pylist())
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(table, delimiter=","):
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer, pyarrow.csv.WriteOptions(delimiter=delimiter))
    return buffer.getvalue()


def write(path, table):
    """Write a table in the format that the name of a file tells."""
    ending = path.suffixes[0]
    if ending == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=70)
    elif ending == ".feather":
        pyarrow.feather.write_feather(table, path, chunksize=70)
    elif ending in (".arrow", ".arrows"):
        is_file = ending == ".arrow"
        new = pa.ipc.new_file if is_file else pa.ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    else:
        data = (
            as_json(table) if "json" in ending else as_csv(table, "\t" if ending == ".tsv" else ",")
        )
        compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": pa.compress}
        if path.suffix == ".zst":
            with pa.CompressedOutputStream(str(path), "zstd") as file:
                file.write(data)
        else:
            path.write_bytes(compress.get(path.suffix, bytes)(data))
    return path


def read(source, **options):
    """All rows as dictionaries, and all rejects."""
    rows, rejects = [], []
    with open_stream(source, **options) as stream:
        for batch in stream:
            rows += batch.table.to_pylist()
            rejects += batch.rejects
    return rows, rejects


def csv_file(text):
    return io.BytesIO(text.encode())


NAMES = ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.bz2", "t.csv.zst", "t.ndjson", "t.jsonl.gz"]
NAMES += ["t.parquet", "t.feather", "t.arrow", "t.arrows"]


# What is read


@pytest.mark.parametrize("block_bytes", [7, 1000, 2**22])
@pytest.mark.parametrize("name", NAMES)
def test_all_formats_give_the_same_rows_in_any_blocks(name, block_bytes, tmp_path):
    table = a_table(100)
    with open_stream(write(tmp_path / name, table), block_bytes=block_bytes) as stream:
        assert stream.schema == KINDS
        batches = list(stream)
    rows = [row for batch in batches for row in batch.table.to_pylist()]
    expected = table.to_pylist()
    for row in expected:
        row["ok"] = None if row["ok"] is None else float(row["ok"])
        if name[-4:] not in ("quet", "ther", "rrow", "rows"):  # text is stripped
            row["colour"] = row["colour"] and row["colour"].strip()
    assert rows == expected
    types = [pa.float64(), pa.dictionary(pa.int32(), pa.string()), pa.date32(), pa.timestamp("us")]
    assert {t for batch in batches for t in batch.table.schema.types} == set(types)
    assert not any(batch.rejects for batch in batches)
    assert stream.bytes_read == stream.bytes_total == (tmp_path / name).stat().st_size
    lines = np.concatenate([batch.lines for batch in batches])
    if name in ("t.parquet", "t.feather", "t.arrow", "t.arrows"):
        assert lines.tolist() == list(range(1, 101))
    elif "json" not in name:
        n_breaks = np.cumsum([0] + [(row["colour"] or "").count("\n") for row in table.to_pylist()])
        assert lines.tolist() == (np.arange(2, 102) + n_breaks[:-1]).tolist()


def test_a_batch_is_one_block_and_not_the_file(tmp_path):
    path = write(tmp_path / "t.csv", a_table(2000))
    with open_stream(path, block_bytes=10_000) as stream:
        sizes = [(len(batch), stream.bytes_read) for batch in stream]
    assert len(sizes) > 10
    assert max(n for n, _ in sizes) < 250
    assert [n_bytes for _, n_bytes in sizes] == sorted(n_bytes for _, n_bytes in sizes)


def test_types_of_arrow_are_numbers_categories_and_dates(tmp_path):
    zone = timezone(timedelta(hours=2))
    columns = {
        "int8": pa.array([1, None], pa.int8()),
        "uint64": pa.array([2**64 - 1, 0], pa.uint64()),
        "half": pa.array([np.float16(0.5), None], pa.float16()),
        "decimal": pa.array([Decimal("1.25"), Decimal("2.50")]),
        "nothing": pa.nulls(2),
        "large": pa.array(["a", "NA"], pa.large_string()),
        "codes": pa.array([7, 8]).dictionary_encode(),
        "date64": pa.array([date(2024, 1, 2), None], pa.date64()),
        "zoned": pa.array([datetime(2024, 1, 2, 1, tzinfo=zone), None]),
        "second": pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("s")),
        "nano": pa.array([1_999, -1], pa.int64()).cast(pa.timestamp("ns")),
    }
    with pa.ipc.new_file(tmp_path / "t.arrow", pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns))
    with open_stream(tmp_path / "t.arrow") as stream:
        (batch,) = stream
    assert list(stream.schema.values()) == [
        *["number"] * 5, *["category"] * 2, "date", *["datetime"] * 3
    ]  # fmt: skip
    assert batch.table.to_pylist() == [
        {
            **{"int8": 1.0, "uint64": 2.0**64, "half": 0.5, "decimal": 1.25, "nothing": None},
            **{"large": "a", "codes": "7", "date64": date(2024, 1, 2)},
            **{"zoned": datetime(2024, 1, 1, 23), "second": datetime(1970, 1, 1)},
            "nano": datetime(1970, 1, 1, 0, 0, 0, 1),
        }
    ]
    (reject,) = batch.rejects
    assert reject.line == 2
    assert reject.reason.startswith(f"column 'second': '{2**62}' is not a date")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_types_that_are_wished_go_before_those_of_the_file(name, tmp_path):
    table = pa.table(
        {"zip": [123, 45], "x": ["1.5", "NA"], "when": ["2024-01-01", "2024-01-01T12"]}
    )
    rows, _ = read(write(tmp_path / name, table), types="zip=category,x=number,when=date")
    assert rows == [
        {"zip": "123", "x": 1.5, "when": datetime(2024, 1, 1)},
        {"zip": "45", "x": None, "when": datetime(2024, 1, 1, 12)},
    ]


# Which files


def test_folders_and_patterns_are_read_in_the_order_of_names(tmp_path):
    for name, text in {
        "b.csv": "y,x\n4,3\n",
        "a.csv": "x,y\n1,2\n",
        "c.tsv": "x\ty\n5\t6\n",
        "d.ndjson": '{"y": 8, "x": 7}\n',
        "empty.csv": "",
        "header.csv": "x,y\n",
        "readme.txt": "?",
        ".hidden.csv": "z\n1\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder.csv").mkdir()
    expected = [{"x": x, "y": x + 1} for x in (1.0, 3.0, 5.0, 7.0)]
    with open_stream(tmp_path) as stream:
        batches = list(stream)
    assert [row for batch in batches for row in batch.table.to_pylist()] == expected
    assert [os.path.basename(batch.file) for batch in batches] == [
        "a.csv", "b.csv", "c.tsv", "d.ndjson"
    ]  # fmt: skip
    assert stream.notes == [f"{tmp_path / 'empty.csv'} is empty"]
    assert stream.bytes_read == stream.bytes_total
    assert read(str(tmp_path / "[ab].*"))[0] == expected[:2]
    assert read([tmp_path / "c.tsv", tmp_path / "a.csv"])[0] == [expected[2], expected[0]]


def test_kinds_are_found_from_the_first_file_with_rows(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n")
    (tmp_path / "b.csv").write_text("x,y\n1,red\n")
    with open_stream(tmp_path) as stream:
        assert stream.schema == {"x": "number", "y": "category"}
        assert sum(map(len, stream)) == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_with_other_columns_are_refused_before_the_first_row(ending, tmp_path):
    write(tmp_path / f"a.{ending}", pa.table({"x": [1], "y": [2]}))
    write(tmp_path / f"b.{ending}", pa.table({"x": [1], "yy": [2]}))
    write(tmp_path / f"c.{ending}", pa.table({"x": [1], "y": [2], "z": [3]}))
    a, b, c = (str(tmp_path / f"{name}.{ending}") for name in "abc")
    with pytest.raises(
        StreamError, match=r"no column 'y' in .*b\..*, as .*a\..* did you mean 'yy'"
    ):
        open_stream([a, b])
    with pytest.raises(StreamError, match=r"c\..* has a column 'z', which .*a\..* has not"):
        open_stream([a, c])
    assert len(read([a, c], columns=["x", "y"])[0]) == 2
    assert len(read([a, b], columns=["x"])[0]) == 2


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", b"", r"t\.csv is empty"),
        ("t.ndjson", b" \n", r"t\.ndjson is empty"),
        ("t.parquet", b"", r"t\.parquet is empty"),
        ("t.arrow", b"", r"t\.arrow is empty"),
        ("t.csv", bytes(range(256)), r"t\.csv is not CSV: its first line is not UTF-8 text"),
        ("t.ndjson", bytes(range(256)), r"t\.ndjson has no JSON object in its first rows"),
        ("t.parquet", bytes(range(256)), r"t\.parquet is not Parquet: "),
        ("t.arrow", bytes(range(256)), r"t\.arrow is not Arrow: "),
        ("t.arrow", b"ARROW1\0\0" + bytes(99), r"t\.arrow is not Arrow: "),
        ("t.arrow", b"PAR1" + bytes(99), r"t\.arrow is Parquet"),
        ("t.csv.gz", b"x,y\n1,2\n", r"t\.csv\.gz is damaged: "),
        (
            "t.csv.gz",
            gzip.compress(b"x,y\n" + 99 * b"1,2\n", mtime=0)[:-9],
            r"t\.csv\.gz is damaged: ",
        ),
        ("t.csv", "x,y\n1,2\n".encode("utf-16"), r"t\.csv is UTF-16 text"),
        ("t.csv", b"x,y,x\n1,2,3\n", r"t\.csv has several columns 'x'"),
        ("t.csv", b'x,"y\n1,2\n', r"t\.csv:1: a quote is never closed, where the names"),
        ("t.json", b'[{"x": 1}]', r"t\.json is a JSON array; one object a line is needed"),
        ("t.ndjson", b'{"x": {"y": 1}}', r"t\.ndjson: column 'x' is nested; leave it out"),
        ("t.txt", b"x,y\n", r"'.*t\.txt' does not tell its format: say which of 'csv', "),
        ("t.parquet.gz", b"", r"parquet files are compressed from within; decompress it"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(name, data, message, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(StreamError, match=message) as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)


def test_places_that_are_not_there_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file .*none\.csv'"):
        open_stream(tmp_path / "none.csv")
    with pytest.raises(StreamError, match=r"no file matches '.*\*\.csv'"):
        open_stream(f"{tmp_path}/*.csv")
    with pytest.raises(StreamError, match=r"folder '.*' has no files of 'csv', 'tsv'"):
        open_stream(tmp_path)
    with pytest.raises(StreamError, match="no files are given"):
        open_stream([])
    with pytest.raises(StreamError, match="no format 'cvs'; did you mean 'csv'"):
        open_stream(tmp_path, format="cvs")


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1, 2]]),
        pa.array([{"a": 1}]),
        pa.array([b"bytes"]),
        pa.array([timedelta(1)]),
    ],
)
def test_types_that_cannot_be_learnt_are_refused_unless_left_out(values, tmp_path):
    path = write(tmp_path / "t.parquet", pa.table({"x": [1], "odd": values}))
    with pytest.raises(StreamError, match=r"t\.parquet: column 'odd' is .* leave it out"):
        open_stream(path)
    assert read(path, drop=["odd"])[0] == [{"x": 1.0}]


def test_a_damaged_arrow_file_never_gives_wrong_text(tmp_path):
    text = pa.array(["abc", "déf", "ghi", None])
    data = write(tmp_path / "t.arrow", pa.table({"x": text, "n": [1, 2, 3, 4]})).read_bytes()
    (tmp_path / "t.arrow").write_bytes(data.replace("é".encode(), b"\xff\xff"))
    rows, rejects = read(tmp_path / "t.arrow")
    assert [row["x"] for row in rows] == ["abc", "ghi", None]
    assert rejects == [Reject(str(tmp_path / "t.arrow"), 2, "not UTF-8 text", r"d\xff\xfff,2")]
    offsets = np.array([0, 3, 7, 10, 10], dtype=np.int32).tobytes()
    wrong = np.array([0, 3, 2**30, 10, 10], dtype=np.int32).tobytes()
    assert offsets in data
    (tmp_path / "t.arrow").write_bytes(data.replace(offsets, wrong))
    with pytest.raises(StreamError, match=r"t\.arrow is damaged after row 0: "):
        read(tmp_path / "t.arrow")


# Which columns, and of what kind


def kinds_of(values, types=None):
    """The kind of a column of CSV with some values."""
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
        ("category", ["2024-02", "29.2.2024"]),
        ("number", ["", "NA"]),
        ("number", []),
    ],
)
def test_kinds_are_those_of_nine_tenths_of_the_values(kind, values):
    assert kinds_of(values)[0] == kind


def test_doubts_about_a_kind_are_noted():
    assert kinds_of(["1"] * 9 + ["word"])[1][0] == (
        "column 'x' is taken as number, but 10.0% of the first values are not"
    )
    assert kinds_of(["1"] * 8 + ["word"])[1][0] == (
        "column 'x': 89% of the first values are of the kind number; taken as category"
    )
    assert kinds_of(["?"])[1][0] == "column 'x' has no value in the first rows: taken as number"
    (note,) = open_stream(csv_file("1,2.5\n3,4.5\n")).notes
    assert note == "<BytesIO>: the names of columns are numbers; is there no header?"


def test_strings_of_json_are_no_numbers():
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
    source = csv_file('{"x": "1.5"}\n{"x": 2}')
    assert read(source, format="ndjson", types="x=number")[0] == [{"x": 1.5}, {"x": 2.0}]


@pytest.mark.parametrize("drop", [None, ["d"]])
def test_new_keys_of_json_are_left_out_and_noted_once(drop):
    rows = ['{"x": 1, "d": "a"}'] * 1500 + ['{"x": 2, "d": "b", "new": 3}'] * 2 + ['{"newer": 1}']
    with open_stream(csv_file("\n".join(rows)), format="ndjson", drop=drop) as stream:
        assert sum(map(len, stream)) == 1503
    assert stream.notes == [
        "<BytesIO>:1501: key 'new' is not in the first rows: it and others that are new are "
        "left out"
    ]


def test_columns_tell_what_the_first_rows_hold():
    with open_stream(csv_file("x,y,z\n1,a,0.5\n2,b,1\n1,a,\n")) as stream:
        x, y, z = stream.columns
    assert (x.n_distinct, x.n_known, x.whole) == (2, 3, True)
    assert (y.n_distinct, y.n_known, y.whole) == (2, 3, False)
    assert (z.n_distinct, z.n_known, z.whole) == (2, 2, False)


def test_columns_are_chosen_and_left_out_and_names_are_checked():
    text = "x, y ,,z\n1,2,3,a\n"
    assert read(csv_file(text), columns=["z", "x"])[0] == [{"x": 1.0, "z": "a"}]
    assert read(csv_file(text), drop=["z", "column 3"])[0] == [{"x": 1.0, "y": 2.0}]
    assert read(csv_file(text), columns=["x"], target="z")[0] == [{"x": 1.0, "z": "a"}]
    assert read(csv_file("x,y\n1,oops"), types="y=number", drop=["y"]) == ([{"x": 1.0}], [])
    for options in (
        {"columns": ["Xx"]},
        {"drop": ["Xx"]},
        {"target": "Xx"},
        {"types": "Xx=number"},
    ):
        with pytest.raises(StreamError, match="no column 'Xx'; did you mean 'x'"):
            open_stream(csv_file(text), **options)
    with pytest.raises(StreamError, match="no column 'label'; there are 'x', 'y', 'column 3', 'z'"):
        open_stream(csv_file(text), target="label")
    with pytest.raises(StreamError, match="'x' cannot be both the target and left out"):
        open_stream(csv_file(text), target="x", drop=["x"])
    with pytest.raises(StreamError, match="no column is left"):
        open_stream(csv_file(text), columns=[])


def test_types_of_a_command_line_are_read_or_explained():
    assert parse_types(" a = b=number, zip=category,") == {"a = b": "number", "zip": "category"}
    for text, message in {
        "age": "'age' should be name=kind, such as age=number",
        "=number": "'=number' should be name=kind",
        "x=nubmer": "no kind 'nubmer' for column 'x'; did you mean 'number'",
        "x=7": "no kind '7' for column 'x'; there are 'number', 'category'",
        "x=bool,x=date": "'x' is named twice",
    }.items():
        with pytest.raises(StreamError, match=message):
            parse_types(text)
    with pytest.raises(StreamError, match="no kind 'int' for column 'x'"):
        open_stream(csv_file("x\n1\n"), types={"x": "int"})


# Rows that cannot be read

BAD = """x,ok,day,when,word
1,true,2024-01-01,2024-01-01T10:00,a
one,true,2024-01-01,2024-01-01T10:00,b
2,1,2024-01-01,2024-01-01T10:00,c
3,true,2024-02-30,2024-01-01T10:00,d
4,true,2024-01-01T10:00,2024-01-01T10:00,e
5,true,2024-01-01,10:00,f
6,true,2024-01-01,2024-01-01T10:00
inf,maybe,2024-01-01,2024-01-01T10:00,h
1e31,true,0000-01-01,2024-01-01T10:00,i
7,,,,
"""
TIME_OF_DAY = "has a time of day, which the dates of this column have not"
REASONS = [
    (3, "column 'x': 'one' is not a number"),
    (4, "column 'ok': '1' is neither true nor false"),
    (5, "column 'day': '2024-02-30' is not a date such as 2024-02-29"),
    (6, f"column 'day': '2024-01-01T10:00' {TIME_OF_DAY}"),
    (7, "column 'when': '10:00' is not a date such as 2024-02-29T12:30:00"),
    (8, "4 fields instead of 5"),
    (9, "column 'x': 'inf' is beyond ±2**100"),
    (10, "column 'x': '1e31' is beyond ±2**100"),
]
BAD_TYPES = {"x": "number", "ok": "bool", "day": "date", "when": "datetime"}


def bad_file():
    # The kind of `day` is found from the first rows; none of these has a time.
    return csv_file(
        "\n".join(BAD.split("\n")[:1] + BAD.split("\n")[1:2] * 1000 + BAD.split("\n")[1:])
    )


@pytest.mark.parametrize("block_bytes", [300, 2**22])
def test_rejects_say_where_why_and_what(block_bytes):
    rows, rejects = read(bad_file(), types=BAD_TYPES, block_bytes=block_bytes)
    assert [row["x"] for row in rows[1000:]] == [1.0, 7.0]
    assert [(reject.line - 1000, reject.reason) for reject in rejects] == REASONS
    assert {reject.file for reject in rejects} == {"<BytesIO>"}
    lines = BAD.split("\n")
    assert [reject.text for reject in rejects] == [lines[line - 1] for line, _ in REASONS]


def test_what_is_shown_of_a_bad_row_is_short():
    _, (reject,) = read(csv_file("x,y\n1,a\n" + 999 * "z" + ",b\n"), types="x=number")
    assert len(reject.text) == 200
    assert reject.reason == f"column 'x': '{39 * 'z'}…' is not a number"


@pytest.mark.parametrize("block_bytes", [300, 2**22])
def test_a_strict_stream_ends_at_the_first_bad_row_with_the_same_words(block_bytes):
    stream = open_stream(bad_file(), types=BAD_TYPES, strict=True, block_bytes=block_bytes)
    rows = []
    with pytest.raises(RejectedRow) as error:
        rows.extend(line for batch in stream for line in batch.lines.tolist())
    assert rows == list(range(2, 1003))
    assert str(error.value) == "<BytesIO>:1003: column 'x': 'one' is not a number"
    assert error.value.reject.text == BAD.split("\n")[2]
    with pytest.raises(StreamError, match="closed"):
        next(stream)


# Going on


@pytest.mark.parametrize("block_bytes", [11, 2**22])
@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.parquet"])
def test_what_follows_skipped_rows_is_the_same(name, block_bytes, tmp_path):
    bad = {3, 4, 20, 58, 59}
    values = [1e31 if k in bad else float(k) for k in range(60)]
    path = write(tmp_path / name, pa.table({"x": values, "y": [str(k) for k in range(60)]}))
    whole, all_rejects = read(path, types="y=category")
    for n in (0, 1, 3, 4, 30, 54, 55):
        with open_stream(path, types="y=category", block_bytes=block_bytes).skip(n) as stream:
            batches = list(stream)
        assert [row for batch in batches for row in batch.table.to_pylist()] == whole[n:]
        rejects = [reject for batch in batches for reject in batch.rejects]
        n_before = sum(k < (whole[n - 1]["x"] if n else 0) for k in bad)
        assert rejects == all_rejects[n_before:]
        assert (stream.n_rows, stream.n_rejected) == (55, 5)
    with (
        open_stream(path, types="y=category").skip(56) as stream,
        pytest.raises(StreamError, match="only 55 rows, fewer than are to be skipped"),
    ):
        next(stream)


def test_pieces_of_a_batch_are_all_of_it():
    with open_stream(csv_file("x,y\na,1\n1,1\nb,1\n2,2\n3,3\nc,1\n"), types="x=number") as stream:
        (batch,) = stream
    assert batch.lines.tolist() == [3, 5, 6]
    for n in range(4):
        parts = [batch.slice(0, n), batch.slice(n)]
        assert np.concatenate([part.lines for part in parts]).tolist() == [3, 5, 6]
        assert sum((part.rejects for part in parts), ()) == batch.rejects
    assert [reject.line for reject in batch.slice(1, 2).rejects] == [4]
    for n in (1, 2, 3, 9):
        parts = list(batch.pieces(n))
        assert sum(map(len, parts)) == 3
        assert max(map(len, parts)) <= n
        assert sum((part.rejects for part in parts), ()) == batch.rejects


# Labels, and learning


def test_the_target_is_split_off_and_rows_without_it_are_rejected():
    text = "x,label\n1,a\n2,\n3,b\n"
    with open_stream(csv_file(text)) as stream:
        (batch,) = stream
    X, y = split_target(batch, "label")
    assert (X.table.to_pylist(), X.lines.tolist()) == ([{"x": 1.0}, {"x": 3.0}], [2, 4])
    assert y.tolist() == ["a", "b"]
    assert X.rejects == (Reject("<BytesIO>", 3, "column 'label': the label is missing", "2.0,"),)
    assert split_target(X, "x")[1].dtype == np.float64
    with pytest.raises(StreamError, match="no column 'lable'; did you mean 'label'"):
        split_target(batch, "lable")
    rows, (reject,) = read(csv_file(text), target="label")
    assert len(rows) == 2
    assert reject == Reject("<BytesIO>", 3, "column 'label': the label is missing", "2,")


def test_dates_cannot_be_labels():
    with open_stream(csv_file("x\n2024-01-01\n")) as stream:
        (batch,) = stream
    with pytest.raises(StreamError, match="column 'x' holds dates"):
        split_target(batch, "x")


def test_dates_become_numbers_that_give_them_back():
    days = [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31), None]
    times = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None]
    times += [datetime(2024, 2, 29, 6), datetime(9999, 12, 31, 23, 59, 59)]
    table = pa.RecordBatch.from_arrays([pa.array(days), pa.array(times)], names=["a", "b"])
    expanded = expand_dates(table)
    names = ["year", "month", "day", "weekday", "time"]
    assert expanded.schema.names == [f"a.{name}" for name in names] + [
        f"b.{name}" for name in (*names[:4], "hour", "minute", "second", "time")
    ]
    for row, day, moment in zip(expanded.to_pylist(), days, times, strict=True):
        if day is None:
            assert {row[f"a.{name}"] for name in names} == {None}
        else:
            assert (row["a.year"], row["a.month"], row["a.day"]) == (day.year, day.month, day.day)
            assert row["a.weekday"] == day.weekday()
            assert row["a.time"] == (day - date(1970, 1, 1)).days
        if moment is not None:
            since = moment - datetime(1970, 1, 1)
            assert row["b.time"] == pytest.approx(since / timedelta(days=1), rel=1e-15)
            second = moment.second + moment.microsecond / 1e6
            assert row["b.second"] == pytest.approx(second, abs=1e-9)
            assert row["b.minute"] == pytest.approx(moment.minute + second / 60, abs=1e-9)
            assert row["b.hour"] == pytest.approx(moment.hour + row["b.minute"] / 60, abs=1e-9)
            assert int(row["b.hour"]) == moment.hour


def test_forests_learn_batches_of_any_size_alike(tmp_path):
    path = write(tmp_path / "t.csv", a_table())
    models = []
    for block_bytes in (500, 2**22):
        model = AMFClassifier(random_state=0)
        with open_stream(path, target="n", block_bytes=block_bytes) as stream:
            for batch in stream:
                X, y = split_target(batch, "n")
                model.partial_fit(expand_dates(X.table), y, classes=[0.0, 1.0, 2.0])
        models.append(model.to_bytes())
    assert models[0] == models[1]
