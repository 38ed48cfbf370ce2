"""Rows of CSV and JSON, and their lines, do not depend on how the bytes are cut and parsed."""

import csv
import io
import json
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amforest.reading import open_stream
from amforest.reading.conversion import MISSING
from amforest.reading.records import Splitter

BLANKS = " \t\n\r\v\f"
MARKS = ["a", "1", ",", ",", '"', '"', "\n", "\n", "\r\n", "\r", " ", "é", "NA", '""', '"\n"', "\0"]
csv_text = st.lists(st.sampled_from(MARKS), max_size=40).map("".join)


def naive_records(text):
    """Yield the records of CSV with their lines and whether they are closed, by characters."""
    text = text.replace("\r\n", "\n")
    line, start, first_line = 1, 0, 1
    is_inside, begins_field, closed_at = False, True, None
    at = 0
    while at < len(text):
        mark = text[at]
        if is_inside:
            is_inside, closed_at = mark != '"', at
            line += mark in "\r\n"
        elif mark == '"' and (begins_field or closed_at == at - 1):
            is_inside = True
        elif mark in "\r\n":
            yield first_line, text[start:at], True
            line += 1
            start, first_line = at + 1, line
        begins_field, closed_at = mark in ",\r\n", closed_at if mark == '"' else None
        at += 1
        if at == len(text) and is_inside:  # one line is rejected, and parsing starts again after it
            record = text[start:]
            end = min((record + "\n").find("\n"), (record + "\r").find("\r"))
            yield first_line, record[:end], False
            at = start = start + end + 1
            line = first_line = first_line + 1
            is_inside, begins_field, closed_at = False, True, None
    if start < len(text):
        yield first_line, text[start:], True


def naive_rows(text, n_columns):
    """Return the lines and fields of the good rows, and the lines of the bad ones."""
    good, bad = [], []
    for line, record, is_closed in naive_records(text):
        if not record:
            continue
        fields = next(csv.reader(io.StringIO(record, newline="")))
        values = [field.strip(BLANKS) for field in fields]
        values = [None if value in MISSING else value for value in values]
        if is_closed and len(fields) == n_columns:
            good.append((line, *values))
        else:
            bad.append(line)
    return good, bad


def read(data, **options):
    """Return all rows with their lines, and all rejects."""
    rows, rejects = [], []
    with open_stream(io.BytesIO(data), **options) as stream:
        for batch in stream:
            columns = [column.to_pylist() for column in batch.table.columns]
            rows += zip(batch.lines.tolist(), *columns, strict=True)
            rejects += batch.rejects
    assert (stream.n_rows, stream.n_rejected) == (len(rows), len(rejects))
    return rows, rejects


# CSV


@given(csv_text, st.sampled_from([1, 2, 3, 7, 1000]))
@example('a"b,"c\n"d"e"f,\r\r\n"', 1)
@example('"a\r\n""\r\r\n",\r\n\r"b', 1)
def test_records_lines_and_fields_are_those_of_a_naive_reader(text, block_bytes):
    good, bad = naive_rows("x,y\n" + text, 2)
    rows, rejects = read(
        ("x,y\n" + text).encode(), types="x=category,y=category", block_bytes=block_bytes
    )
    as_naive = [
        tuple(v.replace("\r\n", "\n") if isinstance(v, str) else v for v in row) for row in rows
    ]
    assert as_naive == good[1:]
    assert [reject.line for reject in rejects] == bad


@given(csv_text)
def test_without_open_quotes_the_naive_reader_is_pythons_csv(text):
    records = list(naive_records(text))
    if not all(is_closed for *_, is_closed in records):
        return
    reader = csv.reader(io.StringIO(text, newline=""))
    expected, before = [], 0
    for fields in reader:
        expected.append((before + 1, [field.replace("\r\n", "\n") for field in fields]))
        before = reader.line_num
    naive = [
        (line, next(csv.reader(io.StringIO(record, newline="")), [])) for line, record, _ in records
    ]
    assert naive == expected


@given(
    st.lists(st.tuples(st.text(max_size=5), st.floats(-1e9, 1e9), st.none() | st.dates())),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([",", ";", "\t", "|"]),
    st.integers(1, 50),
)
def test_rows_written_by_pythons_csv_are_read_back(rows, line_end, delimiter, block_bytes):
    rows = [(t.replace("\r", "").replace("\0", ""), x, day) for t, x, day in rows]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator=line_end, delimiter=delimiter)
    writer.writerows([["text", "x", "day"], *rows])
    found, rejects = read(
        file.getvalue().encode(),
        types="text=category,x=number,day=date",
        block_bytes=block_bytes,
    )
    words = [text.strip(BLANKS) for text, *_ in rows]
    assert [row[1] for row in found] == [None if word in MISSING else word for word in words]
    assert [row[2:] for row in found] == [row[1:] for row in rows]
    assert not rejects


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_lines_are_counted_through_marks_quotes_gaps_and_bad_rows(line_end):
    lines = [
        b"\xef\xbb\xbfx,y",
        b"",
        b"1,a",
        b'2,"b',
        b"",
        b'c"',
        b"3",
        b"",
        b"4,d",
        b"?,e",
        b"5,f",
    ]
    rows, rejects = read(line_end.join(lines), types="x=number,y=category")
    newline = line_end.decode()
    assert rows == [
        *((3, 1.0, "a"), (4, 2.0, f"b{newline * 2}c")),
        *((9, 4.0, "d"), (10, None, "e"), (11, 5.0, "f")),
    ]
    assert [(reject.line, reject.reason) for reject in rejects] == [(7, "1 field instead of 2")]


