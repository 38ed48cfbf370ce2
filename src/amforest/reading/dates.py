"""Dates of ISO 8601: from text to days and times, and from these to numbers for the forests."""

from __future__ import annotations

import re

import numpy as np

from amforest.reading._arrow import Array, RecordBatch, pa, pc
from amforest.reading.values import Converted, Mask, cast_one_by_one, known

DAY, TIME = pa.date32(), pa.timestamp("us")
_TIME_WITH_ZONE = pa.timestamp("us", "UTC")
_CALENDAR = (-62_135_596_800, 253_402_300_800)  # seconds: the years from 1 to 9999
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_IN_US = 86_400e6

_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)"
# All that pyarrow takes, and times with more than six digits after the point.
_SHAPE = rf"^\d{{4}}-\d\d-\d\d([T ]\d\d(:?\d\d(:?\d\d(\.\d+)?)?)?{_ZONE}?)?$"
_SHAPE_WITH_ZONE = rf"[T ]\d\d.*{_ZONE}$"
_LATER_DIGITS = r"(\.\d{6})\d+"


def days(text: Array) -> Converted:
    """Return text such as 2024-02-29 as date32; one with a time of day does not fit."""
    try:
        return within_calendar(text.cast(DAY))
    except pa.ArrowInvalid:
        text = known(text)
    fits = pc.match_substring_regex(text, r"^\d{4}-\d\d-\d\d$")
    values, is_bad = cast_one_by_one(pc.if_else(fits, text, None), DAY)
    return within_calendar(values, is_bad | ~np.asarray(fits.fill_null(True)))


def times(text: Array) -> Converted:
    """Return text such as 2024-02-29T12:30:00+01:00 as timestamps, in UTC if it has a zone."""
    for kind in (TIME, _TIME_WITH_ZONE):
        try:
            return within_calendar(text.cast(kind).cast(TIME))
        except pa.ArrowInvalid:
            continue
    text = known(text)
    fits = pc.match_substring_regex(text, _SHAPE)
    text = pc.replace_substring_regex(pc.if_else(fits, text, None), _LATER_DIGITS, r"\1")
    has_zone = pc.match_substring_regex(text, _SHAPE_WITH_ZONE)
    in_utc, bad_there = cast_one_by_one(pc.if_else(has_zone, text, None), _TIME_WITH_ZONE)
    as_is, bad_here = cast_one_by_one(pc.if_else(has_zone, None, text), TIME)
    is_bad = bad_there | bad_here | ~np.asarray(fits.fill_null(True))
    return within_calendar(pc.coalesce(in_utc.cast(TIME), as_is), is_bad)


def within_calendar(values: Array, is_bad: Mask | None = None) -> Converted:
    """Return dates as days or microseconds; those that Python cannot write are marked, and null."""
    kind, raw = values.type, values.cast(pa.int64() if pa.types.is_timestamp(values.type) else "i4")
    per_second = _PER_SECOND[kind.unit] if pa.types.is_timestamp(kind) else 1 / 86_400
    first, end = (int(second * per_second) for second in _CALENDAR)
    if abs(first) < 2**63:  # else there are only dates within
        is_outside = pc.or_(pc.less(raw, first), pc.greater_equal(raw, end))
        if pc.any(is_outside).as_py():
            outside = np.asarray(is_outside.fill_null(False))
            is_bad = outside if is_bad is None else is_bad | outside
            values = pc.if_else(is_outside, None, values)
    if pa.types.is_timestamp(kind):
        values = values.cast(TIME, safe=False)
    return values, is_bad


def why_no_date(text: str, kind: str) -> str:
    """Say what is wrong with a value of a column of dates."""
    if kind == "date" and re.match(r"\s*\d{4}-\d\d-\d\d[T ]\d", text):
        return "has a time of day, which the dates of this column have not"
    return "is not a date such as 2024-02-29" + ("T12:30:00" if kind == "datetime" else "")


def expand_dates(table: RecordBatch) -> RecordBatch:
    """Put numbers in the place of dates.

    Parameters
    ----------
    table : pyarrow.RecordBatch
        Such as the `table` of a batch.

    Returns
    -------
    pyarrow.RecordBatch
        With float64 columns for each date: its name and ``.year``, ``.month``, ``.day``,
        ``.weekday`` (Monday is 0); if it has a time, ``.hour``, ``.minute`` and ``.second``, each
        with what follows as its fraction; and ``.time``, the days since 1970. The other columns
        stay as they are.

    Examples
    --------
    >>> import datetime, pyarrow
    >>> table = pyarrow.RecordBatch.from_pydict({"when": [datetime.datetime(2024, 2, 29, 12, 30)]})
    >>> for name, value in expand_dates(table).to_pylist()[0].items():
    ...     print(name, value)
    when.year 2024.0
    when.month 2.0
    when.day 29.0
    when.weekday 3.0
    when.hour 12.5
    when.minute 30.0
    when.second 0.0
    when.time 19782.52...
    """
    expanded: dict[str, Array] = {}
    for name, values in zip(table.schema.names, table.columns, strict=True):
        parts = _parts(values) if pa.types.is_temporal(values.type) else {"": values}
        expanded |= {name + part: numbers for part, numbers in parts.items()}
    return pa.RecordBatch.from_arrays(list(expanded.values()), names=list(expanded))


def _parts(values: Array) -> dict[str, Array]:
    """Return the numbers of dates by the ends of their names."""
    parts = {
        ".year": pc.year(values),
        ".month": pc.month(values),
        ".day": pc.day(values),
        ".weekday": pc.day_of_week(values),
    }
    if pa.types.is_timestamp(values.type):
        second = pc.add(pc.second(values).cast(pa.float64()), pc.subsecond(values))
        minute = pc.add(pc.minute(values).cast(pa.float64()), pc.divide(second, 60.0))
        hour = pc.add(pc.hour(values).cast(pa.float64()), pc.divide(minute, 60.0))
        parts |= {".hour": hour, ".minute": minute, ".second": second}
        parts[".time"] = pc.divide(
            values.cast(TIME).cast(pa.int64()).cast(pa.float64(), safe=False), _DAY_IN_US
        )
    else:
        parts[".time"] = values.cast(pa.int32())
    return {end: part.cast(pa.float64()) for end, part in parts.items()}
