"""Conversion of columns: text to numbers, bools, categories and dates; dates to features.

A whole column is cast at once. Only if that fails, the values that do not fit are searched for. A
value fits or not whatever its neighbours are, so rows do not depend on how a file is cut.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from amforest._forest.date_parts import split_dates
from amforest._forest.limits import LARGEST_FEATURE

Mask: TypeAlias = NDArray[np.bool_]
# The values, with null for those that do not fit; and which do not fit (None: all fit).
Converted: TypeAlias = tuple[pa.Array, Mask | None]

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>")
FITTING = 0.9  # the least fraction of values that show the kind of a column
DAY, TIME = pa.date32(), pa.timestamp("us")

_MISSING = pa.array(MISSING)
# All that pyarrow parses as a number, and no more than pyarrow or float() parse.
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan(\(\w*\))?))$"
# Numbers with thousands separators, and with a sign of currency or percent beside them.
_GROUPED = r"\d{1,3}([,'’ \x{A0}\x{202F}]\d{3})+(\.\d+)?|\d{1,3}(\.\d{3})+(,\d+)?"
_FORMATTED = rf"^[(+-]?\p{{Sc}}? ?[+-]?({_GROUPED}|\d+([.,]\d+)?|[.,]\d+) ?(\p{{Sc}}|%)?\)?$"

_TIME_WITH_ZONE = pa.timestamp("us", "UTC")
_CALENDAR = (-62_135_596_800, 253_402_300_800)  # seconds: the years 1 to 9999
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_IN_US = 86_400e6
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)"
# All that pyarrow parses, and times with more than six digits after the point.
_DATE_OR_TIME = rf"^\d{{4}}-\d\d-\d\d([T ]\d\d(:?\d\d(:?\d\d(\.\d+)?)?)?{_ZONE}?)?$"
_HAS_ZONE = rf"[T ]\d\d.*{_ZONE}$"
_BEYOND_MICROSECONDS = r"(\.\d{6})\d+"
_AMBIGUOUS = r"^\d{1,2}([/-]\d{1,2}[/-]|\.\d{1,2}\.)(\d{4}|\d\d)( |$)"
_WITH_DOTS = r"^\d{1,2}\.\d{1,2}\.\d{4}( |$)"  # the day comes first where there are dots


def parse_numbers(text: pa.Array) -> Converted:
    """Parse float64: what `float` parses, but neither infinite nor beyond ±2**100."""
    is_empty = pc.equal(pc.binary_length(text), 0)  # each failing cast costs time
    if pc.any(is_empty).as_py():
        text = pc.if_else(is_empty, None, text)
    try:
        return reject_large(text.cast(pa.float64()))
    except pa.ArrowInvalid:
        text = strip_missing(text)
    try:
        return reject_large(text.cast(pa.float64()))
    except pa.ArrowInvalid:
        fits = pc.match_substring_regex(text, _NUMBER)
    # Older versions of pyarrow do not parse a leading plus.
    text = pc.replace_substring_regex(pc.if_else(fits, text, None), r"^\+", "")
    values, is_bad = _cast_valid(text, pa.float64())
    values, is_large = reject_large(values)
    is_bad |= ~np.asarray(fits.fill_null(True))
    return values, is_bad if is_large is None else is_bad | is_large


def reject_large(values: pa.Array) -> Converted:
    """Replace NaN by null; mark, and replace by null, what is infinite or beyond ±2**100."""
    if not values.null_count and len(values):
        raw = values.to_numpy()
        if max(raw.max(), -raw.min()) <= LARGEST_FEATURE:  # False if there is a NaN
            return values, None
    values = pc.if_else(pc.is_nan(values), None, values)
    is_large = pc.greater(pc.abs(values), LARGEST_FEATURE)
    if not pc.any(is_large).as_py():
        return values, None
    return pc.if_else(is_large, None, values), np.asarray(is_large.fill_null(False))


def parse_bools(text: pa.Array) -> Converted:
    """Parse "true" as 1 and "false" as 0, in upper or lower case."""
    codes = text.dictionary_encode()
    levels = pc.ascii_lower(strip_missing(codes.dictionary))
    is_true = pc.equal(levels, "true")
    is_bad = pc.invert(pc.or_(is_true, pc.equal(levels, "false"))).fill_null(False)
    numbers = pc.if_else(is_bad, None, is_true.cast(pa.float64()))
    is_bad_row = None
    if pc.any(is_bad).as_py():
        is_bad_row = np.asarray(is_bad.take(codes.indices).fill_null(False))
    return numbers.take(codes.indices), is_bad_row


def encode_categories(text: pa.Array) -> Converted:
    """Encode text as a dictionary, with the blanks around it stripped."""
    codes = text.dictionary_encode()
    levels = strip_missing(codes.dictionary)
    if levels.equals(codes.dictionary):
        return codes, None
    merged = levels.dictionary_encode()
    indices = merged.indices.take(codes.indices)
    return pa.DictionaryArray.from_arrays(indices, merged.dictionary), None


def parse_days(text: pa.Array) -> Converted:
    """Parse text such as 2024-02-29 or 29.2.2024 as date32; with a time of day it does not fit."""
    try:
        return reject_outside_calendar(text.cast(DAY))
    except pa.ArrowInvalid:
        text = _start_with_years(strip_missing(text))
    fits = pc.match_substring_regex(text, r"^\d{4}-\d\d-\d\d$")
    values, is_bad = _cast_valid(pc.if_else(fits, text, None), DAY)
    return reject_outside_calendar(values, is_bad | ~np.asarray(fits.fill_null(True)))


def parse_times(text: pa.Array) -> Converted:
    """Parse text such as 2024-02-29T12:30:00+01:00 as timestamps, in UTC if it has a zone."""
    for kind in (TIME, _TIME_WITH_ZONE):
        try:
            return reject_outside_calendar(text.cast(kind).cast(TIME))
        except pa.ArrowInvalid:
            continue
    text = _start_with_years(strip_missing(text))
    fits = pc.match_substring_regex(text, _DATE_OR_TIME)
    text = pc.replace_substring_regex(pc.if_else(fits, text, None), _BEYOND_MICROSECONDS, r"\1")
    has_zone = pc.match_substring_regex(text, _HAS_ZONE)
    in_utc, is_bad_in_utc = _cast_valid(pc.if_else(has_zone, text, None), _TIME_WITH_ZONE)
    local, is_bad_local = _cast_valid(pc.if_else(has_zone, None, text), TIME)
    is_bad = is_bad_in_utc | is_bad_local | ~np.asarray(fits.fill_null(True))
    return reject_outside_calendar(pc.coalesce(in_utc.cast(TIME), local), is_bad)


def _start_with_years(text: pa.Array) -> pa.Array:
    """Write dates such as 29.2.2024 as 2024-02-29; other text does not become a date by it."""
    has_dots = pc.match_substring_regex(text, _WITH_DOTS)
    if not pc.any(has_dots).as_py():
        return text
    padded = pc.replace_substring_regex(text, r"^(\d)\.", r"0\1.")
    padded = pc.replace_substring_regex(padded, r"^(\d\d\.)(\d)\.", r"\10\2.")
    dates = pc.replace_substring_regex(padded, r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1")
    return pc.if_else(has_dots, dates, text)


def reject_outside_calendar(values: pa.Array, is_bad: Mask | None = None) -> Converted:
    """Return dates as days or microseconds; mark, and replace by null, what Python cannot hold."""
    kind = values.type
    has_time = pa.types.is_timestamp(kind)
    raw = values.cast(pa.int64() if has_time else pa.int32())
    per_second = _PER_SECOND[kind.unit] if has_time else 1 / 86_400
    first, end = (int(second * per_second) for second in _CALENDAR)
    if abs(first) < 2**63:  # otherwise int64 cannot leave the calendar
        is_outside = pc.or_(pc.less(raw, first), pc.greater_equal(raw, end))
        if pc.any(is_outside).as_py():
            outside = np.asarray(is_outside.fill_null(False))
            is_bad = outside if is_bad is None else is_bad | outside
            values = pc.if_else(is_outside, None, values)
    return values.cast(TIME, safe=False) if has_time else values, is_bad


def strip_missing(text: pa.Array) -> pa.Array:
    """Strip blanks from text, and replace by null what stands for a missing value."""
    text = pc.ascii_trim_whitespace(text)
    is_missing = pc.is_in(text, _MISSING)
    return pc.if_else(is_missing, None, text) if pc.any(is_missing).as_py() else text


def explain_number(text: str) -> str:
    """Explain why a text is not a value of a column of numbers."""
    try:
        float(text)
    except ValueError:
        return "is not a number"
    return "is beyond ±2**100" if "_" not in text and text.strip().isascii() else "is not a number"


def explain_date(text: str, kind: str) -> str:
    """Explain why a text is not a value of a column of dates."""
    if kind == "date" and re.match(r"\s*(\d{4}-\d\d-\d\d|\d\d?\.\d\d?\.\d{4})[T ]\d", text):
        return "has a time of day, unlike the other dates of this column"
    return "is not a date such as 2024-02-29" + ("T12:30:00" if kind == "datetime" else "")


def find_ambiguous_date(text: pa.Array) -> str | None:
    """Return the first value if most are dates such as 3/4/2024, whose month may be 3 or 4."""
    is_date = pc.match_substring_regex(text, _AMBIGUOUS)
    if pc.sum(is_date).as_py() <= (len(text) - text.null_count) / 2:
        return None
    first: str = text.filter(is_date)[0].as_py()
    return first


def find_formatted_number(text: pa.Array) -> str | None:
    """Return the first value that only looks like a number, if almost all values do or are one."""
    is_number = pc.match_substring_regex(text, _NUMBER)
    looks_so = pc.and_not(pc.match_substring_regex(text, _FORMATTED), is_number)
    n_numbers, n_alike = (pc.sum(mask).as_py() or 0 for mask in (is_number, looks_so))
    if not n_alike or n_numbers + n_alike < FITTING * (len(text) - text.null_count):
        return None
    first: str = text.filter(looks_so)[0].as_py()
    return first


def expand_dates(table: pa.RecordBatch) -> pa.RecordBatch:
    """Replace dates by numbers.

    Parameters
    ----------
    table : pyarrow.RecordBatch
        Such as the `table` of a batch.

    Returns
    -------
    pyarrow.RecordBatch
        With float64 columns for each date: its name and ``.year``, ``.month``, ``.day``,
        ``.weekday`` (Monday is 0); if it has a time, ``.hour``, ``.minute`` and ``.second``, each
        with its fraction; and ``.time``, the days since 1970. The other columns are unchanged.

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
    expanded: dict[str, pa.Array] = {}
    for name, values in zip(table.schema.names, table.columns, strict=True):
        parts = _date_parts(values) if pa.types.is_temporal(values.type) else {"": values}
        expanded |= {name + suffix: numbers for suffix, numbers in parts.items()}
    return pa.RecordBatch.from_arrays(list(expanded.values()), names=list(expanded))


