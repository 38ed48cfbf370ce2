"""The first rows of a stream, from which ``step="auto"`` settles the step of a regressor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum, nan
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from amforest._core import Options, RegressorForest, UnrestrictedRegressorForest
from amforest._forest.core_handle import Core, build_core, restore_core
from amforest._forest.core_options import Seeds
from amforest._forest.encoder import Part
from amforest._forest.inputs import Features
from amforest._forest.losses import Floats

N_ROWS = 128  # after which the step is settled; a power of 2
LARGEST_STEP = 1e100  # of the core
_DTYPES = {"seeds": np.uint64, "rows": np.float32, "labels": np.float64, "weights": np.float64}


@dataclass(frozen=True, slots=True, eq=False)
class EarlyRows:
    """The rows that were learned before the step is settled, as the core has learned them.

    When there are 1, 2, 4, …, N_ROWS of them, the step becomes 1 / (4 v), where v is the variance
    of their labels, and the forest is built again, as if it had had this step from the start. So
    the forest does not depend on how rows are cut into batches. Then the step is settled.

    While all labels are equal, v is their square: no unit is in this step either, and it is of
    little importance. All nodes with labels predict the same, so no loss depends on the step, but
    that of the first label in a node with `charge_first`. If the first N_ROWS labels are all equal,
    the step is settled by the first row with another label, just before that row is learned. No
    forest needs to be built again then: up to here, it is the same with any step.
    """

    seeds: Seeds  # of the trees, before the first row
    n_codes: int  # the columns of the rows that hold categories
    rows: Features
    labels: Floats
    weights: Floats

    @classmethod
    def before(cls, core: Core) -> Self:
        """Return no rows, for a core that has learned nothing."""
        seeds = core.state()["trees"]["seeds"]
        n_codes, n_features = len(core.categories), len(core.categories) + core.n_numbers
        return cls(seeds, n_codes, np.empty((0, n_features), np.float32), np.empty(0), np.empty(0))

    @property
    def constant(self) -> float:
        """The label of all N_ROWS rows; NaN if there are fewer, which is equal to no label."""
        return float(self.labels[0]) if len(self.labels) == N_ROWS else nan

    # Learning

    def cut(self, part: Part) -> tuple[Part, Part]:
        """Return the rows to learn before the next change of the step, and those after it."""
        n_rows, n_before = len(part.rows), len(self.labels)
        learned = np.arange(n_rows) if part.weights is None else np.flatnonzero(part.weights)
        if n_before < N_ROWS:
            n_more = (1 << n_before.bit_length()) - n_before
            end = int(learned[n_more - 1]) + 1 if len(learned) >= n_more else n_rows
        else:
            other = learned[part.labels[learned] != self.constant]
            end = int(other[0]) if len(other) else n_rows
        return part.cut(0, end), part.cut(end, None)

    def extend(self, core: Core, learned: Part, rest: Part) -> tuple[Core, EarlyRows | None]:
        """Return the core for `rest`, and the early rows: None once the step is settled.

        The core has learned the rows of `learned`, the first of the two parts of `cut`.
        """
        if len(self.labels) == N_ROWS:
            if not len(rest.rows):
                return core, self
            return _with_step(core, _step(self._variance_with(core, rest))), None
        more = self._append(core, learned)
        n = len(more.labels)
        if n & (n - 1):
            return core, more
        step = _step(_variance(more.labels, more.weights))
        if step != _regressor(core).step:
            core = more._build(core, step)
        is_settled = n == N_ROWS and bool(np.any(more.labels != more.labels[0]))
        return core, None if is_settled else more

    def _append(self, core: Core, part: Part) -> EarlyRows:
        weights = np.ones(len(part.rows)) if part.weights is None else part.weights
        kept = weights != 0
        return EarlyRows(
            self.seeds,
            len(core.categories),
            np.vstack([self.rows_of(core), part.rows[kept]]),
            np.append(self.labels, part.labels[kept]),
            np.append(self.weights, weights[kept]),
        )

    def _build(self, core: Core, step: float) -> Core:
        """Return a core like the one given that has learned the rows with a step."""
        state = core.state()
        del state["trees"], state["n_samples"]
        options = Options(**state["options"] | {"step": step})
        new = build_core(**state | {"options": options, "seeds": self.seeds})
        new.learn(self.rows_of(core), self.labels, 1, self.weights)
        return new

    def _variance_with(self, core: Core, rest: Part) -> float:
        """Return the variance of the labels so far, all equal, and the first of the rest."""
        weight = 1.0 if rest.weights is None else float(rest.weights[0])
        share = weight / (core.total_weight + weight)
        return share * (1 - share) * (float(rest.labels[0]) - self.constant) ** 2

    def rows_of(self, core: Core) -> Features:
        """Return the rows in the layout of a core; features that it has in addition are missing.

        A core without some of the numbers has none that a row has.
        """
        n_codes, n_numbers = len(core.categories), core.n_numbers
        if (n_codes, n_codes + n_numbers) == (self.n_codes, self.rows.shape[1]):
            return self.rows
        rows = np.full((len(self.rows), n_codes + n_numbers), nan, np.float32)
        numbers = self.rows[:, self.n_codes :][:, :n_numbers]
        rows[:, : self.n_codes] = self.rows[:, : self.n_codes]
        rows[:, n_codes : n_codes + numbers.shape[1]] = numbers
        return rows

    # The model file

    def to_arrays(self, core: Core) -> dict[str, NDArray[Any]]:
        """Return the rows as arrays, which belong to a core."""
        own = (self.seeds, self.rows_of(core), self.labels, self.weights)
        return dict(zip(_DTYPES, own, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], core: Core) -> Self:
        """Undo `to_arrays`; ValueError and others if the arrays are not valid."""
        n_codes, n = len(core.categories), len(arrays["labels"])
        shapes = (core.n_trees, 4), (n, n_codes + core.n_numbers), (n,), (n,)
        for (name, dtype), shape in zip(_DTYPES.items(), shapes, strict=True):
            if arrays[name].dtype != dtype or arrays[name].shape != shape:
                raise ValueError(f"the {name} of early rows must have shape {shape}, of {dtype}")
        early = cls(n_codes=n_codes, **{name: arrays[name].copy() for name in _DTYPES})
        is_constant = n == N_ROWS <= core.n_samples and np.all(early.labels == early.labels[0])
        if not (is_constant or 0 < n == core.n_samples < N_ROWS):
            raise ValueError("the early rows are not those that the forest has learned")
        # The core checks their values.
        if early._build(core, _regressor(core).step).n_samples != n:
            raise ValueError("the weights of early rows must not be 0")
        return early


def _variance(labels: Floats, weights: Floats) -> float:
    """Return the weighted variance; while all labels are equal, their square."""
    first, total = float(labels[0]), fsum(weights)
    # fsum rounds once: the sum has the same bits on all machines.
    distances = labels - first
    distances -= fsum(weights * distances) / total
    return fsum(weights * distances**2) / total or first**2


def _step(variance: float) -> float:
    """Return η: for pure noise, the mean is best predicted with up to a quarter of 1 / v."""
    return min(1 / (4 * variance), LARGEST_STEP) if variance > 0 else 1.0


def _with_step(core: Core, step: float) -> Core:
    state = core.state()
    return restore_core(state | {"options": state["options"] | {"step": step}})


def _regressor(core: Core) -> RegressorForest | UnrestrictedRegressorForest:
    return cast("RegressorForest | UnrestrictedRegressorForest", core)
