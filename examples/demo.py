"""Learn scikit-learn's digits as a stream, one at a time, and draw how it went.

Run it with ``make demo``. Each digit is forecast before it is learnt. The dummy beside the forest
is the Krichevsky-Trofimov forecaster, which looks at the labels alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits

from amforest import AMFClassifier

PICTURE = Path("demo.png")


def forest_forecasts(X: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Test, then train: forecast each row with the forest, then learn it."""
    forest = AMFClassifier(classes=range(10), random_state=0)
    forecasts = []
    for x, label in track(zip(X, y, strict=True), "Learning digits", total=len(y)):
        forecasts.append(forest.predict_proba_one(x))
        forest.learn_one(x, label)
    return np.array(forecasts)


def dummy_forecasts(y: NDArray[np.int64], n_classes: int = 10) -> NDArray[np.float64]:
    """(n_k + 1/2) / (n + K/2), n_k being the count of class k so far."""
    seen = np.eye(n_classes)[y]
    counts = np.cumsum(seen, axis=0) - seen
    return (counts + 0.5) / (np.arange(len(y))[:, None] + n_classes / 2)


def progress(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over all rows so far, at each row."""
    return np.cumsum(values) / np.arange(1, len(values) + 1)


def main() -> None:
    """Learn, print and draw."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    curves = {}
    for name, forecasts in [("AMF", forest_forecasts(X, y)), ("KT dummy", dummy_forecasts(y))]:
        log_loss = progress(-np.log(forecasts[np.arange(len(y)), y]))
        accuracy = progress((forecasts.argmax(axis=1) == y).astype(float))
        curves[name] = {"log-loss": log_loss, "accuracy": accuracy}

    table = Table(title=f"Progressive, over {len(y)} digits", title_justify="left")
    table.add_column("")
    for metric in ("log-loss", "accuracy"):
        table.add_column(metric, justify="right")
    for name, by_metric in curves.items():
        table.add_row(name, *(f"{curve[-1]:.3f}" for curve in by_metric.values()))
    Console().print(table)

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, metric in zip(axes, ("log-loss", "accuracy"), strict=True):
        for name, colour, style in [("AMF", "#0072B2", "-"), ("KT dummy", "#D55E00", "--")]:
            axis.plot(curves[name][metric], style, color=colour, label=name)
        axis.set(xlabel="digits learnt", ylabel=f"progressive {metric}", xlim=(0, len(y)))
        axis.set_ylim(bottom=0, top=1 if metric == "accuracy" else None)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False, loc="center right")
    figure.suptitle("Handwritten digits as a stream: each is forecast before it is learnt")
    figure.savefig(PICTURE, dpi=150)
    Console().print(f"The curves are in {PICTURE}.")


if __name__ == "__main__":
    main()
