"""From X to the rows of the core: categories become codes, which come first; then the numbers."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_X_y

from amforest._core import ClassifierForest, RegressorForest, WeightedClassifierForest
from amforest._forest.categories import UNKNOWN, Categories, pack, unpack
from amforest._forest.inputs import (
    CONVERSION,
    Features,
    Sparse,
    Table,
    as_objects,
    check_size,
    dense,
    is_plain,
    separated,
)
from amforest._forest.inputs import validated as _validated

Floats = NDArray[np.float64]
_SIDES = ("lower", "upper")
CoreForest = ClassifierForest | WeightedClassifierForest | RegressorForest


class Learner:
    """What an object has beside its attributes, because it is no part of the model."""

    __slots__ = ("_lock", "_rejected")
    _lock: AbstractContextManager[bool]  # of the thread that learns
    _rejected: int  # rows that could not be learnt

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make them: a constructor of scikit-learn's may set nothing but parameters."""
        model = super().__new__(cls)
        model._lock, model._rejected = RLock(), 0
        return model


class FeatureForest(BaseEstimator, Learner):
    """The base of `Forest`: all that has to do with features."""

    _core: CoreForest
    _room: tuple[int, ...] = ()  # for how many categories of each feature the core has room
    _categories: Categories | None = None  # None: no column of X holds any
    is_categorical_: NDArray[np.bool_]
    n_features_in_: int
    categorical_features: Any
    partition: str
    bounds: Any

    @property
    def categories_(self) -> dict[Any, list[Any]]:
        """The categories of each categorical feature, in the order in which they came."""
        if self._categories is None:
            return {}
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_)).tolist()
        columns = np.flatnonzero(self.is_categorical_).tolist()
        return dict(zip((names[j] for j in columns), self._categories.lists(), strict=True))

    def _has_learnt(self) -> bool:
        return "_core" in self.__dict__

    def _core_from(self, state: dict[str, Any]) -> CoreForest:
        """Make a core from what its method `state` gives."""
        raise NotImplementedError

    # Many rows

    def _needs_no_checks(self, X: ArrayLike | Table) -> TypeGuard[NDArray[Any]]:
        """Tell whether X is a plain array of the right width, without names to be compared."""
        if not (self._has_learnt() and is_plain(X, 2)) or self._categories is not None:
            return False
        fits = X.shape[1] == self.n_features_in_ and len(X) > 0
        return fits and not hasattr(self, "feature_names_in_")

    def _validated(self, X: ArrayLike | Table, *y: Any, reset: bool = False) -> tuple[Any, ...]:
        """Return X as a table, and y as labels if it is given."""
        with naming("X"), np.errstate(over="ignore"):
            if isinstance(X, Table):
                how = CONVERSION | {"ensure_min_features": 0}
                checked: tuple[Any, ...] = (X, check_X_y(X.numbers, *y, **how)[1])
            else:
                checked = _validated(self, X, *y, reset=reset)
        check_size(checked[0].numbers)
        return checked

    def _learn_categories(self, table: Table, learnt: NDArray[np.intp], *, first: bool) -> None:
        """Get to know the categories in some rows of a table, and make room for them."""
        if first and (table.categories or self._categories is not None):
            n_features = len(table.categories)
            self._categories = Categories().widened(n_features) if n_features else None
            self._room = ()
        if self._categories is None:
            return
        some = None if len(learnt) == table.n_rows else learnt
        self._categories = self._categories.joined_by(table.categories, some)
        room = self._categories.room(self._room)
        if first:
            self._room = room
        elif room != self._room:
            self._resize(self._core.n_numbers, room)

    def _box(self, n_features: int) -> Features | None:
        """Return the lower and the upper ends of the box to be cut, or None: it is not needed."""
        if self.partition == "restricted":
            if self.bounds is not None:
                raise ValueError("bounds has no meaning without partition='unrestricted'")
            return None
        if self._categories is not None:
            raise ValueError("categories need partition='restricted': they have no bounds")
        bounds = np.asarray([0.0, 1.0] if self.bounds is None else self.bounds, dtype=np.float32)
        if bounds.shape not in ((2,), (n_features, 2)):
            raise ValueError(
                f"bounds has shape {bounds.shape}; it must be a pair (low, high), or one for each "
                f"of {n_features} features"
            )
        box = np.ascontiguousarray(np.broadcast_to(bounds, (n_features, 2)).T)
        if not (np.isfinite(box).all() and (box[0] < box[1]).all()):
            raise ValueError(f"bounds is {self.bounds!r}; low must be below high, both finite")
        return box

    def _check_in_box(self, numbers: Features | Sparse, box: Features | None) -> None:
        """Refuse values outside of the box, and missing ones, before anything is learnt."""
        if box is None:
            return
        ends = [getattr(numbers, name)(axis=0) for name in ("min", "max")]
        low, high = (end.toarray().ravel() if issparse(end) else end for end in ends)
        bad = np.flatnonzero(~((low >= box[0]) & (high <= box[1])))
        if len(bad):
            j = bad[0]
            raise ValueError(
                f"X's column {j} holds values from {low[j]:g} to {high[j]:g}; with "
                f"partition='unrestricted' they must lie in [{box[0, j]:g}, {box[1, j]:g}] and not "
                "be missing: scale X, or give bounds"
            )

    def _rows(self, table: Table, part: slice) -> Features:
        """Return some rows of a table as the core takes them."""
        numbers = dense(table.numbers[part])
        if self._categories is None:
            return numbers
        return np.hstack([self._categories.encode(table.categories, part), numbers])

    # One row

    def _row(self, x: Sequence[Any] | NDArray[Any]) -> Floats:
        """Convert one row; the core checks its width and its values."""
        if self._categories is not None:
            return self._mixed_row(x, self._categories)
        try:
            row = np.ascontiguousarray(x, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise numbers_only("x", error) from error
        if row.ndim != 1:
            raise ValueError(f"x has {row.ndim} dimensions; one row has 1")
        return row

    def _mixed_row(self, x: Sequence[Any] | NDArray[Any], categories: Categories) -> Floats:
        values = x.tolist() if isinstance(x, np.ndarray) else list(x)
        is_categorical = self.is_categorical_.tolist()
        if len(values) != len(is_categorical):
            raise ValueError(
                f"x has {len(values)} features; the forest was built for {len(is_categorical)}"
            )
        known = iter(categories.codes)
        try:
            codes, numbers = [], []
            for value, is_category in zip(values, is_categorical, strict=True):
                if is_category:
                    codes.append(next(known).get(value, UNKNOWN))
                else:
                    numbers.append(value)
            if UNKNOWN not in codes:
                return np.frombuffer(array("d", codes + numbers))
        except TypeError:
            pass  # the long way finds out what is wrong with the values, if anything is
        row: Floats = self._rows(self._table_of(x), slice(None))[0].astype(np.float64)
        return row

    def _table_of(self, x: Sequence[Any] | NDArray[Any]) -> Table:
        """Return one row as a table."""
        if self._categories is None:
            return Table(self._row(x)[None].astype(np.float32), [])
        if len(x) != self.n_features_in_:
            raise ValueError(
                f"x has {len(x)} features; the forest was built for {self.n_features_in_}"
            )
        values = as_objects(x[None] if isinstance(x, np.ndarray) else [list(x)])
        with naming("x"):
            return separated(self, values)

    # Growing, and looking inside

    def _resize(self, n_numbers: int, room: tuple[int, ...]) -> None:
        """Change the number of columns, which have been missing so far, and of categories."""
        state = self._core.state()
        trees, old_room = state["trees"], state["categories"]
        for side in _SIDES:
            more = max(n_numbers - state["n_numbers"], 0)
            wide = np.pad(trees[side], ((0, 0), (0, more)), constant_values=np.nan)
            trees[side] = np.ascontiguousarray(wide[:, :n_numbers])
        trees["seen"] = pack(unpack(trees["seen"], old_room), room, len(trees["kind"]))
        trees["feature"][trees["feature"] >= len(old_room)] += len(room) - len(old_room)
        self._core = self._core_from(state | {"n_numbers": n_numbers, "categories": list(room)})
        self._room = room

    def _table_columns(self, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Bring the columns of a tree's table into the order of X's features."""
        if self._core.bounds is not None:
            columns |= _cells(columns, self._core.bounds)
        if self._categories is None:
            return {name: columns[name] for name in columns if name not in ("category", "seen")}
        is_categorical = self.is_categorical_
        places = np.append(np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical))
        feature = columns["feature"]
        columns["feature"] = np.where(feature < 0, -1, places[feature])
        for side in ("lower", "upper"):
            numbers = columns[side]
            columns[side] = np.full((len(feature), len(is_categorical)), np.nan, np.float32)
            columns[side][:, ~is_categorical] = numbers
        sets = unpack(columns["seen"], self._room)
        counts = [len(categories) for categories in self._categories.lists()]
        columns["seen"] = np.hstack(
            [seen[:, :count] for seen, count in zip(sets, counts, strict=True)]
        )
        return columns


def _cells(columns: dict[str, NDArray[Any]], box: Features) -> dict[str, NDArray[Any]]:
    """Return the lower and upper corners of the nodes' cells, from the root down."""
    ends = {
        side: np.tile(end, (len(columns["feature"]), 1))
        for side, end in zip(_SIDES, box, strict=True)
    }
    order = np.argsort(columns["depth"], kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(columns["depth"][order])) + 1)[1:]:
        parents = columns["parent"][rows]
        is_right = columns["right"][parents] == rows
        for side, is_cut in zip(_SIDES, (is_right, ~is_right), strict=True):
            ends[side][rows] = ends[side][parents]
            cut, by = rows[is_cut], parents[is_cut]
            ends[side][cut, columns["feature"][by]] = columns["threshold"][by]
    return ends


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Say which argument it was that numpy could not convert."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not re.search("could not convert|real number|array element", str(error)):
            raise
        raise numbers_only(argument, error) from error


def numbers_only(argument: str, error: Exception) -> Exception:
    """Say the same of an argument."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{argument} must hold numbers only: {error}")
