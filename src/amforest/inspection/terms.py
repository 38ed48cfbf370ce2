"""The contributions to one prediction as a list: the largest first, the rest as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils._missing import is_pandas_na

from amforest._forest.explanation import Explanation

LONGEST = 28  # characters of a name or a category


@dataclass(frozen=True)
class Term:
    """What a feature, or several together, contribute to a prediction.

    Attributes
    ----------
    words : str
        The feature and its value, as in "device = laptop".
    value : float
        The contribution.
    """

    words: str
    value: float


@dataclass(frozen=True)
class Terms:
    """A prediction as a sum.

    Attributes
    ----------
    base, prediction : float
        The base value; with the terms it adds up to the prediction.
    terms : list of Term
        The largest first, whatever their sign; the last one may be the sum of all others.
    """

    base: float
    prediction: float
    terms: list[Term]


def select_output(explanation: Explanation, positive: Any = None) -> Explanation:
    """Return the contributions to one class, or those given if classes do not have their own.

    Parameters
    ----------
    explanation : Explanation
    positive : class, default=None
        None means the second of two; of more, the one that is predicted for most rows.
    """
    labels = explanation.output_names
    if "classes" in explanation.axes:
        if positive is None:
            return explanation[..., 1 if len(labels) == 2 else _predicted(explanation)]
        if positive not in labels:
            raise ValueError(f"positive is {positive!r}; the classes are {labels}")
        return explanation[..., labels.index(positive)]
    if positive is not None and positive != labels:
        rest = "has no classes" if labels is None else f"is of the class {labels!r} only"
        raise ValueError(f"positive is {positive!r}; the explanation {rest}")
    return explanation


def _predicted(explanation: Explanation) -> int:
    """Return the place of the class that is predicted for most rows."""
    values = np.asarray(explanation.values)
    scores = explanation.base_values + values.sum(axis=explanation.axes.index("features"))
    return int(np.bincount(scores.argmax(axis=-1).ravel()).argmax())


def describe_output(explanation: Explanation) -> str:
    """Return what contributions add up to, as in "log-odds of yes"."""
    if explanation.output_names is None:
        return explanation.unit
    return f"{explanation.unit} of {explanation.output_names}"


def list_terms(explanation: Explanation, max_features: int) -> Terms:
    """Return the contributions to one prediction as a sum.

    Parameters
    ----------
    explanation : Explanation
        Of one row, and of one class if classes have values of their own.
    max_features : int
        How many features have a term of their own.
    """
    values = np.asarray(explanation.values, dtype=np.float64)
    names = name_features(explanation)
    order = np.argsort(-np.abs(values), kind="stable").tolist()
    if len(order) == max_features + 1:
        max_features += 1  # a term for the rest would take as much room
    terms = [
        Term(f"{shorten(names[j])} = {describe_value(explanation.data[j])}", float(values[j]))
        for j in order[:max_features]
    ]
    if rest := order[max_features:]:
        words = f"{len(rest):,} other features" if terms else "all features"
        terms.append(Term(words, float(values[rest].sum())))
    base = float(explanation.base_values)
    return Terms(base, base + float(values.sum()), terms)


def name_features(explanation: Explanation) -> list[str]:
    """Return the names of the features; those without a name have a number."""
    if explanation.feature_names is not None:
        return [str(name) for name in explanation.feature_names]
    n_features = np.shape(explanation.values)[explanation.axes.index("features")]
    return [f"feature {j}" for j in range(n_features)]


def describe_value(value: Any) -> str:
    """Return the value of a feature in a few characters."""
    if is_missing(value):
        return "missing"
    if isinstance(value, (float, np.floating)):
        number = float(value)
        words = f"{number:.4g}" if abs(number) < 1e4 or abs(number) >= 1e15 else f"{number:.0f}"
        return words.replace("-", "\N{MINUS SIGN}")
    return shorten(str(value))


def shorten(words: str, longest: int = LONGEST) -> str:
    """Return words on one line, shortened if they are long."""
    words = " ".join(words.split())
    return words if len(words) <= longest else words[: longest - 1] + "…"


def is_missing(value: Any) -> bool:
    """Tell whether a feature has no value: None, NaN, NaT or pandas' NA."""
    return value is None or is_pandas_na(value) or bool(value != value)  # noqa: PLR0124
