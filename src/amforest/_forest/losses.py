"""Losses per row, as test-then-train and the metrics sum them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_losses(probabilities: Floats, labels: NDArray[Any]) -> Floats:
    """Return -log of the probability that each row gives to its label.

    Parameters
    ----------
    probabilities : ndarray of shape (n_samples, n_classes)
    labels : ndarray of int, of shape (n_samples,)
        The column of each row's class. A class without a column has probability 0.

    Returns
    -------
    ndarray of shape (n_samples,)
        Probabilities are clipped at the epsilon of float64, so every loss is finite.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest._forest.losses import log_losses
    >>> log_losses(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 2])).round(2)
    array([ 0.69, 36.04])
    """
    has_column = np.flatnonzero(labels < probabilities.shape[1])
    of_label = np.zeros(len(labels))
    of_label[has_column] = probabilities[has_column, labels[has_column]]
    return -np.log(np.maximum(of_label, np.finfo(np.float64).eps))


def squared_errors(predictions: Floats, labels: Floats) -> Floats:
    """Return the squared error of each row."""
    errors: Floats = (predictions - labels) ** 2
    return errors
