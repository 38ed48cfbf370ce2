"""The types that Parquet and Arrow files have, and what they are to a stream."""

from __future__ import annotations

import numpy as np

from amforest.reading._arrow import Array, DataType, pa
from amforest.reading.columns import Column, describe, found
from amforest.reading.dates import DAY
from amforest.reading.names import StreamError


def kind_of(kind: DataType) -> str | None:
    """Return what a column of some type holds; None if a stream cannot have it."""
    types = pa.types
    if types.is_dictionary(kind):
        return "category" if kind_of(kind.value_type) is not None else None
    if is_text(kind):
        return "category"
    kinds = {
        "number": (types.is_integer, types.is_floating, types.is_decimal, types.is_null),
        "bool": (types.is_boolean,),
        "date": (types.is_date,),
        "datetime": (types.is_timestamp,),
    }
    return next((name for name, are in kinds.items() if any(is_it(kind) for is_it in are)), None)


def is_text(kind: DataType) -> bool:
    """Tell whether a type is one of those for strings."""
    is_view = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_view(kind))


def check_type(file: str, name: str, kind: DataType) -> None:
    """Refuse columns that a stream cannot have."""
    if kind_of(kind) is None:
        what = "is nested" if pa.types.is_nested(kind) else "is of a type that forests cannot learn"
        raise StreamError(f"{file}: column {name!r} {what} ({kind}); leave it out")


def find_column(name: str, wish: str | None, values: Array) -> Column:
    """Return a column as the file, or the user, has it."""
    kind = kind_of(values.type)
    assert kind is not None
    if wish in (None, kind) or (wish == "date" and kind == "datetime"):
        return describe(name, kind, as_kind(values, kind))
    return found(name, as_text(values), wish)[0]


def as_kind(values: Array, kind: str) -> Array:
    """Return values such that a column of some kind can convert them."""
    if kind_of(values.type) != kind:
        return as_text(values)
    if pa.types.is_float16(values.type):  # which older versions of pyarrow cannot cast
        return pa.array(values.to_numpy(zero_copy_only=False).astype(np.float64))
    if kind in ("number", "bool"):
        return values.cast(pa.float64(), safe=False)
    if kind == "category":
        return as_text(values).dictionary_encode()
    if kind == "date":
        return values.cast(DAY, safe=False)
    return values


def as_text(values: Array) -> Array:
    """Return values as strings."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(pa.string())
