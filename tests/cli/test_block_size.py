"""The size of blocks follows their time, and no result depends on it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import amforest
from amforest.cli.block_size import SECONDS_PER_BLOCK, BlockSize
from amforest.cli.settings import ROWS_PER_BLOCK, demo_stream
from amforest.reading import Scheme
from command import amf
from helpers import tables


def test_blocks_get_as_many_rows_as_fit_their_time():
    size = BlockSize()
    for seconds_per_row in (1e-3, 1e-2, 1e-4, 1.0):
        for _ in range(20):
            size.update(size.n_rows, size.n_rows * seconds_per_row)
        assert size.n_rows == max(1, int(SECONDS_PER_BLOCK / seconds_per_row))
    for _ in range(20):
        size.update(size.n_rows, 0.0)
    assert size.n_rows == ROWS_PER_BLOCK


@pytest.mark.parametrize(("n_columns", "n_rows"), [(3, 3_000), (400, 600)])
def test_a_signal_waits_for_no_more_than_a_fifth_of_a_second_of_work(
    n_columns, n_rows, tmp_path, monkeypatch
):
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, n_columns)).round(3)
    lines = [",".join(map(str, [*x, "ab"[int(x[0] > 0.5)]])) for x in X]
    header = ",".join([*(f"x{j}" for j in range(n_columns)), "y"])
    (tmp_path / "s.csv").write_text("\n".join([header, *lines]))
    monkeypatch.chdir(tmp_path)
    seconds: list[float] = []  # of CPU: others may keep the machine busy
    whole = BlockSize.update

    def update(self: BlockSize, n_rows: int, wall: float) -> None:
        seconds.append(time.process_time() - started[-1])
        whole(self, n_rows, wall)
        started.append(time.process_time())

    monkeypatch.setattr(BlockSize, "update", update)
    started = [time.process_time()]
    amf("run", "s.csv", "-t", "y", "-q")
    assert len(seconds) > 5
    assert max(seconds[1:]) < 0.2  # before the first one, the file is opened


def test_wide_rows_are_converted_in_linear_time():
    """With thousands of columns this took longer than to learn, in blocks of one row."""
    names = [f"x{j}" for j in range(2_000)]
    table = pa.RecordBatch.from_arrays([pa.array([0.5])] * len(names), names=names)
    kinds = dict.fromkeys(names, "number") | {"y": "category"}
    labels = np.array(["a"], dtype=object)
    scheme = Scheme.infer(table, labels, "y", kinds)
    scheme.scale = None
    seconds = []
    for _ in range(3):
        start = time.process_time()
        scheme.features(table, "s.csv")
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.1


@pytest.mark.parametrize("options", [(), ("--delay", 5), ("--model", "amf")])
def test_neither_predictions_nor_the_model_depend_on_the_size_of_blocks(
    options, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_bytes(demo_stream(600).getvalue())
    how = ["run", "s.csv", "-t", "buys", "--trees", 2, "-q", "--json", *options]
    written = []
    for rows in (1, 7, 600):
        monkeypatch.setattr(BlockSize, "update", lambda *_: None)
        monkeypatch.setattr("amforest.cli.block_size.FIRST_ROWS", rows)
        out = json.loads(amf(*how, "--save", "m.amf", "--predictions", "p.ndjson").stdout)
        model = amforest.load("m.amf")
        written.append((tables(model), Path("p.ndjson").read_bytes(), out["metrics"]))
    assert written[0] == written[1] == written[2]
