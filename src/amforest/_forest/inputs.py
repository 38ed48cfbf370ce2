"""What users call X, as rows of float32: arrays, lists, data frames, sparse matrices.

A number that is missing is NaN, a category None. A sparse matrix stays sparse until its rows are
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _num_samples, check_array, check_X_y, validate_data

from amforest._forest.categories import ROWS_AT_ONCE, Column, find_columns

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.series import Series

Features = NDArray[np.float32]
Sparse: TypeAlias = Any  # scipy's csr_matrix or csr_array, whose types are not known

BLOCK_BYTES = 2**22  # of dense memory for the rows of a sparse matrix
CONVERSION: dict[str, Any] = {
    "dtype": np.float32,
    "order": "C",
    "ensure_all_finite": "allow-nan",
    "accept_sparse": "csr",
}
_ADVICE = {
    "Datetime": "turn times into numbers first, such as seconds since a fixed day",
    "Date": "turn dates into numbers first, such as days since a fixed one",
    "Time": "turn times into numbers first, such as seconds since midnight",
    "Duration": "turn durations into numbers first, such as seconds",
    "Struct": "make a column of each field first",
    "String": "name columns of categories in categorical_features",
    "Categorical": "name columns of categories in categorical_features",
    "Enum": "name columns of categories in categorical_features",
}


@dataclass(frozen=True)
class Table:
    """X, checked: its columns of numbers, and those of categories."""

    numbers: Features | Sparse
    categories: list[Column]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.numbers.shape[0])

    @property
    def width(self) -> int:
        """How many columns there are."""
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


def validated(estimator: Any, X: Any, *y: Any, reset: bool) -> tuple[Any, ...]:
    """Check X, and y if given, as scikit-learn does.

    Parameters
    ----------
    estimator : estimator
        Its `n_features_in_`, `feature_names_in_` and `is_categorical_` are set, or X is held to
        them.
    X : array-like, data frame or sparse matrix
    *y : array-like
        The labels, if there are any.
    reset : bool
        Whether X is the first that the estimator sees.

    Returns
    -------
    (table,) or (table, labels)
        The numbers of the table are a contiguous array of float32, or a sparse matrix in CSR
        format.
    """
    if (frame := as_frame(X)) is not None:
        _check_columns(estimator, frame.to_native(), *y, reset=reset)
        kinds = [type(kind).__name__ for kind in frame.schema.values()]
        _find_categorical(estimator, np.isin(kinds, ("Categorical", "Enum")), reset=reset)
        numbers: Any = _frame_rows(frame, estimator.is_categorical_)
        columns = _frame_categories(frame, estimator)
    elif expects_categories(estimator, reset=reset):
        values = as_objects(X)
        any_values: dict[str, Any] = {"dtype": None, "ensure_all_finite": False}
        validate_data(estimator, values, *y, reset=reset, **any_values)
        _find_categorical(estimator, np.zeros(estimator.n_features_in_, dtype=bool), reset=reset)
        table = separated(estimator, values)
        numbers, columns = table.numbers, table.categories
    elif is_plain(X, 2) and X.size > 0 and all(_are_indices(labels, len(X)) for labels in y):
        # All that the other checks could find; they take longer than learning a hundred rows.
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        _find_categorical(estimator, np.zeros(X.shape[1], dtype=bool), reset=reset)
        return Table(as_rows(X), []), *y
    else:
        checked = validate_data(estimator, _as_numbers(X), *y, reset=reset, **CONVERSION)
        _find_categorical(estimator, np.zeros(estimator.n_features_in_, dtype=bool), reset=reset)
        rows, *labels = checked if y else (checked,)
        return Table(rows, []), *labels
    how = CONVERSION | {"ensure_min_features": 0 if columns else 1}
    if y:
        rows, labels = check_X_y(numbers, *y, estimator=estimator, **how)
        return Table(rows, columns), labels
    rows = check_array(numbers, estimator=estimator, input_name="X", **how)
    return (Table(rows, columns),)


def is_plain(values: Any, ndim: int) -> TypeGuard[NDArray[Any]]:
    """Tell whether it is an array of numbers, and no subclass."""
    return type(values) is np.ndarray and values.ndim == ndim and values.dtype.kind in "fiu"


def as_rows(X: NDArray[Any]) -> Features:
    """Convert numbers to what the core takes."""
    with np.errstate(over="ignore"):  # the core names what is too large
        return np.ascontiguousarray(X, dtype=np.float32)


def _are_indices(labels: Any, n_rows: int) -> bool:
    return is_plain(labels, 1) and labels.dtype.kind in "iu" and len(labels) == n_rows


def _find_categorical(estimator: Any, from_dtype: NDArray[np.bool_], *, reset: bool) -> None:
    if reset:
        names = getattr(estimator, "feature_names_in_", None)
        wish = estimator.categorical_features
        estimator.is_categorical_ = find_columns(wish, names, from_dtype)


def expects_categories(estimator: Any, *, reset: bool) -> bool:
    """Tell whether arrays may hold more than numbers."""
    if not reset:
        return bool(estimator.is_categorical_.any())
    wish = estimator.categorical_features
    return not (wish is None or isinstance(wish, str))


def count_rows(estimator: Any, X: Any) -> int:
    """Return how many rows X has, before anything is known of its columns."""
    if as_frame(X) is not None or expects_categories(estimator, reset=True):
        return int(_num_samples(X))
    return int(check_array(_as_numbers(X), **CONVERSION).shape[0])


def dense(rows: Features | Sparse) -> Features:
    """Return rows as an array: entries that a sparse matrix does not store are 0."""
    if isinstance(rows, np.ndarray):
        return rows
    array: Features = rows.toarray()
    return array


def check_size(rows: Features | Sparse) -> None:
    """Refuse features that are infinite, or whose range extensions could overflow in float32."""
    values = rows.data if issparse(rows) else rows
    # fmax and fmin pass NaN by.
    largest = max(np.fmax.reduce(values, None, initial=0), -np.fmin.reduce(values, None, initial=0))
    if largest <= 2.0**100:
        return
    if issparse(rows):
        raise ValueError("X holds values beyond ±2**100 (about 1e30): scale it down")
    i, j = np.argwhere(np.abs(values) > 2.0**100)[0].tolist()
    raise ValueError(
        f"X[{i}, {j}] is {values[i, j]}; features must be finite and lie within ±2**100 (about "
        "1e30)"
    )


def _as_numbers(X: Any) -> Any:
    """Refuse what numpy would turn into numbers without being asked; NaN for what is masked."""
    if issparse(X):
        return _without_duplicates(X)
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float32), np.nan)
    values = X if isinstance(X, np.ndarray) else _as_array(X)
    _refuse_others(values, "X")
    return values


def as_objects(X: Any) -> NDArray[Any]:
    """Return values of any kinds as they are; None for what is masked."""
    if issparse(X):
        raise TypeError("X is sparse, which categorical_features cannot be; give a frame or array")
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(object), None)
    return X if isinstance(X, np.ndarray) else _as_array(X, dtype=object)


def separated(estimator: Any, values: NDArray[Any]) -> Table:
    """Return an array of any values as a table."""
    numbers = _as_numbers(values.take(np.flatnonzero(~estimator.is_categorical_), axis=1))
    how = CONVERSION | {"ensure_min_features": 0}
    # Floats have nothing else for what is missing.
    columns = [
        Column(name, len(values), partial(_list_array, values[:, j]), values.dtype.kind == "f")
        for j, name in _categorical_columns(estimator)
    ]
    return Table(check_array(numbers, input_name="X", **how), columns)


def _categorical_columns(estimator: Any) -> Iterator[tuple[int, str]]:
    """Yield the numbers of the columns that hold categories, and how errors call them."""
    names = getattr(estimator, "feature_names_in_", None)
    for j in np.flatnonzero(estimator.is_categorical_).tolist():
        yield j, f"X's column {j if names is None else names[j]!r}"


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
    """Refuse what is not a number; numpy would parse text, and count nanoseconds."""
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
    """Add up entries of the same place, before their sum is checked; X itself stays as it is."""
    if X.format not in ("csr", "csc") or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Wrap a data frame of any library; None if X is none."""
    if isinstance(X, np.ndarray | list | tuple) or issparse(X):
        return None
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # arrays do without it

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


