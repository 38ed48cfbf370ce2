"""Bodies of requests: JSON, NDJSON, or a stream of Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from amforest.serving.limits import Limits
from amforest.serving.problems import Problem
from amforest.serving.row_conversion import JsonRow

JSON, NDJSON, ARROW = "json", "ndjson", "arrow"
FORMATS = {
    "application/json": JSON,
    "application/x-ndjson": NDJSON,
    "application/ndjson": NDJSON,
    "application/jsonl": NDJSON,
    "application/vnd.apache.arrow.stream": ARROW,
}


@dataclass(frozen=True)
class Given:
    """The rows of a request, not yet converted.

    Attributes
    ----------
    rows : list of dict, or None
        None for a stream of Arrow.
    labels : list or None
        The labels, if they are given beside the rows.
    arrow : bytes or None
    """

    rows: list[JsonRow] | None
    labels: list[Any] | None = None
    arrow: bytes | None = None


def find_format(content_type: str | None) -> str:
    """Return the format of a body by the header Content-Type."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if (found := FORMATS.get(kind)) is None:
        raise Problem(
            415,
            f"Content-Type is {kind[:100]!r}; expected application/json, application/x-ndjson or "
            "application/vnd.apache.arrow.stream",
            field="Content-Type",
            headers={"Accept-Post": ", ".join(FORMATS)},
        )
    return found


def parse_rows(body: bytes, format: str, limits: Limits, *, with_labels: bool) -> Given:  # noqa: A002
    """Parse a body with rows.

    In JSON it is ``{"rows": [{…}, …]}``, ``{"row": {…}}`` or ``[{…}, …]``, and `with_labels` there
    may be ``"labels"`` or ``"label"`` beside the rows.
    """
    if format == ARROW:
        return Given(None, None, body)
    if format == NDJSON:
        rows = _parse_lines(body, limits)
        labels = None
    else:
        rows, labels = _split(parse_json(body), with_labels=with_labels)
    limits.check_rows(len(rows))
    for i, row in enumerate(rows):
        if type(row) is not dict:
            raise Problem(
                422,
                f"rows[{i}] is {_describe(row)}; expected an object with a value for each column",
                field=f"rows[{i}]",
            )
    limits.check_columns(max(map(len, rows)))
    if labels is not None and len(labels) != len(rows):
        raise Problem(
            422,
            f"labels has {len(labels):,} entries, but there are {len(rows):,} rows: give one label "
            "for each row",
            field="labels",
        )
    return Given(rows, labels)


def parse_json(body: bytes) -> Any:
    """Parse JSON; `Problem` with the place of the error."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {error}", field="body") from None


def parse_object(body: bytes, known: tuple[str, ...]) -> dict[str, Any]:
    """Parse an object of JSON with certain keys only."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise Problem(422, f"the body is {_describe(value)}; expected an object", field="body")
    check_keys(value, known)
    return value


def check_keys(value: dict[str, Any], known: tuple[str, ...]) -> None:
    """Refuse unknown keys: a misspelled one would silently do nothing."""
    for key in value:
        if key not in known:
            raise Problem(
                422,
                f"the body has {key[:100]!r}, which is unknown; expected {', '.join(known)}",
                field=key[:100],
            )


def _split(value: Any, *, with_labels: bool) -> tuple[list[Any], list[Any] | None]:
    if isinstance(value, list):
        return value, None
    if not isinstance(value, dict):
        raise Problem(
            422,
            f'the body is {_describe(value)}; expected {{"rows": [{{…}}, …]}}',
            field="body",
        )
    check_keys(value, ("rows", "row", "labels", "label") if with_labels else ("rows", "row"))
    if "row" in value:
        for name in ("rows", "labels"):
            if name in value:
                raise Problem(
                    422, f"the body has row and {name}: give one row, or many", field=name
                )
        return [value["row"]], [value["label"]] if "label" in value else None
    if "label" in value:
        raise Problem(422, "label is for one row: give labels with rows", field="label")
    if "rows" not in value:
        raise Problem(422, "the body has no rows", field="rows")
    for name in ("rows", "labels"):
        if name in value and not isinstance(value[name], list):
            raise Problem(422, f"{name} is {_describe(value[name])}; expected a list", field=name)
    return value["rows"], value.get("labels")


def _parse_lines(body: bytes, limits: Limits) -> list[Any]:
    lines = body.split(b"\n")
    if len(lines) - 1 > 2 * limits.rows:  # without counting the blank ones
        limits.check_rows(len(lines) - 1)
    rows = []
    for i, line in enumerate(lines):
        if line and not line.isspace():
            try:
                rows.append(orjson.loads(line))
            except orjson.JSONDecodeError as error:
                raise Problem(
                    400, f"line {i + 1} is not JSON: {error}", field=f"line {i + 1}"
                ) from None
    return rows


def _describe(value: Any) -> str:
    """Return what a value of JSON is, in a few words."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds[type(value)]
