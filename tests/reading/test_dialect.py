"""Delimiters, decimal commas and encodings are detected, and noted; or taken as they are given."""

import io
import os
import threading

import pytest
from stream_files import read_rows

from amforest.reading import StreamError, open_stream

TEXT = "größe;preis;wort\n1;1,5;é, ü\n2;1.234,75;€\n3;-0,125;a\n"
ROWS = [(1.0, 1.5, "é, ü"), (2.0, 1234.75, "€"), (3.0, -0.125, "a")]


def read(data, **options):
    """Return all rows as tuples, the reasons of rejects, and the notes."""
    data = data.encode() if isinstance(data, str) else data
    with open_stream(io.BytesIO(data), **options) as stream:
        batches = list(stream)
    rows = [tuple(row.values()) for batch in batches for row in batch.table.to_pylist()]
    rejects = [reject.reason for batch in batches for reject in batch.rejects]
    return rows, rejects, [note.removeprefix("<BytesIO>: ") for note in stream.notes]


@pytest.mark.parametrize("block_bytes", [1, 7, 2**22])
@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", None),
        ("utf-8-sig", "the text is UTF-8 with a byte order mark"),
        ("cp1252", "the text is not UTF-8; it is read as cp1252"),
        ("utf-16", "the text is read as UTF-16"),
        ("utf-16-le", "the text is read as UTF-16-LE"),
        ("utf-16-be", "the text is read as UTF-16-BE"),
        ("utf-32", "the text is read as UTF-32"),
    ],
)
def test_a_table_of_the_continent_is_read_in_any_encoding_and_blocks(encoding, note, block_bytes):
    data = TEXT.replace("größe", "gröss").encode(encoding)
    rows, rejects, notes = read(data, block_bytes=block_bytes)
    assert (rows, rejects) == (ROWS, [])
    assert notes == ([note] if note else []) + [
        "the delimiter is ';'",
        "numbers are read with decimal commas, as in column 'preis'",
    ]
    assert read(data, encoding=encoding, block_bytes=block_bytes)[0] == ROWS


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_pipe_is_read_in_its_encoding(encoding):
    read_end, write_end = os.pipe()

    def feed():
        for byte in TEXT.encode(encoding):
            os.write(write_end, bytes([byte]))
        os.close(write_end)

    thread = threading.Thread(target=feed)
    thread.start()
    with open_stream(read_end, types={"wort": "category"}) as stream:
        rows = [tuple(row.values()) for batch in stream for row in batch.table.to_pylist()]
    thread.join()
    os.close(read_end)
    assert rows == ROWS


@pytest.mark.parametrize("block_bytes", [5, 2**22])
def test_text_after_the_first_rows_shows_the_encoding(block_bytes):
    data = b"x,y\n" + 2000 * b"1,a\n" + "2,é\n3,ü\n".encode("cp1252")
    rows, rejects, notes = read(data, block_bytes=block_bytes)
    assert (rows[-2:], rejects) == ([(2.0, "é"), (3.0, "ü")], [])
    assert notes == ["the text is not UTF-8; it is read as cp1252"]


def test_a_damaged_row_does_not_change_the_encoding_of_utf8():
    rows, rejects, notes = read("x,y\n1,é\n".encode() + b"2,\xff\n")
    assert (rows, rejects, notes) == ([(1.0, "é")], ["not UTF-8 text"], [])
    assert read(b"x,y\n1,\xe9\n2,a\n", encoding="utf-8")[1] == ["not UTF-8 text"]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le"])
def test_a_row_that_is_not_in_the_encoding_is_rejected(encoding):
    bad = b"\x81\x81" if encoding == "cp1252" else b"\x00\xdc"
    data = "x,y\n1,é\n2,".encode(encoding) + bad + "\n3,b\n".encode(encoding)
    rows, rejects, _ = read(data, encoding=encoding)
    assert (rows, rejects) == ([(1.0, "é"), (3.0, "b")], [f"not {encoding.upper()} text"])


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_the_delimiter_is_that_of_the_header_and_the_first_row(mark):
    text = "size, cm;y;z\n1;a;2\n".replace(";", mark)
    rows, _, notes = read(text)
    assert rows == [(1.0, "a", 2.0)]
    assert notes == ["the delimiter is " + ("a tab" if mark == "\t" else repr(mark))]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("x,y\n1,a;b\n", [(1.0, "a;b")]),
        ("x;y,z\n1;2,3\n", [("1;2", 3.0)]),
        ('"x;y",z\n1,2\n', [(1.0, 2.0)]),
        ('x,y\n"1,5","1,234"\n"2,5","5,678"\n', [("1,5", "1,234"), ("2,5", "5,678")]),
        ("x\n1.5\n", [(1.5,)]),
    ],
)
def test_comma_and_point_are_kept_where_others_are_possible(text, rows):
    assert read(text)[0] == rows


def test_thousands_are_not_taken_for_decimals_but_the_doubt_is_noted():
    rows, _, notes = read("x;y\n1,234;a\n5,678;b\n")
    assert rows == [("1,234", "a"), ("5,678", "b")]
    assert "'1,234' is not read as a number with a decimal comma" in notes[1]
    assert read("x;y\n1,234;a\n5,678;b\n", decimal=",")[0] == [(1.234, "a"), (5.678, "b")]
    assert read("x;y\n1,234;0,5\n")[0] == [(1.234, 0.5)]


def test_a_column_with_decimal_points_keeps_them_among_decimal_commas():
    assert read("x;y;z\n1,5;12.345;v1\n2,5;0.5;v2\n")[0] == [(1.5, 12.345, "v1"), (2.5, 0.5, "v2")]


def test_each_file_has_a_dialect_of_its_own(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1.5,é\n")
    (tmp_path / "b.csv").write_bytes("y;x\nü;2,5\n".encode("cp1252"))
    assert read_rows(tmp_path)[0] == [{"x": 1.5, "y": "é"}, {"x": 2.5, "y": "ü"}]


def test_given_marks_override_detection_and_are_validated():
    assert read("x;y\n1;2\n", delimiter=",")[0] == [("1;2",)]
    assert read("x:y\n1,5:2\n", delimiter=":", decimal=",")[0] == [(1.5, 2.0)]
    assert read("x y\n1\t2\n", delimiter="tab", decimal=".")[1] == ["2 fields instead of 1"]
    for options, words in (
        ({"delimiter": "ab"}, "delimiter 'ab': expected one character"),
        ({"decimal": ";"}, "decimal ';': expected '.' or ','"),
        ({"delimiter": ",", "decimal": ","}, "both ','"),
        ({"encoding": "utf-9"}, "no encoding 'utf-9'; expected one such as"),
    ):
        with pytest.raises(StreamError, match=words):
            read("x,y\n1,2\n", **options)
