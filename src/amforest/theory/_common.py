"""What the modules of this package share: names of types, checks of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Table = NDArray[Any]


def require(name: str, value: Any, holds: Any, what: str) -> None:
    """Refuse the argument unless all of `holds` is true; say what it must be."""
    if not np.all(holds):
        raise ValueError(f"{name} is {value}; it must be {what}")


def check_points(table: Table, X: ArrayLike) -> NDArray[Any]:
    """Check X and round it as the tree does."""
    if "category" in fields(table):
        raise ValueError("table has categorical features, which amforest.theory cannot follow")
    width, dtype = table["lower"].shape[1], table["lower"].dtype
    finite = "allow-nan" if "n_samples" in fields(table) else True
    how = {"ensure_all_finite": finite, "ensure_min_samples": 0, "input_name": "X"}
    points: NDArray[Any] = check_array(X, dtype=dtype, **how)
    require("X", f"{points.shape[1]} columns wide", points.shape[1] == width, f"{width} wide")
    return points


def fields(table: Table) -> tuple[str, ...]:
    """Return the names of the table's fields."""
    return table.dtype.names or ()
