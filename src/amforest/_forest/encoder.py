"""X to the rows of the core: codes of categories come first, then the numbers.

`Encoder` encodes tables, `NamedColumns` the dicts and frames of river. Both are immutable.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan, nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amforest._forest.categories import (
    HASHABLE,
    UNKNOWN,
    Categories,
    Codes,
    Column,
    find_simple,
    refuse_nan,
)
from amforest._forest.class_labels import Encoded
from amforest._forest.column_kinds import Schema, is_missing, splits_dates
from amforest._forest.input_errors import (
    argument_named,
    integer_too_large,
    name_column,
    numbers_only,
    refuse_others,
)
from amforest._forest.inputs import (
    Features,
    Table,
    as_cells,
    as_objects,
    dense,
    is_plain,
    split_columns,
    validate,
    validate_first_row,
)
from amforest._forest.losses import Floats
from amforest._forest.named_dates import split_frame, split_row
from amforest._forest.named_rows import NamedRow

if TYPE_CHECKING:
    import pandas as pd

NamedValues = Mapping[Hashable, Any]
Requested = Collection[Hashable] | str | None  # river's parameter categorical_features
Rows = TypeVar("Rows")  # a dict or a frame
_NUMBERS = frozenset({float, int, bool})


@dataclass(frozen=True, eq=False)
class Encoder:
    """Encodes X: the columns of the first X, and the categories learned so far."""

    schema: Schema
    categories: Categories | None = None  # None: no column of X holds categories
    named: NamedColumns | None = None  # of river, whose rows arrive encoded

    @classmethod
    def fit(cls, estimator: Any, X: ArrayLike | NamedRow, y: Any) -> tuple[Encoder, Table, Any]:
        """Return an encoder without categories, X as a table, and the labels."""
        with argument_named("X"), np.errstate(over="ignore"):
            if isinstance(X, NamedRow):
                schema, table, labels = validate_first_row(estimator, X, y)
            else:
                schema, table, labels = validate(estimator, X, y)
        schema.warn_of_dropped()
        n_categorical = len(table.categories)
        categories = Categories().widen(n_categorical) if n_categorical else None
        return cls(schema, categories), table, labels

    @classmethod
    def of_named(cls, columns: NamedColumns) -> Encoder:
        """Return the encoder of rows that river's columns have encoded: all are numbers to it."""
        return cls(Schema(np.zeros(columns.width, dtype=bool)), named=columns)

    @property
    def layout(self) -> tuple[int, Categories]:
        """How many numbers the rows have, and the categories that come before them."""
        if self.named is not None:
            return self.named.n_numbers, self.named.categories
        categories = Categories() if self.categories is None else self.categories
        return self.schema.n_features - len(categories), categories

    def columns(self) -> NDArray[np.intp]:
        """Return the column of each feature in the rows of the core."""
        is_categorical = self.schema.is_categorical
        # Both are in the order of the features.
        order = np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])
        return np.argsort(order)

    def name_column(self, error: ValueError) -> None:
        """Write the name of a column in place of its index in an error of the core."""
        if self.named is not None or self.categories is not None or self.schema.names is not None:
            name_column(error, self.core_columns)

    @contextmanager
    def columns_named(self) -> Iterator[None]:
        """Name columns in errors of the core."""
        try:
            yield
        except ValueError as error:
            self.name_column(error)
            raise

    def number_names(self) -> list[str]:
        """Return the names of the columns of numbers, as a message shows them."""
        if self.named is not None:
            return [repr(name) for name in self.named.numbers]
        columns = self.schema.number_columns
        return [f"column {j}" if self.schema.names is None else repr(j) for j in columns]

    @property
    def core_columns(self) -> list[Any]:
        """The names of the columns of the core's rows, or else the columns of X they are from."""
        if self.named is not None:
            return list(self.named.of)
        # Values of categories are not in the core's messages: their codes are valid.
        return [None] * self.schema.is_categorical.sum() + self.schema.number_columns

    # Many rows

    def accepts(self, X: ArrayLike | Table) -> TypeGuard[NDArray[Any]]:
        """Return whether X is a plain array of the right width that needs only the core's checks.

        scikit-learn's checks take a hundred times as long as learning a row.
        """
        if self.categories is not None or self.schema.names is not None or not is_plain(X, 2):
            return False
        if self.schema.columns is not None:
            return False
        return X.shape[1] == self.schema.n_features and len(X) > 0

    def validate(self, estimator: Any, X: ArrayLike, *y: Any) -> tuple[Table, Any]:
        """Return X as a table, and the labels if y is given."""
        with argument_named("X"), np.errstate(over="ignore"):
            _, table, labels = validate(estimator, X, *y, schema=self.schema)
        return table, labels

    def extend(self, table: Table, learned: NDArray[np.intp], limit: int | None) -> Encoder:
        """Add the new categories in the rows of a table that are learned, up to a limit."""
        if self.categories is None:
            return self
        rows = None if len(learned) == table.n_rows else learned
        categories = self.categories.extend(table.categories, limit, rows)
        return self if categories is self.categories else replace(self, categories=categories)

    def rows(self, table: Table, part: slice) -> Features:
        """Encode some rows of a table."""
        numbers = dense(table.numbers[part])
        if self.categories is None:
            return numbers
        return np.hstack([self.categories.encode(table.categories, part), numbers])

    # One row

    def row(self, x: Sequence[Any] | NDArray[Any], estimator: Any = None) -> Floats:
        """Encode one row; new categories are UNKNOWN. The core checks its width and values.

        The parameter `strict` of the estimator says which names a row may have.
        """
        x = self._features(x, estimator)
        if self.categories is None:
            return row_of_numbers(x)
        codes_and_numbers = self._encode_simple(x, self.categories)
        if codes_and_numbers is not None:
            return np.frombuffer(array("d", codes_and_numbers))
        row: Floats = self.rows(self._table(x), slice(None))[0].astype(np.float64)
        return row

    def has_unknown(self, row: Floats) -> bool:
        """Return whether an encoded row has a category that was never learned."""
        return self.categories is not None and UNKNOWN in row[: len(self.categories)]

    def row_table(self, x: Sequence[Any] | NDArray[Any], estimator: Any = None) -> Table:
        """Return one row as a table."""
        return self._table(self._features(x, estimator))

    def _table(self, x: Sequence[Any] | NDArray[Any]) -> Table:
        if self.categories is None:
            return Table(row_of_numbers(x)[None].astype(np.float32), [])
        self._check_width(x, self.schema.n_features)
        values = as_objects(x[None] if isinstance(x, np.ndarray) else [list(x)])
        with argument_named("x"):
            return split_columns(values, self.schema)

    def _features(self, x: Any, estimator: Any) -> Any:
        """Return the features of a row; values with names in the order of X's columns."""
        schema = self.schema
        if (named := NamedRow.read(x)) is not None:
            x = named.in_order(schema, estimator)
        if schema.columns is not None:
            self._check_width(x, schema.n_columns)
            values = np.empty((1, len(x)), dtype=object)
            values[0] = list(x)
            x = schema.columns.expand(values)[0].tolist()
        if named is not None and self.categories is None:
            return [nan if value is None else value for value in x]
        if named is not None:  # a Series has NaN where text is missing
            return [
                None if is_category and is_missing(value) else value
                for value, is_category in zip(x, schema.is_categorical.tolist(), strict=True)
            ]
        return x

    def _encode_simple(self, x: Any, categories: Categories) -> list[Any] | None:
        """Encode a row of Python's own types; None if it has others, or a new category."""
        self._check_width(x, self.schema.n_features)
        values = x.tolist() if isinstance(x, np.ndarray) else list(x)
        known = iter(categories.codes)
        codes: list[Any] = []
        numbers: list[Any] = []
        for value, is_category in zip(values, self.schema.is_categorical.tolist(), strict=True):
            if type(value) not in (HASHABLE if is_category else _NUMBERS):
                return None
            if is_category:
                codes.append(find_simple(next(known), value))
            else:
                numbers.append(value)
        return None if UNKNOWN in codes else codes + numbers

    def _check_width(self, x: Sequence[Any] | NDArray[Any], expected: int) -> None:
        if len(x) != expected:
            raise ValueError(f"x has {len(x)} features; the forest was built for {expected}")


