"""A block of JSON lines: pyarrow reads all but those it stumbles over, and Python these.

Both read a line to the same result if pyarrow reads it at all, so it does not matter which lines
are in a block together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from amforest.reading._arrow import Array, DataType, pa, pa_json
from amforest.reading.batches import Reject
from amforest.reading.columns import Column
from amforest.reading.json_lines import Object, decoded, text_of
from amforest.reading.records import Records
from amforest.reading.values import Mask

FEW = 64  # lines: to read them twice costs little
_MOST_AT_ONCE = 4096  # lines that Python reads before pyarrow tries again
# What pyarrow, but not Python, takes for a number.
_ODD_NUMBER = re.compile(rb"[:,\[]\s*-?(?:Inf|NaN)")
_BRACKETS = 500  # in a line, beyond which it may be nested too deeply for Python

TYPES = {"number": pa.float64(), "bool": pa.bool_()}  # of columns by pyarrow; others are text


class Refused(Exception):  # noqa: N818
    """pyarrow stumbled over a line.

    Attributes
    ----------
    row : int or None
        Which it was, if that is known.
    is_new_key : bool
        Whether a key was not among the types.
    """

    def __init__(self, row: int | None, is_new_key: bool = False) -> None:
        super().__init__(row)
        self.row = row
        self.is_new_key = is_new_key


def parse(
    records: Records, columns: Sequence[Column], types: Mapping[str, DataType], unexpected: str
) -> list[Array]:
    """Read lines by pyarrow.

    Parameters
    ----------
    records : Records
        Lines that are plain.
    columns : sequence of Column
        What is wanted.
    types : mapping
        The types of keys.
    unexpected : str
        What to do with other keys: "ignore" them, or "error".

    Raises
    ------
    Refused
        If a line cannot be read.
    """
    body = records.body()
    try:
        table = pa_json.read_json(
            pa.BufferReader(body),
            pa_json.ReadOptions(use_threads=False, block_size=len(body) + 1),
            pa_json.ParseOptions(
                explicit_schema=pa.schema(list(types.items())),
                unexpected_field_behavior=unexpected,
            ),
        )
    except pa.ArrowInvalid as error:
        row = re.search(r" in row (\d+)$", str(error))
        is_new_key = "unexpected field" in str(error)
        raise Refused(None if row is None else int(row[1]), is_new_key) from error
    if table.num_rows != len(records):  # several objects on a line
        raise Refused(None)
    values = [table.column(column.name).combine_chunks() for column in columns]
    return [value.cast(pa.float64()) if value.type == pa.bool_() else value for value in values]


def are_plain(records: Records) -> Mask:
    """Tell which lines pyarrow and Python read to the same result, if pyarrow reads them at all.

    Where lines begin with { and end with }, no object goes over a line's end: within an object, {
    never comes right after }.
    """
    if not len(records):
        return np.zeros(0, dtype=bool)
    data, starts, ends = records.data, records.starts, records.ends
    codes = np.frombuffer(data, np.uint8)[: ends[-1]]
    plain: Mask = (codes[starts] == ord("{")) & (codes[ends - 1] == ord("}"))
    if b"Inf" in data or b"NaN" in data:  # quicker than the pattern
        places = [match.start() for match in _ODD_NUMBER.finditer(data, starts[0], ends[-1])]
        plain[np.searchsorted(starts, places, side="right") - 1] = False
    n_open = sum(data.count(mark, starts[0], ends[-1]) for mark in (b"{", b"["))
    if n_open > len(records) + _BRACKETS:
        opens = (codes == ord("[")) | (codes == ord("{"))
        plain &= np.add.reduceat(opens, starts, dtype=np.int64) <= _BRACKETS
    return plain


def read_plain(
    records: Records, attempt: Callable[[Records], list[Array]]
) -> tuple[list[list[Array]], Mask]:
    """Let pyarrow read what it can.

    Parameters
    ----------
    records : Records
        Lines that are plain.
    attempt : callable
        Reads lines, or raises `Refused`.

    Returns
    -------
    parts : list of list of pyarrow.Array
        The columns of what was read, one part after the other.
    is_odd : ndarray of bool
        Which lines were not read.
    """
    parts: list[list[Array]] = []
    is_odd = np.zeros(len(records), dtype=bool)
    start, window, n_passed_by = 0, len(records), 0
    while start < len(records):
        end = min(start + window, len(records))
        try:
            parts.append(attempt(records.keep(slice(start, end), [])))
        except Refused as refused:
            if refused.row is None and end - start > FEW:
                window = (end - start) // 2
                continue
            n_before = refused.row or 0
            if n_before:
                parts += _read_all_or_none(records, start, start + n_before, attempt, is_odd)
            # Where one follows upon the other, Python alone is quicker.
            n_passed_by = min(2 * n_passed_by + FEW, _MOST_AT_ONCE) if n_before < FEW else 1
            end = min(start + n_before + n_passed_by, len(records))
            is_odd[start + n_before : end] = True
            window = max(FEW, 2 * n_before)
        else:
            window, n_passed_by = 4 * window, 0
        start = end
    return parts, is_odd


def _read_all_or_none(
    records: Records,
    start: int,
    end: int,
    attempt: Callable[[Records], list[Array]],
    is_odd: Mask,
) -> list[list[Array]]:
    try:
        return [attempt(records.keep(slice(start, end), []))]
    except Refused:
        is_odd[start:end] = True
        return []


def read_one_by_one(
    records: Records, columns: Sequence[Column], file: str, watch: Callable[[Object, int], None]
) -> tuple[list[Array], Mask, list[Reject]]:
    """Read lines by Python.

    Parameters
    ----------
    records : Records
    columns : sequence of Column
    file : str
    watch : callable
        Sees each object and its line.

    Returns
    -------
    values : list of pyarrow.Array
        The columns, of the types that `parse` gives.
    is_good : ndarray of bool
        Which lines they are.
    rejects : list of Reject
        The others, without those that are blank.
    """
    rows: list[list[str | None]] = []
    reasons: dict[int, str] = {}
    is_good = np.zeros(len(records), dtype=bool)
    for k, record in enumerate(records):
        try:
            row = decoded(record)
            if row is not None:
                watch(row, int(records.lines[k]))
                rows.append([text_of(row.get(column.name), column.name) for column in columns])
                is_good[k] = True
        except ValueError as error:
            reasons[k] = str(error)
    places = np.flatnonzero(is_good)
    values = [pa.array([row[j] for row in rows], pa.string()) for j in range(len(columns))]
    for j, (column, text) in enumerate(zip(columns, values, strict=True)):
        converted, is_bad = column.convert(text)
        values[j] = converted if column.kind in TYPES else text
        for at in np.flatnonzero(is_bad).tolist() if is_bad is not None else ():
            reasons.setdefault(int(places[at]), column.why_not(text[at].as_py()))
    is_good[list(reasons)] = False
    keep = pa.array(is_good[places])
    rejects = [
        Reject(file, int(records.lines[k]), reasons[k], records.text(k)) for k in sorted(reasons)
    ]
    return [value.filter(keep) for value in values], is_good, rejects
