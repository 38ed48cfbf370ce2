"""Splits of a tree in words: thresholds in the units of X, categories by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest.inspection.flat import flat_trees

MOST_NAMED = 4  # categories of a side; of the others only the number is printed
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class SplitWords:
    """Describe the splits of one tree.

    Parameters
    ----------
    model : fitted forest
    tree : int
    to_raw : callable, default=None
        Converts a threshold of a feature, given by its index, to the unit to show. None means that
        thresholds are shown as they are.
    """

    def __init__(
        self, model: Any, tree: int, to_raw: Callable[[int, float], float] | None = None
    ) -> None:
        self._to_raw = to_raw
        n_features = len(model.is_categorical_)
        self._keys = list(getattr(model, "feature_names_", range(n_features)))
        self._categories = {
            j: list(model.categories_[self._keys[j]])
            for j in np.flatnonzero(model.is_categorical_).tolist()
        }
        self._numbers: dict[int, NDArray[np.float32]] = {}
        if model.is_adaptive and self._categories:
            self._numbers = self._find_numbers(model, tree)

    def sides(self, node: Any, name: str | None = None) -> tuple[str, str]:
        """Return what is true on the left and on the right of a node of `tree_table`."""
        j = int(node["feature"])
        if name is None:
            name = str(self._keys[j])
        if "category" in node.dtype.names and node["category"] >= 0:
            value = self._categories[j][int(node["category"])]
            return f"{name} is not {value}", f"{name} is {value}"
        if j in self._numbers:
            is_left = self._numbers[j] <= node["threshold"]
            return self._one_of(j, name, is_left), self._one_of(j, name, ~is_left)
        threshold = float(node["threshold"])
        if self._to_raw is not None:
            threshold = self._to_raw(j, threshold)
        return f"{name} ≤ {threshold:.4g}", f"{name} > {threshold:.4g}"

    def _one_of(self, j: int, name: str, is_here: NDArray[np.bool_]) -> str:
        here = [str(self._categories[j][k]) for k in np.flatnonzero(is_here)]
        if not here:
            return f"{name} is none of the categories so far"
        more = len(here) - MOST_NAMED
        shown = here if more <= 1 else [*here[:MOST_NAMED], f"{more} more"]
        return (
            f"{name} is {', '.join(shown[:-1])} or {shown[-1]}"
            if shown[1:]
            else f"{name} is {here[0]}"
        )

    def _find_numbers(self, model: Any, tree: int) -> dict[int, NDArray[np.float32]]:
        """Return the numbers that the tree has for the categories of each feature."""
        flat = flat_trees(model)
        tree %= len(flat["number_keys"])
        sizes = flat["number_sizes"]
        ends = sizes.cumsum().reshape(sizes.shape).astype(np.int64)
        found = {}
        for f, (j, categories) in enumerate(self._categories.items()):
            if not flat["has_numbers"][tree]:
                found[j] = _random_numbers(int(flat["number_keys"][tree]), f, len(categories))
                continue
            part = slice(ends[tree, f] - int(sizes[tree, f]), ends[tree, f])
            # A category that the rows of the regrow did not have gets the mean of all.
            found[j] = np.full(len(categories), flat["number_priors"][tree], np.float32)
            found[j][flat["number_codes"][part]] = flat["number_values"][part]
        return found


def _random_numbers(key: int, feature: int, n_categories: int) -> NDArray[np.float32]:
    """Return what a tree that was never regrown has: the finaliser of splitmix64, on [0, 1)."""
    codes = np.arange(n_categories, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = np.uint64(key) + np.uint64(_GOLDEN) * (
            (np.uint64(feature << 32) | codes) + np.uint64(1)
        )
        z = (z ^ z >> np.uint64(30)) * np.uint64(_FIRST)
        z = (z ^ z >> np.uint64(27)) * np.uint64(_SECOND)
    return ((z ^ z >> np.uint64(31)) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