def row_of_numbers(x: Sequence[float] | NDArray[Any]) -> Floats:
    """Convert one row of numbers."""
    try:
        row = np.ascontiguousarray(x, dtype=np.float64)
    except OverflowError as error:
        raise integer_too_large("x", error) from error
    except (TypeError, ValueError) as error:
        refuse_others(as_cells([x])[0], "x")
        raise numbers_only("x", error) from error
    if row.ndim != 1:
        raise ValueError(f"x has {row.ndim} dimensions; one row must have 1")
    return row


class Part(NamedTuple):
    """Rows to be learned at once; `new` holds the label that the first of them adds, if any."""

    new: list[Any]
    rows: Features
    labels: NDArray[Any]
    weights: Floats | None

    def cut(self, start: int, end: int | None) -> Part:
        """Return some of the rows."""
        part = slice(start, end)
        weights = None if self.weights is None else self.weights[part]
        return Part(self.new if start == 0 else [], self.rows[part], self.labels[part], weights)


@dataclass(frozen=True)
class Batch:
    """Validated rows. A part begins where a label appears for the first time."""

    encoder: Encoder
    table: Table
    encoded: Encoded
    weights: Floats | None

    def slices(self) -> list[slice]:
        """Return the rows of each part."""
        ends = [0, *self.encoded.new, self.table.n_rows]
        return [part for start, end in pairwise(ends) for part in self.table.blocks(start, end)]

    def parts(self) -> Iterator[Part]:
        """Encode the rows part by part."""
        new = self.encoded.new
        for part in self.slices():
            yield Part(
                [new[part.start]] if part.start in new else [],
                self.encoder.rows(self.table, part),
                self.encoded.labels[part],
                None if self.weights is None else self.weights[part],
            )


