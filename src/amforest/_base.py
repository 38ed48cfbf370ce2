"""What both estimators share: checks, seeds, learning, looking inside, pickling.

The only user of the compiled core.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from amforest._core import ClassifierForest, Options, RegressorForest

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
Seeds = NDArray[np.uint64]
CoreForest = ClassifierForest | RegressorForest

_TABLE_FIELDS = (
    *("parent", "left", "right", "depth", "feature", "threshold", "birth_time", "n_samples"),
    *("counts", "mean", "lower", "upper", "share", "odds", "odds_scale"),
)
_CONVERSION: dict[str, Any] = {"dtype": np.float32, "order": "C"}


def tree_seeds(random_state: Any, n_trees: int) -> Seeds:
    """Return four words for each tree's generator; more trees do not change the first ones'."""
    if isinstance(random_state, Integral):
        entropy: Any = int(random_state)
    else:
        entropy = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32).tolist()
    children = np.random.SeedSequence(entropy).spawn(n_trees)
    return np.stack([child.generate_state(4, np.uint64) for child in children])


class Forest(BaseEstimator):
    """The base of `AMFClassifier` and `AMFRegressor`.

    A subclass stores its parameters and answers two questions: how labels become what the core
    learns (`_encode`), and how an empty core is made (`_new_core`).
    """

    _core_class: ClassVar[type[CoreForest]]
    _core: CoreForest

    n_estimators: int
    step: float
    use_aggregation: bool
    split_pure: bool
    charge_first: bool
    predict_extends: bool
    n_jobs: int | None
    random_state: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "step": [Interval(Real, 0, 1e100, closed="right")],
        "use_aggregation": ["boolean"],
        "split_pure": ["boolean"],
        "charge_first": ["boolean"],
        "predict_extends": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def _as_labels(self, y: ArrayLike) -> ArrayLike:
        return y

    def _encode(self, y: NDArray[Any], *, first: bool, classes: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _encode_one(self, y: Any) -> Any:
        raise NotImplementedError

    def _new_core(self, n_features: int, options: Options, seeds: Seeds) -> CoreForest:
        raise NotImplementedError

    # Learning

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything, then learn the rows of X once, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are kept as float32.
        y : array-like of shape (n_samples,)
            The labels.

        Returns
        -------
        self
        """
        return self._learn(X, y, first=True)

    def learn_one(self, x: Sequence[float] | NDArray[Any], y: Any) -> Self:
        """Learn one row: the quick way of ``partial_fit([x], [y])``.

        Parameters
        ----------
        x : sequence of n_features numbers
        y : label

        Returns
        -------
        self
        """
        if not self._has_learnt():
            return self._learn(np.asarray(x)[None], [y])
        self._core.learn_row(self._row(x), self._encode_one(y))
        return self

    def _learn(self, X: ArrayLike, y: ArrayLike, **how: Any) -> Self:
        rows, labels = self._prepare(X, y, **how)
        self._core.learn(rows, labels, self._n_threads())
        return self

    def _predict_then_learn(self, X: ArrayLike, y: ArrayLike, **how: Any) -> Floats:
        rows, labels = self._prepare(X, y, **how)
        return self._core.predict_then_learn(rows, labels, self._n_threads())

    def _prepare(
        self, X: ArrayLike, y: ArrayLike, *, first: bool = False, classes: Any = None
    ) -> tuple[Features, NDArray[Any]]:
        """Check and convert X and y; the first time make the core. On error change nothing."""
        first = first or not self._has_learnt()
        with self._unchanged_on_error():
            self._validate_params()
            self._n_threads()
            y = self._as_labels(y)
            with naming("X"), np.errstate(over="ignore"):
                rows, labels = validate_data(self, X, y, reset=first, **_CONVERSION)
            _check_size(rows)
            labels = self._encode(labels, first=first, classes=classes)
            if first:
                options = Options(
                    step=float(self.step),
                    use_aggregation=bool(self.use_aggregation),
                    split_pure=bool(self.split_pure),
                    charge_first=bool(self.charge_first),
                    predict_extends=bool(self.predict_extends),
                )
                seeds = tree_seeds(self.random_state, self.n_estimators)
                self._core = self._new_core(rows.shape[1], options, seeds)
        return rows, labels

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # Predicting and looking inside

    def weighted_depth(self, X: ArrayLike) -> Floats:
        """Return the mean depth, over all prunings by their weights, at which a forecast is made.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
            Σ_T w(T) depth_T(x) for each row and tree.
        """
        return self._grown().weighted_depth(self._rows(X), self._n_threads())

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
            Rows of the trees' tables: see `tree_table`. This walks through all nodes once.
        """
        return self._grown().apply(self._rows(X), self._n_threads())

    def tree_table(self, i: int) -> NDArray[Any]:
        """Return the nodes of tree i as a structured array, in preorder.

        Parameters
        ----------
        i : int
            The tree. Negative numbers count from the last one.

        Returns
        -------
        structured ndarray
            With fields `parent`, `left`, `right` (rows of this table, -1 where there is no such
            node), `depth`, `feature` and `threshold` (x[feature] <= threshold goes left; both -1
            in leaves), `birth_time`, `n_samples`, `counts` (of each class) or `mean`, `lower` and
            `upper` (the range of the features seen), `share` (½ w / w̄: the weight of the prunings
            that stop at the node among those that reach it; 1 in leaves), and the same as odds
            w / (w̄₀ w̄₁) = `odds` · 2^(256 `odds_scale`).
        """
        core = self._grown()
        if not -core.n_trees <= i < core.n_trees:
            raise IndexError(f"i is {i}; it must be the number of one of {core.n_trees} trees")
        columns = core.tree_table(i % core.n_trees)
        names = [name for name in _TABLE_FIELDS if name in columns]
        fields = [(name, columns[name].dtype, columns[name].shape[1:]) for name in names]
        table = np.empty(len(columns["parent"]), dtype=fields)
        for name in names:
            table[name] = columns[name]
        return table

    @property
    def n_samples_seen_(self) -> int:
        """How many rows were learnt."""
        return self._grown().n_samples

    def _has_learnt(self) -> bool:
        return "_core" in self.__dict__

    def __sklearn_is_fitted__(self) -> bool:
        return self._has_learnt()

    def _grown(self) -> CoreForest:
        if "_core" not in self.__dict__:  # check_is_fitted takes longer than predicting a row
            name = type(self).__name__
            raise NotFittedError(
                f"{name} has learnt nothing yet: call fit, partial_fit or learn_one first"
            )
        return self._core

    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _rows(self, X: ArrayLike) -> Features:
        with naming("X"), np.errstate(over="ignore"):
            rows: Features = validate_data(self, X, reset=False, **_CONVERSION)
        _check_size(rows)
        return rows

    def _row(self, x: Sequence[float] | NDArray[Any]) -> Floats:
        """Convert one row; the core checks its width and its values."""
        try:
            row = np.ascontiguousarray(x, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise _numbers_only("x", error) from error
        if row.ndim != 1:
            raise ValueError(f"x has {row.ndim} dimensions; one row has 1")
        return row

    # Pickling and copying: the core as plain arrays

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__().copy()
        if self._has_learnt():
            state["_core"] = self._core.state()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        core = state.pop("_core", None)
        super().__setstate__(state)
        if core is not None:
            options = Options(**core.pop("options"))
            self._core = self._core_class(options=options, **core)


def _check_size(X: Features) -> None:
    """Refuse finite features whose range extensions could overflow in float32."""
    if max(X.max(initial=0), -X.min(initial=0)) > 2.0**100:
        raise ValueError("X holds values beyond ±2**100 (about 1e30): scale it down")


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Say which argument it was that numpy could not convert."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not re.search("could not convert|real number|array element", str(error)):
            raise
        raise _numbers_only(argument, error) from error


def _numbers_only(argument: str, error: Exception) -> Exception:
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{argument} must hold numbers only: {error}")
