"""Predictions from the document of `to_json` in plain Python: what a reader in any language does.

A row is a list of the values of the features; None is missing.
"""

from __future__ import annotations

import math
from typing import Any


def predict(document: dict[str, Any], x: list[Any]) -> list[float]:
    values = []
    for t, nodes in enumerate(document["trees"]):
        row = [number_of(document, t, j, value) for j, value in enumerate(x)]
        value = list(leaf(document, nodes, row)["value"])
        if "bases" in document:
            value[0] += base(document["bases"][t], row)
        values.append(value)
    groups = [
        [sum(column) / len(group) for column in zip(*(values[t] for t in group), strict=True)]
        for group in document["groups"]
    ]
    if "mixer" not in document:
        return groups[0]
    if "weights" in document["mixer"]:
        return mix_classes(document["mixer"], groups)
    means = [group[0] for group in groups] + experts(document["experts"], x)
    return [mix_numbers(document["mixer"], means)]


def number_of(document: dict[str, Any], tree: int, j: int, value: Any) -> Any:
    if "numbers" not in document or (table := document["numbers"][tree][j]) is None:
        return value
    categories = document["features"][j]["categories"]
    if value is None:
        return None
    return table["known"][categories.index(value)] if value in categories else table["others"]


def leaf(document: dict[str, Any], nodes: list[dict[str, Any]], x: list[Any]) -> dict[str, Any]:
    node = nodes[0]
    while "value" not in node:
        value = x[node["feature"]]
        if value is None:
            goes_right = node["missing"] == "right"
        elif "category" in node and node["category"] is None:  # that of all unknown ones
            goes_right = value not in document["features"][node["feature"]]["categories"]
        elif "category" in node:
            goes_right = value == node["category"]
        else:
            goes_right = value > node["threshold"]
        node = nodes[node["right" if goes_right else "left"]]
    return node


def base(part: dict[str, Any], x: list[Any]) -> float:
    total = part["intercept"]
    for term in part["terms"]:
        if (value := x[term["feature"]]) is not None:
            clipped = min(max(value, term["lower"]), term["upper"])
            total += term["slope"] * (clipped - term["center"])
    return total


def experts(part: dict[str, Any], x: list[Any]) -> list[float]:
    means = list(part["intercepts"])
    for term in part["terms"]:
        value = x[term["feature"]]
        if value is None:
            continue
        if term["lower"] is not None:
            value = min(max(value, term["lower"]), term["upper"])
        z = (value - term["center"]) * term["scale"]
        means = [mean + slope * z for mean, slope in zip(means, term["slopes"], strict=True)]
    return [*means, part["mean"]]


def mix_classes(mixer: dict[str, Any], groups: list[list[float]]) -> list[float]:
    epsilon, n_classes = mixer["smoothing"], len(groups[0])
    logs = [
        sum(
            weight * math.log((1 - epsilon) * group[k] + epsilon / n_classes)
            for weight, group in zip(mixer["weights"], groups, strict=True)
        )
        for k in range(n_classes)
    ]
    powers = [math.exp(log - max(logs)) for log in logs]
    return [power / sum(powers) for power in powers]


def mix_numbers(mixer: dict[str, Any], means: list[float]) -> float:
    first = least_squares(mixer["first"], means)
    if mixer["second"] is None:
        return first
    shared = sum(w * mean for w, mean in zip(mixer["shared"], means, strict=True))
    return least_squares(mixer["second"], [first, shared, means[-1]])


def least_squares(weights: list[float], means: list[float]) -> float:
    center = sum(means) / len(means)
    moved = sum(w * (mean - center) for w, mean in zip(weights, means, strict=True))
    margin = (max(means) - min(means)) / 2
    return min(max(center + moved, min(means) - margin), max(means) + margin)
