"""What explanations cost, and how exact they are.

Run it with ``python -m benchmarks.explaining --only additivity,cost``. It prints tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.baselines import MondrianForestClassifier
from amforest.datasets import NAMES
from benchmarks.data import Stream, stream
from benchmarks.machine import describe
from benchmarks.timing import Medians, one_core, seconds

Floats = NDArray[np.float64]

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "AMFClassifier": lambda: AMFClassifier(random_state=0),
    "AMFRegressor": lambda: AMFRegressor(random_state=0),
    "AdaptiveAMFClassifier": lambda: AdaptiveAMFClassifier(random_state=0),
    "AdaptiveAMFRegressor": lambda: AdaptiveAMFRegressor(random_state=0),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "AMFClassifier, predict_extends": lambda: AMFClassifier(predict_extends=True, random_state=0),
    "AMFRegressor, predict_extends": lambda: AMFRegressor(predict_extends=True, random_state=0),
    "MondrianForestClassifier": lambda: MondrianForestClassifier(random_state=0),
}


def main() -> None:
    """Measure and print."""
    parts: dict[str, Callable[[], None]] = {"additivity": print_additivity, "cost": print_cost}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(parts), help="parts, separated by commas")
    names = parser.parse_args().only.split(",")
    if unknown := set(names) - set(parts):
        parser.error(f"--only names {unknown}; it must be some of {', '.join(parts)}")
    print(", ".join(f"{name} {value}" for name, value in describe().items()))
    for name in names:
        parts[name]()


# Additivity


def print_additivity(n_rows: int = 100_000, n_learned: int = 5_000) -> None:
    """Print the largest difference between predictions and what explanations add up to."""
    print(f"\nadditivity on {n_rows:,} random rows: largest difference, relative to a row's")
    print(f"{'':43} {'largest term':>16} {'prediction':>16}")
    for name, new in (ESTIMATORS | OTHERS).items():
        for n_classes in (2, 6):
            if "Regressor" in name and n_classes > 2:
                continue
            rng = np.random.default_rng(0)
            model = new().set_params(categorical_features=[0, 1])
            X, score = random_rows(rng, n_learned)
            classes = np.digitize(score, np.linspace(-1, 3, n_classes - 1))
            model.fit(X, score if "Regressor" in name else classes)
            errors = [
                largest_errors(model, random_rows(rng, 10_000, spread=1.5)[0])
                for _ in range(n_rows // 10_000)
            ]
            outputs = "numbers" if "Regressor" in name else f"{n_classes} classes"
            to_terms, to_prediction = np.max(errors, axis=0).tolist()
            print(f"{name:32} {outputs:10} {to_terms:16.1e} {to_prediction:16.1e}", flush=True)


def random_rows(
    rng: np.random.Generator, n_rows: int, spread: float = 1.0
) -> tuple[Floats, Floats]:
    """Return rows of two categories and eight numbers, a twentieth missing, and noisy labels."""
    X = spread * rng.normal(size=(n_rows, 10)) * np.logspace(0, 2, 10)
    X[:, :2] = rng.integers(0, int(8 * spread), size=(n_rows, 2))
    score = X[:, 0] / 4 + X[:, 2] + 0.3 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, score


def largest_errors(model: Any, X: NDArray[Any]) -> tuple[float, float]:
    """Return the largest difference, relative to a row's largest term, and to its prediction.

    A predicted number may be near 0, where terms cancel.
    """
    explanation = model.explain(X)
    sums: Floats = explanation.base_values + explanation.values.sum(axis=1)
    if not hasattr(model, "predict_proba"):
        predictions: Floats = model.predict(X)
        terms = np.maximum(abs(explanation.values).max(axis=1), abs(explanation.base_values))
        errors = np.abs(sums - predictions)
        return float(np.max(errors / terms)), float(np.max(errors / np.abs(predictions)))
    predictions = model.predict_proba(X)
    if model.is_adaptive and sums.ndim == 1:
        sums = expit(np.stack([-sums, sums], axis=1))
    elif model.is_adaptive:
        sums = softmax(sums, axis=1)
    error = float(np.max(np.abs(sums - predictions).max(axis=1) / predictions.max(axis=1)))
    return error, error


# Cost


def print_cost(n_rows: int = 6_000, turns: int = 5) -> None:
    """Print the CPU time of `explain` over that of a prediction, for each data set."""
    print("\ncost of explain over predict_proba or predict, one core")
    print(f"{'':16}" + "".join(f"{name:>24}" for name in ESTIMATORS))
    ratios: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    with one_core():
        for name in NAMES:
            row = cost_ratios(stream(name, n_rows), turns)
            for estimator, ratio in row.items():
                ratios[estimator].append(ratio)
            print(f"{name:16}" + "".join(f"{ratio:24.2f}" for ratio in row.values()), flush=True)
    means = (np.exp(np.mean(np.log(values))) for values in ratios.values())
    print(f"{'geometric mean':16}" + "".join(f"{mean:24.2f}" for mean in means))


def cost_ratios(data: Stream, turns: int) -> dict[str, float]:
    """Return the ratio for each estimator, on the last sixth; the two calls take turns."""
    times, n_learned = Medians(), 5 * len(data.y) // 6
    for name, new in ESTIMATORS.items():
        y = data.y if "Classifier" in name else data.y.astype(float) + data.X[:, 0]
        model = new().fit(data.X[:n_learned], y[:n_learned])
        X = data.X[n_learned:]
        predict = model.predict_proba if "Classifier" in name else model.predict
        for _ in range(turns):
            times.add(name, "predict", seconds(predict, X))
            times.add(name, "explain", seconds(model.explain, X))
    return {name: row["explain"] / row["predict"] for name, row in times.table().items()}


if __name__ == "__main__":
    main()
