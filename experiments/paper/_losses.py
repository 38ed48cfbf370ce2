"""The average log-loss of a method along a stream: each row is predicted, then learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import SGDClassifier

from experiments.paper._methods import SGD, new
from experiments.paper._run import Found
from experiments.paper._streams import Stream, stream

SMALLEST = 1e-15  # probabilities are at least this, as in the authors' experiments
N_POINTS = 200


def average_loss(method: str, name: str, seed: int, max_rows: int | None, stands_in: bool) -> Found:
    """Return the average loss up to some times, and how many predictions were below `SMALLEST`.

    As in the paper, the first row is learned without being predicted.
    """
    data = stream(name, seed, max_rows, stands_in=stands_in)
    model = new(method, n_classes=data.n_classes, seed=seed)
    if method == SGD:
        predictions = sgd_predictions(model, data)
    else:
        predictions = model.partial_fit_predict_proba(data.X, data.y)
    of_label = predictions[np.arange(len(data)), data.y][1:]
    losses = -np.log(np.maximum(of_label, SMALLEST))
    t = np.unique(np.geomspace(1, len(losses), N_POINTS).round().astype(np.int64))
    averages = np.cumsum(losses)[t - 1] / t
    return {"t": t, "loss": averages, "n_clipped": np.array((of_label < SMALLEST).sum())}


def sgd_predictions(model: SGDClassifier, data: Stream) -> NDArray[np.float64]:
    """Return what `predict_proba` gives for each row before `partial_fit` learns it.

    Those calls take a hundred times as long as their arithmetic, which is this: a logistic
    regression for each class against all others, or one if there are two classes.
    """
    targets = np.eye(data.n_classes)[data.y]
    if data.n_classes == 2:
        targets = targets[:, 1:]
    weights = np.zeros((targets.shape[1], data.X.shape[1]))
    intercepts, decay = np.zeros(targets.shape[1]), 1 - model.eta0 * model.alpha
    predictions = np.empty(targets.shape)
    for x, target, prediction in zip(data.X.astype(float), targets, predictions, strict=True):
        prediction[:] = expit(weights @ x + intercepts)
        step = model.eta0 * (target - prediction)
        weights *= decay
        weights += step[:, None] * x
        intercepts += step
    if data.n_classes == 2:
        return np.hstack([1 - predictions, predictions])
    normalised: NDArray[np.float64] = predictions / predictions.sum(axis=1, keepdims=True)
    return normalised
