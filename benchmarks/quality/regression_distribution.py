"""Predicted distributions: the coverage of intervals, log-densities, and intervals over time."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.quality.contenders import new_model
from benchmarks.quality.kept import kept
from benchmarks.quality.regression_adapter import predict_distributions
from benchmarks.quality.regression_contenders import ADAPTIVE_REG, ADAPTIVE_REG_CLASS
from benchmarks.quality.regression_streams import friedman_with_change, load_regression_stream
from benchmarks.quality.streams import Floats

COVERAGE = 0.9
UNSCORED = 500  # rows, before coverage is counted
COVERAGE_BLOCK = 1_000  # rows
FIRST_DENSITY = 20  # the row from which on log-densities are counted


def measure(name: str, seed: int, max_rows: int) -> dict[str, Any]:
    """Return the covered rows of each block, and the mean log-densities."""
    result: dict[str, Any] = kept(
        "regression_distribution",
        ADAPTIVE_REG,
        (name, max_rows, seed),
        lambda: _run(name, seed, max_rows),
    )
    return result


def _run(name: str, seed: int, max_rows: int) -> dict[str, Any]:
    stream = load_regression_stream(name, max_rows)
    make = partial(new_model, ADAPTIVE_REG_CLASS, seed)
    predicted = predict_distributions(make, stream.X, stream.y, COVERAGE)
    is_covered = (predicted.lower <= stream.y) & (stream.y <= predicted.upper)
    counted = slice(FIRST_DENSITY, None)
    result = coverage(is_covered) | {
        "log_density": float(predicted.log_densities[counted].mean()),
        "running_normal": float(running_normal(stream.y)[counted].mean()),
    }
    if predicted.uncorrected is not None:
        result["uncorrected"] = float(predicted.uncorrected[counted].mean())
    return result


def coverage(is_covered: Any) -> dict[str, Any]:
    """Return the covered fraction of the rows after the first ones, and that of each block."""
    counted = np.asarray(is_covered, dtype=np.float64)[UNSCORED:]
    n_blocks = len(counted) // COVERAGE_BLOCK
    blocks = counted[: n_blocks * COVERAGE_BLOCK].reshape(n_blocks, COVERAGE_BLOCK)
    return {
        "n_counted": len(counted),
        "coverage": float(counted.mean()) if len(counted) else None,
        "blocks": blocks.mean(axis=1).tolist(),
    }


def running_normal(y: Floats) -> Floats:
    """Return the log-density of each value under the mean and the variance of those before it.

    The first two values have none: nan.
    """
    n = np.arange(1, len(y) + 1)
    centered = y - y[0]
    means = np.cumsum(centered) / n
    squares = np.cumsum((centered - np.concatenate([[0.0], means[:-1]])) * (centered - means))
    smallest = np.finfo(np.float64).tiny  # where all values so far are equal
    variances = np.maximum(squares / np.maximum(n - 1, 1), smallest)
    result = np.full(len(y), np.nan)
    errors = centered[2:] - means[1:-1]
    result[2:] = -0.5 * (np.log(2 * np.pi * variances[1:-1]) + errors**2 / variances[1:-1])
    return result


def measure_change(n_rows: int) -> dict[str, list[float]]:
    """Return the values, means and intervals of a stream whose features change their roles."""
    result: dict[str, list[float]] = kept(
        "regression_change", ADAPTIVE_REG, (n_rows,), lambda: _run_change(n_rows)
    )
    return result


def _run_change(n_rows: int) -> dict[str, list[float]]:
    stream = friedman_with_change(n_rows)
    make = partial(new_model, ADAPTIVE_REG_CLASS, 0)
    predicted = predict_distributions(make, stream.X, stream.y, COVERAGE)
    columns = {
        "y": stream.y,
        "mean": predicted.means,
        "lower": predicted.lower,
        "upper": predicted.upper,
    }
    return {name: np.round(column, 4).tolist() for name, column in columns.items()}
