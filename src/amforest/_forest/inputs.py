"""Validation of X: arrays, lists, data frames and sparse matrices become a `Table`.

A missing number is NaN, a missing category None. A sparse matrix stays sparse until its rows are
needed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils._missing import is_pandas_na
from sklearn.utils.validation import (
    _get_feature_names,
    _num_samples,
    check_array,
    check_X_y,
    validate_data,
)

from amforest._forest.caller import caller_level
from amforest._forest.categories import ROWS_AT_ONCE, Column
from amforest._forest.column_kinds import (
    AS_IT_IS,
    NUMBER,
    GivenColumns,
    Schema,
    UnusedColumnWarning,
    date_columns,
    frame_kinds,
    is_auto,
    is_missing,
    kind_of,
    list_names,
    select_parts,
)
from amforest._forest.limits import LARGEST_FEATURE, LEAST_WEIGHT
from amforest._forest.losses import Floats

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.series import Series

Features = NDArray[np.float32]
Sparse: TypeAlias = Any  # scipy's csr_matrix or csr_array, which have no types

MOST_SPARSE_COLUMNS = 4_096  # 1,000 rows of 20,000 took 69 s and 2 GB
BLOCK_BYTES = 2**22  # of dense memory for the rows of a sparse matrix
CONVERSION: dict[str, Any] = {
    "dtype": np.float32,
    "order": "C",
    "ensure_all_finite": "allow-nan",
    "accept_sparse": "csr",
}
_ANY_VALUES: dict[str, Any] = {"dtype": None, "ensure_all_finite": False}
_ADVICE = {
    "Datetime": "convert times to numbers first",
    "Date": "convert dates to numbers first",
    "Time": "convert times to numbers first, such as seconds since midnight",
    "Duration": "convert durations to numbers first, such as seconds",
    "Struct": "make a column of each field first",
    "String": "name columns of categories in categorical_features",
    "Categorical": "name columns of categories in categorical_features",
    "Enum": "name columns of categories in categorical_features",
}
# The same in the words of a library; {} is the name of the column.
_IN_PANDAS = {
    "Datetime": "X[{}].dt.hour",
    "Duration": "X[{}].dt.total_seconds()",
    "String": 'X[{}].astype("category")',
}
_IN_POLARS = {
    "Datetime": "pl.col({}).dt.hour()",
    "Date": "pl.col({}).dt.month()",
    "Time": "pl.col({}).dt.hour()",
    "Duration": "pl.col({}).dt.total_seconds()",
    "Struct": "X.unnest({})",
    "String": "pl.col({}).cast(pl.Categorical)",
}
_IN_ARROW = {
    "Datetime": "pyarrow.compute.hour(X[{}])",
    "Date": "pyarrow.compute.month(X[{}])",
    "Time": "pyarrow.compute.hour(X[{}])",
    "Duration": "X[{}].cast(pyarrow.int64())",
    "Struct": "X.flatten()",
    "String": "X[{}].dictionary_encode()",
}


class NamedRow(NamedTuple):
    """One row with names: a dict, or a Series of pandas."""

    names: list[Any]
    values: list[Any]

    @classmethod
    def read(cls, x: Any) -> NamedRow | None:
        """Return the names and values of x; None if it has no names."""
        if isinstance(x, np.ndarray | list | tuple) or not hasattr(x, "keys"):
            return None
        row = cls(list(x.keys()), [value for _, value in x.items()])
        if len(set(row.names)) < len(row.names):
            twice = next(name for name in row.names if row.names.count(name) > 1)
            raise ValueError(f"x has several values of {twice!r}; it must have one of each feature")
        return row

    def in_order(self, schema: Schema, estimator: Any) -> list[Any]:
        """Return the values in the order of the names of X's columns, or of positions."""
        given, names = dict(zip(self.names, self.values, strict=True)), schema.column_names
        if names is None and given.keys() != set(range(schema.n_columns)):
            raise ValueError(
                f"x has the names {list_names(self.names)}, but the forest was fitted without "
                "names: give it the values in the order of the columns"
            )
        wanted = list(range(schema.n_columns)) if names is None else names.tolist()
        needed = [name for j, name in enumerate(wanted) if j not in schema.dropped]
        absent = [name for name in needed if name not in given]
        unknown = [name for name in self.names if name not in set(wanted)]
        if not getattr(estimator, "strict", True):
            _refuse_strangers("x", absent, needed)
            note_unknown(estimator, "x", unknown)
        elif absent:
            raise ValueError(
                f"x lacks {list_names(absent)}; the forest was fitted with {list_names(wanted)}. "
                "Give None where a value is missing, or set strict=False"
            )
        elif unknown:
            raise ValueError(
                f"x has {list_names(unknown)}, which the forest does not know: it was fitted "
                f"with {list_names(wanted)}. To ignore other names, set strict=False"
            )
        return [given.get(name) for name in wanted]


