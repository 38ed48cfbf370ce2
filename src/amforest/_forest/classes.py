"""Labels and the classes of the core: announced, or known from the first row on that has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amforest._core import ClassifierForest, Options, WeightedClassifierForest
from amforest._forest.base import Encoded, Forest
from amforest._forest.features import Floats
from amforest._forest.inputs import is_plain

MOST_CLASSES = 65_535
MOST_COUNTED = 2**31  # by whole numbers
AT_ONCE = 4_096  # labels that are encoded together: sorting them takes ten times their memory


class ClassForest(Forest):
    """The base of `AMFClassifier`: all that has to do with classes but forecasts."""

    _core: ClassifierForest | WeightedClassifierForest
    _index_of: dict[Any, int]  # of a class in the core
    # classes_, and for each its class in the core (None: the same). In one piece, because others
    # may forecast while a new class is being learnt.
    _sorted: tuple[NDArray[Any], NDArray[np.intp] | None]
    step: float
    classes: ArrayLike | None
    classes_: NDArray[Any]
    dirichlet: float | None

    def _begin(self, labels: NDArray[Any], classes: Any) -> None:
        announced = self.classes if classes is None else classes
        self.classes_ = as_classes(unique_labels(labels)[0] if announced is None else announced)
        self._index_of = {label: k for k, label in enumerate(self.classes_.tolist())}
        self._sorted = self.classes_, None

    def _encode(self, y: NDArray[Any], learnt: NDArray[np.intp], classes: Any) -> Encoded:
        if classes is not None and set(as_classes(classes).tolist()) != self._index_of.keys():
            raise ValueError(
                f"classes is {classes!r}; the classes so far are {self.classes_.tolist()}"
            )
        if is_plain(y, 1) and (known := self._encode_known(y)) is not None:
            return Encoded(known, {})
        encoded = np.zeros(len(y), dtype=np.uint32)  # rows of weight 0 may have unknown labels
        first_rows: dict[Any, int] = {}  # of new labels, in the order of the rows
        # Labels of any kind must be compared with each other, to see that they can be.
        step = AT_ONCE if y.dtype != object else max(len(y), 1)
        for start in range(0, len(y), step):
            rows = learnt[slice(*np.searchsorted(learnt, [start, start + step]))]
            labels, inverse = unique_labels(y[start : start + step])
            names, inverse = labels.tolist(), inverse[rows - start]
            indices = np.array([self._index(label) for label in names], dtype=np.int64)
            found, firsts = np.unique(inverse, return_index=True)
            for row, k in sorted(zip(rows[firsts].tolist(), found.tolist(), strict=True)):
                if indices[k] < 0:
                    first_rows.setdefault(names[k], row)
            new = {label: len(self._index_of) + n for n, label in enumerate(first_rows)}
            for k in np.flatnonzero(indices < 0).tolist():
                indices[k] = new.get(names[k], 0)
            encoded[rows] = indices[inverse]
        self._check_new(list(first_rows))
        return Encoded(encoded, {row: label for label, row in first_rows.items()})

    def _check_new(self, labels: list[Any]) -> None:
        n_classes = len(self._index_of) + len(labels)
        if n_classes > MOST_CLASSES:
            raise ValueError(
                f"y brings the number of classes to {n_classes}; {MOST_CLASSES} are the most"
            )
        for label in labels:
            if isinstance(label, str) != isinstance(self.classes_[0], str):
                raise TypeError(
                    f"y holds {label!r}, which is of another kind than the classes so far, "
                    f"{self.classes_.tolist()}"
                )

    def _encode_plain(self, y: NDArray[Any]) -> NDArray[np.uint32] | None:
        if self._core.total_weight + len(y) >= MOST_COUNTED:
            return None
        return self._encode_known(y)

    def _encode_known(self, y: NDArray[Any]) -> NDArray[np.uint32] | None:
        """Encode numbers, the quick way; None if not all of them are known."""
        classes, columns = self._sorted
        if y.dtype.kind != classes.dtype.kind:  # to compare them could take rounding
            return None
        encoded = np.empty(len(y), dtype=np.uint32)
        for start in range(0, len(y), AT_ONCE):
            labels = y[start : start + AT_ONCE]
            at = np.searchsorted(classes, labels)
            if not np.array_equal(classes.take(at, mode="clip"), labels):
                return None
            encoded[start : start + AT_ONCE] = at if columns is None else columns[at]
        return encoded

    def _encode_one(self, y: Any) -> int | None:
        try:
            return self._index_of.get(y)
        except TypeError as error:
            raise TypeError(f"y is {y!r}, which cannot be a label: {error}") from error

    def _index(self, label: Any) -> int:
        """Return the number of a class, -1 if it is new."""
        index = self._encode_one(label)
        return -1 if index is None else index

    def _know(self, labels: list[Any]) -> tuple[int, float]:
        """Add classes; the core makes room for twice as many."""
        n_classes = len(self.classes_) + len(labels)
        if n_classes > self._core.capacity:
            capacity = min(2 * n_classes, MOST_CLASSES)
            self._core = self._core_from(self._core.state() | {"capacity": capacity})
        index_of = self._index_of | {
            label: len(self.classes_) + k for k, label in enumerate(labels)
        }
        classes = np.sort(np.append(self.classes_, labels))  # its dtype may change
        columns = np.array([index_of[label] for label in classes.tolist()])
        self._index_of, self.classes_, self._sorted = index_of, classes, (classes, columns)
        return n_classes, self._dirichlet(n_classes)

    def _set_classes(self, labels: list[Any], classes: NDArray[Any]) -> None:
        """Restore the classes: in the order of the core, and sorted."""
        self._index_of = {label: k for k, label in enumerate(labels)}
        columns = np.array([self._index_of[label] for label in classes.tolist()])
        self.classes_ = classes
        self._sorted = classes, None if (np.diff(columns, prepend=-1) == 1).all() else columns

    def _in_order(self, by_index: NDArray[Any]) -> NDArray[Any]:
        """Bring the core's classes, in the order in which they became known, into `classes_`'s."""
        columns = self._sorted[1]
        return by_index if columns is None else by_index[..., columns]

    def _forecast(
        self, ask: Callable[[Any], NDArray[Any]], rows: Any
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ask for a forecast, and for the classes it is of.

        Meanwhile another thread may learn a class, which is known here just before the core knows
        it, with its first row: then ask again.
        """
        self._grown()
        for _ in range(100):
            known = classes, columns = self._sorted
            by_index = ask(rows)
            if by_index.shape[-1] == len(classes) and self._sorted is known:
                return by_index if columns is None else by_index[..., columns], classes
        with self._lock:
            return self._in_order(ask(rows)), self.classes_

    def _losses(self, forecasts: Floats, labels: NDArray[Any]) -> Floats:
        """Return the log-loss. Classes that are not known had no chance."""
        known = np.flatnonzero(labels < forecasts.shape[1])
        chances = np.zeros(len(labels))
        chances[known] = forecasts[known, labels[known]]
        return -np.log(np.maximum(chances, np.finfo(np.float64).eps))

    def _dirichlet(self, n_classes: int) -> float:
        default = 0.5 if n_classes <= 2 else 0.01
        return float(default if self.dirichlet is None else self.dirichlet)

    def _new_core(self, **features: Any) -> ClassifierForest:
        n_classes = len(self.classes_)
        return ClassifierForest(
            n_classes=n_classes,
            capacity=n_classes,
            dirichlet=self._dirichlet(n_classes),
            **features,
        )

    def _can_count(self, weight: float) -> bool:
        if isinstance(self._core, WeightedClassifierForest):
            return weight >= 0
        return weight == 1 and self._core.total_weight + 1 < MOST_COUNTED

    def _expect_weights(self, weights: int | Floats) -> None:
        """Count in real numbers from where whole ones, of 32 bits, do no longer do."""
        if isinstance(self._core, WeightedClassifierForest):
            return
        total = self._core.total_weight + np.sum(weights)
        if total < MOST_COUNTED and np.array_equal(weights, np.rint(weights)):
            return
        state = self._core.state()
        for name in ("n_samples", "counts", "mixed"):
            state["trees"][name] = state["trees"][name].astype(np.float64)
        self._core = self._core_from(state)

    def _core_from(self, state: dict[str, Any]) -> ClassifierForest | WeightedClassifierForest:
        options = Options(**state.pop("options"))
        weighted = state["trees"]["counts"].dtype == np.float64
        core_class = WeightedClassifierForest if weighted else ClassifierForest
        return core_class(options=options, **state)

    def _table_columns(self, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        columns = super()._table_columns(columns)
        return columns | {"counts": self._in_order(columns["counts"])}


def unique_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the different labels, sorted, and where each of y is among them."""
    try:
        labels, inverse = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"y mixes labels that cannot be compared: {error}") from error
    if labels.dtype.kind == "f" and (fractions := labels[labels != np.rint(labels)]).size:
        raise ValueError(
            f"Unknown label type: y holds fractions such as {fractions[0]}, not classes"
        )
    return labels, inverse


def as_classes(labels: ArrayLike) -> NDArray[Any]:
    """Return the different labels, sorted."""
    all_labels = np.asarray(labels)
    classes = np.unique(all_labels)
    if all_labels.ndim != 1 or not 1 <= len(classes) <= MOST_CLASSES:
        raise ValueError(
            f"classes has shape {all_labels.shape}; it must be a list of 1 to {MOST_CLASSES} labels"
        )
    return classes