def _check_columns(estimator: Any, X: Any, *y: Any, reset: bool) -> None:
    """Set or check the names and the number of the columns."""
    try:
        validate_data(estimator, X, *y, reset=reset, skip_check_array=True)
    except ValueError as error:
        if "must be in the same order" not in str(error):
            raise
        # scikit-learn's suite demands that other orders are refused.
        raise ValueError(f"{error}Select the columns by feature_names_in_ first.") from error


def _frame_rows(frame: nw.DataFrame[Any], is_categorical: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the numbers of a frame."""
    if is_categorical.all():
        return np.empty((len(frame), 0), dtype=np.float32)
    if is_categorical.any():
        frame = frame.select(np.array(frame.columns)[~is_categorical].tolist())
    kinds = set(frame.schema.values())
    if len(kinds) == 1 and kinds.pop().is_float():
        values = frame.to_numpy()  # at once: columns cost 0.1 ms each
        if values.dtype != object:  # pandas' NA
            return values
    rows = np.empty(frame.shape, dtype=np.float32)
    for k, column in enumerate(frame.iter_columns()):
        rows[:, k] = _column_values(column)
    return rows


def _frame_categories(frame: nw.DataFrame[Any], estimator: Any) -> list[Column]:
    # In pandas NaN is null; elsewhere null is None, and NaN a number.
    is_pandas = frame.implementation.is_pandas_like()
    return [
        Column(name, len(frame), partial(_list_series, frame[:, j]), is_pandas)
        for j, name in _categorical_columns(estimator)
    ]


def _list_series(column: Series[Any], part: slice) -> list[Any]:
    return column[part].to_list()


def _list_array(values: NDArray[Any], part: slice) -> list[Any]:
    return list(values[part].tolist())


def _column_values(column: Series[Any]) -> NDArray[Any]:
    """Return numbers, with NaN for nulls of all kinds."""
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
