"""Files of all formats, and their rows, for the tests of reading."""

import bz2
import gzip
import io
import json
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from amforest.reading import open_stream


def mixed_table(n=300):
    """Return rows of all kinds, with missing values."""
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


def write_table(path, table):
    """Write a table in the format that the name of a file says."""
    suffix = path.suffixes[0]
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=70)
    elif suffix == ".feather":
        pyarrow.feather.write_feather(table, path, chunksize=70)
    elif suffix in (".arrow", ".arrows"):
        new = pa.ipc.new_file if suffix == ".arrow" else pa.ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    else:
        delimiter = "\t" if suffix == ".tsv" else ","
        data = to_json(table) if "json" in suffix else to_csv(table, delimiter)
        compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": compress_zstd}
        path.write_bytes(compress.get(path.suffix, bytes)(data))
    return path


def to_json(table):
    def encode(value):
        return value.isoformat() if isinstance(value, date) else value

    rows = ({name: encode(value) for name, value in row.items()} for row in table.to_pylist())
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def to_csv(table, delimiter=","):
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer, pyarrow.csv.WriteOptions(delimiter=delimiter))
    return buffer.getvalue()


def compress_zstd(data):
    buffer = pa.BufferOutputStream()
    with pa.CompressedOutputStream(buffer, "zstd") as file:
        file.write(data)
    return buffer.getvalue().to_pybytes()


def csv_file(text):
    return io.BytesIO(text.encode())


def read_rows(source, **options):
    """Return all rows as dictionaries, and all rejects."""
    rows, rejects = [], []
    with open_stream(source, **options) as stream:
        for batch in stream:
            rows += batch.table.to_pylist()
            rejects += batch.rejects
    return rows, rejects
