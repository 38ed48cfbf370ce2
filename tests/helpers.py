"""Shared by several test files: reference trees beside the core's, and their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from amforest import AMFClassifier, AMFRegressor, reference
from amforest._core import Rng
from amforest._forest.core_handle import handle_of
from amforest._forest.core_options import tree_seeds
from amforest.inspection import bounds_of

SWITCHES = ("use_aggregation", "split_pure", "charge_first", "predict_extends")


def reference_trees(
    model: AMFClassifier | AMFRegressor, cls: type[reference.Tree] = reference.Tree
) -> list[reference.Tree]:
    """One reference tree per tree of the model, with its parameters and its random numbers."""
    options = {name: getattr(model, name) for name in ("step", "split_prior", *SWITCHES)}
    if model.partition == "unrestricted":
        bounds = bounds_of(model)
        options |= {"lower": bounds[0], "upper": bounds[1]}
    if isinstance(model, AMFClassifier):
        n_classes = len(model.classes)
        alpha = model.dirichlet or (0.5 if n_classes <= 2 else 0.01)

        def new_labels() -> reference.LabelModel:
            return reference.ClassCounts(n_classes, alpha)
    else:
        new_labels = reference.RunningMean
    seeds = tree_seeds(model.random_state, model.n_estimators).tolist()
    return [cls(new_labels, Rng(seed), **options) for seed in seeds]


def preorder(tree: reference.Tree) -> Iterator[tuple[reference.Node, int]]:
    """Yield all nodes with their depths, parents first, left before right."""
    stack = [(tree.root, 0)] if tree.root else []
    while stack:
        v, depth = stack.pop()
        yield v, depth
        if children := v.children():
            stack += [(children[1], depth + 1), (children[0], depth + 1)]


def reference_table(tree: reference.Tree, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The reference tree in the form of `tree_table`."""
    nodes = list(preorder(tree))
    row_of = {v: i for i, (v, _) in enumerate(nodes)} | {None: -1}
    table = np.empty(len(nodes), dtype)
    for i, (v, depth) in enumerate(nodes):
        table["parent"][i], table["depth"][i] = row_of[v.parent], depth
        table["left"][i], table["right"][i] = row_of[v.left], row_of[v.right]
        table["n_samples"][i] = v.labels.n
        label = "counts" if isinstance(v.labels, reference.ClassCounts) else "mean"
        table[label][i] = getattr(v.labels, label)
        for name in {"feature", "threshold", "lower", "upper"}.intersection(dtype.names):
            table[name][i] = getattr(v, name)
        table["odds"][i], table["odds_scale"][i] = v.odds.value, v.odds.scale
        table["share"][i] = tree.share(v) if v.children() else 1.0
        table["birth_time"][i] = v.tau
    return table


def assert_equal_tables(table: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Field by field, because NaN is not equal to itself in whole rows."""
    for name in table.dtype.names or ():
        np.testing.assert_array_equal(table[name], expected[name], err_msg=name)


def tables(model: AMFClassifier | AMFRegressor) -> list[bytes]:
    """All bits of all trees."""
    return [model.tree_table(i).tobytes() for i in range(model.n_estimators)]


def state_of(model: Any) -> tuple[dict[str, Any], Any, Any]:
    """Parameters, fitted parts and classes: what a failed call must not change."""
    handle = handle_of(model)
    return dict(model.__dict__), handle.fitted, getattr(model, "classes_", np.empty(0)).tolist()
