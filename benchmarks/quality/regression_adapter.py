"""What this benchmark calls of `AdaptiveAMFRegressor`: its names are here and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.quality.streams import Floats


@dataclass(frozen=True)
class Predicted:
    """The distributions that were predicted, each before its row was learned."""

    means: Floats
    lower: Floats
    upper: Floats
    log_densities: Floats
    uncorrected: Floats  # the log-densities with the scales that the experts state


def predict_means(model: Any, X: Floats, y: Floats) -> Floats:
    """Predict and learn each row; return the means."""
    return np.asarray(model.partial_fit_predict(X, y), dtype=np.float64)


def predict_distributions(
    make: Callable[[], Any], X: Floats, y: Floats, coverage: float
) -> Predicted:
    """Predict and learn each row."""
    distributions = make().partial_fit_predict_dist(X, y)
    ends = distributions.quantiles([(1 - coverage) / 2, (1 + coverage) / 2])
    return Predicted(
        means=distributions.mean(),
        lower=ends[:, 0],
        upper=ends[:, 1],
        log_densities=distributions.logpdf(y),
        uncorrected=distributions.uncorrected().logpdf(y),
    )
