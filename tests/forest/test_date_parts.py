"""The numbers that dates become are the same in the estimators and in streams from files."""

import datetime

import numpy as np
import pyarrow as pa

from amforest._forest.date_parts import OF_DATES, OF_TIMES, UNUSED, as_times, split_dates
from amforest.reading import expand_dates


def test_dates_and_times_become_numbers():
    parts = split_dates(np.array(["2024-02-29T12:30", "NaT"], "M8[s]"), has_time=True)
    first = {suffix: values[0] for suffix, values in parts.items()}
    assert first == {
        **{".year": 2024, ".month": 2, ".day": 29, ".weekday": 3},
        **{".hour": 12.5, ".minute": 30, ".second": 0},
    }
    assert all(np.isnan(values[1]) for values in parts.values())


def test_dates_before_1970_are_counted_from_the_start_of_their_day():
    parts = split_dates(np.array(["1969-12-31T23:59:59.5"], "M8[ms]"), has_time=True)
    assert [parts[part][0] for part in OF_DATES] == [1969, 12, 31, 2]
    assert parts[".second"][0] == 59.5


def test_streams_and_estimators_have_the_same_parts():
    table = pa.record_batch({"when": [datetime.datetime(2024, 2, 29, 12, 30)]})
    unused = [f"when.{part}" for part in UNUSED]
    names = [name for name in expand_dates(table).schema.names if name not in unused]
    assert names == [f"when{part}" for part in OF_TIMES]


def test_times_of_a_zone_are_local():
    zone = datetime.timezone(datetime.timedelta(hours=5))
    times = as_times([datetime.datetime(2024, 1, 1, 3, tzinfo=zone), None, float("nan")])
    assert split_dates(times, has_time=True)[".hour"][0] == 3
    assert np.isnat(times).tolist() == [False, True, True]
