"""The rows that servers get, and the options of these servers."""

from __future__ import annotations

import io
import os
import random
from typing import Any

import pyarrow as pa

SEED = int(os.environ.get("TORTURE_SEED", "0"))
ARROW = "application/vnd.apache.arrow.stream"
MODEL = ("--target", "y", "--task", "classification", "--trees", 1, "--seed", 1)
Body = tuple[list[dict[str, Any]], list[str]]


def batch(k: int) -> Body:
    """Return the rows and labels of the k-th request of a stream without end."""
    draw = random.Random(k)
    rows = []
    for _ in range(draw.choice([1, 1, 3, 20])):
        page = draw.choice("abcd") + str(k // 200)
        rows.append({"x": draw.random(), "z": draw.gauss(0, 9), "page": page})
    return rows, ["yes" if row["x"] > 0.5 else "no" for row in rows]


def as_arrow(table: pa.Table) -> bytes:
    """Return a table as a stream of Arrow."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
