"""Validation of X: arrays, lists, data frames and sparse matrices become a `Table`.

A missing number is NaN, a missing category None. A sparse matrix stays sparse until its rows are
needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

from amforest._forest.categories import ROWS_AT_ONCE, Column
from amforest._forest.column_kinds import (
    NUMBER,
    Schema,
    frame_kinds,
    is_auto,
    is_missing,
    kind_of,
    list_names,
)
from amforest._forest.data_frames import (
    as_frame,
    column_values,
    expand_frame,
    frame_categories,
    frame_rows,
    match_columns,
)
from amforest._forest.input_errors import (
    argument_named,
    large_values_named,
    refuse_others,
    too_large,
)
from amforest._forest.limits import LARGEST_FEATURE, LEAST_WEIGHT
from amforest._forest.losses import Floats
from amforest._forest.named_rows import NamedRow

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

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
            frame = match_columns(estimator, frame, schema)
        if schema.columns is not None:
            frame = expand_frame(frame, schema.columns)
        numbers: Any = frame_rows(frame, schema.is_categorical)
        columns = frame_categories(frame, schema)
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
    with large_values_named(numbers, schema.number_columns):
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
        frame = match_columns(estimator, frame, schema)
        if schema.columns is not None:
            frame = expand_frame(frame, schema.columns)
        if schema.is_categorical.any():
            values = np.empty(frame.shape, dtype=object)
            for j, column in enumerate(frame.iter_columns()):
                values[:, j] = column.to_list()
        else:
            values = np.array([column_values(column) for column in frame.iter_columns()]).T
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
    return schema, table, validate_labels(table, y, schema.number_columns)


def validate_labels(table: Table, y: Any, columns: Sequence[Any] | None = None) -> NDArray[Any]:
    """Check labels for a table that is already validated, and the size of its numbers."""
    how = CONVERSION | {"ensure_min_features": 0}
    with large_values_named(table.numbers, columns):
        labels: NDArray[Any] = check_X_y(table.numbers, y, **how)[1]
    return labels


def validate_weights(sample_weight: ArrayLike, n_rows: int) -> Floats:
    """Return weights, one for each row, none below 0."""
    with argument_named("sample_weight"):
        weights: Floats = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, ensure_all_finite=False
        )
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; X has {n_rows} rows, so it must have shape "
            f"({n_rows},)"
        )
    if not (is_finite := np.isfinite(weights)).all():
        row = int(is_finite.argmin())
        raise ValueError(
            f"sample_weight[{row}] is {weights[row]}; weights must be finite and not negative"
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


def check_magnitudes(rows: Features | Sparse, columns: Sequence[Any] | None = None) -> None:
    """Refuse features that are infinite or too large, before the first part is learned.

    `columns` are the names of the columns; None means their indices.
    """
    values = rows.data if issparse(rows) else rows
    # fmax and fmin ignore NaN.
    largest = max(np.fmax.reduce(values, None, initial=0), -np.fmin.reduce(values, None, initial=0))
    if largest <= LARGEST_FEATURE:
        return
    if issparse(rows):
        raise ValueError("X holds values beyond ±2**100 (about 1e30): scale it down")
    i, j = np.argwhere(np.abs(values) > LARGEST_FEATURE)[0].tolist()
    raise ValueError(too_large(i, j if columns is None else columns[j], values[i, j]))


def check_least_weight(weights: Floats | None) -> None:
    """Refuse weights that are too small, before the first part is learned."""
    if weights is None or not len(bad := weights[(weights > 0) & (weights < LEAST_WEIGHT)]):
        return
    raise ValueError(f"sample_weight holds {bad[0]}; weights must be 0, or at least 2**-100")


def _as_numbers(X: Any, columns: Sequence[Any] | None = None) -> Any:
    """Refuse what numpy would silently convert to numbers; masked values become NaN.

    `columns` are the names of the columns; None means their indices.
    """
    if issparse(X):
        return _without_duplicates(X)
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float32), np.nan)
    values = X if isinstance(X, np.ndarray) else _as_array(X)
    if values is not X and values.dtype.kind in "SU":  # numpy has written numbers as text, too
        values = as_objects(X)
    refuse_others(values, "X", columns)
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
    names = schema.number_columns
    numbers = _as_numbers(values.take(np.flatnonzero(~schema.is_categorical), axis=1), names)
    how = CONVERSION | {"ensure_min_features": 0}
    columns = [_array_column(name, values[:, j]) for j, name in schema.categorical_columns()]
    with large_values_named(numbers, names):
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
        if len(X) and len({len(row) if hasattr(row, "__len__") else -1 for row in X}) == 1:
            refuse_others(as_cells(X), "X")
        raise ValueError("X must be a table of numbers: its rows differ in length") from error


def as_cells(X: Any) -> NDArray[Any]:
    """Return rows of one length as an array of their values, lists included."""
    cells = np.empty((len(X), len(X[0])), dtype=object)
    for i, row in enumerate(X):
        for j, value in enumerate(row):
            cells[i, j] = value  # as a whole, a row of lists would be an error
    return cells


def _without_duplicates(X: Sparse) -> Sparse:
    """Sum entries of the same place, so that their sum is checked; X itself does not change."""
    if X.format not in ("csr", "csc") or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def _array_column(name: str, values: NDArray[Any]) -> Column:
    kind = values.dtype.kind
    numbers = values if kind in "biuf" else None
    # In an array of floats only NaN can stand for a missing category.
    return Column(name, len(values), partial(_list_array, values), kind == "f", numbers)


def _list_array(values: NDArray[Any], part: slice) -> list[Any]:
    return list(values[part].tolist())
