"""Columns of text become numbers, bools and categories; values that do not fit are marked.

Whole columns are cast at once. Only where that fails, one looks for the values that are guilty; a
value fits or not whatever stands beside it, so that rows do not depend on how a file is cut.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from amforest.reading._arrow import Array, DataType, pa, pc

Mask: TypeAlias = NDArray[np.bool_]
# The values, and which do not fit (None: all do). Those that do not are null.
Converted: TypeAlias = tuple[Array, Mask | None]

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>")
LARGEST = 2.0**100  # the forests refuse what is larger

_MISSING = pa.array(MISSING)
# All that pyarrow takes as a number, and no more than it or float() takes.
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan(\(\w*\))?))$"
_BOOLS = {"true": 1.0, "false": 0.0}


def numbers(text: Array) -> Converted:
    """Return text as float64: what `float` takes, but neither infinite nor beyond 2**100."""
    is_empty = pc.equal(pc.binary_length(text), 0)  # each value that fails costs time, too
    if pc.any(is_empty).as_py():
        text = pc.if_else(is_empty, None, text)
    try:
        return within_limits(text.cast(pa.float64()))
    except pa.ArrowInvalid:
        text = known(text)
    try:
        return within_limits(text.cast(pa.float64()))
    except pa.ArrowInvalid:
        pass
    fits = pc.match_substring_regex(text, _NUMBER)
    # Older versions of pyarrow refuse a leading plus.
    text = pc.replace_substring_regex(pc.if_else(fits, text, None), r"^\+", "")
    values, is_bad = cast_one_by_one(text, pa.float64())
    values, is_beyond = within_limits(values)
    is_bad |= ~np.asarray(fits.fill_null(True))
    return values, is_bad if is_beyond is None else is_bad | is_beyond


def within_limits(values: Array) -> Converted:
    """Make NaN null, and mark what is infinite or too large; such values become null, too."""
    if not values.null_count and len(values):
        raw = values.to_numpy()
        if max(raw.max(), -raw.min()) <= LARGEST:  # NaN would come through
            return values, None
    values = pc.if_else(pc.is_nan(values), None, values)
    is_beyond = pc.greater(pc.abs(values), LARGEST)
    if not pc.any(is_beyond).as_py():
        return values, None
    return pc.if_else(is_beyond, None, values), np.asarray(is_beyond.fill_null(False))


def categories(text: Array) -> Converted:
    """Return text as a dictionary; blanks around it do not count."""
    codes = text.dictionary_encode()
    levels = known(codes.dictionary)
    if levels.equals(codes.dictionary):
        return codes, None
    merged = levels.dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        merged.indices.take(codes.indices), merged.dictionary
    ), None


def bools(text: Array) -> Converted:
    """Return true as 1 and false as 0, in upper or lower case."""
    codes = text.dictionary_encode()
    levels = known(codes.dictionary).to_pylist()
    values = pa.array([level and _BOOLS.get(level.lower()) for level in levels], pa.float64())
    fits = np.array([level is None or level.lower() in _BOOLS for level in levels], dtype=bool)
    return values.take(codes.indices), _where_not(fits, codes.indices)


def known(text: Array) -> Array:
    """Strip blanks from text, and make null of what stands for a missing value."""
    text = pc.ascii_trim_whitespace(text)
    is_missing = pc.is_in(text, _MISSING)
    return pc.if_else(is_missing, None, text) if pc.any(is_missing).as_py() else text


def cast_one_by_one(text: Array, kind: DataType) -> tuple[Array, Mask]:
    """Cast what can be cast, halving what cannot until single values are found."""
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


def why_no_number(text: str) -> str:
    """Say what is wrong with a value of a column of numbers."""
    try:
        float(text)
    except ValueError:
        return "is not a number"
    return "is beyond ±2**100" if "_" not in text and text.strip().isascii() else "is not a number"


def _where_not(fits: Mask, codes: Array) -> Mask | None:
    """Mark the rows whose levels do not fit; a row without a level does."""
    if fits.all():
        return None
    is_bad: Mask = ~np.append(fits, True)[np.asarray(codes.fill_null(len(fits)))]
    return is_bad
