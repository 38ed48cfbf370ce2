"""A value fits its kind or not, and is converted alike, whatever its neighbours are."""

import math
import re
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amforest.reading.conversion import (
    MISSING,
    encode_categories,
    parse_bools,
    parse_days,
    parse_numbers,
    parse_times,
    reject_outside_calendar,
)

NUMBERS = ["1", " 1\t", "+1", "-1.", ".5", "-.5e-3", "1E+5", "00012", "1e-400", "1e30", "-1e30"]
NUMBERS += ["inf", "-Infinity", "1e31", "-1e31", "1e400", "nan", "-NaN", *MISSING, " NA "]
NUMBERS += ["1e", "+", "+-1", "0x10", "1_0", "1,5", "1 2", "१", "\0", "1\0", "word", "e5", "."]
TIMES = ["2024-02-29", "2023-02-29", "2024-02-29T12", "2024-02-29 12:30", "2024-02-29T12:30:59"]
TIMES += ["2024-02-29T12:30:59.5", "2024-02-29T12:30:59.123456789", "2024-02-29T24:00:00"]
TIMES += ["2024-02-29T12:30Z", "2024-02-29T12:30:59.123456789+05:30", "2024-02-29T12-02"]
TIMES += ["0001-01-01", "0000-12-31", "0001-01-01T00:00+01:00", "9999-12-31T23:59:59.999999"]
TIMES += ["29.02.2024", "9.2.2024", "29.2.2023", "29.2.24", "1.2.2024 12:30", "1.2.2024 12:30Z"]
TIMES += ["0001.2.2024", "1.2.2024.5", "31.12.9999 23:59-01:00", "1.2.2024T12:30", "1.02"]
TIMES += ["9999-12-31T23:59-01:00", "20240229", "2024-2-9", "2024-02", "12:30", " 2024-02-29 ", "?"]


def naive_number(text):
    """Return the value, None if it is missing; raise an error if it does not fit."""
    text = text.strip()
    if text in MISSING or text.lower() in ("nan", "-nan"):
        return None
    if "_" in text or not text.isascii() or abs(float(text)) > 2**100:
        raise ValueError
    return float(text)


def naive_time(text):
    text = text.strip()
    if text in MISSING:
        return None
    if found := re.fullmatch(r"(\d\d?)\.(\d\d?)\.(\d{4})( .*)?", text):
        day, month, year, rest = found.groups("")
        text = f"{year}-{month:0>2}-{day:0>2}{rest}"
    if len(text) < 10 or text[4] != "-" or "T24" in text:  # later versions of Python parse it
        raise ValueError
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def naive_bool(text):
    text = text.strip().lower()
    return None if text in map(str.lower, MISSING) else {"true": 1.0, "false": 0.0}[text]


def check(convert, naive, texts):
    values, is_bad = convert(pa.array(texts, pa.string()))
    for k, text in enumerate(texts):
        try:
            expected, fits = naive(text), True
        except (KeyError, ValueError, OverflowError):
            expected, fits = None, False
        assert (values[k].as_py(), is_bad is None or not is_bad[k]) == (expected, fits), text


@given(st.lists(st.sampled_from(NUMBERS) | st.floats().map(repr), max_size=8))
def test_numbers_are_what_float_parses_but_not_too_large(texts):
    check(parse_numbers, naive_number, texts)


@given(st.lists(st.sampled_from(TIMES) | st.datetimes().map(str), max_size=8))
def test_times_are_what_python_parses_in_utc(texts):
    check(parse_times, naive_time, texts)


@given(st.lists(st.sampled_from(TIMES) | st.dates().map(str), max_size=8))
def test_days_are_times_without_a_time(texts):
    def naive_day(text):
        moment = naive_time(text)
        has_time = moment and any(mark in text.strip() for mark in "T :")
        if has_time:
            raise ValueError
        return moment and moment.date()

    check(parse_days, naive_day, texts)


@given(st.lists(st.sampled_from(["true", "FALSE", " True ", "", "?", "1", "yes"]), max_size=8))
def test_bools_are_true_and_false(texts):
    check(parse_bools, naive_bool, texts)


@given(st.lists(st.sampled_from(["a", " a", "b ", "", "NA", " NA", "é"]), max_size=8))
def test_categories_are_stripped_and_have_one_code_each(texts):
    values, is_bad = encode_categories(pa.array(texts, pa.string()))
    stripped = [text.strip() for text in texts]
    assert values.to_pylist() == [None if text in MISSING else text for text in stripped]
    levels = values.dictionary.to_pylist()
    assert len(set(levels)) == len(levels)
    assert is_bad is None


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_are_from_the_years_1_to_9999(unit):
    scale = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    first, end = (datetime(1, 1, 1) - datetime(1970, 1, 1)).total_seconds(), 253_402_300_800
    raw = [int(first) * scale - 1, int(first) * scale, end * scale - 1, end * scale, None]
    values, is_bad = reject_outside_calendar(pa.array(raw, pa.int64()).cast(pa.timestamp(unit)))
    assert is_bad.tolist() == [True, False, False, True, False]
    assert [value and value.year for value in values.to_pylist()] == [None, 1, 9999, None, None]


def test_numbers_keep_all_their_digits():
    texts = ["0.1", "1e-320", str(math.pi), "123456789012345678901234567890"]
    assert parse_numbers(pa.array(texts))[0].to_pylist() == [float(text) for text in texts]
