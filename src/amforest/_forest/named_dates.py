"""Dates in river's dicts and frames: they become features of numbers."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from amforest._forest.column_kinds import DATE, TIME, kind_of
from amforest._forest.date_parts import OF_DATES, OF_TIMES, as_times, has_time_of_day, split_dates
from amforest._forest.losses import Floats

if TYPE_CHECKING:
    import pandas as pd


def split_row(x: Mapping[Hashable, Any], known: Container[Hashable]) -> Mapping[Hashable, Any]:
    """Replace dates by their parts, but not those of known features."""
    dates = [
        name
        for name, value in x.items()
        if isinstance(value, date | np.datetime64) and name not in known
    ]
    if not dates:
        return x
    split = {name: value for name, value in x.items() if name not in dates}
    for name in dates:
        parts = split_dates(as_times([x[name]]), has_time=True)
        used = OF_TIMES if has_time_of_day(x[name]) else OF_DATES
        split |= {f"{name}{part}": float(parts[part][0]) for part in used}
    return split


def split_frame(X: pd.DataFrame, known: Container[Hashable]) -> pd.DataFrame:
    """Replace columns of dates by their parts, but not those of known features."""
    columns = {
        name: parts
        for name in X.columns
        if name not in known and (parts := _parts_of(X[name])) is not None
    }
    if not columns:
        return X
    split = {f"{name}{part}": numbers for name, p in columns.items() for part, numbers in p.items()}
    return X.drop(columns=list(columns)).assign(**split)


def _parts_of(column: pd.Series) -> dict[str, Floats] | None:
    """Return the parts of a column of dates, each as `split_row` splits it; None for others."""
    if column.dtype.kind == "M":
        parts = split_dates(
            column.dt.tz_localize(None).to_numpy(dtype="datetime64[us]"), has_time=True
        )
        return {part: parts[part] for part in OF_TIMES}
    if column.dtype.kind != "O":
        return None
    values = column.tolist()
    kind = kind_of(values)
    if kind not in (DATE, TIME):
        return None
    parts = split_dates(as_times(values), has_time=True)
    has_time = np.array([has_time_of_day(value) for value in values])
    parts[".hour"] = np.where(has_time, parts[".hour"], np.nan)
    return {part: parts[part] for part in (OF_TIMES if kind == TIME else OF_DATES)}
