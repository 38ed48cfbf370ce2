"""Lines of JSON, read by Python one by one."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]


class Literal(str):
    """A number as it is written."""

    __slots__ = ()


def decoded(record: bytes) -> Object | None:
    """Read one object, with numbers as they are written; None for a blank line.

    Raises
    ------
    ValueError
        If it is no object; says why.
    """
    if not record.strip(b" \t\r\n"):
        return None
    try:
        text = record.decode()  # by itself json would guess the encoding
        row = json.loads(text, parse_float=Literal, parse_int=Literal, parse_constant=Literal)
    except json.JSONDecodeError as error:
        raise ValueError(f"broken JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("broken JSON: nested too deeply") from error
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    return row


def text_of(value: Any, name: str) -> str | None:
    """Return a value as text.

    Raises
    ------
    ValueError
        If that cannot be.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        raise ValueError(f"column {name!r}: its value is nested")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"column {name!r}: its value is not text") from error
    return str(value)
