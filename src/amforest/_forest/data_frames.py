"""Data frames of any library: the columns of the first X, as numbers and as categories."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _get_feature_names, validate_data

from amforest._forest.categories import Column
from amforest._forest.column_kinds import (
    AS_IT_IS,
    GivenColumns,
    Schema,
    date_columns,
    holds_objects,
    select_parts,
)
from amforest._forest.input_errors import ADVICE, integer_too_large, refuse_others, too_large
from amforest._forest.named_rows import note_unknown, refuse_strangers

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.series import Series

# The same in the words of a library; {} is the name of the column.
_IN_PANDAS = {
    "Datetime": "X[{}].dt.hour",
    "Duration": "pandas.to_timedelta(X[{}]).dt.total_seconds()",
    "Struct": "pandas.json_normalize(X[{}])",
    "List": "X[{}].str[0]",
    "Binary": 'X[{}].str.decode("utf-8")',
    "String": 'X[{}].astype("category")',
}
_IN_POLARS = {
    "Datetime": "pl.col({}).dt.hour()",
    "Date": "pl.col({}).dt.month()",
    "Time": "pl.col({}).dt.hour()",
    "Duration": "pl.col({}).dt.total_seconds()",
    "Struct": "X.unnest({})",
    "List": "pl.col({}).list.get(0)",
    "Array": "pl.col({}).arr.get(0)",
    "Binary": "pl.col({}).cast(pl.String)",
    "Int128": "pl.col({}).cast(pl.Float64)",
    "UInt128": "pl.col({}).cast(pl.Float64)",
    "String": "pl.col({}).cast(pl.Categorical)",
}
_IN_ARROW = {
    "Datetime": "pyarrow.compute.hour(X[{}])",
    "Date": "pyarrow.compute.month(X[{}])",
    "Time": "pyarrow.compute.hour(X[{}])",
    "Duration": "X[{}].cast(pyarrow.int64())",
    "Struct": "X.flatten()",
    "List": "pyarrow.compute.list_element(X[{}], 0)",
    "Array": "pyarrow.compute.list_element(X[{}], 0)",
    "Binary": "X[{}].cast(pyarrow.string())",
    "String": "X[{}].dictionary_encode()",
}


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Wrap a data frame of any library; return None if X is not one."""
    if isinstance(X, np.ndarray | list | tuple) or issparse(X):
        return None
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # not needed for arrays

    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"X has several columns of the same name. {error}") from error
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy frame, which holds no values yet: call its collect() first")
    if isinstance(frame, nw.DataFrame):
        return frame
    if hasattr(X, "__arrow_c_stream__") and not nw.dependencies.is_into_series(X):
        return nw.from_arrow(X, backend="pyarrow")  # such as a RecordBatch
    return None


def match_columns(estimator: Any, frame: nw.DataFrame[Any], schema: Schema) -> nw.DataFrame[Any]:
    """Return the columns of the first X: with `strict` they must be all, in their order."""
    names, given = schema.column_names, _get_feature_names(frame.to_native())
    if names is None or given is None:
        validate_data(estimator, frame.to_native(), reset=False, skip_check_array=True)
        return frame
    if np.array_equal(names, given):
        return frame
    kept = np.delete(names, schema.dropped).tolist()
    found = [name for name in given if name in set(kept)]
    unknown = [name for name in given if name not in set(names)]
    if not estimator.strict:
        absent = [name for name in kept if name not in set(found)]
        refuse_strangers("X", absent, kept)
        note_unknown(estimator, "X", unknown)
        return _add_missing(frame, absent, kept, schema)
    if found == kept and not unknown:  # those that are dropped may be absent
        return frame
    try:
        validate_data(estimator, frame.to_native(), reset=False, skip_check_array=True)
    except ValueError as error:
        # scikit-learn's estimator checks require that other columns and orders are refused.
        raise ValueError(f"{error}To match columns by name, set strict=False.") from error
    return frame