class NamedColumns:
    """The column of each named feature in a row: categorical features first, then numbers."""

    def __init__(
        self, numbers: Iterable[Hashable] = (), categories: Mapping[Hashable, Codes] | None = None
    ) -> None:
        self.numbers = list(numbers)
        self.categorical = list(categories or ())
        self.categories = Categories((categories or {}).values())
        self.of = {name: column for column, name in enumerate([*self.categorical, *self.numbers])}
        self.n_numbers = padded_width(len(self.numbers))
        self.width = len(self.categorical) + self.n_numbers
        self._padding = (nan,) * (self.n_numbers - len(self.numbers))
        self._pack = struct.Struct(f"{self.width}d").pack
        # Of less than two names, itemgetter returns no tuple.
        self._get = itemgetter(*self.of) if len(self.of) > 1 else None

    def __reduce__(self) -> Any:
        codes = dict(zip(self.categorical, self.categories.codes, strict=True))
        return NamedColumns, (self.numbers, codes)

    def extend_by_row(
        self, x: NamedValues, requested: Requested, limit: int | None
    ) -> NamedColumns:
        """Add the new features of a row, and its new categories, up to a limit for each feature.

        The order of a dict must not change the forest: new features are sorted by the row in which
        each has its first value, and then by their names.
        """
        x = self._split(x, requested, split_row)
        new = {name: (0, value) for name, value in x.items() if name not in self.of}
        missing = [name for name, (_, value) in new.items() if _is_missing(name, value, requested)]
        for name in missing:
            del new[name]
        return self._extend(new, requested, limit, lambda name: _one(name, x.get(name)))

    def extend_by_frame(
        self, X: pd.DataFrame, requested: Requested, limit: int | None
    ) -> NamedColumns:
        """Add the new features and categories of a frame."""
        X = self._split(X, requested, split_frame)
        return self._extend(
            self._new_in_frame(X),
            requested,
            limit,
            lambda name: _many(X[name]) if name in X else Column("", 1, lambda _: [None]),
        )

    def starts_of_categories(self, X: pd.DataFrame, requested: Requested) -> list[int]:
        """Return the rows of a frame, but the first, where a categorical feature is new."""
        new = self._new_in_frame(self._split(X, requested, split_frame))
        rows = {row for name, (row, value) in new.items() if _is_category(name, value, requested)}
        return sorted(rows - {0})

    def full_row(self, x: NamedValues) -> Floats | None:
        """Encode a dict of all features, of simple types; None if x is another."""
        # Other kinds of dicts may return, and even store, a value for a feature that is absent.
        if len(x) != len(self.of) or self._get is None or type(x) is not dict:
            return None
        try:
            values = self._get(x)
        except KeyError:  # a feature is absent
            return None
        if self.categorical:
            codes = self._encode_simple(values)
            if codes is None:
                return None
            values = (*codes, *values[len(codes) :])
        try:
            return np.frombuffer(self._pack(*values, *self._padding))
        except (struct.error, OverflowError):  # a value is not a number, or too large
            return None

    def row(self, x: NamedValues) -> Floats:
        """Encode any row; unknown features are ignored."""
        if (row := self.full_row(x)) is not None:
            return row
        values = array("d", (nan,)) * self.width
        for name, value in split_row(x, self.of).items():
            column = self.of.get(name, -1)
            if column >= len(self.categorical):
                values[column] = value if type(value) is float else _number(name, value)
            elif column >= 0:
                values[column] = self.categories.encode_feature(column, _one(name, value))[0]
        return np.frombuffer(values)

    def rows(self, X: pd.DataFrame) -> Floats:
        """Encode a frame; unknown features are ignored."""
        rows = np.full((len(X), self.width), nan)
        for name, values in split_frame(X, self.of).items():
            column = self.of.get(name, -1)
            if column >= len(self.categorical):
                rows[:, column] = _numbers(name, values)
            elif column >= 0:
                rows[:, column] = self.categories.encode_feature(column, _many(values))
        return rows

    def _extend(
        self,
        new: Mapping[Hashable, tuple[int, Any]],
        requested: Requested,
        limit: int | None,
        column_of: Callable[[Hashable], Column],
    ) -> NamedColumns:
        """Add features, whose first rows and values are given, and categories."""
        in_order = sorted(_by_name(new), key=lambda name: new[name][0])
        is_category = {name: _is_category(name, new[name][1], requested) for name in in_order}
        for name in in_order:
            if not is_category[name]:
                _number(name, new[name][1])
        numbers = [*self.numbers, *(name for name in in_order if not is_category[name])]
        categorical = [*self.categorical, *(name for name in in_order if is_category[name])]
        widened = self.categories.widen(len(categorical))
        categories = widened.extend([column_of(name) for name in categorical], limit)
        if not new and categories is self.categories:
            return self
        return NamedColumns(numbers, dict(zip(categorical, categories.codes, strict=True)))

    def _split(self, x: Rows, requested: Requested, split: Callable[..., Rows]) -> Rows:
        """Replace dates by their parts, unless they are categories or an error."""
        if not splits_dates(requested):
            return x
        return split(x, self.of if isinstance(requested, str) else {*self.of, *(requested or ())})

    def _new_in_frame(self, X: pd.DataFrame) -> dict[Hashable, tuple[int, Any]]:
        """Return the first row and value of each feature that is new."""
        new: dict[Hashable, tuple[int, Any]] = {}
        for name in X.columns:
            if name not in self.of and len(rows := np.flatnonzero(X[name].notna())):
                new[name] = int(rows[0]), X[name].iloc[rows[0]]
        return new

    def _encode_simple(self, values: tuple[Any, ...]) -> list[float] | None:
        """Return the codes of the categories; None if one is new, or not of a simple type."""
        codes = []
        for known, value in zip(self.categories.codes, values, strict=False):
            code = find_simple(known, value) if type(value) in HASHABLE else UNKNOWN
            if code == UNKNOWN:
                return None
            codes.append(code)
        return codes


