"""The log-loss of predicted probabilities, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SMALLEST = float(np.finfo(np.float64).eps)


def log_losses(
    probabilities: NDArray[np.float64], labels: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return -log p(y) of each row.

    Parameters
    ----------
    probabilities : ndarray of shape (n, K)
    labels : ndarray of shape (n,)
        The column of each row's label. A label that is no column (unknown class) has
        probability 0.

    Returns
    -------
    ndarray of shape (n,)
        Probabilities below 2.2e-16 count as that.
    """
    n_rows, n_classes = probabilities.shape
    is_known = labels < n_classes
    p = np.zeros(n_rows)
    p[is_known] = probabilities[is_known, labels[is_known]]
    losses: NDArray[np.float64] = -np.log(np.maximum(p, _SMALLEST))
    return losses
