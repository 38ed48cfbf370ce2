"""What is true of every tree, read off its table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[Any]


def check_trees(model: Any) -> None:
    """Check all trees of a fitted model; AssertionError if something is wrong."""
    if hasattr(model, "to_sklearn"):
        model = model.to_sklearn()
    is_real = model.tree_table(0)["n_samples"].dtype.kind == "f"  # sums are rounded
    for i in range(model._core.n_trees):
        table = model.tree_table(i)
        inner = np.flatnonzero(table["left"] >= 0)
        check_links(table, inner)
        check_times(table, inner)
        check_weights(table, inner)
        check_labels(table, inner, rounding=2e-6 if is_real else 0.0)
        if model._core.bounds is None:
            check_ranges(table, inner)
            check_categories(table, inner, model)
        else:
            check_cells(table, inner)


def check_links(table: Table, inner: NDArray[np.intp]) -> None:
    """One parent each, the root first, then left subtrees before right ones."""
    n = len(table)
    sizes = np.ones(n, dtype=np.int64)
    for v in range(n - 1, 0, -1):
        assert 0 <= table["parent"][v] < v
        sizes[table["parent"][v]] += sizes[v]
    assert n > 0
    assert sizes[0] == n
    assert table["parent"][0] == -1
    assert table["depth"][0] == 0
    left, right = table["left"][inner], table["right"][inner]
    leaves = np.setdiff1d(np.arange(n), inner)
    np.testing.assert_array_equal(left, inner + 1)
    np.testing.assert_array_equal(right, inner + 1 + sizes[left])
    for child in (left, right):
        np.testing.assert_array_equal(table["parent"][child], inner)
        np.testing.assert_array_equal(table["depth"][child], table["depth"][inner] + 1)
    assert (table["right"][leaves] == -1).all()
    assert (table["feature"][leaves] == -1).all()
    assert (table["feature"][inner] >= 0).all()


def check_times(table: Table, inner: NDArray[np.intp]) -> None:
    """Nobody is born before its parent, and siblings are born together."""
    times = table["birth_time"]
    assert times[0] == 0
    assert np.isfinite(times).all()
    for side in ("left", "right"):
        assert (times[table[side][inner]] >= times[inner]).all()
    np.testing.assert_array_equal(times[table["left"][inner]], times[table["right"][inner]])


def check_weights(table: Table, inner: NDArray[np.intp]) -> None:
    """Odds are positive, and shares lie between 0 and 1."""
    odds, scale, share = table["odds"], table["odds_scale"], table["share"]
    assert ((odds >= 2.0**-128) & (odds < 2.0**128)).all()
    assert (np.rint(scale) == scale).all()
    assert ((share >= 0) & (share <= 1)).all()
    plain = inner[(scale[inner] == 0) & (share[inner] > 0)]
    np.testing.assert_allclose(share[plain], odds[plain] / (1 + odds[plain]))


def check_labels(table: Table, inner: NDArray[np.intp], rounding: float) -> None:
    """A node has the labels of its children."""
    n = table["n_samples"]
    assert (n[inner] > 0).all()
    fields = ["n_samples", *({"counts"} & set(table.dtype.names or ()))]
    for name in fields:
        values = table[name]
        assert (values >= 0).all()
        both = values[table["left"][inner]] + values[table["right"][inner]]
        limit = rounding * n[inner].reshape(-1, *[1] * (values.ndim - 1))
        assert (np.abs(both - values[inner]) <= limit).all()
    if "counts" in fields:
        assert (np.abs(table["counts"].sum(axis=1) - n) <= rounding * n).all()


def check_ranges(table: Table, inner: NDArray[np.intp]) -> None:
    """A node's range is that of its children, which lie on their sides of the split."""
    lower, upper = table["lower"], table["upper"]
    left, right = table["left"][inner], table["right"][inner]
    np.testing.assert_array_equal(np.isnan(lower), np.isnan(upper))
    assert not (lower > upper).any()
    np.testing.assert_array_equal(lower[inner], np.fmin(lower[left], lower[right]))
    np.testing.assert_array_equal(upper[inner], np.fmax(upper[left], upper[right]))
    numbers = inner if "category" not in table.dtype.names else inner[table["category"][inner] < 0]
    j, s = table["feature"][numbers], table["threshold"][numbers]
    assert not (upper[table["left"][numbers], j] > s).any()
    assert not (lower[table["right"][numbers], j] <= s).any()


def check_categories(table: Table, inner: NDArray[np.intp], model: Any) -> None:
    """A node has seen what its children have; a category that is split off is on the right."""
    if "seen" not in table.dtype.names:
        return
    seen, left, right = table["seen"], table["left"], table["right"]
    np.testing.assert_array_equal(seen[inner], seen[left[inner]] | seen[right[inner]])
    counts = [len(values) for values in model.categories_.values()]
    features = np.flatnonzero(model.is_categorical_).tolist()
    parts = {
        f: slice(end - count, end)
        for f, count, end in zip(features, counts, np.cumsum(counts), strict=True)
    }
    for v in inner[table["category"][inner] >= 0]:
        part = parts[table["feature"][v]]
        is_split_off = np.arange(part.stop - part.start) == table["category"][v]
        assert not (seen[left[v], part] & is_split_off).any()
        assert not (seen[right[v], part] & ~is_split_off).any()


def check_cells(table: Table, inner: NDArray[np.intp]) -> None:
    """A split cuts the cell in two."""
    j, s = table["feature"][inner], table["threshold"][inner]
    assert (table["lower"][inner, j] <= s).all()
    assert (s < table["upper"][inner, j]).all()
