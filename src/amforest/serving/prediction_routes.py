"""Predicting and explaining rows."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from amforest.serving.bodies import ARROW, find_format, parse_rows
from amforest.serving.problems import Problem
from amforest.serving.row_conversion import Values
from amforest.serving.served_model import Explained, Predicted, ServedModel
from amforest.serving.service import Service, is_quick, json_response

MOST_EXPLAINED = 1_000_000  # contributions in an answer


async def predict(service: Service, request: Request) -> Response:
    """Predict rows."""
    served = service.model()
    format = find_format(request.headers.get("content-type"))  # noqa: A001
    body = await service.bodies.read(request)
    if format != ARROW and is_quick(body):
        predicted, rows = _predict(service, served, body, format)
    else:
        predicted, rows = await asyncio.to_thread(_predict, service, served, body, format)
    answer: dict[str, Any] = {
        "ids": service.pending.add(rows),
        "predictions": predicted.values,
    }
    if predicted.probabilities is not None:
        names = predicted.names or []
        answer["probabilities"] = [
            dict(zip(names, row, strict=True)) for row in predicted.probabilities
        ]
    if predicted.intervals is not None:
        answer["intervals"] = predicted.intervals
    service.measurements.n_predicted.inc(len(rows))
    return json_response(answer)


def _predict(
    service: Service,
    served: ServedModel,
    body: bytes,
    format: str,  # noqa: A002
) -> tuple[Predicted, list[Values]]:
    given = parse_rows(body, format, service.limits, with_labels=False)
    if given.rows is not None and len(given.rows) == 1:
        values = served.rows.convert_row(given.rows[0])
        return served.predict_one(values), [values]
    if given.rows is None:
        table, _ = served.rows.convert_arrow(given.arrow or b"", has_labels=False)
    else:
        table = served.rows.convert_rows(given.rows)
    return served.predict(table), served.rows.values_of(table)


async def explain(service: Service, request: Request) -> Response:
    """Tell what each column contributes to the predictions of rows."""
    served = service.model()
    format = find_format(request.headers.get("content-type"))  # noqa: A001
    body = await service.bodies.read(request)
    explained = await asyncio.to_thread(_explain, service, served, body, format)
    return json_response(
        {
            "unit": explained.unit,
            "bases": explained.bases,
            "contributions": explained.contributions,
        }
    )


def _explain(
    service: Service,
    served: ServedModel,
    body: bytes,
    format: str,  # noqa: A002
) -> Explained:
    given = parse_rows(body, format, service.limits, with_labels=False)
    if given.rows is None:
        table, _ = served.rows.convert_arrow(given.arrow or b"", has_labels=False)
    else:
        table = served.rows.convert_rows(given.rows)
    n_values = len(served.scheme.names) * max(len(served.classes or ()), 1)
    if len(table) * n_values > MOST_EXPLAINED:
        raise Problem(
            413,
            f"the request has {len(table):,} rows with {n_values:,} contributions each; the limit "
            f"is {MOST_EXPLAINED:,} in all: send several requests",
            field="rows",
        )
    return served.explain(table)
