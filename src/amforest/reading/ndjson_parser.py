"""Parsing lines of JSON: pyarrow parses all lines but those it cannot, and Python parses these.

If pyarrow parses a line at all, Python parses it to the same values. So the result does not depend
on which lines are in a block together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from amforest.reading.batches import Reject
from amforest.reading.conversion import Mask
from amforest.reading.records import Records
from amforest.reading.schema import Column

JsonObject: TypeAlias = dict[str, Any]

_FEW = 64  # lines: to parse them twice costs little
_MAX_BY_PYTHON = 4096  # lines that Python parses before pyarrow is tried again
# Parsed as numbers by pyarrow, but not by Python.
_ODD_NUMBER = re.compile(rb"[:,\[]\s*-?(?:Inf|NaN)")
_MAX_BRACKETS = 500  # in a line, beyond which it may be nested too deeply for Python
_ARROW_TYPES = {"number": pa.float64(), "bool": pa.bool_()}  # the other kinds are parsed as text


class Literal(str):
    """A number as it is written."""

    __slots__ = ()


class ParseError(Exception):
    """pyarrow cannot parse a line.

    Attributes
    ----------
    row : int or None
        Which line, if pyarrow says so.
    is_new_key : bool
        Whether the reason is a key without a type.
    """

    def __init__(self, row: int | None, is_new_key: bool = False) -> None:
        super().__init__(row)
        self.row = row
        self.is_new_key = is_new_key


def arrow_type(column: Column) -> pa.DataType:
    """Return the type as which pyarrow parses a column."""
    return _ARROW_TYPES.get(column.kind, pa.string())


def parse_object(record: bytes) -> JsonObject | None:
    """Parse one object by Python, with numbers as they are written; None for a blank line.

    Raises
    ------
    ValueError
        If it is not an object; the message says why.
    """
    if not record.strip(b" \t\r\n"):
        return None
    try:
        text = record.decode()  # json would guess the encoding
        row = json.loads(text, parse_float=Literal, parse_int=Literal, parse_constant=Literal)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("invalid JSON: nested too deeply") from error
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    return row


def to_text(value: Any, name: str) -> str | None:
    """Return a value of an object as text.

    Raises
    ------
    ValueError
        If it is nested, or not valid text.
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


def parse_lines(
    records: Records, columns: Sequence[Column], types: Mapping[str, pa.DataType], unexpected: str
) -> list[pa.Array]:
    """Parse lines by pyarrow.

    Parameters
    ----------
    records : Records
        Lines that are regular; see `find_regular`.
    columns : sequence of Column
        The columns to return.
    types : mapping
        The types of keys.
    unexpected : str
        What to do with other keys: "ignore" them, or "error".

    Raises
    ------
    ParseError
        If a line cannot be parsed.
    """
    body = records.join()
    try:
        table = arrow_json.read_json(
            pa.BufferReader(body),
            arrow_json.ReadOptions(use_threads=False, block_size=len(body) + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema(list(types.items())),
                unexpected_field_behavior=unexpected,
            ),
        )
    except pa.ArrowInvalid as error:
        row = re.search(r" in row (\d+)$", str(error))
        is_new_key = "unexpected field" in str(error)
        raise ParseError(None if row is None else int(row[1]), is_new_key) from error
    if table.num_rows != len(records):  # several objects on a line
        raise ParseError(None)
    values = [table.column(column.name).combine_chunks() for column in columns]
    return [value.cast(pa.float64()) if value.type == pa.bool_() else value for value in values]


def find_regular(records: Records) -> Mask:
    """Mark the lines that Python parses to the same values, if pyarrow parses them at all.

    If lines begin with { and end with }, no object extends over a line's end: within an object, {
    never follows } immediately.
    """
    if not len(records):
        return np.zeros(0, dtype=bool)
    data, starts, ends = records.data, records.starts, records.ends
    codes = np.frombuffer(data, np.uint8)[: ends[-1]]
    is_regular: Mask = (codes[starts] == ord("{")) & (codes[ends - 1] == ord("}"))
    if b"Inf" in data or b"NaN" in data:  # faster than the pattern
        positions = [match.start() for match in _ODD_NUMBER.finditer(data, starts[0], ends[-1])]
        is_regular[np.searchsorted(starts, positions, side="right") - 1] = False
    n_brackets = sum(data.count(mark, starts[0], ends[-1]) for mark in (b"{", b"["))
    if n_brackets > len(records) + _MAX_BRACKETS:
        opens = (codes == ord("[")) | (codes == ord("{"))
        is_regular &= np.add.reduceat(opens, starts, dtype=np.int64) <= _MAX_BRACKETS
    return is_regular


