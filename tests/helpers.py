"""Reference trees beside the core's, their tables, and how the two are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from amforest import AMFClassifier, AMFRegressor, reference
from amforest._forest.core_handle import handle_of
from amforest._forest.core_options import tree_seeds

# Of weights and predictions; the partition and the counts agree bit for bit.
TOLERANCE = 1e-10
NEGLIGIBLE = 2.0**-64  # the core treats a smaller share as 0
WEIGHTS = ("odds", "odds_scale", "share")
LOG_SCALE = 256 * math.log(2)  # odds · 2^(256 · odds_scale)

SWITCHES = ("use_aggregation", "split_pure", "charge_first", "predict_extends")


def reference_trees(
    model: AMFClassifier | AMFRegressor, cls: type[reference.Tree] = reference.Tree, **options: Any
) -> list[reference.Tree]:
    """One reference tree per tree of the model, with its parameters and its random numbers."""
    options |= {name: getattr(model, name) for name in ("step", "split_prior", *SWITCHES)}
    if model.partition == "unrestricted":
        options |= {"lower": model._core.bounds[0], "upper": model._core.bounds[1]}
    if isinstance(model, AMFClassifier):
        n_classes = len(model.classes)
        alpha = model.dirichlet or (0.5 if n_classes <= 2 else 0.01)

        def new_labels() -> reference.LabelModel:
            return reference.ClassCounts(n_classes, alpha)
    else:
        new_labels = reference.RunningMean
    seeds = tree_seeds(model.random_state, model.n_estimators).tolist()
    return [
        cls(new_labels, reference.Generator(seed), turn=t % 10, **options)
        for t, seed in enumerate(seeds)
    ]


def learn_all(
    trees: list[reference.Tree], X: Any, y: Any, sample_weight: Any = None
) -> list[reference.Tree]:
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    for tree in trees:
        for x, label, weight in zip(X, y, weights, strict=True):
            tree.learn(x, label, weight)
    return trees


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
        log_odds = reference_log_odds(tree, v)
        table["odds_scale"][i] = scale = round(log_odds / LOG_SCALE)
        rest = log_odds - scale * LOG_SCALE  # mere rounding where log odds are huge
        table["odds"][i] = math.exp(min(max(rest, -LOG_SCALE / 2), LOG_SCALE / 2))
        table["share"][i] = tree.share(v)
        if not tree.use_aggregation:
            table["odds"][i] = np.nan  # nothing depends on them
        table["birth_time"][i] = v.tau
    return table


def reference_log_odds(tree: reference.Tree, v: reference.Node) -> float:
    """Log of (1 - a) w_v / (a w̄_v0 w̄_v1); leaves have odds of 1 in the table."""
    if v.children() is None:
        return 0.0
    ends, goes_on = tree.log_terms(v)
    return ends - goes_on


def log_odds(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.log(table["odds"]) + LOG_SCALE * table["odds_scale"]


def assert_equal_tables(
    table: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: float = TOLERANCE
) -> None:
    """Compare a core's table with that of a reference tree.

    The tolerance of log odds is relative where they are large, and so is that of the odds
    elsewhere.
    """
    for name in set(table.dtype.names or ()).difference(WEIGHTS):
        np.testing.assert_array_equal(table[name], expected[name], err_msg=name)
    if "odds" not in (table.dtype.names or ()):
        return
    has_odds = ~np.isnan(expected["odds"])
    expected_logs = log_odds(expected[has_odds])
    difference = np.abs(log_odds(table[has_odds]) - expected_logs)
    limit = tolerance * np.fmax(1, np.abs(expected_logs))
    np.testing.assert_array_less(difference, limit, err_msg="log odds")
    np.testing.assert_allclose(table["share"], expected["share"], rtol=tolerance, atol=NEGLIGIBLE)


def assert_equal_importances(core: Any, expected: list[reference.Importance]) -> None:
    """Compare what the splits of each tree have saved, relatively to the largest of them."""
    saved, weights = core.importances()
    np.testing.assert_allclose(weights, [own.weight for own in expected], rtol=TOLERANCE)
    for found, own in zip(saved, expected, strict=True):
        by_feature = np.broadcast_to(own.saved, found.shape)
        atol = TOLERANCE * max(np.abs(by_feature).max(), 1e-3)
        np.testing.assert_allclose(found, by_feature, rtol=TOLERANCE, atol=atol)


def assert_equal_predictions(predictions: Any, expected: Any) -> None:
    """Compare predictions of one tree, of shape (row, class): relatively.

    Means are compared relatively to the largest of them, because they may cancel. The core skips
    nodes of negligible share.
    """
    expected = np.asarray(expected)
    cancels = expected.shape[-1] == 1
    atol = max(1e-16, TOLERANCE * np.abs(expected).max() if cancels else 0)
    np.testing.assert_allclose(predictions, expected, rtol=TOLERANCE, atol=atol)


def tables(model: Any) -> list[bytes]:
    """All bits of all trees, and of the mixer of an adaptive forest."""
    trees = [model.tree_table(i).tobytes() for i in range(model._core.n_trees)]
    return [*trees, model.memory_weights_.tobytes()] if model.is_adaptive else trees


def state_of(model: Any) -> tuple[dict[str, Any], Any, Any]:
    """Parameters, fitted parts and classes: what a failed call must not change."""
    handle = handle_of(model)
    return dict(model.__dict__), handle.fitted, getattr(model, "classes_", np.empty(0)).tolist()
