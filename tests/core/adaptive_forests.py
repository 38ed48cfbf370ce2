"""Adaptive forests of the core beside the reference, and how the two are compared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from core_forests import OPTIONS, STRUCTURE, seeds

from amforest import _core
from amforest.reference.adaptive import AdaptiveForest
from amforest.reference.adaptive_classes import ClassTask
from amforest.reference.adaptive_numbers import NumberTask
from amforest.reference.regrowth import Group
from helpers import NEGLIGIBLE, TOLERANCE, assert_equal_importances, reference_table

PLAIN, LONGEST = (None, False, True), (None, False, False)  # memory, is honest, is plain
GROUPS = [PLAIN, LONGEST, (40, False, False), (16, False, False), (40, True, False)]
NUMBER_GROUPS = [(*group, has_base) for group in GROUPS[1:4] for has_base in (False, True)]
NUMBER_GROUPS += [(*PLAIN, False), (*GROUPS[4], True)]
NUMBER_OPTIONS = OPTIONS | {"charge_first": True, "split_prior": (0.8, 0.0)}


def adaptive(
    n_numbers: int,
    *,
    groups: Any = GROUPS,
    n_estimators: int = 2,
    seed: int = 0,
    n_classes: int = 2,
    capacity: int = 8,
    dirichlet: float = 0.5,
    n_candidates: int = 6,
    row_limit: int = 200,
    mixer_rate: float = 0.01,
    categories: Any = (),
    max_nodes: int | None = None,
    **options: Any,
) -> Any:
    """Return a forest of the core that has learned nothing."""
    return _core.AdaptiveClassifierForest(
        n_numbers=n_numbers,
        options=_core.Options(**OPTIONS | options, max_nodes=max_nodes),
        seeds=seeds(len(groups) * n_estimators, seed),
        groups=list(groups),
        n_estimators=n_estimators,
        n_candidates=n_candidates,
        row_limit=row_limit,
        mixer_rate=mixer_rate,
        categories=list(categories),
        n_classes=n_classes,
        capacity=capacity,
        dirichlet=dirichlet,
    )


def adaptive_regressor(
    n_numbers: int,
    *,
    groups: Any = NUMBER_GROUPS,
    n_estimators: int = 2,
    seed: int = 0,
    n_candidates: int = 6,
    row_limit: int = 200,
    categories: Any = (),
    max_nodes: int | None = None,
    **options: Any,
) -> Any:
    """Return a forest of the core that predicts numbers and has learned nothing."""
    return _core.AdaptiveRegressorForest(
        n_numbers=n_numbers,
        options=_core.Options(**NUMBER_OPTIONS | options, max_nodes=max_nodes),
        seeds=seeds(len(groups) * n_estimators, seed),
        groups=list(groups),
        n_estimators=n_estimators,
        n_candidates=n_candidates,
        row_limit=row_limit,
        mixer_rate=0.0,
        categories=list(categories),
    )


def reference_of(forest: Any) -> AdaptiveForest:
    """Return the reference of a forest that has learned nothing."""
    state = forest.state()
    options = {name: state["options"][name] for name in NUMBER_OPTIONS}
    max_nodes, n_trees = state["options"]["max_nodes"], forest.n_trees
    task: Any = NumberTask()
    if isinstance(forest, _core.AdaptiveClassifierForest):
        task = ClassTask(state["n_classes"], state["dirichlet"], state["mixer_rate"])
    return AdaptiveForest(
        task=task,
        groups=[Group(*group) for group in state["groups"]],
        seeds=state["trees"]["seeds"].tolist(),
        n_codes=len(state["categories"]),
        n_estimators=state["n_estimators"],
        n_candidates=state["n_candidates"],
        row_limit=state["row_limit"],
        max_leaves=math.inf if max_nodes is None else max_nodes // n_trees // 3,
        tree_options=options,
    )


def resumed(forest: Any) -> Any:
    """Return the forest that is restored from the state of another."""
    state = forest.state()
    options = _core.Options(**state["options"])
    return _core.AdaptiveClassifierForest(**{**state, "options": options})


def assert_same_state(forest: Any, expected: Any) -> None:
    """Compare all that makes two forests of the core, to the bit."""
    arrays, others = (dict(f.state()["trees"]) for f in (forest, expected))
    assert arrays.keys() == others.keys()
    for name, values in arrays.items():
        assert values.tobytes() == others[name].tobytes(), name


def assert_equals_reference(forest: Any, reference: AdaptiveForest, queries: Any) -> None:
    """Compare the trees; weights of the mixer and predictions to rounding."""
    assert_same_trees(forest, reference)
    np.testing.assert_allclose(forest.mixer_weights, reference.mixer.weights, rtol=TOLERANCE)
    predictions = [reference.predict(x) for x in queries]
    np.testing.assert_allclose(forest.predict(queries, 1), predictions, rtol=TOLERANCE)


def assert_same_trees(forest: Any, reference: AdaptiveForest) -> None:
    """Compare trees, schedule and numbers of categories to the bit; weights to rounding."""
    arrays = forest.state()["trees"]
    slots = reference.slots
    np.testing.assert_array_equal(forest.n_regrows, [slot.n_regrows for slot in slots])
    due = [2**64 - 1 if slot.due == math.inf else slot.due for slot in slots]
    np.testing.assert_array_equal(arrays["due"], np.array(due, dtype=np.uint64))
    np.testing.assert_array_equal(arrays["is_regrown"], [bool(slot.regrowth) for slot in slots])
    credit = [slot.regrowth.credit if slot.regrowth else 0 for slot in slots]
    np.testing.assert_array_equal(arrays["regrowth_credit"], credit)
    values = [v for slot in slots for _, v in sorted((slot.numbers.learned or {}).items())]
    np.testing.assert_array_equal(arrays["number_values"], values)
    assert_equal_importances(forest, [slot.importance for slot in slots])
    for t, slot in enumerate(slots):
        weights = slot.tree.feature_weights
        ones = np.ones_like(arrays["feature_weights"][t])
        expected = ones if weights is None else weights
        np.testing.assert_array_equal(arrays["feature_weights"][t], expected)
        assert_same_tree(forest.tree_table(t), slot.tree)


def assert_same_tree(table: Any, tree: Any) -> None:
    names = [name for name in (*STRUCTURE, "threshold", "lower", "upper") if name in table]
    names = [name for name in names if name != "category"]
    others = {"depth", "mean"}.intersection(table)
    dtype = [(n, table[n].dtype, table[n].shape[1:]) for n in (*names, *others)]
    weights = [(name, table[name].dtype) for name in ("odds", "odds_scale", "share")]
    expected = reference_table(tree, np.dtype(dtype + weights))
    for name in names:
        np.testing.assert_array_equal(table[name], expected[name], err_msg=name)
    np.testing.assert_allclose(
        table["share"], expected["share"], rtol=TOLERANCE, atol=NEGLIGIBLE, err_msg="share"
    )
