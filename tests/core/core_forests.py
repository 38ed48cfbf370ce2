"""Forests of the core, made and compared without an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from amforest import _core

OPTIONS = {
    "step": 1.0,
    "use_aggregation": True,
    "split_pure": False,
    "charge_first": False,
    "predict_extends": False,
}
STRUCTURE = ("parent", "left", "right", "feature", "category", "birth_time", "n_samples", "counts")
RANGES = ("threshold", "lower", "upper")


def seeds(n_trees: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(1, 2**63, (n_trees, 4), dtype=np.uint64)


def classifier(
    n_numbers: int, *, n_trees: int = 3, n_classes: int = 2, seed: int = 0, **others: Any
) -> Any:
    """Return a forest that has learned nothing; `others` are options or arguments of the core."""
    options = {name: others.pop(name) for name in OPTIONS if name in others}
    cls = _core.ClassifierForest if "bounds" not in others else _core.UnrestrictedClassifierForest
    return cls(
        n_numbers=n_numbers,
        options=_core.Options(**OPTIONS | options),
        seeds=seeds(n_trees, seed),
        n_classes=n_classes,
        capacity=n_classes,
        dirichlet=0.5,
        **others,
    )


def restored(state: dict[str, Any], cls: Any = _core.ClassifierForest) -> Any:
    """Return the forest of a state."""
    options = _core.Options(**state["options"])
    return cls(**{**state, "options": options})


def rows(n: int, d: int, seed: int = 1) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return features, and labels of two classes that depend on the first one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(np.uint32)
    return X, y


def tables(forest: Any) -> list[dict[str, Any]]:
    return [forest.tree_table(t) for t in range(forest.n_trees)]


def assert_same_forest(forest: Any, expected: Any) -> None:
    """Compare all nodes, with their weights, to the bit."""
    for table, other in zip(tables(forest), tables(expected), strict=True):
        for name, column in table.items():
            np.testing.assert_array_equal(column, other[name], err_msg=name)
