"""The parameter `class_weight`: factors of the weights of rows, fixed or from counts of classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from amforest._forest.inputs import check_least_weight
from amforest._forest.limits import LEAST_WEIGHT, MOST_ADDED_UP
from amforest._forest.losses import Floats

ClassWeight: TypeAlias = Mapping[Any, float] | Literal["balanced"] | None


class ClassCounts:
    """How many rows of each class were learned, by the index of the class in the core.

    A row of class k, the n-th of all, has the weight n / (K n_k), where K classes were seen so far
    and n_k rows of class k, the present row included. So weights do not depend on how rows are cut
    into batches.
    """

    __slots__ = ("by_class", "n_rows", "n_seen")

    def __init__(self, by_class: Iterable[int] = ()) -> None:
        self.by_class = list(by_class)  # later classes have no rows
        self.n_rows = sum(self.by_class)
        self.n_seen = sum(count > 0 for count in self.by_class)

    def weight_of(self, k: int) -> float:
        """Return the weight of the next row if its class is k."""
        count = self._count(k)
        return (self.n_rows + 1) / ((self.n_seen + (count == 0)) * (count + 1))

    def weights_of(self, classes: NDArray[Any]) -> Floats:
        """Return the weights of the next rows, of these classes."""
        n_classes = max(len(self.by_class), int(classes.max(initial=0)) + 1)
        before = np.zeros(n_classes, dtype=np.int64)
        before[: len(self.by_class)] = self.by_class
        in_order = np.argsort(classes, kind="stable")
        starts = np.cumsum(np.bincount(classes, minlength=n_classes))
        starts = np.concatenate([[0], starts[:-1]])
        ranks = np.empty(len(classes), dtype=np.int64)  # among the rows of the same class, from 1
        ranks[in_order] = np.arange(1, len(classes) + 1) - starts[classes[in_order]]
        counts = before[classes] + ranks
        n_seen = self.n_seen + np.cumsum(counts == 1)
        weights: Floats = (self.n_rows + np.arange(1, len(classes) + 1)) / (n_seen * counts)
        return weights

    def add(self, k: int) -> None:
        """Count a row of class k."""
        self.by_class += [0] * (k + 1 - len(self.by_class))
        self.n_seen += self.by_class[k] == 0
        self.by_class[k] += 1
        self.n_rows += 1

    def add_all(self, classes: NDArray[Any]) -> None:
        """Count rows of these classes."""
        more = np.bincount(classes, minlength=len(self.by_class))
        more[: len(self.by_class)] += np.array(self.by_class, dtype=np.int64)
        self.by_class = more.tolist()
        self.n_rows += len(classes)
        self.n_seen = int(np.count_nonzero(more))

    def _count(self, k: int) -> int:
        return self.by_class[k] if k < len(self.by_class) else 0


def check_class_weight(class_weight: ClassWeight) -> None:
    """Refuse weights of classes that are not positive numbers."""
    if not isinstance(class_weight, Mapping):
        return
    for label, weight in class_weight.items():
        if not isinstance(weight, Real) or not LEAST_WEIGHT <= weight <= MOST_ADDED_UP:
            raise ValueError(
                f"class_weight gives {label!r} the weight {weight!r}; weights must be numbers from "
                "2**-100 to 2**53. To skip rows, give them the sample_weight 0"
            )


def weigh_row(
    class_weight: ClassWeight, counts: ClassCounts, label: Any, k: int, weight: float
) -> float:
    """Return the weight of a row, whose label is class k, with the factor of its class."""
    if isinstance(class_weight, Mapping):
        return weight * float(class_weight.get(label, 1.0))
    return weight * counts.weight_of(k)


def weigh_rows(
    class_weight: ClassWeight,
    counts: ClassCounts,
    labels: list[Any],
    classes: NDArray[Any],
    weights: Floats | None,
) -> Floats:
    """Return the weights of rows with the factors of their classes.

    Parameters
    ----------
    class_weight : dict or "balanced"
        A class that a dict does not name has the factor 1.
    counts : ClassCounts
        The rows before these. Rows of weight 0 are not counted.
    labels : list
        The label of each class.
    classes : ndarray of shape (n_samples,)
        The class of each row.
    weights : ndarray of shape (n_samples,) or None
        The weights that were given.
    """
    if weights is None:
        weights = np.ones(len(classes))
    check_least_weight(weights)  # a product could be 0
    learned = np.flatnonzero(weights)
    if isinstance(class_weight, Mapping):
        check_class_weight(class_weight)
        by_class = np.array([class_weight.get(label, 1.0) for label in labels], dtype=np.float64)
        factors = by_class[classes[learned]]
    else:
        factors = counts.weights_of(classes[learned])
    weighed = np.zeros(len(classes))
    with np.errstate(over="ignore"):  # infinity is too much, and refused
        weighed[learned] = weights[learned] * factors
    return weighed
