"""Compressed input that is not known by its name is recognised by its first bytes."""

import bz2
import gzip
import io
import os
import threading
import zipfile

import pytest
from stream_files import compress_zstd, csv_file, read_rows

from amforest.reading import StreamError, open_stream

TEXT = b"x,y\n1,a\n2,b\n"


def compress_zip(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("f.csv", data)
    return buffer.getvalue()


KINDS = {
    "zip": (compress_zip, "unzip -p"),
    "gzip": (gzip.compress, "gzip -dc"),
    "bzip2": (bz2.compress, "bzip2 -dc"),
    "zstd": (compress_zstd, "zstd -dc"),
}


def error_of(source, **options):
    with pytest.raises(StreamError) as error:
        open_stream(source, **options)
    return str(error.value)


@pytest.mark.parametrize("format_name", ["csv", "ndjson"])
@pytest.mark.parametrize("encoding", [None, "cp1252"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_compressed_file_is_named_with_what_to_do(kind, encoding, format_name, tmp_path):
    compress, command = KINDS[kind]
    (tmp_path / "my f").write_bytes(compress(TEXT))
    words = error_of(tmp_path / "my f", format=format_name, encoding=encoding)
    start = f"{tmp_path}/my f is compressed with {kind}: decompress it first, as in "
    assert words.startswith(f"{start}`{command} '{tmp_path}/my f' | amforest run - …`")
    endings = {"gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}
    assert words.endswith(f", or let its name end in {endings[kind]}" if kind in endings else "…`")


@pytest.mark.parametrize("kind", KINDS)
def test_a_compressed_pipe_is_named_however_its_bytes_arrive(kind):
    compress, command = KINDS[kind]
    read_end, write_end = os.pipe()

    def feed():
        for byte in compress(TEXT):
            os.write(write_end, bytes([byte]))
        os.close(write_end)

    thread = threading.Thread(target=feed)
    thread.start()
    words = error_of(read_end)
    thread.join()
    os.close(read_end)
    assert f"is compressed with {kind}: decompress it first, as in `{command} FILE |" in words


def test_a_zip_is_named_without_a_format_and_unknown_names_need_one(tmp_path):
    (tmp_path / "f.csv.zip").write_bytes(compress_zip(TEXT))
    assert f"{tmp_path}/f.csv.zip is compressed with zip" in error_of(tmp_path / "f.csv.zip")
    (tmp_path / "f.xlsx").write_bytes(compress_zip(TEXT))
    assert error_of(tmp_path / "f.xlsx").endswith("f.xlsx is a spreadsheet: save it as CSV")
    for name, data in (("f.dat", TEXT), ("f.gz", gzip.compress(TEXT))):
        (tmp_path / name).write_bytes(data)
        words = error_of(tmp_path / name)
        assert "its name does not say its format: set --format to one of 'csv', 'tsv'" in words
        assert len(read_rows(tmp_path / name, format="csv")[0]) == 2


@pytest.mark.parametrize("header", ["PK,y", "PK", "BZh9,y", "BZ", "(,y", "("])
def test_names_of_columns_may_begin_as_compressed_files_do(header):
    with open_stream(csv_file(f"{header}\n")) as stream:
        assert ",".join(column.name for column in stream.columns) == header
