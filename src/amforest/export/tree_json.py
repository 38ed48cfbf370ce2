"""Forests as plain values for JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from amforest.export.plain_forest import (
    SMOOTHING,
    Feature,
    LinearBase,
    LinearExperts,
    PlainForest,
    PlainTree,
    plain_forest,
)

SCHEMA = 1  # of the document
_PLAIN = (str, int, float, bool)


def to_json(model: Any) -> dict[str, Any]:
    """Convert a fitted forest to a dict that `json.dump` takes: its trees, bases and mixer.

    Parameters
    ----------
    model : AMFClassifier, AMFRegressor, AdaptiveAMFClassifier, AdaptiveAMFRegressor, \
            a model of amforest.river, or a frozen copy of one of them
        Fitted. Of `AMFClassifier` and `AMFRegressor` with ``predict_extends=False`` and
        ``partition="restricted"``.

    Returns
    -------
    dict
        Its keys are described in ``docs/export.md``. All numbers are exact.

    Raises
    ------
    ValueError
        If predictions differ within a leaf, or a class or a category is not a value of JSON.

    Examples
    --------
    >>> from amforest import AMFRegressor
    >>> from amforest.export import to_json
    >>> document = to_json(AMFRegressor(1, random_state=0).fit([[0.0], [1.0]], [2.0, 4.0]))
    >>> root, left, right = document["trees"][0]
    >>> sorted(root)
    ['feature', 'left', 'missing', 'right', 'threshold']
    >>> right["weight"]
    1.0
    """
    forest = plain_forest(model)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "model": forest.name,
        "features": [_feature(feature) for feature in forest.features],
        "classes": None,
        "groups": [list(range(len(forest.trees)))[forest.group(g)] for g in range(forest.n_groups)],
        "trees": [_nodes(forest, tree) for tree in forest.trees],
    }
    if forest.classes is not None:
        document["classes"] = [_plain(label, "a class") for label in forest.classes.tolist()]
    if forest.group_weights is not None:
        weights = forest.group_weights.tolist()
        document["mixer"] = {"smoothing": SMOOTHING, "weights": weights}
    if forest.mixer is not None:
        parts = forest.mixer.first, forest.mixer.shared, forest.mixer.second
        names = "first", "shared", "second"
        document["mixer"] = {
            name: None if part is None else part.tolist()
            for name, part in zip(names, parts, strict=True)
        }
        document["bases"] = [_base(forest, base) for base in forest.bases or []]
        document["experts"] = None if forest.experts is None else _experts(forest, forest.experts)
    if forest.is_adaptive and forest.n_codes:
        document["numbers"] = [_numbers(forest, t) for t in range(len(forest.trees))]
    return document


def _feature(feature: Feature) -> dict[str, Any]:
    if feature.categories is None:
        return {"name": feature.name, "categories": None}
    return {
        "name": feature.name,
        "categories": [_plain(value, "a category") for value in feature.categories],
    }


def _plain(value: Any, what: str) -> Any:
    if type(value) not in _PLAIN or (isinstance(value, float) and not isfinite(value)):
        raise ValueError(f"{what} is {value!r}, which is not a value of JSON: convert it to text")
    return value


def _by_column(forest: PlainForest) -> list[int]:
    """Return the feature of each column of the trees, as an index of `features`."""
    of_row = {feature.column: j for j, feature in enumerate(forest.features)}
    return [of_row.get(column, -1) for column in forest.columns.tolist()]


def _nodes(forest: PlainForest, tree: PlainTree) -> list[dict[str, Any]]:
    features = _by_column(forest)
    nodes: list[dict[str, Any]] = []
    columns = (tree.feature, tree.threshold, tree.missing_goes_right, tree.left, tree.right)
    for v, (column, threshold, goes_right, left, right) in enumerate(
        zip(*(values.tolist() for values in columns), strict=True)
    ):
        if column < 0:
            value = tree.values[tree.leaf[v]].tolist()
            nodes.append({"value": value, "weight": float(tree.weight[v])})
            continue
        j = features[column]
        split: dict[str, Any] = {"feature": j}
        known = forest.features[j].categories
        if known is None or forest.is_adaptive:
            split["threshold"] = threshold
        else:
            split["category"] = known[int(threshold)] if threshold < len(known) else None
        missing = "right" if goes_right else "left"
        nodes.append(split | {"missing": missing, "left": left, "right": right})
    return nodes


def _base(forest: PlainForest, base: LinearBase) -> dict[str, Any]:
    features, columns = _by_column(forest), base.columns.tolist()
    parts = (base.slope, base.center, base.lower, base.upper)
    names = ("slope", "center", "lower", "upper")
    terms = [
        {"feature": features[column]} | dict(zip(names, values, strict=True))
        for column, *values in zip(columns, *(part.tolist() for part in parts), strict=True)
    ]
    return {"intercept": base.intercept, "terms": terms}


def _experts(forest: PlainForest, experts: LinearExperts) -> dict[str, Any]:
    numbers = sorted((f.column, j) for j, f in enumerate(forest.features) if f.categories is None)
    terms = []
    for k, (_, j) in enumerate(numbers[: len(experts.center)]):
        is_known = bool(np.isfinite(experts.lower[k]))
        bounds = (experts.lower[k], experts.upper[k]) if is_known else (None, None)
        terms.append(
            {
                "feature": j,
                "center": float(experts.center[k]),
                "scale": float(experts.scale[k]),
                "lower": None if bounds[0] is None else float(bounds[0]),
                "upper": None if bounds[1] is None else float(bounds[1]),
                "slopes": experts.slopes[:, k].tolist(),
            }
        )
    intercepts = experts.intercepts.tolist()
    return {"intercepts": intercepts, "terms": terms, "mean": experts.mean}


def _numbers(forest: PlainForest, tree: int) -> list[dict[str, Any] | None]:
    """Return the numbers of the categories of each feature in a tree: in order, and others'."""
    return [
        None if feature.categories is None else _table(forest, feature, tree)
        for feature in forest.features
    ]


def _table(forest: PlainForest, feature: Feature, tree: int) -> dict[str, Any]:
    by_code = forest.numbers[feature.column][:, tree].astype(np.float64).tolist()
    known = len(feature.categories or [])
    others = by_code[known + 1] if feature.has_others else by_code[0]
    return {"known": by_code[1 : known + 1], "others": others}
