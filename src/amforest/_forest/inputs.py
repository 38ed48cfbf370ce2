"""Validation of X: arrays, lists, data frames and sparse matrices become a `Table`.

A missing number is NaN, a missing category None. A sparse matrix stays sparse until its rows are
needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import (
    _get_feature_names,
    _num_samples,
    check_array,
    check_X_y,
    validate_data,
)

from amforest._forest.categories import ROWS_AT_ONCE, Column, select_columns
from amforest._forest.limits import LARGEST_FEATURE, LEAST_WEIGHT
from amforest._forest.losses import Floats

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.series import Series

Features = NDArray[np.float32]
Sparse: TypeAlias = Any  # scipy's csr_matrix or csr_array, which have no types

MOST_LISTED = 8  # names in a message
BLOCK_BYTES = 2**22  # of dense memory for the rows of a sparse matrix
CONVERSION: dict[str, Any] = {
    "dtype": np.float32,
    "order": "C",
    "ensure_all_finite": "allow-nan",
    "accept_sparse": "csr",
}
_ANY_VALUES: dict[str, Any] = {"dtype": None, "ensure_all_finite": False}
_ADVICE = {
    "Datetime": "convert times to numbers first, such as seconds since a fixed day",
    "Date": "convert dates to numbers first, such as days since a fixed day",
    "Time": "convert times to numbers first, such as seconds since midnight",
    "Duration": "convert durations to numbers first, such as seconds",
    "Struct": "make a column of each field first",
    "String": "name columns of categories in categorical_features",
    "Categorical": "name columns of categories in categorical_features",
    "Enum": "name columns of categories in categorical_features",
}


@dataclass(frozen=True, eq=False)
class Schema:
    """The columns of X: which hold categories, and their names if they have names."""

    is_categorical: NDArray[np.bool_]
    names: NDArray[Any] | None = None

    @classmethod
    def read(cls, from_dtype: NDArray[np.bool_], requested: Any, names: Any = None) -> Schema:
        """Apply the parameter `categorical_features` to the columns of the first X."""
        return cls(select_columns(requested, names, from_dtype), names)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.is_categorical)

    def categorical_columns(self) -> Iterator[tuple[int, str]]:
        """Yield the indices of the columns that hold categories, and their names in errors."""
        for j in np.flatnonzero(self.is_categorical).tolist():
            yield j, f"X's column {j if self.names is None else self.names[j]!r}"


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

    def in_order(self, names: NDArray[Any] | None, n_features: int) -> list[Any]:
        """Return the values in the order of the names of X's columns, or of positions."""
        given = dict(zip(self.names, self.values, strict=True))
        if names is None and given.keys() != set(range(n_features)):
            raise ValueError(
                f"x has the names {_listed(self.names)}, but the forest was fitted without names: "
                "give it the values in the order of the columns"
            )
        wanted = list(range(n_features)) if names is None else names.tolist()
        if absent := [name for name in wanted if name not in given]:
            raise ValueError(
                f"x lacks {_listed(absent)}; the forest was fitted with {_listed(wanted)}. Give "
                "None where a value is missing"
            )
        if unknown := given.keys() - set(wanted):
            unknown_names = [name for name in self.names if name in unknown]
            raise ValueError(
                f"x has {_listed(unknown_names)}, which the forest does not know: it was fitted "
                f"with {_listed(wanted)}"
            )
        return [given[name] for name in wanted]


