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
    uncorrected: Floats | None  # the log-densities of the mixture without correction


def predict_means(model: Any, X: Floats, y: Floats) -> Floats:
    """Predict and learn each row; return the means."""
    return np.asarray(model.partial_fit_predict(X, y), dtype=np.float64)


def predict_distributions(
    make: Callable[[], Any], X: Floats, y: Floats, coverage: float
) -> Predicted:
    """Predict and learn each row, once for the intervals and once for the densities."""
    intervals = np.asarray(make().partial_fit_predict_interval(X, y, coverage=coverage))
    distributions = make().partial_fit_predict_dist(X, y)
    raw = getattr(distributions, "uncorrected", None)
    return Predicted(
        means=np.asarray(distributions.mean),
        lower=intervals[:, 0],
        upper=intervals[:, 1],
        log_densities=np.asarray(distributions.logpdf(y)),
        uncorrected=None if raw is None else np.asarray(raw.logpdf(y)),
    )
