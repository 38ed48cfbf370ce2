"""Labels and the class indices of the core: announced, or added with the first row of a class.

`NumberLabels` is the counterpart for regression.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amforest._forest.caller import caller_level
from amforest._forest.class_weights import ClassCounts, ClassWeight, weigh_rows
from amforest._forest.given_labels import as_labels, check_numbers
from amforest._forest.input_errors import argument_named, refuse_times
from amforest._forest.inputs import is_plain
from amforest._forest.limits import MOST_CLASSES
from amforest._forest.losses import Floats, log_losses, squared_errors

MANY_CLASSES = 1_000  # from there on, there may be a warning
AT_ONCE = 4_096  # labels that are encoded together: sorting them takes ten times their memory

Order = NDArray[np.intp] | None


@dataclass(frozen=True)
class Encoded:
    """Labels as the core learns them, and the new labels by the row of their first appearance."""

    labels: NDArray[Any]
    new: dict[int, Any] = field(default_factory=dict)


class ClassLabels:
    """The labels of a classifier by their index in the core, which only ever grows at its end.

    Other threads may predict while a class is added. It is added here before the core learns it,
    so the K columns of any prediction belong to the first K labels.
    """

    __slots__ = ("_sorted", "counts", "index_of", "is_sorted")
    counts: ClassCounts  # of the rows that were learned with class_weight="balanced"
    index_of: dict[Any, int]
    is_sorted: bool  # whether the order of the core is that of the sorted classes
    # The classes, sorted, and the index of each in the core (None: 0, 1, 2, …), as one value.
    _sorted: tuple[NDArray[Any], Order]

    def __init__(
        self, labels: Iterable[Any], classes: NDArray[Any], counts: Iterable[int] = ()
    ) -> None:
        """Take the labels in the order of the core, and sorted."""
        self.counts = ClassCounts(counts)
        self._set({label: k for k, label in enumerate(labels)}, classes)

    @classmethod
    def announce(cls, classes: ArrayLike) -> ClassLabels:
        """Return the labels of classes that are known before they appear."""
        in_order = distinct_classes(classes)
        return cls(in_order.tolist(), in_order)

    def __reduce__(self) -> Any:
        return ClassLabels, (list(self.index_of), self.classes, list(self.counts.by_class))

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted."""
        return self._sorted[0]

    def add(self, label: Any) -> int:
        """Append a class; return the number of classes."""
        n_classes = len(self.index_of) + 1
        # The dtype of the classes may change. numpy would join uint64 and int64 to floats.
        old, new = self.classes, np.asarray([label])
        if {old.dtype.kind, new.dtype.kind} == {"i", "u"}:
            integers = [*old.tolist(), label]
            classes = np.array(integers, np.uint64 if max(integers) >= 2**63 else np.int64)
        else:
            classes = np.append(old, new)
        classes = np.sort(classes)
        self._set(self.index_of | {label: n_classes - 1}, classes)
        return n_classes

    @property
    def known(self) -> tuple[dict[Any, int], tuple[NDArray[Any], Order]]:
        """All labels known so far, for `restore`."""
        return self.index_of, self._sorted

    def restore(self, known: tuple[dict[Any, int], tuple[NDArray[Any], Order]]) -> None:
        """Remove labels that were added since, if the core did not learn them."""
        self.index_of, self._sorted = known
        self.is_sorted = self._sorted[1] is None

    def first(self, n_classes: int) -> tuple[NDArray[Any], Order]:
        """Return the first classes of the core, sorted, and the index of each in the core."""
        classes, order = self._sorted
        if order is None:
            return classes[:n_classes], None
        if n_classes == len(classes):
            return classes, order
        return classes[order < n_classes], order[order < n_classes]

    def by_label(self, by_index: Floats) -> dict[Any, float]:
        """Return a prediction of one row by label, as it was learned, in the order of `classes`."""
        probabilities, order = by_index.tolist(), self.first(len(by_index))[1]
        if order is None:
            return dict(zip(self.index_of, probabilities, strict=False))
        labels = list(self.index_of)
        return {labels[k]: probabilities[k] for k in order.tolist()}

    def names(self, n_classes: int) -> list[Any]:
        """Return the labels as they were learned, in the order of `first`."""
        labels, order = list(self.index_of), self.first(n_classes)[1]
        return labels[:n_classes] if order is None else [labels[k] for k in order.tolist()]

    def sort_columns(self, by_index: NDArray[Any]) -> NDArray[Any]:
        """Bring columns in the order of the core into the order of the sorted classes."""
        order = self.first(by_index.shape[-1])[1]
        if order is None:
            return by_index
        return by_index[order] if by_index.ndim == 1 else by_index[..., order]

    def encode_one(self, y: Any) -> int | None:
        """Return the index of a label, None if it is new."""
        try:
            return self.index_of.get(y)
        except TypeError as error:
            raise TypeError(f"y is {y!r}, which cannot be a label: {error}") from error

    def encode_plain(self, y: NDArray[Any]) -> NDArray[np.uint32] | None:
        """Encode numbers, if all of them are known labels; otherwise return None."""
        classes, order = self._sorted
        if y.dtype.kind != classes.dtype.kind:  # numpy would round to compare them
            return None
        encoded = np.empty(len(y), dtype=np.uint32)
        for start in range(0, len(y), AT_ONCE):
            labels = y[start : start + AT_ONCE]
            at = np.searchsorted(classes, labels)
            if not np.array_equal(classes.take(at, mode="clip"), labels):
                return None
            encoded[start : start + AT_ONCE] = at if order is None else order[at]
        return encoded

    def encode(self, y: NDArray[Any], learned: NDArray[np.intp], classes: Any) -> Encoded:
        """Encode labels; those of rows that are learned may be new.

        `classes`, unless None, must be the classes known so far.
        """
        if classes is not None and set(distinct_classes(classes).tolist()) != self.index_of.keys():
            raise ValueError(
                f"classes is {classes!r}, but the classes so far are {self.classes.tolist()}: give "
                "these, or None"
            )
        if is_plain(y, 1) and (known := self.encode_plain(y)) is not None:
            return Encoded(known)
        encoded = np.zeros(len(y), dtype=np.uint32)  # rows of weight 0 may have unknown labels
        first_rows: dict[Any, int] = {}  # of new labels, in the order of the rows
        # Objects are compared all with each other, to see whether they can be.
        step = AT_ONCE if y.dtype != object else max(len(y), 1)
        for start in range(0, len(y), step):
            rows = learned[slice(*np.searchsorted(learned, [start, start + step]))]
            labels, inverse = distinct_labels(y[start : start + step])
            names, inverse = labels.tolist(), inverse[rows - start]
            indices = np.array([self._index(label) for label in names], dtype=np.int64)
            present, firsts = np.unique(inverse, return_index=True)
            for row, k in sorted(zip(rows[firsts].tolist(), present.tolist(), strict=True)):
                if indices[k] < 0:
                    first_rows.setdefault(names[k], row)
            new = {label: len(self.index_of) + n for n, label in enumerate(first_rows)}
            for k in np.flatnonzero(indices < 0).tolist():
                indices[k] = new.get(names[k], 0)
            encoded[rows] = indices[inverse]
        self._check_new(list(first_rows))
        return Encoded(encoded, {row: label for label, row in first_rows.items()})

    def weigh(
        self, encoded: Encoded, weights: Floats | None, class_weight: ClassWeight
    ) -> Floats | None:
        """Multiply the weights of rows by those of their classes; None means 1 for all."""
        if class_weight is None:
            return weights
        labels = [*self.index_of, *encoded.new.values()]
        return weigh_rows(class_weight, self.counts, labels, encoded.labels, weights)

    @staticmethod
    def losses(predictions: Floats, encoded: NDArray[Any]) -> Floats:
        """Return the log-loss of each of the core's predictions."""
        return log_losses(predictions, encoded)

    def _set(self, index_of: dict[Any, int], classes: NDArray[Any]) -> None:
        order = np.array([index_of[label] for label in classes.tolist()], dtype=np.intp)
        is_sorted = bool((np.diff(order, prepend=-1) == 1).all())
        self.index_of, self._sorted = index_of, (classes, None if is_sorted else order)
        self.is_sorted = is_sorted

    def _index(self, label: Any) -> int:
        """Return the index of a label, -1 if it is new."""
        index = self.encode_one(label)
        return -1 if index is None else index

    def _check_new(self, labels: list[Any]) -> None:
        n_classes = len(self.index_of) + len(labels)
        if n_classes > MOST_CLASSES:
            raise ValueError(
                f"y brings the number of classes to {n_classes}; the limit is {MOST_CLASSES}"
            )
        for label in labels:
            if isinstance(label, str) != isinstance(self.classes[0], str):
                raise TypeError(
                    f"y holds {label!r}; labels must be all text or all numbers, and the classes "
                    f"so far are {self.classes.tolist()}"
                )


