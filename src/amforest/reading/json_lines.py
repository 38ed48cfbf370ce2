"""Lines of JSON, read by Python; and which of them pyarrow reads to the same result."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

import numpy as np

from amforest.reading.records import Records

Object: TypeAlias = dict[str, Any]

# What pyarrow, but not Python, takes for a number.
_ODD_NUMBER = re.compile(rb"[:,\[]\s*-?(?:Inf|NaN)")
_BRACKETS = 500  # in a line, beyond which it may be nested too deeply for Python


class Literal(str):
    """A number as it is written."""

    __slots__ = ()


def is_plain(records: Records, body: bytes | memoryview) -> bool:
    """Tell whether pyarrow and Python must agree on a block, if pyarrow takes it.

    Where each line begins with { and ends with }, no object can go over a line's end: within an
    object, { never comes right after }.
    """
    codes = np.frombuffer(records.data, np.uint8)
    firsts, lasts = codes[records.starts], codes[records.ends - 1]
    if not ((firsts == ord("{")).all() and (lasts == ord("}")).all()):
        return False
    has_odd_word = b"Inf" in records.data or b"NaN" in records.data  # quicker than the pattern
    if has_odd_word and _ODD_NUMBER.search(body):
        return False
    first, end = int(records.starts[0]), int(records.ends[-1])
    n_open = records.data.count(b"[", first, end) + records.data.count(b"{", first, end)
    if n_open <= len(records) + _BRACKETS:
        return True
    codes = codes[:end]
    opens = (codes == ord("[")) | (codes == ord("{"))
    return bool(np.add.reduceat(opens, records.starts, dtype=np.int64).max() <= _BRACKETS)


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
