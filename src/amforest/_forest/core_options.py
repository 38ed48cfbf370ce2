"""The parameters of a core: options, seeds and the box of an unrestricted partition."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from amforest._core import Options
from amforest._forest.encoder import Encoder
from amforest._forest.inputs import Features, Sparse
from amforest._forest.limits import LEAST_MEMORY

Seeds = NDArray[np.uint64]
# The memory, whether it is honest, whether it is plain; of a regressor, whether it has a base.
Group = tuple[int | None, bool, bool] | tuple[int | None, bool, bool, bool]


def learning_rate(estimator: Any) -> float:
    """Return η; for ``step=None`` the paper's choice for labels within ±B, 1 / (8 B²).

    With ``step="auto"`` it is 1 before the first row.
    """
    if isinstance(estimator.step, str):
        return 1.0
    if estimator.step is not None:
        return float(estimator.step)
    if estimator.bound is None:
        raise ValueError("step is None, which needs bound: labels lie within ±bound")
    return 1 / (8 * float(estimator.bound) ** 2)


def aggregation_options(estimator: Any) -> Options:
    """Return the options of an aggregated Mondrian forest."""
    return Options(
        step=learning_rate(estimator),
        use_aggregation=bool(estimator.use_aggregation),
        split_pure=bool(estimator.split_pure),
        charge_first=bool(estimator.charge_first),
        predict_extends=bool(estimator.predict_extends),
        split_prior=_split_prior(estimator),
        **size_limits(estimator),
    )


def adaptive_tree_options(estimator: Any, **options: Any) -> Options:
    """Return the options of an adaptive forest's trees."""
    return Options(
        use_aggregation=bool(estimator.use_aggregation),
        split_pure=bool(estimator.split_pure),
        predict_extends=False,
        **options,
        max_nodes=None if estimator.max_nodes is None else int(estimator.max_nodes),
        max_bytes=None if estimator.max_bytes is None else int(estimator.max_bytes),
    )


def checked_memories(estimator: Any, name: str) -> list[int | None]:
    """Return the memories that a parameter lists, as the core counts them."""
    memories: list[int | None] = []
    for memory in getattr(estimator, name):
        is_count = isinstance(memory, Integral) and int(memory) >= LEAST_MEMORY
        if memory is not None and not is_count:
            raise ValueError(
                f"{name} holds {memory!r}; a memory must be None or a whole number of rows, at "
                f"least {LEAST_MEMORY}"
            )
        memories.append(None if memory is None else int(memory))
    return memories


def size_limits(estimator: Any) -> dict[str, Any]:
    """Return `max_nodes` and `max_bytes`, if each tree can have a part of them."""
    limits = {}
    for name in ("max_nodes", "max_bytes"):
        limit, n_trees = getattr(estimator, name), estimator.n_estimators
        if limit is not None and limit < n_trees:
            raise ValueError(
                f"{name} is {limit}; the {n_trees} trees divide it among themselves, so it must be "
                f"at least {n_trees}"
            )
        limits[name] = None if limit is None else int(limit)
    return limits


def _split_prior(estimator: Any) -> tuple[float, float]:
    given = f"split_prior is {estimator.split_prior!r}"
    if len(estimator.split_prior) != 2:
        raise ValueError(f"{given}; it must be a pair (alpha, beta)")
    alpha, beta = (float(value) for value in estimator.split_prior)
    if not (1e-100 <= alpha <= 1 - 2.0**-50 and 0 <= beta <= 10):
        raise ValueError(f"{given}; alpha must lie between 0 and 1, beta in [0, 10]")
    if beta != 0 and estimator.partition == "restricted":
        raise ValueError(
            f"{given}; beta must be 0 with partition='restricted', where a new split moves a whole "
            "subtree down"
        )
    if beta != 0 and estimator.predict_extends:
        raise ValueError(f"{given}; beta must be 0 with predict_extends=True")
    return alpha, beta


def box_of(estimator: Any, encoder: Encoder) -> Features | None:
    """Return the corners of the box that an unrestricted partition splits; None if restricted."""
    if estimator.partition == "restricted":
        if estimator.bounds is not None:
            raise ValueError(
                "bounds is given, but partition is 'restricted'; bounds needs "
                "partition='unrestricted'"
            )
        return None
    if encoder.categories is not None:
        raise ValueError(
            "partition is 'unrestricted', but X has categories, which have no bounds; use "
            "partition='restricted'"
        )
    n_features, given = encoder.schema.n_features, estimator.bounds
    bounds = np.asarray([0.0, 1.0] if given is None else given, dtype=np.float32)
    if bounds.shape not in ((2,), (n_features, 2)):
        raise ValueError(
            f"bounds has shape {bounds.shape}; it must be a pair (low, high), or one for each of "
            f"{n_features} features"
        )
    box = np.ascontiguousarray(np.broadcast_to(bounds, (n_features, 2)).T)
    if not (np.isfinite(box).all() and (box[0] < box[1]).all()):
        raise ValueError(f"bounds is {given!r}; low must be below high, both finite")
    return box


def check_in_box(numbers: Features | Sparse, box: Features | None) -> None:
    """Refuse values outside of the box, and missing ones, before anything is learned."""
    if box is None:
        return
    ends = [getattr(numbers, name)(axis=0) for name in ("min", "max")]
    low, high = (end.toarray().ravel() if issparse(end) else end for end in ends)
    bad = np.flatnonzero(~((low >= box[0]) & (high <= box[1])))
    if len(bad):
        j = bad[0]
        raise ValueError(
            f"X's column {j} holds values from {low[j]:g} to {high[j]:g}; with "
            f"partition='unrestricted' they must lie in [{box[0, j]:g}, {box[1, j]:g}] and not "
            "be missing: scale X, or give bounds"
        )


def tree_seeds(random_state: Any, n_trees: int) -> Seeds:
    """Return four words for each tree's generator; more trees do not change the first ones'."""
    if isinstance(random_state, Integral):
        entropy: Any = int(random_state)
    else:
        entropy = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32).tolist()
    words = np.random.SeedSequence(entropy).generate_state(4 * n_trees, np.uint64)
    return words.astype(np.uint64).reshape(n_trees, 4)
