"""A forest that has grown: what it forecasts, and what can be seen in it.

With `_base.py`, which makes it learn, the only user of the compiled core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from amforest._forest.features import CoreForest, FeatureForest, Floats
from amforest._forest.inputs import Features, as_rows

MOST_THREADS = 256

_TABLE_FIELDS = (
    *("parent", "left", "right", "depth", "feature", "threshold", "category", "birth_time"),
    *("n_samples", "counts", "mean", "lower", "upper", "seen", "share", "odds", "odds_scale"),
)


class GrownForest(FeatureForest):
    """The part of a forest that asks its core."""

    n_jobs: int | None
    _progress: tuple[float, float] = (0.0, 0.0)  # of test-then-train: weight and loss, summed

    def weighted_depth(self, X: ArrayLike) -> Floats:
        """Return the mean depth, over all prunings by their weights, at which a forecast is made.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
            Σ_T w(T) depth_T(x) for each row and tree.
        """
        return self._by_blocks(self._grown().weighted_depth, X)

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
            Rows of the trees' tables: see `tree_table`. This walks through all nodes once.
        """
        return self._by_blocks(self._grown().apply, X)

    def tree_table(self, i: int) -> NDArray[Any]:
        """Return the nodes of tree i as a structured array, in preorder.

        Parameters
        ----------
        i : int
            The tree. Negative numbers count from the last one.

        Returns
        -------
        structured ndarray
            With fields `parent`, `left`, `right` (rows of this table, -1 where there is no such
            node), `depth`, `feature` and `threshold` (x[feature] <= threshold goes left; both -1
            in leaves), `category` (a categorical feature's category with this number goes right,
            all others left; -1 where numbers are split), `birth_time`, `n_samples` (the sum of
            their weights; whole numbers as long as a classifier's weights are), `counts` (of each
            class) or `mean`, `lower` and `upper` (the range of the features seen, NaN where none
            was; with ``partition="unrestricted"`` the cell), `seen` (whether each category of each
            categorical feature was seen, as `categories_` lists them), `share` (½ w / w̄: the
            weight of the prunings that stop at the node among those that reach it; 1 in leaves),
            and the same as odds w / (w̄₀ w̄₁) = `odds` · 2^(256 `odds_scale`). Without categorical
            features there is no `category` and no `seen`.
        """
        core = self._grown()
        if not -core.n_trees <= i < core.n_trees:
            raise IndexError(f"i is {i}; it must be the number of one of {core.n_trees} trees")
        columns = self._table_columns(core.tree_table(i % core.n_trees))
        names = [name for name in _TABLE_FIELDS if name in columns]
        fields = [(name, columns[name].dtype, columns[name].shape[1:]) for name in names]
        table = np.empty(len(columns["parent"]), dtype=fields)
        for name in names:
            table[name] = columns[name]
        return table

    @property
    def n_samples_seen_(self) -> int:
        """How many rows were learnt."""
        return self._grown().n_samples

    def stats(self) -> dict[str, Any]:
        """Return how large the model is, and how well it did.

        Returns
        -------
        dict
            `samples`: the rows that were learnt. `nodes`, `depth` (of the deepest leaf) and `bytes`
            of the forest. `progressive_loss`: the mean loss of the forecasts that test-then-train
            made before it learnt each row (log-loss, or the squared error), None without any.
            `rejected_rows`: those that this object was given and refused with an error; they are
            no part of the model, and not saved.
        """
        learnt, (weight, loss) = self._has_learnt(), self._progress
        return {
            "samples": self._core.n_samples if learnt else 0,
            "nodes": self._core.n_nodes if learnt else 0,
            "depth": int(self._core.depths().max()) if learnt else 0,
            "bytes": self._core.n_bytes if learnt else 0,
            "progressive_loss": loss / weight if weight > 0 else None,
            "rejected_rows": self._rejected,
        }

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._has_learnt()

    def _grown(self) -> CoreForest:
        if "_core" not in self.__dict__:  # check_is_fitted takes longer than predicting a row
            name = type(self).__name__
            raise NotFittedError(
                f"{name} has learnt nothing yet: call fit, partial_fit or learn_one first"
            )
        return self._core

    def _n_threads(self) -> int:
        return 1 if self.n_jobs is None else min(int(effective_n_jobs(self.n_jobs)), MOST_THREADS)

    def _by_blocks(
        self, ask: Callable[[Features, int], NDArray[Any]], X: ArrayLike
    ) -> NDArray[Any]:
        """Put the rows of X to a method of the core: a sparse X in blocks, others at once."""
        if self._needs_no_checks(X):
            return ask(as_rows(X), self._n_threads())
        (table,) = self._validated(X)
        parts = table.blocks(0, table.n_rows)
        answers = [ask(self._rows(table, part), self._n_threads()) for part in parts]
        return answers[0] if len(answers) == 1 else np.concatenate(answers)

    def _predict_row(self, x: Sequence[float] | NDArray[Any]) -> Floats:
        row: Any = x if self._categories is None else self._row(x)
        while True:
            core = self._grown()
            try:
                forecast = core.predict_row(row, core.forecast_size)
            except TypeError:  # the core takes arrays only
                if row is not x:
                    raise
                row = self._row(x)
                continue
            if forecast is not None and core is self._core:  # no class became known meanwhile
                return forecast
