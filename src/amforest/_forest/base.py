"""What both estimators share: checks, seeds, learning, pickling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from amforest._core import Options
from amforest._forest.categories import UNKNOWN
from amforest._forest.features import CoreForest, Floats, naming
from amforest._forest.inputs import Features, Table, as_rows, expects_categories, is_plain
from amforest._forest.looking import GrownForest

Seeds = NDArray[np.uint64]


@dataclass(frozen=True)
class Encoded:
    """Labels as the core learns them, and those that are new: where each appears first."""

    labels: NDArray[Any]
    new: dict[int, Any] = field(default_factory=dict)


def tree_seeds(random_state: Any, n_trees: int) -> Seeds:
    """Return four words for each tree's generator; more trees do not change the first ones'."""
    if isinstance(random_state, Integral):
        entropy: Any = int(random_state)
    else:
        entropy = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32).tolist()
    words = np.random.SeedSequence(entropy).generate_state(4 * n_trees, np.uint64)
    return words.astype(np.uint64).reshape(n_trees, 4)


class Forest(GrownForest):
    """The base of `AMFClassifier` and `AMFRegressor`.

    A subclass stores its parameters and answers two questions: how labels become what the core
    learns (`_encode`), and how a core is made (`_new_core`, `_core_from`).
    """

    n_estimators: int
    step: float | None
    use_aggregation: bool
    split_pure: bool
    charge_first: bool
    predict_extends: bool
    split_prior: tuple[float, float]
    max_nodes: int | None
    max_bytes: int | None
    random_state: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [Interval(Integral, 1, 65_535, closed="both")],
        "step": [Interval(Real, 0, 1e100, closed="right")],
        "use_aggregation": ["boolean"],
        "split_pure": ["boolean"],
        "charge_first": ["boolean"],
        "predict_extends": ["boolean"],
        "split_prior": [tuple],
        "partition": [StrOptions({"restricted", "unrestricted"})],
        "bounds": ["array-like", None],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "max_nodes": [Interval(Integral, 1, 2**63 - 1, closed="both"), None],
        "max_bytes": [Interval(Integral, 1, 2**63 - 1, closed="both"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def _as_labels(self, y: ArrayLike) -> ArrayLike:
        return y

    def _begin(self, labels: NDArray[Any], classes: Any) -> None:
        """Forget all labels; those given are known from the start, unless `classes` are."""

    def _encode(self, y: NDArray[Any], learnt: NDArray[np.intp], classes: Any) -> Encoded:
        """Convert labels; in the rows `learnt` some may be new. `classes` are announced again."""
        raise NotImplementedError

    def _encode_plain(self, y: NDArray[Any]) -> NDArray[Any] | None:
        """Convert numbers, if the core knows all of them as labels."""
        raise NotImplementedError

    def _encode_one(self, y: Any) -> Any:
        """Return what the core learns for a label, or None if the label is new."""
        raise NotImplementedError

    def _new_core(self, **features: Any) -> CoreForest:
        """Make a core that has learnt nothing."""
        raise NotImplementedError

    # Learning

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn the rows of X once, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are kept as float32; NaN is a value that is missing.
        y : array-like of shape (n_samples,)
            The labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows; one of weight 0 is not learnt.

        Returns
        -------
        self
        """
        return self._learn(X, y, afresh=True, sample_weight=sample_weight)

    def learn_one(
        self, x: Sequence[float] | NDArray[Any], y: Any, sample_weight: float = 1.0
    ) -> Self:
        """Learn one row: the quick way of ``partial_fit([x], [y])``.

        Parameters
        ----------
        x : sequence of n_features numbers
        y : label
        sample_weight : float, default=1.0

        Returns
        -------
        self
        """
        with self._lock:
            try:
                if sample_weight == 1 and self._categories is None:  # most rows
                    try:
                        if (label := self._encode_one(y)) is not None:
                            self._core.learn_row(x, label, 1.0)  # type: ignore[arg-type]
                            return self
                    except (AttributeError, TypeError, ValueError):
                        pass  # nothing was learnt, or x is no good array: what follows knows better
                self._learn_one(x, y, sample_weight)
            except Exception:
                self._rejected += 1
                raise
        return self

    def _learn_one(self, x: Sequence[float] | NDArray[Any], y: Any, weight: float) -> None:
        if self._has_learnt():
            if self._can_count(weight):
                label = self._encode_one(y)
                if label is not None and self._learn_row(x, label, weight):
                    return
            rows: Any = self._table_of(x)
        else:
            rows = [x] if expects_categories(self, reset=True) else self._row(x)[None]
        self._learn_batch(rows, [y], sample_weight=[weight])

    def _learn_row(self, x: Sequence[Any] | NDArray[Any], label: Any, weight: float) -> bool:
        """Learn a row, unless it has a new category."""
        row = self._row(x)
        if self._categories is not None and UNKNOWN in row[: len(self._categories)]:
            return False
        self._core.learn_row(row, label, weight)
        return True

    def _learn(self, X: ArrayLike | Table, y: ArrayLike, **how: Any) -> Self:
        with Turn(self, X):
            plain = self._as_plain(X, y, **how)
            if plain is None:
                self._learn_batch(X, y, **how)
            else:
                self._core.learn(*plain, self._n_threads())
        return self

    def _learn_batch(self, X: ArrayLike | Table, y: ArrayLike, **how: Any) -> None:
        with self._unchanged_unless_learnt():
            for new, rows, labels, weights in self._batches(X, y, **how):
                self._learn_part(new, rows, labels, weights)

    def _learn_part(
        self, new: list[Any], rows: Features, labels: NDArray[Any], weights: Floats | None
    ) -> None:
        """Learn rows, the first of which may bring a label, which is known if that is learnt."""
        if not new:
            self._core.learn(rows, labels, self._n_threads(), weights)
            return
        before, n_known = self.__dict__.copy(), self._core.forecast_size
        try:
            classes = self._know(new)
            self._core.learn(rows, labels, self._n_threads(), weights, classes)
        except BaseException:
            if self._core.forecast_size == n_known:
                self._restore(before)
            raise

    def _as_plain(
        self, X: ArrayLike | Table, y: ArrayLike, **how: Any
    ) -> tuple[Features, NDArray[Any]] | None:
        """Convert arrays that need no checks but the core's; None if X and y are none such.

        scikit-learn's checks take a hundred times as long as learning a row.
        """
        if any(value is not None for value in how.values()):
            return None
        if not (self._needs_no_checks(X) and is_plain(y, 1) and len(X) == len(y)):
            return None
        labels = self._encode_plain(y)
        return None if labels is None else (as_rows(X), labels)

    def _predict_then_learn(
        self, X: ArrayLike, y: ArrayLike, n_unknown: int = 0, **how: Any
    ) -> list[Floats]:
        """Return the forecasts batch by batch: later ones may know more classes.

        The first `n_unknown` rows come before anything is known: nobody is charged for them.
        """
        forecasts: list[Floats] = []
        with Turn(self, X), self._unchanged_unless_learnt():
            plain = self._as_plain(X, y, **how)
            if plain is not None:
                forecasts.append(self._core.predict_then_learn(*plain, self._n_threads()))
                self._record(forecasts[0], plain[1], None)
                return forecasts
            for new, rows, labels, weights in self._batches(X, y, **how):
                one, rest = slice(0, len(new)), slice(len(new), None)
                if new:  # the row that brings a class is forecast without it
                    forecast = self._core.predict(rows[one], 1)
                    some = None if weights is None else weights[one]
                    self._learn_part(new, rows[one], labels[one], some)
                    forecasts.append(forecast)
                    self._record(forecast, labels[one], some)
                some = None if weights is None else weights[rest]
                forecast = self._core.predict_then_learn(
                    rows[rest], labels[rest], self._n_threads(), some
                )
                free = max(n_unknown - sum(map(len, forecasts)), 0)
                forecasts.append(forecast)
                self._record(
                    forecast[free:], labels[rest][free:], some if some is None else some[free:]
                )
        return forecasts

    def _record(self, forecasts: Floats, labels: NDArray[Any], weights: Floats | None) -> None:
        """Add up the losses of forecasts that were made before their labels were learnt."""
        losses = self._losses(forecasts, labels)
        weight, loss = self._progress
        if weights is None:
            self._progress = weight + len(losses), loss + float(losses.sum())
        else:
            self._progress = weight + float(weights.sum()), loss + float(losses @ weights)

    def _losses(self, forecasts: Floats, labels: NDArray[Any]) -> Floats:
        """Return the loss of each of the core's forecasts."""
        raise NotImplementedError

    def _batches(
        self,
        X: ArrayLike | Table,
        y: ArrayLike,
        *,
        afresh: bool | None = None,
        classes: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Iterator[tuple[list[Any], Features, NDArray[Any], Floats | None]]:
        """Check and convert X and y; the first time make the core. On error change nothing.

        Yields the rows in batches. Each but the first begins where a label appears for the first
        time, and brings that label in a list.
        """
        first = bool(afresh) or not self._has_learnt()
        with self._unchanged_on_error():
            if first:
                self._validate_params()
            self._n_threads()
            table, labels = self._validated(X, self._as_labels(y), reset=first)
            n_rows = len(labels)  # a sparse matrix has no len
            weights = None if sample_weight is None else check_weights(sample_weight, n_rows)
            learnt = np.arange(n_rows) if weights is None else np.flatnonzero(weights)
            if first and not len(learnt):
                raise ValueError("sample_weight is zero for all rows: nothing is left to learn")
            if first:
                self._progress = 0.0, 0.0
                self._begin(labels if afresh else labels[learnt[:1]], classes)
                classes = None
            encoded = self._encode(labels, learnt, classes)
            self._learn_categories(table, learnt, first=first)
            del learnt  # as large as y; learning may take long
            box = self._box(table.width) if first else self._core.bounds
            self._check_in_box(table.numbers, box)
            if first:
                self._core = self._new_core(
                    n_numbers=table.width - len(self._room),
                    categories=list(self._room),
                    bounds=box,
                    options=self._options(),
                    seeds=tree_seeds(self.random_state, self.n_estimators),
                )
            self._expect_weights(n_rows if weights is None else weights)
        starts = [0, *encoded.new, n_rows]
        for start, end in pairwise(starts):
            for part in table.blocks(start, end):
                new = [encoded.new[part.start]] if part.start in encoded.new else []
                weights_part = None if weights is None else weights[part]
                yield new, self._rows(table, part), encoded.labels[part], weights_part

    def _options(self) -> Options:
        return Options(
            step=self._eta(),
            use_aggregation=bool(self.use_aggregation),
            split_pure=bool(self.split_pure),
            charge_first=bool(self.charge_first),
            predict_extends=bool(self.predict_extends),
            split_prior=self._checked_prior(),
            max_nodes=self._limit("max_nodes"),
            max_bytes=self._limit("max_bytes"),
        )

    def _limit(self, name: str) -> int | None:
        limit = getattr(self, name)
        if limit is not None and limit < self.n_estimators:
            raise ValueError(
                f"{name} is {limit}; it is shared by {self.n_estimators} trees, which need more"
            )
        return None if limit is None else int(limit)

    def _eta(self) -> float:
        raise NotImplementedError

    def _checked_prior(self) -> tuple[float, float]:
        if len(self.split_prior) != 2:
            raise ValueError(
                f"split_prior is {self.split_prior!r}; it must be a pair (alpha, beta)"
            )
        alpha, beta = (float(value) for value in self.split_prior)
        if not (1e-100 <= alpha <= 1 - 2.0**-50 and 0 <= beta <= 10):
            raise ValueError(
                f"split_prior is {self.split_prior!r}; alpha must lie between 0 and 1, beta in "
                "[0, 10]"
            )
        if beta != 0 and self.partition == "restricted":
            raise ValueError(
                f"split_prior is {self.split_prior!r}; beta must be 0 with partition='restricted', "
                "where a new split moves a whole subtree down"
            )
        if beta != 0 and self.predict_extends:
            raise ValueError(
                f"split_prior is {self.split_prior!r}; beta must be 0 with predict_extends=True"
            )
        return alpha, beta

    def _know(self, labels: list[Any]) -> tuple[int, float]:
        """Get to know new labels; return what the core must be told with the first of them."""
        raise NotImplementedError

    def _can_count(self, weight: float) -> bool:
        """Tell whether the core can count such a weight as it is."""
        return weight >= 0

    def _expect_weights(self, weights: int | Floats) -> None:
        """Make sure that the core can count such weights (a number: as many ones)."""

    @contextmanager
    def _unchanged_unless_learnt(self) -> Iterator[None]:
        """Stay as before if not one row was learnt."""
        before = self.__dict__.copy()
        n_before = self._core.n_samples if self._has_learnt() else 0
        try:
            yield
        except BaseException:
            if self._has_learnt() and self._core.n_samples in (0, n_before):
                self._restore(before)
            raise

    def _restore(self, attributes: dict[str, Any]) -> None:
        self.__dict__.clear()
        self.__dict__.update(attributes)

    @contextmanager
    def _unchanged_on_error(self, kind: type[BaseException] = BaseException) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except kind:
            self._restore(before)
            raise

    # Saving, pickling and copying: the core as in a model file

    def to_bytes(self) -> bytes:
        """Return the model as the bytes of a model file; see `amforest.model_io.model_file`."""
        from amforest.model_io import model_file  # noqa: PLC0415  # which needs the estimators

        return model_file.to_bytes(self)

    def __getstate__(self) -> dict[str, Any]:
        from amforest.model_io import model_file  # noqa: PLC0415

        with self._lock:
            state = self.__dict__.copy()
            if self._has_learnt():
                state["_core"] = model_file.core_to_bytes(self._core)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from amforest.model_io import model_file  # noqa: PLC0415

        self.__dict__.update(state)
        if (core := self.__dict__.pop("_core", None)) is not None:
            self._core = model_file.core_from_bytes(self, core)


class Turn:
    """A call that learns: others wait for it, and rows that it refuses are counted."""

    __slots__ = ("model", "rows")

    def __init__(self, model: Forest, rows: Any) -> None:
        self.model, self.rows = model, rows

    def __enter__(self) -> None:
        self.model._lock.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is not None and issubclass(kind, Exception):
            shape = getattr(self.rows, "shape", None)
            sized = hasattr(self.rows, "__len__")
            self.model._rejected += shape[0] if shape else len(self.rows) if sized else 1
        self.model._lock.__exit__(kind, *error)


def check_weights(sample_weight: ArrayLike, n_rows: int) -> Floats:
    """Return weights, one for each row, none below 0."""
    with naming("sample_weight"):
        weights: Floats = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}; X has {n_rows} rows")
    if weights.min() < 0:
        raise ValueError(f"sample_weight holds {weights.min()}; weights must not be negative")
    return weights
