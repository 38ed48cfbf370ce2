"""Runs of regressors on streams: errors, and how they depend on the unit of y."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from benchmarks.quality.kept import kept
from benchmarks.quality.regression_contenders import REGRESSORS
from benchmarks.quality.regression_scores import RegressionScores, score_numbers
from benchmarks.quality.regression_streams import load_regression_stream

UNITS = ("y × 10⁶", "y × 10⁻⁶", "y + 10⁶ sd(y)")


def measure(
    name: str, contender: str, seed: int, max_rows: int, variant: str = ""
) -> RegressionScores:
    """Return the scores of a contender on a stream; they are computed only once."""
    case = (name, *filter(None, [variant]), max_rows, seed)
    content: dict[str, Any] = kept(
        "regression",
        contender,
        case,
        lambda: asdict(_run(name, contender, seed, max_rows, variant)),
    )
    return RegressionScores(**content)


def _run(name: str, contender: str, seed: int, max_rows: int, variant: str) -> RegressionScores:
    stream = load_regression_stream(name, max_rows, variant, seed)
    predictions, seconds = REGRESSORS[contender].test_then_train(stream, seed)
    return score_numbers(predictions, stream.y, seconds)


def measure_units(name: str, contender: str, seed: int, max_rows: int) -> dict[str, float]:
    """Return how far predictions move, in sd(y), when y has another unit, and they have it, too."""
    result: dict[str, float] = kept(
        "regression_units",
        contender,
        (name, max_rows, seed),
        lambda: _run_units(name, contender, seed, max_rows),
    )
    return result


def _run_units(name: str, contender: str, seed: int, max_rows: int) -> dict[str, float]:
    stream = load_regression_stream(name, max_rows)
    run = REGRESSORS[contender].test_then_train
    sd = float(stream.y.std())
    transforms = zip(UNITS, ((1e6, 0.0), (1e-6, 0.0), (1.0, 1e6 * sd)), strict=True)
    plain, _ = run(stream, seed)
    result = {}
    for unit, (factor, shift) in transforms:
        changed, _ = run(replace(stream, y=factor * stream.y + shift), seed)
        # Before the first row nothing is known, so its prediction has no unit.
        differences = np.abs((changed - shift) / factor - plain)[1:]
        result[unit] = float(differences.max() / sd)
    return result
