"""Errors as clients get them: application/problem+json (RFC 9457) that names the field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
MOST_LISTED = 10  # errors of one request


class Problem(Exception):  # noqa: N818  # the word of RFC 9457
    """A request that is refused.

    Parameters
    ----------
    status : int
        The status code of HTTP.
    detail : str
        What was given, what is expected, and what to do.
    field : str, default=None
        The place in the request, such as ``rows[3].age``.
    errors : iterable of (str, str), default=()
        Several fields, each with what is wrong.
    headers : mapping, default=None
        Further headers of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        errors: Iterable[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.field = status, detail, field
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.field is not None:
            body["field"] = self.field
        if self.errors:
            body["errors"] = [{"field": k, "detail": text} for k, text in self.errors]
        return body

    def to_response(self) -> Response:
        """Return the answer."""
        # Text of a request may hold what UTF-8 cannot.
        body = orjson.dumps(_encodable(self.to_json()))
        return Response(body, self.status, self.headers, MEDIA_TYPE)


def invalid_rows(errors: list[tuple[str, str]]) -> Problem:
    """Return the refusal of rows with faults, of which it lists the first ones."""
    field, first = errors[0]
    more = "" if len(errors) == 1 else f"; and {len(errors) - 1:,} more"
    detail = f"{field}: {first}{more}. Nothing of the request was learned or predicted"
    return Problem(422, detail, field=field, errors=errors[:MOST_LISTED])


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value
