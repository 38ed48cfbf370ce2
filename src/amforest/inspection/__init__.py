"""Inspection of fitted forests: contributions, importances, trees as arrays, cells.

The estimators' own methods `explain`, `tree_table`, `apply`, `weighted_depth` and `stats` are the
usual way.
"""

from __future__ import annotations

from typing import Any

from amforest._forest.explanation import Explanation, RowExplanation
from amforest._forest.importances import Importances, importances_of
from amforest._forest.inputs import Features
from amforest._forest.tree_table import cells_of
from amforest.inspection.flat import core_of, fitted_of, flat_trees
from amforest.inspection.splits import SplitWords

__all__ = [
    "Explanation",
    "Importances",
    "RowExplanation",
    "SplitWords",
    "bounds_of",
    "cells_of",
    "count_bytes",
    "count_trees",
    "flat_trees",
    "importances",
    "learns_residuals",
    "total_weight",
]


def count_bytes(model: Any) -> int:
    """Return the memory of a fitted forest, in bytes, without the objects of Python around it."""
    return core_of(model).n_bytes


def count_trees(model: Any) -> int:
    """Return the number of trees of a fitted forest."""
    return core_of(model).n_trees


def learns_residuals(model: Any, tree: int) -> bool:
    """Tell whether a tree learns the residuals of a linear regression instead of labels."""
    core: Any = core_of(model)
    if not model.is_adaptive:
        return False
    *_, has_base = core.groups[tree * len(core.groups) // core.n_trees]
    return bool(has_base)


def bounds_of(model: Any) -> Features | None:
    """Return the corners of the box of an unrestricted partition, None if it is restricted.

    Parameters
    ----------
    model : fitted forest

    Returns
    -------
    ndarray of shape (2, n_features) or None
    """
    return core_of(model).bounds


def total_weight(model: Any) -> float:
    """Return the sum of the weights of all rows learned."""
    return core_of(model).total_weight


def importances(model: Any) -> Importances:
    """Return how much of the loss the splits on each feature save, as learned online.

    Before a row is learned, the trees whose turn it is follow it from the root to a leaf. At each
    split their prediction changes, and with it the loss: the feature of the split has saved the
    difference. So the features of a tree together save what the tree predicts better than its root,
    which uses no features.

    Parameters
    ----------
    model : fitted forest, or one of `amforest.river`'s

    Returns
    -------
    Importances
        With `names`, `total`, `memories`, `by_memory`, `weights`, `unit` and `normalised()`.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AdaptiveAMFClassifier
    >>> from amforest.inspection import importances
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = AdaptiveAMFClassifier(random_state=0).fit(X, X[:, 1] > 0)
    >>> found = importances(model)
    >>> found.unit, int(found.total.argmax())
    ('nats', 1)
    """
    names = model.memory_names_ if hasattr(model, "memory_names_") else ()
    return importances_of(fitted_of(model), names)
