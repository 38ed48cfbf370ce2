"""Files of all formats give the same typed rows; an error says in one line what cannot be read."""

import gzip
import os
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from stream_files import csv_file, mixed_table, read_rows, write_table

from amforest import AMFClassifier
from amforest.reading import Reject, StreamError, expand_dates, open_stream, split_target

KINDS = {
    "x": "number",
    "n": "number",
    "colour": "category",
    "ok": "bool",
    "day": "date",
    "when": "datetime",
}
NAMES = ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.bz2", "t.csv.zst", "t.ndjson", "t.jsonl.gz"]
NAMES += ["t.parquet", "t.feather", "t.arrow", "t.arrows"]


# Formats


@pytest.mark.parametrize("block_bytes", [7, 2**22])
@pytest.mark.parametrize("name", NAMES)
def test_all_formats_give_the_same_rows_in_any_blocks(name, block_bytes, tmp_path):
    table = mixed_table(100)
    with open_stream(write_table(tmp_path / name, table), block_bytes=block_bytes) as stream:
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
    path = write_table(tmp_path / "t.csv", mixed_table(2000))
    with open_stream(path, block_bytes=10_000) as stream:
        sizes = [(len(batch), stream.bytes_read) for batch in stream]
    assert len(sizes) > 10
    assert max(n for n, _ in sizes) < 250
    assert [n_bytes for _, n_bytes in sizes] == sorted(n_bytes for _, n_bytes in sizes)


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.parquet", "t.arrow"])
def test_bytes_read_are_those_of_the_rows_that_were_yielded(name, tmp_path):
    path = write_table(tmp_path / name, mixed_table(20_000))
    with open_stream(path, block_bytes=200_000) as stream:
        fractions = [
            (stream.n_rows / 20_000, stream.bytes_read / stream.bytes_total) for _ in stream
        ]
        assert stream.bytes_read == stream.bytes_total
    assert len(fractions) > 2
    assert all(abs(rows - read) < 0.1 for rows, read in fractions)