def padded_width(n_features: int) -> int:
    """Return how many numbers a row has: a multiple of 4, as in the core, growing by an eighth."""
    unit = max(4, (1 << n_features.bit_length()) // 8)
    return max(4, -(-n_features // unit) * unit)


def _is_category(name: Hashable, value: Any, requested: Requested) -> bool:
    """Return whether a feature is categorical, from its name or its first value."""
    if requested is None:
        return False
    return isinstance(value, str) if isinstance(requested, str) else name in requested


def _is_missing(name: Hashable, value: Any, requested: Requested) -> bool:
    if value is None:
        return True
    if _is_category(name, value, requested):
        refuse_nan(value, _described(name))
        return False
    return isnan(_number(name, value))


def _described(name: Hashable) -> str:
    return f"feature {name!r}"


def _one(name: Hashable, value: Any) -> Column:
    return Column(_described(name), 1, lambda _: [value])


def _many(values: pd.Series) -> Column:
    name, n_rows = _described(values.name), len(values)
    return Column(name, n_rows, lambda part: values.iloc[part].tolist(), nan_is_missing=True)


def _by_name(names: Iterable[Hashable]) -> list[Any]:
    some: list[Any] = list(names)
    try:
        return sorted(some)
    except TypeError:  # 1 and "a" have no order
        return sorted(some, key=repr)


def _number(name: Hashable, value: Any) -> float:
    if value is None:
        return nan
    try:
        return float(array("d", (value,))[0])  # float alone would parse strings
    except OverflowError as error:
        raise integer_too_large(_described(name), error) from error
    except TypeError as error:
        raise TypeError(
            f"{_described(name)} is {value!r}; it must be a number, or None if it is missing. "
            "Name features that hold categories in categorical_features"
        ) from error


def _numbers(name: Hashable, values: pd.Series) -> Floats:
    if values.dtype.kind not in "biuf":
        return np.array([_number(name, value) for value in values])
    numbers: Floats = values.to_numpy(dtype=np.float64, na_value=nan)
    return numbers