def note_unknown(estimator: Any, argument: str, unknown: list[Any]) -> None:
    """Warn, once for each forest, that columns are ignored because they are unknown."""
    handle = estimator._handle
    if not unknown or handle.has_noted_unknown:
        return
    handle.has_noted_unknown = True
    warnings.warn(
        f"{argument} has {list_names(unknown)}, which the forest ignores: the first X had no such "
        "column",
        UnusedColumnWarning,
        stacklevel=caller_level(),
    )


def _refuse_strangers(argument: str, absent: list[Any], needed: list[Any]) -> None:
    """Refuse names of which the forest knows none: they are those of other data."""
    if needed and len(absent) == len(needed):
        raise ValueError(
            f"{argument} has none of the columns that the forest was fitted with: "
            f"{list_names(needed)}"
        )


@dataclass(frozen=True)
class Table:
    """A validated X: its columns of numbers, and those of categories."""

    numbers: Features | Sparse
    categories: list[Column]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.numbers.shape[0])

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.numbers.shape[1]) + len(self.categories)

    def blocks(self, start: int, end: int) -> Iterator[slice]:
        """Cut the rows from start to end into parts to be converted one at a time."""
        height = end - start
        if self.categories:
            height = ROWS_AT_ONCE
        elif issparse(self.numbers):
            height = BLOCK_BYTES // (4 * self.width)
        height = max(height, 1)
        for first in range(start, end, height):
            yield slice(first, min(first + height, end))


def validate(
    estimator: Any, X: Any, *y: Any, schema: Schema | None = None
) -> tuple[Schema, Table, Any]:
    """Check X, and y if given, as scikit-learn does.

    Parameters
    ----------
    estimator : estimator
        Its parameter `categorical_features` applies to the first X; later ones must fit its
        `n_features_in_` and `feature_names_in_`.
    X : array-like, data frame or sparse matrix
    *y : array-like
        The labels, if there are any. The first X has labels.
    schema : Schema, default=None
        The columns of the first X; None if this is the first.

    Returns
    -------
    schema : Schema
    table : Table
        Its numbers are a contiguous array of float32, or a sparse matrix in CSR format.
    labels : ndarray or None
    """
    requested = estimator.categorical_features
    if (frame := as_frame(X)) is not None:
        if schema is None:
            schema = _frame_schema(frame, requested)
        else:
            frame = _match_columns(estimator, frame, schema)
        if schema.columns is not None:
            frame = _expand_frame(frame, schema.columns)
        numbers: Any = _frame_rows(frame, schema.is_categorical)
        columns = _frame_categories(frame, schema)
    elif holds_any(X, requested) if schema is None else _needs_objects(schema):
        values = as_objects(X)
        _check(estimator, values, *y, is_first=schema is None, **_ANY_VALUES)
        schema = schema or _array_schema(values, requested)
        if schema.columns is not None:
            values = schema.columns.expand(values)
        if is_auto(requested):
            values = _without_nan(values, schema)
        table = split_columns(values, schema)
        numbers, columns = table.numbers, table.categories
    elif is_plain(X, 2) and X.size > 0 and all(_are_indices(labels, len(X)) for labels in y):
        # The other checks could find nothing more, and take longer than learning a hundred rows.
        if schema is not None:
            validate_data(estimator, X, reset=False, skip_check_array=True)
        schema = schema or _plain_schema(X.shape[1], requested)
        return schema, Table(as_rows(X), []), y[0] if y else None
    else:
        values, how = _as_numbers(X), CONVERSION
        if schema is None:
            _check_width(estimator, values)
        rows, labels = _check(estimator, values, *y, is_first=schema is None, **how)
        schema = schema or _plain_schema(rows.shape[1], requested)
        return schema, Table(rows, []), labels
    how = CONVERSION | {"ensure_min_features": 0 if columns else 1}
    with large_values_named(numbers):
        if y:
            rows, labels = check_X_y(numbers, *y, estimator=estimator, **how)
            return schema, Table(rows, columns), labels
        rows = check_array(numbers, estimator=estimator, input_name="X", **how)
        return schema, Table(rows, columns), None


