"""Frozen copies of the forests for river: rows are dicts, and nothing is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amforest._forest.encoder import NamedValues
from amforest.distribution import PredictiveDistribution
from amforest.frozen import FrozenModel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FrozenRiverAdaptiveRegressor", "FrozenRiverClassifier", "FrozenRiverRegressor"]


class _FrozenRiver(FrozenModel):
    """What all have in common. Features that the live model had not seen are ignored."""

    __slots__ = ()

    def predict_one(self, x: NamedValues) -> Any:
        """Predict the label of a row, as the live model."""
        return self._model.predict_one(x)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predict the label of each row."""
        return self._model.predict_many(X)


class FrozenRiverClassifier(_FrozenRiver):
    """A frozen copy of a classifier of `amforest.river`: the result of its method `freeze`."""

    __slots__ = ()

    def predict_proba_one(self, x: NamedValues) -> dict[Any, float]:
        """Predict the probabilities of the labels."""
        probabilities: dict[Any, float] = self._model.predict_proba_one(x)
        return probabilities

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Predict the probabilities of the labels, a column for each."""
        return self._model.predict_proba_many(X)


class FrozenRiverRegressor(_FrozenRiver):
    """A frozen copy of a regressor of `amforest.river`: the result of its method `freeze`."""

    __slots__ = ()


class FrozenRiverAdaptiveRegressor(FrozenRiverRegressor):
    """The same of an adaptive regressor, with intervals."""

    __slots__ = ()

    def predict_dist_one(self, x: NamedValues) -> PredictiveDistribution:
        """Predict the distribution of the label."""
        distribution: PredictiveDistribution = self._model.predict_dist_one(x)
        return distribution

    def predict_interval_one(self, x: NamedValues, coverage: float = 0.9) -> tuple[float, float]:
        """Predict an interval that holds a part `coverage` of the labels."""
        interval: tuple[float, float] = self._model.predict_interval_one(x, coverage)
        return interval
