"""The size of blocks follows their time, and no result depends on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import amforest
from amforest.cli.block_size import SECONDS_PER_BLOCK, BlockSize
from amforest.cli.settings import ROWS_PER_BLOCK, demo_stream
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
