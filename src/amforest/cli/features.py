"""Which features a forest splits, how often and how early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.inspection import count_trees, flat_trees, total_weight


@dataclass(frozen=True)
class FeatureUse:
    """What the splits on one feature come to, in all trees.

    Attributes
    ----------
    name : str
    n_splits : int
    first_depth : int or None
        The least depth of one.
    mean_depth : float or None
    reach : float
        How many splits on it a row meets on its way down a tree, in the mean over the rows learnt.
    """

    name: str
    n_splits: int
    first_depth: int | None
    mean_depth: float | None
    reach: float


def feature_uses(model: Any) -> list[FeatureUse]:
    """Return how each feature of a fitted forest is used, those that rows meet most first."""
    trees = flat_trees(model)
    is_inner = trees["feature"] >= 0
    depths = _depths(trees["n_nodes"], is_inner)[is_inner]
    columns, weights = trees["feature"][is_inner], trees["n_samples"][is_inner].astype(float)
    total = total_weight(model) * count_trees(model)
    uses = []
    for place, name in zip(_places(model), _names(model), strict=True):
        mine = columns == place
        seen = depths[mine]
        uses.append(
            FeatureUse(
                name,
                len(seen),
                int(seen.min()) if len(seen) else None,
                float(seen.mean()) if len(seen) else None,
                float(weights[mine].sum() / total),
            )
        )
    return sorted(uses, key=lambda use: -use.reach)


def _names(model: Any) -> list[str]:
    names = getattr(model, "feature_names_in_", np.arange(model.n_features_in_))
    return [str(name) for name in names]


def _places(model: Any) -> NDArray[np.intp]:
    """Return the column of the core for each feature: categories come first."""
    is_categorical = model.is_categorical_
    return np.argsort(
        np.append(np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)), kind="stable"
    )


def _depths(n_nodes: NDArray[Any], is_inner: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the depths of nodes that lie in preorder, tree after tree."""
    depths, inner, node = np.empty(len(is_inner), dtype=np.int64), is_inner.tolist(), 0
    for count in n_nodes.tolist():
        open_depths = [0]
        for _ in range(count):
            depth = depths[node] = open_depths.pop()
            if inner[node]:
                open_depths += [depth + 1, depth + 1]
            node += 1
    return depths