def _date_parts(values: pa.Array) -> dict[str, pa.Array]:
    """Return the numbers of dates by the suffixes of their names."""
    has_time = pa.types.is_timestamp(values.type)
    local = pc.local_timestamp(values) if has_time and values.type.tz else values
    parts = split_dates(local.to_numpy(zero_copy_only=False), has_time=has_time)
    if has_time:
        microseconds = values.cast(TIME).cast(pa.int64()).cast(pa.float64(), safe=False)
        time = pc.divide(microseconds, _DAY_IN_US)
    else:
        time = values.cast(pa.int32()).cast(pa.float64())
    numbers = {name: pa.array(part, from_pandas=True) for name, part in parts.items()}
    return numbers | {".time": time}


def _cast_valid(text: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Cast the values that can be cast, by halving what cannot down to single values."""
    if not len(text):
        return text.cast(kind), np.zeros(0, dtype=bool)
    is_bad = np.zeros(len(text), dtype=bool)
    pieces, parts = [], [(0, len(text))]
    while parts:
        start, end = parts.pop()
        try:
            pieces.append(text[start:end].cast(kind))
        except pa.ArrowInvalid:
            if end - start == 1:
                is_bad[start] = True
                pieces.append(pa.nulls(1, kind))
            else:
                middle = (start + end) // 2
                parts += [(middle, end), (start, middle)]
    return pa.concat_arrays(pieces), is_bad
