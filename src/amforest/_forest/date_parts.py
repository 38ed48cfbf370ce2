"""The numbers that dates and times become."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest._forest.losses import Floats

Times = NDArray[np.datetime64]

# The time in days would be larger than all values before, row after row; the others are noise.
UNUSED = ("time", "minute", "second")
OF_DATES = (".year", ".month", ".day", ".weekday")  # suffixes of names
OF_TIMES = (*OF_DATES, ".hour")


def split_dates(values: NDArray[Any], *, has_time: bool) -> dict[str, Floats]:
    """Return the numbers of dates, by the suffixes of their names; NaN for NaT.

    Parameters
    ----------
    values : ndarray of datetime64
        In local time.
    has_time : bool
        Whether there are hours, minutes and seconds, each with its fraction.
    """
    times: Times = values.astype("datetime64[us]")
    days, months = times.astype("datetime64[D]"), times.astype("datetime64[M]")
    since_1970 = days.astype(np.int64)
    parts = {
        ".year": 1970 + months.astype(np.int64) // 12,
        ".month": 1 + months.astype(np.int64) % 12,
        ".day": 1 + (days - months.astype("datetime64[D]")).astype(np.int64),
        ".weekday": (since_1970 + 3) % 7,  # 1970 began on a Thursday; Monday is 0
    }
    if has_time:
        seconds, microseconds = np.divmod((times - days).astype(np.int64), 1_000_000)
        second = seconds % 60 + microseconds / 1e6
        minute = seconds // 60 % 60 + second / 60
        parts |= {".hour": seconds // 3600 + minute / 60, ".minute": minute, ".second": second}
    is_missing = np.isnat(times)
    return {suffix: np.where(is_missing, np.nan, part) for suffix, part in parts.items()}


def is_date(value: Any) -> bool:
    """Return whether a value is a date, with or without a time, and no NaT."""
    return isinstance(value, date | np.datetime64) and bool(value == value)  # noqa: PLR0124


def has_time_of_day(value: Any) -> bool:
    """Return whether a date has a time, too."""
    return isinstance(value, datetime | np.datetime64)


def as_times(values: Iterable[Any]) -> Times:
    """Convert Python's dates to local times; what is not a date is missing."""
    local = [_without_zone(value) if is_date(value) else None for value in values]
    return np.array(local, dtype="datetime64[us]")


def _without_zone(value: Any) -> Any:
    value = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    return np.datetime64(value, "us")
