"""A forest as plain values: what all exports are made from."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from amforest._core import DEGREES, FORGETTING, LEVELS, MOST_LINEAR, WIDTHS
from amforest._forest.categories import OTHERS, Categories
from amforest._forest.class_labels import ClassLabels
from amforest._forest.core_handle import Fitted, handle_of
from amforest._forest.encoder import Encoder
from amforest._forest.losses import Floats
from amforest.frozen import FrozenModel, model_of

Indices = NDArray[np.int64]
SMOOTHING = 1e-4  # ε of the mixer of classes: see logistic_mixer.hpp
N_CANDIDATES = 3  # of the second level of the mixer of numbers


@dataclass(frozen=True)
class Feature:
    """A feature of X. A row of the core has the codes of categories first, then numbers."""

    name: str | None
    column: int  # in a row of the core
    categories: list[Hashable] | None  # in the order of their codes; None: the feature is a number
    has_others: bool = False  # whether one more code stands for all other categories


@dataclass(frozen=True, eq=False)
class PlainTree:
    """The nodes of a tree in preorder; the root is node 0."""

    feature: Indices  # the column that a split tests; -1 in leaves
    threshold: NDArray[np.float32]  # x <= threshold goes left; a category with this code goes right
    missing_goes_right: NDArray[np.bool_]
    left: Indices  # -1 in leaves
    right: Indices
    leaf: Indices  # the row of `values`; -1 in inner nodes
    weight: Floats  # of the rows that were learned in each node
    values: Floats  # leaves x outputs


@dataclass(frozen=True, eq=False)
class LinearBase:
    """A linear function of a tree's columns: intercept + Σ slope (clip(x) - center)."""

    intercept: float
    columns: Indices
    slope: Floats
    center: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class LinearExperts:
    """Linear regressions on the first numbers of a row, and the mean of all labels.

    Each predicts intercept + Σ slope z, where z = (clip(x) - center) scale, or 0 where x is
    missing.
    """

    intercepts: Floats
    slopes: Floats  # experts x features
    center: Floats
    scale: Floats
    lower: Floats
    upper: Floats
    mean: float


@dataclass(frozen=True, eq=False)
class NumberMixer:
    """The weights of the two levels that mix the experts' means: see number_mixer.hpp."""

    first: Floats
    shared: Floats | None = None  # None: there is one level only
    second: Floats | None = None


@dataclass(frozen=True, eq=False)
class PlainForest:
    """A forest, its columns and its mixer."""

    name: str
    features: list[Feature]  # in the order of X
    trees: list[PlainTree]
    n_groups: int  # of trees; an AMF forest is one group
    classes: NDArray[Any] | None  # sorted, as the columns of the trees' values
    threshold: float | None
    columns: Indices  # of trees: the column of a row that each stands for
    # Of an adaptive forest.
    group_weights: Floats | None = None  # of the mixer of classes
    numbers: list[NDArray[np.float32]] = field(default_factory=list)  # by code + 1, then tree
    bases: list[LinearBase] | None = None
    experts: LinearExperts | None = None
    mixer: NumberMixer | None = None

    @property
    def is_adaptive(self) -> bool:
        """Whether groups of trees are mixed, instead of being averaged."""
        return self.group_weights is not None or self.mixer is not None

    @property
    def n_codes(self) -> int:
        """How many columns of a row hold codes."""
        return sum(feature.categories is not None for feature in self.features)

    def group(self, g: int) -> slice:
        """Return which trees are those of a group."""
        n = len(self.trees) // self.n_groups
        return slice(g * n, (g + 1) * n)


def plain_forest(model: Any) -> PlainForest:
    """Return a fitted forest, or a frozen copy of one, as plain values."""
    if not isinstance(model, FrozenModel) and not hasattr(model, "freeze"):
        raise TypeError(f"model is {model!r}; it must be a fitted forest, or a frozen copy of one")
    inner = model_of(model if isinstance(model, FrozenModel) else model.freeze())
    fitted = cast(Fitted, handle_of(inner).fitted)
    state: dict[str, Any] = fitted.core.state()
    arrays, n_outputs = state["trees"], state["n_outputs"]
    n_groups, n_features = state.get("n_groups", 1), state["n_numbers"] + len(state["categories"])
    n_trees = state.get("n_trees") or n_groups * state["n_estimators"]
    classes, order = None, None
    if isinstance(fitted.labels, ClassLabels):
        classes, order = fitted.labels.first(n_outputs)
    features = _features(fitted.encoder)
    return PlainForest(
        name=type(inner).__name__,
        features=features,
        trees=_trees(arrays, n_trees, order),
        n_groups=n_groups,
        classes=classes,
        threshold=getattr(inner, "threshold", None),
        columns=np.asarray(arrays.get("columns", np.arange(n_features)), dtype=np.int64),
        **_adaptive_parts(state, n_groups, n_trees, features),
    )


def _features(encoder: Encoder) -> list[Feature]:
    if (named := encoder.named) is not None:
        codes, n = named.categories, len(named.categorical)
        lists = [_feature(str(name), k, codes, k) for k, name in enumerate(named.categorical)]
        return lists + [Feature(str(name), n + k, None) for k, name in enumerate(named.numbers)]
    schema, categories = encoder.schema, encoder.categories or Categories()
    columns = np.empty(schema.n_features, dtype=np.int64)
    n_codes = len(categories)
    columns[schema.is_categorical] = np.arange(n_codes)
    columns[~schema.is_categorical] = np.arange(n_codes, schema.n_features)
    names = [None] * schema.n_features if schema.names is None else schema.names.tolist()
    return [
        _feature(name, j, categories, j) if j < n_codes else Feature(name, j, None)
        for name, j in zip(names, columns.tolist(), strict=True)
    ]