class NumberLabels:
    """The labels of a regressor: the core learns them as they are."""

    __slots__ = ()
    is_sorted = True  # a prediction has one column

    def encode_one(self, y: Any) -> float:
        """Convert one label; the core checks its size."""
        if type(y) is float:
            return y
        refuse_times(as_labels([y]), "y")
        with argument_named("y"):
            return float(y)

    def encode_plain(self, y: NDArray[Any]) -> Floats:
        """Convert numbers; the core checks their size."""
        return np.ascontiguousarray(y, dtype=np.float64)

    def encode(self, y: NDArray[Any], learned: NDArray[np.intp], classes: Any) -> Encoded:
        """Convert labels that are already checked; no number is new."""
        check_numbers(y)
        return Encoded(np.ascontiguousarray(y, dtype=np.float64))

    @staticmethod
    def weigh(encoded: Encoded, weights: Floats | None, class_weight: ClassWeight) -> Floats | None:
        """Return the weights as they are: there are no classes."""
        return weights

    @staticmethod
    def sort_columns(by_index: NDArray[Any]) -> NDArray[Any]:
        """Return a prediction as it is."""
        return by_index

    @staticmethod
    def losses(predictions: Floats, encoded: NDArray[Any]) -> Floats:
        """Return the squared error of each of the core's predictions."""
        return squared_errors(predictions[:, 0], encoded)


