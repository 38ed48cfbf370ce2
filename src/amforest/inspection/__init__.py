"""Inspection of fitted forests: their trees as arrays, and the cells of a partition.

The estimators' own methods `tree_table`, `apply`, `weighted_depth` and `stats` are the usual way.
"""

from __future__ import annotations

from typing import Any

from amforest._forest.inputs import Features
from amforest._forest.tree_table import cells_of
from amforest.inspection.flat import core_of, flat_trees
from amforest.inspection.splits import SplitWords

__all__ = [
    "SplitWords",
    "bounds_of",
    "cells_of",
    "count_bytes",
    "count_trees",
    "flat_trees",
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
    """Tell whether a tree learns what a linear regression leaves over, instead of labels."""
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
