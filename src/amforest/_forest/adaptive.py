"""What both adaptive estimators have beside other forests: groups of trees with memories."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sklearn.utils._param_validation import Interval

from amforest._forest.core_handle import AdaptiveCore
from amforest._forest.core_options import Group
from amforest._forest.estimator import Estimator
from amforest._forest.limits import MOST_ROWS, MOST_TREES

ADAPTIVE_CONSTRAINTS: dict[str, list[Any]] = {
    **{
        name: Estimator._parameter_constraints[name]
        for name in (
            *("n_estimators", "use_aggregation", "split_pure", "categorical_features"),
            *("max_categories", "max_nodes", "max_bytes", "n_jobs", "random_state", "strict"),
        )
    },
    "memories": [tuple, list],
    "n_candidates": [Interval(Integral, 1, 10_000, closed="both")],
    "row_limit": [Interval(Integral, 16, MOST_ROWS, closed="both")],
}


def count_trees(groups: list[Group], n_estimators: int) -> int:
    """Return how many trees the groups have together."""
    if len(groups) * n_estimators > MOST_TREES:
        raise ValueError(
            f"n_estimators is {n_estimators}; {len(groups)} groups have "
            f"{len(groups) * n_estimators} trees then, and there may be {MOST_TREES}"
        )
    return len(groups) * n_estimators


def core_arguments(estimator: Any, groups: list[Group]) -> dict[str, Any]:
    """Return what an adaptive core needs beside the arguments of other cores."""
    return {
        "groups": groups,
        "n_estimators": int(estimator.n_estimators),
        "n_candidates": int(estimator.n_candidates),
        "row_limit": int(estimator.row_limit),
    }


def memory_stats(core: AdaptiveCore | None, names: list[str]) -> dict[str, Any]:
    """Return what `stats` has for adaptive forests only."""
    if core is None:
        return {"regrows": {}, "remembered_rows": 0}
    by_group = core.n_regrows.reshape(len(core.groups), -1).sum(axis=1).tolist()
    regrows = dict(zip(names[: len(core.groups)], by_group, strict=True))
    return {"regrows": regrows, "remembered_rows": core.n_remembered}