def parse_by_arrow(
    records: Records, parse: Callable[[Records], list[pa.Array]]
) -> tuple[list[list[pa.Array]], Mask]:
    """Parse by pyarrow as many lines as possible.

    Parameters
    ----------
    records : Records
        Lines that are regular.
    parse : callable
        Parses lines, or raises `ParseError`.

    Returns
    -------
    parts : list of list of pyarrow.Array
        The columns of the parsed lines, one part after the other.
    is_left : ndarray of bool
        Which lines are not parsed.
    """
    parts: list[list[pa.Array]] = []
    is_left = np.zeros(len(records), dtype=bool)
    start, window, n_left = 0, len(records), 0
    while start < len(records):
        end = min(start + window, len(records))
        try:
            parts.append(parse(records.select(slice(start, end), [])))
        except ParseError as error:
            if error.row is None and end - start > _FEW:
                window = (end - start) // 2
                continue
            n_before = error.row or 0
            if n_before:
                parts += _parse_all_or_none(records, start, start + n_before, parse, is_left)
            # Where bad lines follow each other closely, Python alone is faster.
            n_left = min(2 * n_left + _FEW, _MAX_BY_PYTHON) if n_before < _FEW else 1
            end = min(start + n_before + n_left, len(records))
            is_left[start + n_before : end] = True
            window = max(_FEW, 2 * n_before)
        else:
            window, n_left = 4 * window, 0
        start = end
    return parts, is_left


def _parse_all_or_none(
    records: Records,
    start: int,
    end: int,
    parse: Callable[[Records], list[pa.Array]],
    is_left: Mask,
) -> list[list[pa.Array]]:
    try:
        return [parse(records.select(slice(start, end), []))]
    except ParseError:
        is_left[start:end] = True
        return []


def parse_by_python(
    records: Records, columns: Sequence[Column], file: str, watch: Callable[[JsonObject, int], None]
) -> tuple[list[pa.Array], Mask, list[Reject]]:
    """Parse lines one by one.

    Parameters
    ----------
    records : Records
    columns : sequence of Column
    file : str
    watch : callable
        Called with each object and its line.

    Returns
    -------
    values : list of pyarrow.Array
        The columns, of the types that `parse_lines` returns.
    is_good : ndarray of bool
        Which lines they are.
    rejects : list of Reject
        The other lines, without the blank ones.
    """
    rows: list[list[str | None]] = []
    reasons: dict[int, tuple[str, str]] = {}  # with the value, and without it
    is_good = np.zeros(len(records), dtype=bool)
    for k, record in enumerate(records):
        try:
            row = parse_object(record)
            if row is not None:
                watch(row, int(records.lines[k]))
                rows.append([to_text(row.get(column.name), column.name) for column in columns])
                is_good[k] = True
        except ValueError as error:
            reasons[k] = str(error), str(error).split(" at character ")[0]
    positions = np.flatnonzero(is_good)
    values = [pa.array([row[j] for row in rows], pa.string()) for j in range(len(columns))]
    for j, (column, text) in enumerate(zip(columns, values, strict=True)):
        converted, is_misfit = column.convert(text)
        values[j] = converted if column.kind in _ARROW_TYPES else text
        for k in np.flatnonzero(is_misfit).tolist() if is_misfit is not None else ():
            reasons.setdefault(int(positions[k]), column.explain(text[k].as_py()))
    is_good[list(reasons)] = False
    keep = pa.array(is_good[positions])
    rejects = [
        Reject(file, int(records.lines[k]), reasons[k][0], records.show(k), reasons[k][1])
        for k in sorted(reasons)
    ]
    return [value.filter(keep) for value in values], is_good, rejects