class Given(NamedTuple):
    """The features of an X as they were given."""

    values: NDArray[Any]
    backend: str | None = None  # the library of X, if it is a frame
    index: Any = None  # of a frame of pandas


def read_given(estimator: Any, X: Any, schema: Schema) -> Given:
    """Return the values of the features of an X that is valid: numbers, dates as their parts."""
    if (frame := as_frame(X)) is not None:
        frame = _match_columns(estimator, frame, schema)
        if schema.columns is not None:
            frame = _expand_frame(frame, schema.columns)
        if schema.is_categorical.any():
            values = np.empty(frame.shape, dtype=object)
            for j, column in enumerate(frame.iter_columns()):
                values[:, j] = column.to_list()
        else:
            values = np.array([_column_values(column) for column in frame.iter_columns()]).T
        import narwhals.stable.v2 as nw  # noqa: PLC0415  # not needed for arrays

        return Given(values, frame.implementation.value, nw.maybe_get_index(frame))
    if _needs_objects(schema):
        values = as_objects(X)
        return Given(values if schema.columns is None else schema.columns.expand(values))
    return Given(_as_numbers(X).toarray() if issparse(X) else np.asarray(_as_numbers(X)))


def validate_first_row(estimator: Any, x: NamedRow, y: Any) -> tuple[Schema, Table, Any]:
    """Check a row with names, which is the first that a forest learns, and its label."""
    names = None
    if x.names != list(range(len(x.names))):  # positions
        if not all(isinstance(name, str) for name in x.names):
            raise TypeError(f"x has the names {list_names(x.names)}; all must be text")
        names = np.array(x.names, dtype=object)
    kinds = [kind_of([value]) for value in x.values]
    schema = Schema.read(kinds, estimator.categorical_features, names, lambda _: (1, 1))
    with argument_named("x"):
        values = as_objects([x.values])
        if schema.columns is not None:
            values = schema.columns.expand(values)
        table = split_columns(values, schema)
    return schema, table, validate_labels(table, y)


def validate_labels(table: Table, y: Any) -> NDArray[Any]:
    """Check labels for a table that is already validated."""
    how = CONVERSION | {"ensure_min_features": 0}
    with large_values_named(table.numbers):
        labels: NDArray[Any] = check_X_y(table.numbers, y, **how)[1]
    return labels


def validate_weights(sample_weight: ArrayLike, n_rows: int) -> Floats:
    """Return weights, one for each row, none below 0."""
    with argument_named("sample_weight"):
        weights: Floats = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; X has {n_rows} rows, so it must have shape "
            f"({n_rows},)"
        )
    if weights.min() < 0:
        raise ValueError(f"sample_weight holds {weights.min()}; weights must not be negative")
    return weights


def is_plain(values: Any, ndim: int) -> TypeGuard[NDArray[Any]]:
    """Return whether it is an array of numbers, and no subclass."""
    return type(values) is np.ndarray and values.ndim == ndim and values.dtype.kind in "fiu"


def as_rows(X: NDArray[Any]) -> Features:
    """Convert numbers to the core's type."""
    with np.errstate(over="ignore"):  # the core names what is too large
        return np.ascontiguousarray(X, dtype=np.float32)


