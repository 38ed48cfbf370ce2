"""Predictions of rows whose labels are not due yet, in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amforest.evaluation.adapters import Prediction
from amforest.evaluation.blocks import Block, as_list, slice_block
from amforest.evaluation.loop import Pending
from amforest.model_io.json_values import floats_from_json, floats_to_json


def pending_to_json(item: Pending) -> dict[str, Any]:
    """Return the predictions of rows whose labels are not due; the rows are saved elsewhere."""
    state: dict[str, Any] = {"rows": len(item.block.y), "is_measured": item.is_measured}
    if item.prediction is None:
        return state
    values, classes, ends = item.prediction
    return state | {
        "values": floats_to_json(values),
        "classes": None if classes is None else as_list(classes),
        "intervals": None if ends is None else floats_to_json(ends),
    }


def pending_from_json(state: list[dict[str, Any]], block: Block) -> Iterator[Pending]:
    """Yield the rows of a block as they were pending, with their predictions."""
    start = 0
    for item in state:
        n_rows = item["rows"]
        part = slice_block(block, slice(start, start + n_rows))
        start += n_rows
        prediction = None
        if "values" in item:
            classes, ends = item["classes"], item["intervals"]
            shape = (n_rows,) if classes is None else (n_rows, len(classes))
            prediction = Prediction(
                floats_from_json(item["values"], shape),
                None if classes is None else tuple(classes),
                None if ends is None else floats_from_json(ends, (n_rows, 2)),
            )
        yield Pending(part, prediction, item["is_measured"])