@pytest.mark.parametrize("block_bytes", [1, 3, 10, 1000])
def test_a_record_too_long_or_never_closed_costs_one_line(block_bytes):
    long = b"7," + 30 * b"x"
    lines = [b"x,y", b"1,a", long, b"2,b", b'3,"c', b"4," + 18 * b"d", b"5,e", long + b'"', b'6,"f']
    rows, rejects = read(b"\r\n".join(lines), max_record=20, block_bytes=block_bytes)
    assert [(line, x) for line, x, _ in rows] == [(2, 1), (4, 2), (6, 4), (7, 5)]
    assert [(reject.line, reject.reason) for reject in rejects] == [
        (3, "longer than 20 bytes"),
        (5, "a quote is never closed"),
        (8, "longer than 20 bytes"),
        (9, "a quote is never closed"),
    ]


@given(
    st.lists(st.sampled_from([b"ab", b'"', b",", b"\n", b"\r", b"\r\n"]), max_size=60), st.data()
)
def test_records_do_not_depend_on_the_pieces(marks, data):
    whole = b"".join(marks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    limit = data.draw(st.integers(1, 12))

    def records(pieces):
        splitter = Splitter("file", b",", limit)
        found = [splitter.feed(piece) for piece in pieces]
        found.append(splitter.feed(b"", is_last=True))
        lines = [line for part in found for line in part.lines.tolist()]
        contents = [record for part in found for record in part]
        return lines, contents, [reject for part in found for reject in part.rejects]

    ends = [0, *cuts, len(whole)]
    assert records([whole]) == records([whole[a:b] for a, b in pairwise(ends)])


@pytest.mark.parametrize("block_bytes", [1, 5, 1000])
def test_rows_that_are_not_utf8_are_rejected(block_bytes):
    data = "x,y\n1,é\n".encode() + b"2,\xff\n3,a\n\xc3,b\n" + "4,ü".encode()
    rows, rejects = read(data, block_bytes=block_bytes, types="x=number")
    assert rows == [(2, 1.0, "é"), (4, 3.0, "a"), (6, 4.0, "ü")]
    assert [str(reject) for reject in rejects] == [
        "<BytesIO>:3: not UTF-8 text",
        "<BytesIO>:5: not UTF-8 text",
    ]
    assert rejects[0].text == r"2,\xff"


def test_kinds_are_inferred_from_a_row_longer_than_the_sample():
    data = b"x,y\n1," + 5 * 2**20 * b"a" + b"\n2,b\n"
    with open_stream(io.BytesIO(data), max_record=2**23) as stream:
        assert stream.schema == {"x": "number", "y": "category"}
        assert sum(map(len, stream)) == 2


# JSON

LINES = [
    '{"x": 1, "y": "a"}',
    '{"x": 2.5e3, "y": "NA", "z": true}',
    '{"y": "b"}{"x": 1}',
    '{"y":',
    '"b"}',
    '{"x": null, "y": " c "}',
    '{"x": "3", "y": 4}',
    '{"x": NaN, "y": "d", "new": {"deep": [1, {}]}}',
    '{"x": -Inf}',
    '{"x": Infinity}',
    '{"x": 1, "x": 2, "y": "\\ud83d\\ude00"}',
    '{"y": "\\ud800"}',
    '{"x": true}',
    '{"x": [1]}',
    "[1]",
    "17",
    "",
    "  ",
    ' {"x": 5}\r',
    '{"x": 01}',
    '{"x": 1e999}',
    '{"x": 1e-999, "y": "\\u0000"}',
    '{"new": -NaN}',
    '{"z": "false"}',
    '{"z": 1}',
    '{"y": ' + 1200 * "[" + 1200 * "]" + "}",
    '{"new": ' + 1200 * "[" + 1200 * "]" + "}",
    '{"y": "a\tb"}',
]


def naive_json(line):
    """Return the values of a row, None for a blank line; raise an error if it is bad."""
    if not line.strip():
        return None
    row = json.loads(line, parse_constant=str, parse_int=str, parse_float=str)
    x, y, z = (row.get(name) for name in "xyz")
    if isinstance(x, bool) or isinstance(y, list) or isinstance(x, list):
        raise ValueError
    x = None if x in MISSING or x is None else float(x)
    if x is not None and abs(x) > 1e30:
        raise ValueError
    y = None if y is None else y.strip(BLANKS)
    if y is not None:
        y.encode()
    z = {None: None, True: 1.0, "false": 0.0}[z]
    return x, None if y in MISSING else y, z


def check_json(lines, block_bytes):
    good, bad = [], []
    for number, line in enumerate(lines, 2):
        try:
            row = naive_json(line)
            good += [(number, *row)] if row is not None else []
        except (AttributeError, KeyError, RecursionError, ValueError):
            bad.append(number)
    data = "\n".join(['{"x": 0, "y": "b", "z": null}', *lines]).encode()
    rows, rejects = read(
        data,
        format="ndjson",
        columns=["x", "y", "z"],
        types="x=number,y=category,z=bool",
        block_bytes=block_bytes,
    )
    assert rows[1:] == good
    assert [reject.line for reject in rejects] == bad


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sampled_from([9, 100, 10_000]))
@example(LINES, 9)
@example(LINES, 10_000)
def test_lines_of_json_are_parsed_as_if_one_by_one(lines, block_bytes):
    check_json(lines, block_bytes)


@pytest.mark.parametrize("odd_fraction", [0.001, 0.02, 0.3, 1.0])
def test_lines_of_json_do_not_depend_on_their_neighbours(odd_fraction):
    random = Random(0)
    clean = [f'{{"x": {k}, "y": "{k % 5}", "z": true}}' for k in range(3_000)]
    lines = [random.choice(LINES) if random.random() < odd_fraction else line for line in clean]
    check_json(lines, 2**22)
