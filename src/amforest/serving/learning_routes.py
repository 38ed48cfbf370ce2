"""Learning rows, and the labels of rows that were predicted before."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from amforest.serving.bodies import find_format, parse_object, parse_rows
from amforest.serving.problems import Problem
from amforest.serving.service import Service, is_quick, json_response
from amforest.serving.writer import Job, convert_labelled


async def learn(service: Service, request: Request) -> Response:
    """Learn rows."""
    waits = request.query_params.get("wait", "true")
    if waits not in ("true", "false"):
        raise Problem(422, f"wait is {waits[:100]!r}; expected true or false", field="wait")
    job = await _receive(service, request)
    return await _learn(service, job, waits=waits == "true")


async def _receive(service: Service, request: Request) -> Job:
    """Read and convert the rows of a request; its body is not held while they wait."""
    format = find_format(request.headers.get("content-type"))  # noqa: A001
    body = await service.bodies.read(request)
    if is_quick(body):
        job = _read_job(service, body, format)
    else:
        job = await asyncio.to_thread(_read_job, service, body, format)
    service.bodies.release(request)
    return job


def _read_job(service: Service, body: bytes, format: str) -> Job:  # noqa: A002
    given = parse_rows(body, format, service.limits, with_labels=True)
    served = service.writer.served
    if served is None:
        return Job(1 if given.rows is None else len(given.rows), given, n_bytes=len(body))
    entry = convert_labelled(served, given)
    return Job(len(entry[0]), None, entry, entry[0].nbytes + entry[1].nbytes)


async def _learn(service: Service, job: Job, *, waits: bool = True) -> Response:
    service.writer.put(job)
    if waits:
        n_samples = await asyncio.wrap_future(job.learned)
        return json_response({"learned": job.n_rows, "samples": n_samples})
    if service.writer.is_durable or job.given is not None:
        await asyncio.wrap_future(job.recorded)
    return json_response({"queued": job.n_rows}, 202)


async def label(service: Service, request: Request) -> Response:
    """Learn the labels of rows that were predicted before."""
    served = service.model()
    if find_format(request.headers.get("content-type")) != "json":
        raise Problem(415, "expected application/json", field="Content-Type")
    given = parse_object(await service.bodies.read(request), ("id", "ids", "label", "labels"))
    ids, labels, place = _split_labels(given)
    service.limits.check_rows(len(ids))
    encoded = served.rows.convert_labels(labels, place)
    rows = service.pending.take(ids)
    table = served.rows.table_of(rows)
    job = Job(len(rows), None, (table, encoded), table.nbytes + encoded.nbytes)
    try:
        return await _learn(service, job)
    except BaseException:
        if job.learned.done():  # it failed: the label may come again
            service.pending.put_back(ids, rows)
        raise


def _split_labels(given: dict[str, Any]) -> tuple[list[str], list[Any], str]:
    """Return ids, labels, and where the labels are."""
    is_one = given.keys() == {"id", "label"}
    if not is_one and given.keys() != {"ids", "labels"}:
        raise Problem(422, "expected id and label, or ids and labels", field="id")
    ids, labels = ([given["id"]], [given["label"]]) if is_one else (given["ids"], given["labels"])
    for name, values in (("ids", ids), ("labels", labels)):
        if not isinstance(values, list):
            raise Problem(422, f"{name} must be a list", field=name)
    if len(ids) != len(labels):
        raise Problem(
            422, f"labels has {len(labels):,} entries, ids has {len(ids):,}", field="labels"
        )
    if not all(isinstance(value, str) for value in ids):
        raise Problem(422, "an id must be text, as /predict returned it", field="id")
    return ids, labels, "label" if is_one else "labels[{}]"