def _check(estimator: Any, values: Any, *y: Any, is_first: bool, **how: Any) -> tuple[Any, Any]:
    """Check values, and y if given; later ones must have the columns of the first."""
    with large_values_named(values):
        if is_first:
            rows, labels = check_X_y(values, *y, estimator=estimator, **how)
            return rows, labels
        checked = validate_data(estimator, values, *y, reset=False, **how)
        return checked if y else (checked, None)


def _are_indices(labels: Any, n_rows: int) -> bool:
    return is_plain(labels, 1) and labels.dtype.kind in "iu" and len(labels) == n_rows


def lists_columns(requested: Any) -> bool:
    """Return whether `categorical_features` lists columns, so that arrays may hold any values."""
    return not (requested is None or isinstance(requested, str))


def holds_any(X: Any, requested: Any) -> bool:
    """Return whether an array or a list may hold other values than numbers."""
    if lists_columns(requested):
        return True
    if not is_auto(requested) or issparse(X) or isinstance(X, np.ma.MaskedArray):
        return False
    if isinstance(X, np.ndarray) and X.dtype.kind != "O":  # text in arrays of text may be a number
        return False
    values = as_objects(X) if isinstance(X, np.ndarray) or _as_array(X).dtype.kind in "OUS" else X
    if not (isinstance(values, np.ndarray) and values.ndim == 2):
        return False
    return any(kind_of(column.tolist()) != NUMBER for column in values.T)


def count_rows(estimator: Any, X: Any) -> int:
    """Return how many rows X has, before anything is known of its columns."""
    if as_frame(X) is not None or holds_any(X, estimator.categorical_features):
        return int(_num_samples(X))
    return int(check_array(_as_numbers(X), **CONVERSION).shape[0])


def first_row(x: Any, requested: Any) -> Any:
    """Return the first row that a forest learns, as a table for `validate`; None for numbers."""
    if (named := NamedRow.read(x)) is not None:
        return named
    if lists_columns(requested):
        return [x]
    is_array = isinstance(x, np.ndarray) and x.dtype.kind != "O"
    return [x] if not is_array and holds_any([list(x)], requested) else None


def _plain_schema(n_columns: int, requested: Any) -> Schema:
    return Schema.read([NUMBER] * n_columns, requested, None, lambda _: (0, 0))


def _array_schema(values: NDArray[Any], requested: Any) -> Schema:
    kinds = [NUMBER] * values.shape[1]
    if values.dtype.kind == "O":
        kinds = [kind_of(column.tolist()) for column in values.T]
    return Schema.read(kinds, requested, None, lambda j: _count(values[:, j].tolist()))


def _frame_schema(frame: nw.DataFrame[Any], requested: Any) -> Schema:
    names = _get_feature_names(frame.to_native())
    return Schema.read(
        frame_kinds(frame), requested, names, lambda j: _count(frame[:, j].to_list())
    )


def _count(values: list[Any]) -> tuple[int, int]:
    """Return how many values are different, and how many are known."""
    known = [value for value in values if not is_missing(value)]
    return len(set(known)), len(known)


def _needs_objects(schema: Schema) -> bool:
    return bool(schema.is_categorical.any()) or schema.columns is not None


def _without_nan(values: NDArray[Any], schema: Schema) -> NDArray[Any]:
    """Return an array with None where text is missing: frames that become arrays have NaN."""
    values = values.astype(object)
    for j, _ in schema.categorical_columns():
        values[:, j] = [None if is_missing(value) else value for value in values[:, j].tolist()]
    return values


def dense(rows: Features | Sparse) -> Features:
    """Return rows as an array: entries that a sparse matrix does not store are 0."""
    if isinstance(rows, np.ndarray):
        return rows
    array: Features = rows.toarray()
    return array


def _check_width(estimator: Any, values: Any) -> None:
    """Refuse a first X that is sparse and so wide that its trees would not fit into memory."""
    if not issparse(values) or values.ndim != 2 or values.shape[1] <= MOST_SPARSE_COLUMNS:
        return
    n_columns = values.shape[1]
    raise ValueError(
        f"X is sparse with {n_columns:,} columns; {type(estimator).__name__} takes at most "
        f"{MOST_SPARSE_COLUMNS:,} sparse ones, because each node of a tree stores the range of all "
        f"columns ({8 * n_columns / 1e3:,.0f} kB). Reduce them, such as by "
        "sklearn.feature_extraction.FeatureHasher(n_features=256) or "
        "sklearn.decomposition.TruncatedSVD(100), or pass X.toarray() to learn them all"
    )