def distinct_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct labels, sorted, and the position of each of y among them."""
    try:
        labels, inverse = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"y mixes labels that cannot be compared: {error}") from error
    if labels.dtype.kind == "f" and (fractions := labels[labels != np.rint(labels)]).size:
        raise ValueError(
            f"Unknown label type: y holds fractions such as {fractions[0]}, not classes"
        )
    return labels, inverse


def distinct_classes(labels: ArrayLike) -> NDArray[Any]:
    """Return the distinct classes of a list, sorted."""
    all_labels = np.asarray(labels)
    classes = np.unique(all_labels)
    if all_labels.ndim != 1 or not 1 <= len(classes) <= MOST_CLASSES:
        raise ValueError(
            f"classes has shape {all_labels.shape}; it must be a list of 1 to {MOST_CLASSES} labels"
        )
    return classes


def warn_of_many_classes(n_before: int, n_classes: int, n_rows: int) -> None:
    """Warn if labels are so many that they seem to be IDs or numbers: of most rows, their own.

    Parameters
    ----------
    n_before, n_classes : int
        How many classes are known before and after a call.
    n_rows : int
        How many rows are learned then, those before the call included.
    """
    if n_before <= MANY_CLASSES < n_classes and n_rows < 2 * n_classes:
        warnings.warn(
            f"y has {n_classes:,} classes in {n_rows:,} rows, as an ID or a number to predict has. "
            "Each class takes memory in the nodes of all trees: predict numbers with a regressor, "
            "or limit the memory with max_bytes",
            UserWarning,
            stacklevel=caller_level(),
        )


def decide(probabilities: Floats, threshold: float | None) -> NDArray[np.intp]:
    """Return the column of the predicted class of each row, or of one row.

    Parameters
    ----------
    probabilities : ndarray of shape (..., n_classes)
    threshold : float or None
        The least probability with which the second of two classes is predicted. None means the most
        probable class.
    """
    n_classes = probabilities.shape[-1]
    if threshold is None or n_classes == 1:
        return np.asarray(probabilities.argmax(axis=-1))
    if not isinstance(threshold, Real) or not 0 < threshold < 1:
        raise ValueError(f"threshold is {threshold!r}; it must be a number between 0 and 1")
    if n_classes > 2:
        raise ValueError(
            f"threshold is {threshold}, which decides between two classes, and there are "
            f"{n_classes}: set threshold to None, or use class_weight"
        )
    return (probabilities[..., 1] >= threshold).astype(np.intp)