def _listed(names: list[Any]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(map(repr, names[:MOST_LISTED])) + more


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
        native = frame.to_native()
        if schema is None:
            kinds = [type(kind).__name__ for kind in frame.schema.values()]
            is_category = np.isin(kinds, ("Categorical", "Enum"))
            schema = Schema.read(is_category, requested, _get_feature_names(native))
        else:
            _check_columns(estimator, native)
        numbers: Any = _frame_rows(frame, schema.is_categorical)
        columns = _frame_categories(frame, schema)
    elif lists_columns(requested) if schema is None else schema.is_categorical.any():
        values = as_objects(X)
        _check(estimator, values, *y, is_first=schema is None, **_ANY_VALUES)
        if schema is None:
            schema = Schema.read(np.zeros(values.shape[1], dtype=bool), requested)
        table = split_columns(values, schema)
        numbers, columns = table.numbers, table.categories
    elif is_plain(X, 2) and X.size > 0 and all(_are_indices(labels, len(X)) for labels in y):
        # The other checks could find nothing more, and take longer than learning a hundred rows.
        if schema is not None:
            validate_data(estimator, X, reset=False, skip_check_array=True)
        schema = schema or Schema.read(np.zeros(X.shape[1], dtype=bool), requested)
        return schema, Table(as_rows(X), []), y[0] if y else None
    else:
        values, how = _as_numbers(X), CONVERSION
        rows, labels = _check(estimator, values, *y, is_first=schema is None, **how)
        schema = schema or Schema.read(np.zeros(rows.shape[1], dtype=bool), requested)
        return schema, Table(rows, []), labels
    how = CONVERSION | {"ensure_min_features": 0 if columns else 1}
    if y:
        rows, labels = check_X_y(numbers, *y, estimator=estimator, **how)
        return schema, Table(rows, columns), labels
    rows = check_array(numbers, estimator=estimator, input_name="X", **how)
    return schema, Table(rows, columns), None


def validate_first_row(estimator: Any, x: NamedRow, y: Any) -> tuple[Schema, Table, Any]:
    """Check a row with names, which is the first that a forest learns, and its label."""
    names = None
    if x.names != list(range(len(x.names))):  # positions
        if not all(isinstance(name, str) for name in x.names):
            raise TypeError(f"x has the names {_listed(x.names)}; all must be text")
        names = np.array(x.names, dtype=object)
    schema = Schema.read(np.zeros(len(x.names), dtype=bool), estimator.categorical_features, names)
    with argument_named("x"):
        table = split_columns(as_objects([x.values]), schema)
    return schema, table, validate_labels(table, y)


def validate_labels(table: Table, y: Any) -> NDArray[Any]:
    """Check labels for a table that is already validated."""
    how = CONVERSION | {"ensure_min_features": 0}
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


def count_rows(estimator: Any, X: Any) -> int:
    """Return how many rows X has, before anything is known of its columns."""
    if as_frame(X) is not None or lists_columns(estimator.categorical_features):
        return int(_num_samples(X))
    return int(check_array(_as_numbers(X), **CONVERSION).shape[0])


def dense(rows: Features | Sparse) -> Features:
    """Return rows as an array: entries that a sparse matrix does not store are 0."""
    if isinstance(rows, np.ndarray):
        return rows
    array: Features = rows.toarray()
    return array


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
    raise ValueError(
        f"X[{i}, {j}] is {values[i, j]}; features must be finite and lie within ±2**100 (about "
        "1e30)"
    )


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


def _check_columns(estimator: Any, X: Any) -> None:
    """Check the names and the number of the columns."""
    try:
        validate_data(estimator, X, reset=False, skip_check_array=True)
    except ValueError as error:
        if "must be in the same order" not in str(error):
            raise
        # scikit-learn's estimator checks require that other orders are refused.
        raise ValueError(f"{error}Select the columns by feature_names_in_ first.") from error


def _frame_rows(frame: nw.DataFrame[Any], is_categorical: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the numbers of a frame."""
    if is_categorical.all():
        return np.empty((len(frame), 0), dtype=np.float32)
    if is_categorical.any():
        frame = frame.select(np.array(frame.columns)[~is_categorical].tolist())
    kinds = set(frame.schema.values())
    if len(kinds) == 1 and kinds.pop().is_float():
        values = frame.to_numpy()  # all at once: each column costs 0.1 ms
        if values.dtype != object:  # pandas' NA
            return values
    rows = np.empty(frame.shape, dtype=np.float32)
    for k, column in enumerate(frame.iter_columns()):
        rows[:, k] = _column_values(column)
    return rows


def _frame_categories(frame: nw.DataFrame[Any], schema: Schema) -> list[Column]:
    # In pandas NaN is null; elsewhere null is None, and NaN a number.
    is_pandas = frame.implementation.is_pandas_like()
    return [
        Column(name, len(frame), partial(_list_series, frame[:, j]), is_pandas)
        for j, name in schema.categorical_columns()
    ]


def _list_series(column: Series[Any], part: slice) -> list[Any]:
    return column[part].to_list()


def _list_array(values: NDArray[Any], part: slice) -> list[Any]:
    return list(values[part].tolist())


def _column_values(column: Series[Any]) -> NDArray[Any]:
    """Return numbers, with NaN for nulls of any type."""
    name, kind = f"X's column {column.name!r}", type(column.dtype).__name__
    if kind in _ADVICE:
        raise ValueError(f"{name} must hold numbers only, not {column.dtype}: {_ADVICE[kind]}")
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