def test_pieces_of_a_batch_have_their_part_of_its_bytes(tmp_path):
    path = write_table(tmp_path / "t.csv", mixed_table(1000))
    with open_stream(path) as stream:
        (batch,) = stream
    ends = [piece.bytes_read for piece in batch.pieces(250)]
    assert ends == [path.stat().st_size * k // 4 for k in (1, 2, 3, 4)]


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
def test_requested_types_override_those_of_the_file(name, tmp_path):
    table = pa.table(
        {"zip": [123, 45], "x": ["1.5", "NA"], "when": ["2024-01-01", "2024-01-01T12"]}
    )
    rows, _ = read_rows(
        write_table(tmp_path / name, table), types="zip=category,x=number,when=date"
    )
    assert rows == [
        {"zip": "123", "x": 1.5, "when": datetime(2024, 1, 1)},
        {"zip": "45", "x": None, "when": datetime(2024, 1, 1, 12)},
    ]


# Files


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
    assert read_rows(str(tmp_path / "[ab].*"))[0] == expected[:2]
    assert read_rows([tmp_path / "c.tsv", tmp_path / "a.csv"])[0] == [expected[2], expected[0]]


def test_kinds_are_inferred_from_the_first_file_with_rows(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n")
    (tmp_path / "b.csv").write_text("x,y\n1,red\n")
    with open_stream(tmp_path) as stream:
        assert stream.schema == {"x": "number", "y": "category"}
        assert sum(map(len, stream)) == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_with_other_columns_are_an_error_before_the_first_row_if_strict(ending, tmp_path):
    write_table(tmp_path / f"a.{ending}", pa.table({"x": [1], "y": [2]}))
    write_table(tmp_path / f"b.{ending}", pa.table({"x": [1], "yy": [2]}))
    write_table(tmp_path / f"c.{ending}", pa.table({"x": [1], "y": [2], "z": [3]}))
    a, b, c = (str(tmp_path / f"{name}.{ending}") for name in "abc")
    with pytest.raises(
        StreamError, match=r"no column 'y' in .*b\..*, unlike in .*a\..* did you mean 'yy'"
    ):
        open_stream([a, b], strict=True)
    with pytest.raises(StreamError, match=r"c\..* has a column 'z', which .*a\..* does not have"):
        open_stream([a, c], strict=True)
    assert len(read_rows([a, c], columns=["x", "y"])[0]) == 2
    assert len(read_rows([a, b], columns=["x"])[0]) == 2
    with pytest.raises(StreamError, match=r"no column 'y' in .*b\."):
        open_stream([a, b], target="y")


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "ndjson"])
def test_columns_are_matched_by_name_and_what_differs_is_noted_once(ending, tmp_path):
    write_table(tmp_path / f"a.{ending}", pa.table({"x": [1], "y": ["a"], "d": [date(2024, 1, 2)]}))
    write_table(tmp_path / f"b.{ending}", pa.table({"new": [9], "x": [2]}))
    write_table(tmp_path / f"c.{ending}", pa.table({"new": [9], "x": [3]}))
    write_table(tmp_path / f"d.{ending}", pa.table({"y": ["b"], "d": [date(2024, 1, 3)], "x": [4]}))
    with open_stream(tmp_path) as stream:
        rows = [tuple(row.values()) for batch in stream for row in batch.table.to_pylist()]
    days = date(2024, 1, 2), date(2024, 1, 3)
    assert rows == [(1, "a", days[0]), (2, None, None), (3, None, None), (4, "b", days[1])]
    assert len(stream.notes) == 2
    assert any("'y', 'd'" in note and "missing values" in note for note in stream.notes)
    assert any("'new'" in note and "ignored" in note for note in stream.notes)
    assert all("b." in note for note in stream.notes)


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
        ("t.csv", b"x,y,x\n1,2,3\n", r"t\.csv has several columns 'x'"),
        ("t.csv", b'x,"y\n1,2\n', r"t\.csv:1: a quote is never closed, where column names"),
        ("t.json", b'[{"x": 1}]', r"t\.json is a JSON array; write one object per line"),
        ("t.ndjson", b'{"x": {"y": 1}}', r"t\.ndjson: column 'x' is nested; drop it"),
        (
            "t.txt",
            b"x,y\n",
            r"'.*t\.txt': its name does not say its format: set --format to one of 'csv'",
        ),
        ("t.parquet.gz", b"", r"parquet files are compressed internally; decompress it"),
    ],
)
def test_an_error_says_in_one_line_what_cannot_be_read(name, data, message, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(StreamError, match=message) as error:
        read_rows(tmp_path / name)
    assert "\n" not in str(error.value)


def test_an_error_names_a_place_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file .*none\.csv'"):
        open_stream(tmp_path / "none.csv")
    with pytest.raises(StreamError, match=r"no file matches '.*\*\.csv'"):
        open_stream(f"{tmp_path}/*.csv")
    with pytest.raises(StreamError, match=r"folder '.*' has no files of the formats 'csv', 'tsv'"):
        open_stream(tmp_path)
    with pytest.raises(StreamError, match="the list of files is empty"):
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
def test_unsupported_types_are_an_error_unless_dropped(values, tmp_path):
    path = write_table(tmp_path / "t.parquet", pa.table({"x": [1], "odd": values}))
    with pytest.raises(
        StreamError,
        match=r"t\.parquet: column 'odd' (is nested|has an unsupported type) .*; drop it",
    ):
        open_stream(path)
    assert read_rows(path, drop=["odd"])[0] == [{"x": 1.0}]


@pytest.mark.parametrize("name", ["t.arrow", "t.arrows"])
def test_a_column_of_arrow_whose_name_is_not_utf_8_is_an_error(name, tmp_path):
    path = write_table(tmp_path / name, pa.table({"column": [1]}))
    path.write_bytes(path.read_bytes().replace(b"column", b"col\xd8mn"))
    with pytest.raises(StreamError, match=r"t\.arrows? is not Arrow: a name is not UTF-8 text"):
        open_stream(path)


def test_a_damaged_arrow_file_never_gives_wrong_text(tmp_path):
    text = pa.array(["abc", "déf", "ghi", None])
    data = write_table(tmp_path / "t.arrow", pa.table({"x": text, "n": [1, 2, 3, 4]})).read_bytes()
    (tmp_path / "t.arrow").write_bytes(data.replace("é".encode(), b"\xff\xff"))
    rows, rejects = read_rows(tmp_path / "t.arrow")
    assert [row["x"] for row in rows] == ["abc", "ghi", None]
    assert rejects == [Reject(str(tmp_path / "t.arrow"), 2, "not UTF-8 text", r"d\xff\xfff,2")]
    offsets = np.array([0, 3, 7, 10, 10], dtype=np.int32).tobytes()
    wrong = np.array([0, 3, 2**30, 10, 10], dtype=np.int32).tobytes()
    assert offsets in data
    (tmp_path / "t.arrow").write_bytes(data.replace(offsets, wrong))
    with pytest.raises(StreamError, match=r"t\.arrow is damaged after row 0: "):
        read_rows(tmp_path / "t.arrow")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_a_dictionary_of_strings_is_passed_on_as_it_is(name, tmp_path):
    codes = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 2], pa.int8()), ["a", "b", "c"])
    path = write_table(tmp_path / name, pa.table({"x": codes}))
    with open_stream(path) as stream:
        (batch,) = stream
    column = batch.X.column("x")
    assert column.type == pa.dictionary(pa.int32(), pa.string())
    assert column.dictionary.to_pylist() == ["a", "b", "c"]
    assert column.to_pylist() == ["c", "a", None, "c"]


