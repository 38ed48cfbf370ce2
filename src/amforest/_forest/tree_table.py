"""Trees as structured arrays, one row per node, in the order of X's features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest._forest.categories import unpack
from amforest._forest.class_labels import ClassLabels
from amforest._forest.core_handle import Fitted, is_adaptive_core
from amforest._forest.inputs import Features

Columns = dict[str, NDArray[Any]]

_SIDES = ("lower", "upper")
_FIELDS = (
    *("parent", "left", "right", "depth", "feature", "threshold", "category", "birth_time"),
    *("n_samples", "counts", "mean", "lower", "upper", "seen", "share", "odds", "odds_scale"),
)


def table_columns(fitted: Fitted, i: int) -> Columns:
    """Return the columns of tree i; negative numbers count from the last tree."""
    encoder, labels, core = fitted.encoder, fitted.labels, fitted.core
    if not -core.n_trees <= i < core.n_trees:
        raise IndexError(f"i is {i}; the forest has {core.n_trees} trees")
    columns = core.tree_table(i % core.n_trees)
    if isinstance(labels, ClassLabels):
        columns["counts"] = labels.sort_columns(columns["counts"])
    if core.bounds is not None:
        columns |= cells_of(columns, core.bounds)
    if is_adaptive_core(core):
        columns |= _columns_of_x(columns, encoder.schema.is_categorical, core.tree_columns)
    if encoder.categories is None or is_adaptive_core(core):
        return {name: columns[name] for name in columns if name not in ("category", "seen")}
    is_categorical = encoder.schema.is_categorical
    columns |= _features_of_x(columns, is_categorical)
    counts = [len(categories) for categories in encoder.categories.lists()]
    sets = unpack(columns["seen"], core.categories)
    seen = [nodes[:, :count] for nodes, count in zip(sets, counts, strict=True)]
    return columns | {"seen": np.hstack(seen)}


def build_table(columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns as a structured array."""
    names = [name for name in _FIELDS if name in columns]
    fields = [(name, columns[name].dtype, columns[name].shape[1:]) for name in names]
    table = np.empty(len(columns["parent"]), dtype=fields)
    for name in names:
        table[name] = columns[name]
    return table


def cells_of(columns: Mapping[str, NDArray[Any]] | NDArray[Any], box: Features) -> Columns:
    """Return the lower and upper corners of the nodes' cells, from the root down.

    Parameters
    ----------
    columns : mapping or structured array
        With `parent`, `right`, `depth`, `feature` and `threshold`, as in `tree_table`.
    box : ndarray of shape (2, n_features)
        The lower and upper corners of the root's cell.

    Returns
    -------
    dict
        `lower` and `upper`, each of shape (n_nodes, n_features).
    """
    corners = {
        side: np.tile(corner, (len(columns["feature"]), 1))
        for side, corner in zip(_SIDES, box, strict=True)
    }
    order = np.argsort(columns["depth"], kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(columns["depth"][order])) + 1)[1:]:
        parents = columns["parent"][rows]
        is_right = columns["right"][parents] == rows
        for side, is_cut in zip(_SIDES, (is_right, ~is_right), strict=True):
            corners[side][rows] = corners[side][parents]
            cut, by = rows[is_cut], parents[is_cut]
            corners[side][cut, columns["feature"][by]] = columns["threshold"][by]
    return corners


def _columns_of_x(
    columns: Columns, is_categorical: NDArray[np.bool_], features: NDArray[np.uint32]
) -> Columns:
    """Return features and ranges with X's columns in place of those of an adaptive tree."""
    places = np.append(np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical))[features]
    moved = {"feature": np.where(columns["feature"] < 0, -1, places[columns["feature"]])}
    for side in _SIDES:
        moved[side] = np.empty_like(columns[side])
        moved[side][:, places] = columns[side]
    return moved


def _features_of_x(columns: Columns, is_categorical: NDArray[np.bool_]) -> Columns:
    """Return features and ranges with X's columns in place of the core's."""
    places = np.append(np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical))
    feature = columns["feature"]
    moved = {"feature": np.where(feature < 0, -1, places[feature])}
    for side in _SIDES:
        moved[side] = np.full((len(feature), len(is_categorical)), np.nan, np.float32)
        moved[side][:, ~is_categorical] = columns[side]
    return moved