def expand_frame(frame: nw.DataFrame[Any], columns: GivenColumns) -> nw.DataFrame[Any]:
    """Return the features of a frame: parts of dates, and no dropped columns."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # not needed for arrays

    given = frame.columns if columns.names is None else columns.names.tolist()
    new, selected = [], []
    for name, parts in zip(given, columns.parts, strict=True):
        selected += [name] if parts == AS_IT_IS else [f"{name}{part}" for part in parts]
        if parts and parts != AS_IT_IS:
            for part, numbers in zip(
                parts, _split_series(frame.get_column(name), parts), strict=True
            ):
                new.append(
                    nw.new_series(
                        f"{name}{part}", numbers, nw.Float64, backend=frame.implementation
                    )
                )
    return (frame.with_columns(*new) if new else frame).select(map(nw.col, selected))


def frame_rows(frame: nw.DataFrame[Any], is_categorical: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the numbers of a frame."""
    if is_categorical.all():
        return np.empty((len(frame), 0), dtype=np.float32)
    if is_categorical.any():
        frame = frame[:, np.flatnonzero(~is_categorical).tolist()]
    kinds = set(frame.schema.values())
    if len(kinds) == 1 and kinds.pop().is_float():
        values = frame.to_numpy()  # all at once: each column costs 0.1 ms
        if values.dtype != object:  # pandas' NA
            return values
    rows = np.empty(frame.shape, dtype=np.float32)
    for k, column in enumerate(frame.iter_columns()):
        values = column_values(column)
        with np.errstate(over="ignore"):
            rows[:, k] = values
        if (is_large := np.isinf(rows[:, k])).any():
            i = int(is_large.argmax())
            raise ValueError(too_large(i, column.name, values[i]))
    return rows


def frame_categories(frame: nw.DataFrame[Any], schema: Schema) -> list[Column]:
    """Return the columns of categories of a frame."""
    # In pandas NaN is null; elsewhere null is None, and NaN a number.
    is_pandas = frame.implementation.is_pandas_like()
    return [
        Column(name, len(frame), partial(_list_series, frame[:, j]), is_pandas)
        for j, name in schema.categorical_columns()
    ]


def column_values(column: Series[Any]) -> NDArray[Any]:
    """Return numbers, with NaN for nulls of any type."""
    name, kind = f"X's column {column.name!r}", type(column.dtype).__name__
    if kind in ADVICE and not holds_objects(column):
        raise ValueError(
            f"{name} must hold numbers only, not {column.dtype}: {_advise(column, kind)}"
        )
    values: NDArray[Any] = column.to_numpy()
    refuse_others(values, name, advise=lambda kind: _advise(column, kind))
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name}")
    if values.dtype.kind != "O":
        return values
    try:
        return np.where(column.is_null().to_numpy(), np.nan, values).astype(np.float64)
    except OverflowError as error:
        raise integer_too_large(name, error) from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"column {column.name!r}: {error}") from error


def _add_missing(
    frame: nw.DataFrame[Any], absent: list[str], kept: list[str], schema: Schema
) -> nw.DataFrame[Any]:
    """Return the kept columns in the order of the first X; absent ones are missing."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # not needed for arrays

    names: Any = schema.names
    categorical = set(names[schema.is_categorical])
    new = [
        nw.new_series(
            name,
            [None] * len(frame),
            nw.String if name in categorical else nw.Float64,
            backend=frame.implementation,
        )
        for name in absent
    ]
    return (frame.with_columns(*new) if new else frame).select(kept)


def _split_series(column: Series[Any], parts: tuple[str, ...]) -> list[NDArray[Any]]:
    """Return the parts of a column of dates."""
    kind = type(column.dtype).__name__
    if kind in ("Date", "Datetime"):
        if getattr(column.dtype, "time_zone", None):
            column = column.dt.replace_time_zone(None)
        times = column.to_numpy()
        if times.dtype.kind == "M":
            return select_parts(times, parts)
    return date_columns(column.to_list(), parts, f"X's column {column.name!r}")


def _list_series(column: Series[Any], part: slice) -> list[Any]:
    some = column[part]
    if some.implementation.is_pyarrow():
        native = some.to_native()
        is_categorical = type(native.type).__name__ == "DictionaryType"
        if is_categorical and str(native.type.value_type) in ("string", "large_string"):
            # Three times as fast as value by value.
            texts: list[Any] = native.cast(native.type.value_type).to_numpy().tolist()
            return texts
    return some.to_list()


def _advise(column: Series[Any], kind: str) -> str:
    """Return what to do with a column of another kind, in the words of its library."""
    kind = "String" if kind in ("Categorical", "Enum") else kind
    library = column.implementation
    words = _IN_PANDAS if library.is_pandas_like() else _IN_ARROW
    words = _IN_POLARS if library.is_polars() else words
    if kind not in words:
        return ADVICE[kind]
    join = "or convert them: " if kind == "String" else "for example "
    given: object = column.name  # any hashable in pandas
    name = f'"{given}"' if isinstance(given, str) else repr(given)
    return f"{ADVICE[kind]}, {join}{words[kind].format(name)}"
