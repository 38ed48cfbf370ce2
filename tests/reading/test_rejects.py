"""Rows that cannot be read are set aside with a reason, and rows can be skipped."""

import numpy as np
import pyarrow as pa
import pytest
from stream_files import csv_file, read_rows, write_table

from amforest.reading import RejectedRow, StreamError, open_stream

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
TIME_OF_DAY = "has a time of day, unlike the other dates of this column"
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
    # The kind of `day` is inferred from the first rows, none of which has a time.
    return csv_file(
        "\n".join(BAD.split("\n")[:1] + BAD.split("\n")[1:2] * 1000 + BAD.split("\n")[1:])
    )


@pytest.mark.parametrize("block_bytes", [300, 2**22])
def test_rejects_say_where_why_and_what(block_bytes):
    rows, rejects = read_rows(bad_file(), types=BAD_TYPES, block_bytes=block_bytes)
    assert [row["x"] for row in rows[1000:]] == [1.0, 7.0]
    assert [(reject.line - 1000, reject.reason) for reject in rejects] == REASONS
    assert {reject.file for reject in rejects} == {"<BytesIO>"}
    lines = BAD.split("\n")
    assert [reject.text for reject in rejects] == [lines[line - 1] for line, _ in REASONS]


def test_the_text_of_a_bad_row_is_short():
    _, (reject,) = read_rows(csv_file("x,y\n1,a\n" + 999 * "z" + ",b\n"), types="x=number")
    assert len(reject.text) == 200
    assert reject.reason == f"column 'x': '{39 * 'z'}…' is not a number"


@pytest.mark.parametrize("block_bytes", [300, 2**22])
def test_a_strict_stream_raises_the_first_reject(block_bytes):
    stream = open_stream(bad_file(), types=BAD_TYPES, strict=True, block_bytes=block_bytes)
    rows = []
    with pytest.raises(RejectedRow) as error:
        rows.extend(line for batch in stream for line in batch.lines.tolist())
    assert rows == list(range(2, 1003))
    assert str(error.value) == "<BytesIO>:1003: column 'x': 'one' is not a number"
    assert error.value.reject.text == BAD.split("\n")[2]
    with pytest.raises(StreamError, match="closed"):
        next(stream)


# Skipped rows, and pieces of batches


@pytest.mark.parametrize("block_bytes", [11, 2**22])
@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.parquet"])
def test_rows_after_skipped_ones_are_the_same(name, block_bytes, tmp_path):
    bad = {3, 4, 20, 58, 59}
    values = [1e31 if k in bad else float(k) for k in range(60)]
    path = write_table(tmp_path / name, pa.table({"x": values, "y": [str(k) for k in range(60)]}))
    whole, all_rejects = read_rows(path, types="y=category")
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
        pytest.raises(StreamError, match="cannot skip more rows than the 55 that there are"),
    ):
        next(stream)


def test_pieces_of_a_batch_add_up_to_it():
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
