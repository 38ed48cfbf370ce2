"""Prunings of a tree: their leaves, predictions and losses, and the best of them.

A tree is a table, a pruning T an array of its leaves, rows of the table: see `amforest.theory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy
from sklearn import utils
from sklearn.utils.validation import column_or_1d

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Table = NDArray[Any]


def require(name: str, value: Any, holds: Any, what: str) -> None:
    """Raise an error, which says what the argument must be, unless all of `holds` is true."""
    if not np.all(holds):
        raise ValueError(f"{name} is {value}; it must be {what}")


def check_points(table: Table, X: ArrayLike) -> NDArray[Any]:
    """Validate X and round it as the tree does."""
    if "category" in fields(table):
        raise ValueError("table has categorical features, which amforest.theory does not support")
    width, dtype = table["lower"].shape[1], table["lower"].dtype
    finite = "allow-nan" if "n_samples" in fields(table) else True
    how = {"ensure_all_finite": finite, "ensure_min_samples": 0, "input_name": "X"}
    points: NDArray[Any] = utils.check_array(X, dtype=dtype, **how)
    require("X", f"{points.shape[1]} columns wide", points.shape[1] == width, f"{width} wide")
    return points


def fields(table: Table) -> tuple[str, ...]:
    """Return the names of the table's fields."""
    return table.dtype.names or ()


def time_pruning(table: Table, lifetime: float) -> Rows:
    """Return the leaves of the tree without the nodes born after λ = lifetime (Definition 2).

    Examples
    --------
    >>> from amforest.theory import sample_mondrian
    >>> table = sample_mondrian([[0, 1]], lifetime=9.0, random_state=0).table
    >>> time_pruning(table, 0.0)
    array([0])
    """
    require("lifetime", lifetime, lifetime >= 0, "a number, not below 0")
    born = table["birth_time"] <= lifetime
    return np.flatnonzero(born & ((table["left"] < 0) | ~born[table["left"]]))


def leaves_of(table: Table, X: ArrayLike, leaves: ArrayLike | None = None) -> Rows:
    """Return v_T(x), the leaf of a pruning T whose cell holds x, for each row x of X.

    Parameters
    ----------
    table : structured ndarray
        A tree without categorical features.
    X : array-like of shape (n_samples, n_features)
        Where a value is missing, x goes to the child that has seen more samples.
    leaves : array-like of int, default=None
        T. None means the whole tree.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> from amforest.theory import sample_mondrian
    >>> table = sample_mondrian([[0, 1]], lifetime=9.0, random_state=0).table
    >>> leaves_of(table, [[0.2], [0.7]], leaves=[0])
    array([0, 0])
    """
    points, is_leaf = check_points(table, X), table["left"] < 0
    if leaves is not None:
        is_leaf = np.isin(np.arange(len(table)), leaves)
    at, moving = np.zeros(len(points), dtype=np.intp), np.arange(len(points))
    while len(moving := moving[~is_leaf[at[moving]]]):
        v = table[at[moving]]
        if (v["left"] < 0).any():
            raise ValueError("leaves are not those of a pruning: they do not cover the whole space")
        right = _goes_right(table, v, points[moving])
        at[moving] = np.where(right, v["right"], v["left"])
    return at