@pytest.mark.parametrize(
    "levels", [pa.array(["a", None]), pa.array(["a", "a"]), pa.array([*"abcdefgh"])]
)
def test_a_dictionary_with_null_repeated_or_many_levels_is_encoded_anew(levels, tmp_path):
    codes = pa.DictionaryArray.from_arrays([0, 1, 0], levels)
    path = write_table(tmp_path / "t.arrow", pa.table({"x": codes, "k": [1, 2, 3]}))
    with open_stream(path, target="x") as stream:
        (batch,) = stream
    assert batch.y.tolist() == [value for value in codes.to_pylist() if value is not None]
    assert batch.table["x"].dictionary.to_pylist() == list(dict.fromkeys(batch.y))
    assert len(batch.rejects) == codes.to_pylist().count(None)


# Labels and learning


def test_batches_have_features_and_labels_as_estimators_take_them():
    source = csv_file("x,when,label\n1,2024-02-29,a\n,2024-03-01,b\n")
    with open_stream(source, target="label") as stream:
        assert stream.target == "label"
        (batch,) = stream
    assert batch.X.schema.names[:3] == ["x", "when.year", "when.month"]
    assert batch.X.equals(expand_dates(split_target(batch, "label")[0].table))
    assert batch.y.tolist() == ["a", "b"]
    with open_stream(csv_file("x\n1\n")) as stream:
        (batch,) = stream
    assert (stream.target, batch.X.schema.names, batch.y) == (None, ["x"], None)


def test_the_target_is_separated_and_rows_without_it_are_rejected():
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
    rows, (reject,) = read_rows(csv_file(text), target="label")
    assert len(rows) == 2
    assert reject == Reject("<BytesIO>", 3, "column 'label': the label is missing", "2,")


def test_dates_cannot_be_labels():
    with open_stream(csv_file("x\n2024-01-01\n")) as stream:
        (batch,) = stream
    with pytest.raises(StreamError, match="column 'x' holds dates"):
        split_target(batch, "x")


def test_dates_become_numbers_from_which_they_can_be_restored():
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


@pytest.mark.filterwarnings("ignore::amforest.ScaleWarning")
def test_forests_do_not_depend_on_the_size_of_batches(tmp_path):
    path = write_table(tmp_path / "t.csv", mixed_table())
    models = []
    for block_bytes in (500, 2**22):
        model = AMFClassifier(random_state=0)
        with open_stream(path, target="n", block_bytes=block_bytes) as stream:
            for batch in stream:
                model.partial_fit(batch.X, batch.y, classes=[0.0, 1.0, 2.0])
        models.append(model.to_bytes())
    assert models[0] == models[1]