def check_magnitudes(rows: Features | Sparse) -> None:
    """Refuse features that are infinite or too large, before the first part is learned."""
    values = rows.data if issparse(rows) else rows
    # fmax and fmin ignore NaN.
    largest = max(np.fmax.reduce(values, None, initial=0), -np.fmin.reduce(values, None, initial=0))
    if largest <= LARGEST_FEATURE:
        return
    if issparse(rows):
        raise ValueError("X holds values beyond ±2**100 (about 1e30): scale it down")
    i, j = np.argwhere(np.abs(values) > LARGEST_FEATURE)[0].tolist()
    raise ValueError(_too_large(i, j, values[i, j]))


def _too_large(i: int, j: int | str, value: float) -> str:
    return f"X[{i}, {j!r}] is {value}; features must be finite and lie within ±2**100 (about 1e30)"


def check_least_weight(weights: Floats | None) -> None:
    """Refuse weights that are too small, before the first part is learned."""
    if weights is None or not len(bad := weights[(weights > 0) & (weights < LEAST_WEIGHT)]):
        return
    raise ValueError(f"sample_weight holds {bad[0]}; weights must be 0, or at least 2**-100")


def _as_numbers(X: Any) -> Any:
    """Refuse what numpy would silently convert to numbers; masked values become NaN."""
    if issparse(X):
        return _without_duplicates(X)
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float32), np.nan)
    values = X if isinstance(X, np.ndarray) else _as_array(X)
    _refuse_others(values, "X")
    return values


def as_objects(X: Any) -> NDArray[Any]:
    """Return values of any types as they are; masked values become None."""
    if issparse(X):
        raise TypeError(
            "X is sparse; with columns in categorical_features it must be a data frame or an array"
        )
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(object), None)
    return X if isinstance(X, np.ndarray) else _as_array(X, dtype=object)


def split_columns(values: NDArray[Any], schema: Schema) -> Table:
    """Split an array of any values into numbers and categories."""
    numbers = _as_numbers(values.take(np.flatnonzero(~schema.is_categorical), axis=1))
    how = CONVERSION | {"ensure_min_features": 0}
    # In an array of floats only NaN can stand for a missing category.
    columns = [
        Column(name, len(values), partial(_list_array, values[:, j]), values.dtype.kind == "f")
        for j, name in schema.categorical_columns()
    ]
    return Table(check_array(numbers, input_name="X", **how), columns)


def _as_array(X: Any, dtype: Any = None) -> NDArray[Any]:
    try:
        array = np.asarray(X, dtype)
        if array.ndim == 1 and dtype is object and {type(row) for row in X} <= {list, tuple}:
            raise ValueError("inhomogeneous")
        return array
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError("X must be a table of numbers: its rows differ in length") from error


def _refuse_others(values: NDArray[Any], name: str) -> None:
    """Refuse what is not a number: numpy would parse text, and convert times to nanoseconds."""
    kind = values.dtype.kind
    if kind in "mMV":
        advice = _ADVICE[{"m": "Duration", "M": "Datetime", "V": "Struct"}[kind]]
        raise ValueError(f"{name} must hold numbers only, not {values.dtype}: {advice}")
    if kind not in "OSU":
        return
    text = next((value for value in values.flat if isinstance(value, str | bytes)), None)
    if text is not None:
        raise ValueError(
            f"{name} must hold numbers only: {str(text)!r} is text; {_ADVICE['String']}"
        )


def _without_duplicates(X: Sparse) -> Sparse:
    """Sum entries of the same place, so that their sum is checked; X itself does not change."""
    if X.format not in ("csr", "csc") or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


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


def _match_columns(estimator: Any, frame: nw.DataFrame[Any], schema: Schema) -> nw.DataFrame[Any]:
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
        _refuse_strangers("X", absent, kept)
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


