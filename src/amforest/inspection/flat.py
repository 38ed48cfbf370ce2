"""All trees of a forest as arrays, in the layout of a model file."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from amforest._forest.core_handle import Core, handle_of


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
    trees: dict[str, NDArray[Any]] = core_of(model).state()["trees"]
    return trees


def core_of(model: Any) -> Core:
    """Return the core of a fitted forest."""
    fitted = handle_of(model).fitted
    if fitted is None:
        raise NotFittedError(f"{type(model).__name__} is not fitted: call fit or learn_one first")
    return fitted.core