def _goes_right(table: Table, v: Any, points: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each point whether it goes right at v, its node or that of all points."""
    x = points[np.arange(len(points)), v["feature"]]
    right: NDArray[np.bool_] = x > v["threshold"]
    if (missing := np.isnan(x)).any():
        n_samples = table["n_samples"]
        right |= missing & (n_samples[v["right"]] > n_samples[v["left"]])
    return right


def node_predictions(table: Table, dirichlet: float = 0.5) -> Floats:
    """Return ŷ_v for each node of a forest's tree: its prediction after all samples so far.

    These are means, or probabilities (n_k + α) / (n + αK) with α = dirichlet, Equations (4) and
    (5). A pruning predicts ``node_predictions(table)[leaves_of(table, X, leaves)]``.

    Examples
    --------
    >>> from amforest import AMFClassifier
    >>> forest = AMFClassifier(random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> node_predictions(forest.tree_table(0))[0]
    array([0.375, 0.625])
    """
    if "mean" in fields(table):
        return np.array(table["mean"])
    counts = table["counts"] + float(dirichlet)
    predictions: Floats = counts / counts.sum(axis=1, keepdims=True)
    return predictions


def online_losses(
    table: Table,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_classes: int | None = None,
    dirichlet: float = 0.5,
) -> Floats:
    """Return L_v for each node: its loss while it learns the labels in its cell one by one.

    As in the paper the first label is charged: h(∅) predicts it, uniformly or as 0.

    Parameters
    ----------
    table : structured ndarray
        A tree, which does not change.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Numbers, or the classes' numbers from 0 on.
    n_classes : int, default=None
        K; the loss is log-loss. None means what the table counts, or the square loss if it counts
        no classes.
    dirichlet : float, default=0.5
        α of the rule (n_k + α) / (n + αK).

    Returns
    -------
    ndarray of shape (n_nodes,)
        A pruning's loss is the sum over its leaves.

    Examples
    --------
    >>> from amforest.theory import sample_mondrian
    >>> table = sample_mondrian([[0, 1]], lifetime=9.0, random_state=0).table
    >>> float(online_losses(table, [[0.2], [0.7]], [1.0, 3.0])[0])  # (0 - 1)² + (1 - 3)²
    5.0
    """
    labels, n_classes = _labels(table, y, n_classes)
    if n_classes is None:
        return _in_cells(_mean_loss, table, X, labels)
    require("dirichlet", dirichlet, dirichlet > 0, "above 0")
    alpha = np.full(n_classes, dirichlet)
    return _in_cells(lambda y: _log_beta(alpha) - _log_beta(alpha + _counts(y, n_classes)),
                     table, X, labels)  # fmt: skip


def constants_losses(
    table: Table, X: ArrayLike, y: ArrayLike, *, n_classes: int | None = None
) -> Floats:
    """Return for each node the loss, in its cell, of the constant prediction that is best there.

    Arguments and result are those of `online_losses`.

    Examples
    --------
    >>> from amforest.theory import sample_mondrian
    >>> table = sample_mondrian([[0, 1]], lifetime=9.0, random_state=0).table
    >>> float(constants_losses(table, [[0.2], [0.7]], [1.0, 3.0])[0])  # the constant is 2
    2.0
    """
    labels, n_classes = _labels(table, y, n_classes)
    return _in_cells(_variance_loss if n_classes is None else _entropy_loss, table, X, labels)


def best_constants_loss(
    table: Table, leaves: ArrayLike, X: ArrayLike, y: ArrayLike, *, n_classes: int | None = None
) -> float:
    """Return inf_g Σ_t ℓ(g(x_t), y_t) over the functions g that are constant on the leaves of T.

    Examples
    --------
    >>> from amforest.theory import sample_mondrian
    >>> table = sample_mondrian([[0, 1]], lifetime=9.0, random_state=0).table
    >>> best_constants_loss(table, [0], [[0.2], [0.7]], [1.0, 3.0])
    2.0
    """
    return float(constants_losses(table, X, y, n_classes=n_classes)[np.asarray(leaves)].sum())


def best_pruning(table: Table, losses: ArrayLike, penalty: ArrayLike = 0.0) -> tuple[Rows, float]:
    """Return the pruning T with the least Σ losses[v] over leaves + Σ penalty[v] over nodes.

    With `online_losses` and a penalty of log(2) / η this is Lemma 1's best: the loss of AMF is at
    most the minimum. With `constants_losses` it is the best function of few constants.

    Parameters
    ----------
    table : structured ndarray
    losses : array-like of shape (n_nodes,)
    penalty : float or array-like of shape (n_nodes,), default=0.0
        For all nodes of T, its leaves included.

    Returns
    -------
    leaves : ndarray of int
        T; where splitting gains nothing, it does not split.
    value : float
        The minimum.

    Examples
    --------
    >>> from amforest.theory import sample_mondrian
    >>> table = sample_mondrian([[0, 1]], lifetime=9.0, random_state=0).table
    >>> losses = online_losses(table, [[0.2], [0.7]], [1.0, 3.0])
    >>> best_pruning(table, losses, penalty=1.0)
    (array([0]), 6.0)
    """
    for name, values in (("losses", losses), ("penalty", penalty)):
        require(name, "not usable", np.isfinite(values), "finite numbers")
    require("losses", f"of shape {np.shape(losses)}", np.shape(losses) == table.shape,
             f"of shape {table.shape}, one for each node")  # fmt: skip
    parent, left, right = (table[name].tolist() for name in ("parent", "left", "right"))
    prices = np.broadcast_to(np.asarray(penalty, dtype=np.float64), table.shape)
    best = (np.asarray(losses, dtype=np.float64) + prices).tolist()
    stops = np.ones(len(table), dtype=bool)
    for v in reversed(range(len(table))):  # children come after parents
        if left[v] >= 0 and (below := prices[v] + best[left[v]] + best[right[v]]) < best[v]:
            best[v], stops[v] = below, False
    reached = np.ones(len(table), dtype=bool)
    for v in range(1, len(table)):
        reached[v] = reached[parent[v]] and not stops[parent[v]]
    return np.flatnonzero(reached & stops), float(best[0])


def _labels(table: Table, y: ArrayLike, n_classes: int | None) -> tuple[NDArray[Any], int | None]:
    """Validate y; determine the number of classes."""
    if n_classes is None and "counts" in fields(table):
        n_classes = table["counts"].shape[1]
    how = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
    labels = column_or_1d(utils.check_array(y, dtype=np.float64, **how))
    if n_classes is None:
        return labels, None
    numbers = labels.astype(np.intp)
    known = (numbers == labels) & (numbers >= 0) & (numbers < n_classes)
    require("y", "not usable", known, f"the numbers of classes, from 0 to {n_classes - 1}")
    return numbers, n_classes


def _in_cells(
    loss: Callable[[NDArray[Any]], float], table: Table, X: ArrayLike, y: NDArray[Any]
) -> Floats:
    """Return the loss of the labels in each node's cell."""
    points = check_points(table, X)
    utils.check_consistent_length(points, y)
    return np.array([loss(y[rows]) for rows in _rows_in_cells(table, points)])


def _rows_in_cells(table: Table, points: NDArray[Any]) -> Iterator[Rows]:
    """Yield the points in each node's cell, in their order."""
    inside = {0: np.arange(len(points))}
    for v, node in enumerate(table):
        rows = inside.pop(v)
        yield rows
        if node["left"] >= 0:
            right = _goes_right(table, node, points[rows])
            inside[int(node["left"])], inside[int(node["right"])] = rows[~right], rows[right]


def _counts(y: Rows, n_classes: int) -> Floats:
    return np.bincount(y, minlength=n_classes).astype(np.float64)


def _log_beta(a: Floats) -> float:
    """Return log(Π_k Γ(a_k) / Γ(Σ_k a_k)). KT's likelihood is B(α + counts) / B(α)."""
    return float(gammaln(a).sum() - gammaln(a.sum()))


def _mean_loss(y: Floats) -> float:
    """Σ_t (mean of y_1, …, y_{t-1} - y_t)², where the mean of nothing is 0."""
    sums = np.cumsum(y) - y
    return float(np.sum((sums / np.maximum(np.arange(len(y)), 1) - y) ** 2))


def _variance_loss(y: Floats) -> float:
    return float(len(y) * np.var(y)) if len(y) else 0.0


def _entropy_loss(y: Rows) -> float:
    counts = np.bincount(y)
    return float(xlogy(len(y), len(y)) - xlogy(counts, counts).sum())