def _expand_frame(frame: nw.DataFrame[Any], columns: GivenColumns) -> nw.DataFrame[Any]:
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


def _frame_rows(frame: nw.DataFrame[Any], is_categorical: NDArray[np.bool_]) -> NDArray[Any]:
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
        values = _column_values(column)
        with np.errstate(over="ignore"):
            rows[:, k] = values
        if (is_large := np.isinf(rows[:, k])).any():
            i = int(is_large.argmax())
            raise ValueError(_too_large(i, column.name, values[i]))
    return rows


def _frame_categories(frame: nw.DataFrame[Any], schema: Schema) -> list[Column]:
    # In pandas NaN is null; elsewhere null is None, and NaN a number.
    is_pandas = frame.implementation.is_pandas_like()
    return [
        Column(name, len(frame), partial(_list_series, frame[:, j]), is_pandas)
        for j, name in schema.categorical_columns()
    ]


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


def _list_array(values: NDArray[Any], part: slice) -> list[Any]:
    return list(values[part].tolist())


def _column_values(column: Series[Any]) -> NDArray[Any]:
    """Return numbers, with NaN for nulls of any type."""
    name, kind = f"X's column {column.name!r}", type(column.dtype).__name__
    if kind in _ADVICE:
        raise ValueError(
            f"{name} must hold numbers only, not {column.dtype}: {_advise(column, kind)}"
        )
    values: NDArray[Any] = column.to_numpy()
    _refuse_others(values, name)
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name}")
    if values.dtype.kind != "O":
        return values
    try:
        return np.where(column.is_null().to_numpy(), np.nan, values).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise type(error)(f"column {column.name!r}: {error}") from error


def _advise(column: Series[Any], kind: str) -> str:
    """Return what to do with a column of another kind, in the words of its library."""
    kind = "String" if kind in ("Categorical", "Enum") else kind
    library = column.implementation
    words = _IN_PANDAS if library.is_pandas_like() else _IN_ARROW
    words = _IN_POLARS if library.is_polars() else words
    if kind not in words:
        return _ADVICE[kind]
    join = "or convert them: " if kind == "String" else "for example "
    given: object = column.name  # any hashable in pandas
    name = f'"{given}"' if isinstance(given, str) else repr(given)
    return f"{_ADVICE[kind]}, {join}{words[kind].format(name)}"


@contextmanager
def large_values_named(X: Any) -> Iterator[None]:
    """Name the first value that is too large for float32, in scikit-learn's error about it."""
    try:
        yield
    except ValueError as error:
        if "X contains infinity" not in str(error) or not isinstance(X, np.ndarray) or X.ndim != 2:
            raise
        with np.errstate(invalid="ignore"):
            values = X.astype(np.float64)
            found = np.argwhere(np.abs(values) > LARGEST_FEATURE)
        i, j = found[0].tolist()
        raise ValueError(_too_large(i, j, values[i, j])) from error


def refuse_missing_labels(y: Any) -> Any:
    """Return labels; refuse those that are masked, None or pandas' NA, and name the first."""
    if y is None:
        return y
    if isinstance(y, np.ma.MaskedArray):
        is_absent = np.ma.getmaskarray(y).ravel()
        values: Any = np.array(["masked"] * len(is_absent))
        y = y.data
    elif (values := np.asarray(y)).dtype == object and values.ndim == 1:
        is_absent = np.array([v is None or is_pandas_na(v) for v in values], dtype=bool)
    else:
        return y
    if is_absent.any():
        row = int(is_absent.argmax())
        raise ValueError(
            f"y[{row}] is {values[row]}; each row needs a label: drop the rows that have none"
        )
    return y


@contextmanager
def argument_named(argument: str) -> Iterator[None]:
    """Name the argument in numpy's errors of conversion."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not re.search("could not convert|real number|array element", str(error)):
            raise
        raise numbers_only(argument, error) from error


def numbers_only(argument: str, error: Exception) -> Exception:
    """Return an error that names the argument."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{argument} must hold numbers only: {error}")
