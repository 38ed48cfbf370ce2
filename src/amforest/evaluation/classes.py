"""Classes of a stream, and forecasts of them, in codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from amforest.evaluation.arrays import Codes, Floats

NONE = -1  # the code of no class


class Classes:
    """Labels, and a code for each: its number in the order in which they came."""

    def __init__(self) -> None:
        self.labels: list[Any] = []
        self.code_of: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def check(self, labels: list[Any], name: str) -> None:
        """Refuse what cannot be a label; `name` is what the error calls them."""
        try:
            new = [label for label in dict.fromkeys(labels) if label not in self.code_of]
        except TypeError as error:
            raise TypeError(f"{name} holds what cannot be a label: {error}") from error
        for label in new:
            _check_label(label, (self.labels or new)[0], name)

    def add(self, labels: Iterable[Any]) -> None:
        """Give codes to labels that have none."""
        for label in labels:
            self.code_of[label] = len(self.labels)
            self.labels.append(label)

    def codes(self, labels: list[Any]) -> Codes:
        """Return the codes of labels that have one."""
        return np.fromiter((self.code_of[label] for label in labels), np.intp, len(labels))

    @property
    def positive(self) -> int:
        """Of two classes the code of the one that sorts last, as in scikit-learn."""
        return int(len(self) > 1 and self.labels[1] > self.labels[0])


def _check_label(label: Any, other: Any, name: str) -> None:
    if _is_missing(label):
        raise ValueError(f"{name} holds {label}: a label is missing")
    if isinstance(label, float) and not label.is_integer():
        raise ValueError(f"{name} holds fractions such as {label}, not classes")
    if isinstance(label, str) != isinstance(other, str):
        raise TypeError(f"{name} holds {label!r}, which is of another kind than {other!r}")


def _is_missing(label: Any) -> bool:
    """Tell None, NaN and pandas' NA, which will not even say whether it equals itself."""
    try:
        return label is None or bool(label != label)  # noqa: PLR0124
    except TypeError:
        return True


@dataclass(frozen=True)
class ClassForecast:
    """What a classifier said of some rows, in codes."""

    labels: Codes  # the most probable class, or NONE
    probabilities: Floats | None  # a column for each class; None if only labels are forecast
    n_classes: int
    positive: int

    def part(self, rows: slice) -> ClassForecast:
        """Return what was said of some of the rows."""
        some = None if self.probabilities is None else self.probabilities[rows]
        return ClassForecast(self.labels[rows], some, self.n_classes, self.positive)

    def of_classes(self) -> Floats:
        """Return the probabilities, which must be there."""
        if self.probabilities is None:
            raise ValueError("labels are no probabilities")
        return self.probabilities