def _feature(name: str | None, column: int, categories: Categories, f: int) -> Feature:
    values = [value for value in categories.codes[f] if value is not None]
    has_others = OTHERS in values
    return Feature(name, column, [v for v in values if v is not OTHERS], has_others)


def _trees(arrays: Any, n_trees: int, order: NDArray[np.intp] | None) -> list[PlainTree]:
    """Cut the columns of all trees into trees."""
    values = arrays["values"] if order is None else arrays["values"][:, order]
    is_leaf = arrays["feature"] < 0
    # A tree ends where it has one more leaf than splits.
    level = np.cumsum(np.where(is_leaf, 1, -1))
    highest = np.maximum.accumulate(np.maximum(level, 0))
    ends = np.flatnonzero(np.diff(highest, prepend=0)) + 1
    leaves, splits = np.cumsum(is_leaf), np.cumsum(~is_leaf)
    trees, start = [], 0
    for end in ends.tolist()[:n_trees]:
        first_leaf = int(leaves[start - 1]) if start else 0
        first_split = int(splits[start - 1]) if start else 0
        own_leaves = slice(first_leaf, int(leaves[end - 1]))
        own_splits = slice(first_split, int(splits[end - 1]))
        trees.append(
            _tree(
                arrays["feature"][start:end].astype(np.int64),
                arrays["threshold"][own_splits],
                arrays["missing"][own_splits].astype(bool),
                arrays["weight"][own_leaves].astype(np.float64),
                np.ascontiguousarray(values[own_leaves]),
            )
        )
        start = end
    return trees


def _tree(feature: Indices, threshold: Any, missing: Any, weight: Floats, values: Any) -> PlainTree:
    n, is_split = len(feature), feature >= 0
    left, right, leaf = (np.full(n, -1, dtype=np.int64) for _ in range(3))
    weights = np.zeros(n)
    weights[~is_split], leaf[~is_split] = weight, np.arange(n - is_split.sum())
    left[is_split] = np.flatnonzero(is_split) + 1
    done: list[int] = []  # the roots of the subtrees behind this node
    for v in range(n - 1, -1, -1):
        if is_split[v]:
            first, second = done.pop(), done.pop()
            right[v], weights[v] = second, weights[first] + weights[second]
        done.append(v)
    thresholds, goes_right = np.zeros(n, dtype=np.float32), np.zeros(n, dtype=bool)
    thresholds[is_split], goes_right[is_split] = threshold, missing
    return PlainTree(feature, thresholds, goes_right, left, right, leaf, weights, values)


def _adaptive_parts(
    state: dict[str, Any], n_groups: int, n_trees: int, features: list[Feature]
) -> dict[str, Any]:
    arrays = state["trees"]
    if "mixer_weights" not in arrays:
        return {}
    sizes = [room + 1 for room in state["categories"]]
    tables = np.split(arrays["numbers"], np.cumsum(sizes)[:-1], axis=1) if sizes else []
    parts: dict[str, Any] = {"numbers": [table.T for table in tables]}
    if "expert_state" not in arrays:
        return parts | {"group_weights": arrays["mixer_weights"]}
    n_numbers = sum(feature.categories is None for feature in features)
    experts = _experts(arrays["expert_state"], state["n_numbers"], n_numbers)
    n_experts = n_groups + len(FORGETTING) + 1
    mixer = _number_mixer(arrays["mixer_weights"], arrays["mixer_state"], n_experts)
    return parts | {"bases": _bases(arrays, n_trees), "experts": experts, "mixer": mixer}


def _bases(arrays: Any, n_trees: int) -> list[LinearBase]:
    ends = np.cumsum(arrays["base_sizes"]).astype(np.int64).tolist()
    starts = [0, *ends][:n_trees]
    return [
        LinearBase(
            float(intercept),
            arrays["base_columns"][start:end].astype(np.int64),
            *arrays["base_terms"][start:end].T,
        )
        for intercept, start, end in zip(arrays["base_intercepts"], starts, ends, strict=True)
    ]


def _experts(state: Floats, width: int, n_numbers: int) -> LinearExperts:
    """Read the state of linear experts: see linear_experts.hpp.

    A row has room for `width` numbers, of which a model of river may use fewer.
    """
    n, n_used = min(width, MOST_LINEAR), min(n_numbers, MOST_LINEAR)
    (reference, _, mean, _), rest = state[:4], state[4:]
    features, rest = rest[: 7 * n].reshape(n, 7), rest[7 * n :]
    experts = rest.reshape(len(FORGETTING), -1)
    lower, upper, center, scale = features[:n_used, 3:].T
    is_known = lower <= upper
    return LinearExperts(
        intercepts=reference + experts[:, n],
        slopes=experts[:, :n_used],
        center=center,
        scale=scale,
        lower=np.where(is_known, lower, -inf),
        upper=np.where(is_known, upper, inf),
        mean=float(reference + mean),
    )


def _number_mixer(weights: Floats, state: Floats, n: int) -> NumberMixer:
    """Read the state of a mixer of numbers: see number_mixer.hpp."""
    n_first = 1 + n * (n + 1) // 2 + n + 2
    n_scale = n + len(WIDTHS) * len(DEGREES) + len(LEVELS)
    second = state[n_first + n_scale :]
    if not len(second):
        return NumberMixer(weights)
    return NumberMixer(weights, second[:n], second[n + 2 : n + 2 + N_CANDIDATES])
