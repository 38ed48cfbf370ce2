"""Inspection of fitted forests: importances, their trees as arrays, the cells of a partition.

The estimators' own methods `tree_table`, `apply`, `weighted_depth` and `stats` are the usual way.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from amforest._forest.core_handle import Core, Fitted, handle_of
from amforest._forest.importances import Importances, importances_of
from amforest._forest.inputs import Features
from amforest._forest.tree_table import cells_of

__all__ = [
    "Importances",
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
    return _core_of(model).n_bytes


def count_trees(model: Any) -> int:
    """Return the number of trees of a fitted forest."""
    return _core_of(model).n_trees


def learns_residuals(model: Any, tree: int) -> bool:
    """Tell whether a tree learns what a linear regression leaves over, instead of labels."""
    core: Any = _core_of(model)
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
    return _core_of(model).bounds


def total_weight(model: Any) -> float:
    """Return the sum of the weights of all rows learned."""
    return _core_of(model).total_weight


def importances(model: Any) -> Importances:
    """Return how much of the loss the splits on each feature save, as learned online.

    Before a row is learned, the trees whose turn it is follow it from the root to a leaf. At each
    split their prediction changes, and with it the loss: the feature of the split has saved the
    difference. So the features of a tree together save what the tree predicts better than its root,
    which does not look at features.

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
    return importances_of(_fitted(model), names)


def flat_trees(model: Any) -> dict[str, NDArray[Any]]:
    """Return the nodes of all trees as arrays, tree after tree, in preorder.

    Parameters
    ----------
    model : fitted forest

    Returns
    -------
    dict
        `n_nodes` of each tree, and for each node `feature` (-1 in leaves; the core's columns:
        categorical features come first), `threshold`, `n_samples` and others, as in a model file.
    """
    trees: dict[str, NDArray[Any]] = _core_of(model).state()["trees"]
    return trees


def _core_of(model: Any) -> Core:
    return _fitted(model).core


def _fitted(model: Any) -> Fitted:
    fitted = handle_of(model).fitted
    if fitted is None:
        raise NotFittedError(f"{type(model).__name__} is not fitted: call fit or learn_one first")
    return fitted
