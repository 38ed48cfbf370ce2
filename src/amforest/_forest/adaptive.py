"""What adaptive forests have beside other forests: groups with memories, and a mixer."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, cast

from sklearn.utils._param_validation import Interval

from amforest._forest.core_handle import AdaptiveCore
from amforest._forest.core_options import Group
from amforest._forest.estimator import Estimator
from amforest._forest.limits import MOST_ROWS, MOST_TREES
from amforest._forest.losses import Floats

ADAPTIVE_CONSTRAINTS: dict[str, list[Any]] = {
    **{
        name: Estimator._parameter_constraints[name]
        for name in (
            *("n_estimators", "use_aggregation", "split_pure", "categorical_features"),
            *("max_categories", "max_nodes", "max_bytes", "n_jobs", "random_state"),
        )
    },
    "memories": [tuple, list],
    "n_candidates": [Interval(Integral, 1, 10_000, closed="both")],
    "row_limit": [Interval(Integral, 16, MOST_ROWS, closed="both")],
}


class AdaptiveForest(Estimator):
    """The part of both adaptive estimators. A subclass defines its groups."""

    is_adaptive: ClassVar[bool] = True

    memories: Sequence[int | None]
    n_candidates: int
    row_limit: int

    def _groups(self) -> list[Group]:
        """Return the groups of trees."""
        raise NotImplementedError

    @property
    def memory_names_(self) -> list[str]:
        """The names of what the mixer combines: groups of trees, and other experts."""
        raise NotImplementedError

    @property
    def memory_weights_(self) -> Floats:
        """The weights of these in the mixer."""
        self._attributes()
        return self._adaptive_core().mixer_weights

    def stats(self) -> dict[str, Any]:
        """Return the size of the model, its progressive loss, and what it remembers.

        Returns
        -------
        dict
            As for `AMFClassifier`; also `regrows`, how many trees of each group were regrown, and
            `remembered_rows`, the rows that are stored.
        """
        regrows: dict[str, int] = {}
        n_remembered = 0
        if self._handle.fitted is not None:
            core = self._adaptive_core()
            by_group = core.n_regrows.reshape(len(core.groups), -1).sum(axis=1)
            regrows = dict(zip(self.memory_names_, by_group.tolist(), strict=False))
            n_remembered = core.n_remembered
        return super().stats() | {"regrows": regrows, "remembered_rows": n_remembered}

    def _adaptive_core(self) -> AdaptiveCore:
        return cast(AdaptiveCore, self._fitted().core)

    def _n_trees(self) -> int:
        n_groups, n_estimators = len(self._groups()), int(self.n_estimators)
        if n_groups * n_estimators > MOST_TREES:
            raise ValueError(
                f"n_estimators is {n_estimators}; {n_groups} groups have {n_groups * n_estimators} "
                f"trees then, and there may be {MOST_TREES}"
            )
        return n_groups * n_estimators

    def _adaptive_options(self) -> dict[str, Any]:
        """Return what the core needs beside the arguments of other forests."""
        return {
            "groups": self._groups(),
            "n_estimators": int(self.n_estimators),
            "n_candidates": int(self.n_candidates),
            "row_limit": int(self.row_limit),
        }
