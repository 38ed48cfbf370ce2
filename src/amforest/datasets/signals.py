"""Noisy signals on [0, 1]: the four of Donoho and Johnstone (1994).

They are smooth in some places and rough in others, and are scaled to the range [0, 1].
"""

from __future__ import annotations

from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state, check_scalar

from amforest.datasets.uci import check_name

__all__ = ["SIGNALS", "make_signal", "roughness", "signal"]

Floats = NDArray[np.float64]

# Bumps peak, and blocks jump, at the same positions.
_POSITIONS = np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.4, 0.44, 0.65, 0.76, 0.78, 0.81])
_HEIGHTS = np.array([4, 5, 3, 4, 5, 4.2, 2.1, 4.3, 3.1, 5.1, 4.2])
_WIDTHS = np.array([5, 5, 6, 10, 10, 30, 10, 10, 5, 8, 5]) / 1000
_JUMPS = np.array([4, -5, 3, -4, 5, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2])


def _blocks(x: Floats) -> Floats:
    return np.asarray((_JUMPS * (x[:, None] > _POSITIONS)).sum(axis=1))


def _bumps(x: Floats) -> Floats:
    bumps = _HEIGHTS / (1 + np.abs(x[:, None] - _POSITIONS) / _WIDTHS) ** 4
    return np.asarray(bumps.sum(axis=1))


def _doppler(x: Floats) -> Floats:
    wave: Floats = np.sqrt(x * (1 - x)) * np.sin(2.1 * np.pi / (x + 0.05))
    return wave


def _heavisine(x: Floats) -> Floats:
    wave: Floats = 4 * np.sin(4 * np.pi * x) - np.sign(x - 0.3) - np.sign(0.72 - x)
    return wave


_FORMULAS = {"blocks": _blocks, "bumps": _bumps, "doppler": _doppler, "heavisine": _heavisine}

SIGNALS: tuple[str, ...] = tuple(_FORMULAS)
"""The names of the signals."""

_GRID = np.linspace(0, 1, 20_001)  # contains all peaks and jumps


def signal(x: ArrayLike, name: str) -> Floats:
    """Return a signal without noise.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The points, in [0, 1].
    name : {"blocks", "bumps", "doppler", "heavisine"}
        Steps, peaks, a wave that slows down, or a sine with two jumps.

    Returns
    -------
    ndarray of shape (n_samples,)
        The values, whose minimum over [0, 1] is 0 and whose maximum is 1.

    Examples
    --------
    >>> from amforest.datasets import signal
    >>> signal([0.05, 0.12, 0.14], "blocks").round(2)
    array([0.28, 0.83, 0.14])
    """
    check_name(name, "signal", SIGNALS)
    points = _check_points(x)
    lowest, highest = _range(name)
    values: Floats = (_FORMULAS[name](points) - lowest) / (highest - lowest)
    return values


def roughness(x: ArrayLike, name: str, *, width: float = 0.05) -> Floats:
    """Return how rough a signal is around some points: its mean absolute slope there.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The points, in [0, 1].
    name : {"blocks", "bumps", "doppler", "heavisine"}
        The signal.
    width : float, default=0.05
        The width of the window around each point, which is clipped to [0, 1].

    Returns
    -------
    ndarray of shape (n_samples,)
        The total variation of the signal in the window, divided by the window's width.

    Examples
    --------
    >>> from amforest.datasets import roughness
    >>> roughness([0.24, 0.32], "blocks").round(1)
    array([25.,  0.])
    """
    check_name(name, "signal", SIGNALS)
    points, variation = _check_points(x), _variation(name)
    check_scalar(width, "width", Real, min_val=1e-3, max_val=1)
    low, high = np.clip(points - width / 2, 0, 1), np.clip(points + width / 2, 0, 1)
    rise = np.interp(high, _GRID, variation) - np.interp(low, _GRID, variation)
    return np.asarray(rise / (high - low))


def make_signal(
    name: str, n_samples: int = 1000, *, noise: float = 0.03, random_state: Any = None
) -> tuple[Floats, Floats]:
    """Generate noisy samples of a signal, at points uniform in [0, 1], in random order.

    Parameters
    ----------
    name : {"blocks", "bumps", "doppler", "heavisine"}
        The signal; see `signal`.
    n_samples : int, default=1000
        The number of rows.
    noise : float, default=0.03
        The standard deviation of the Gaussian noise; the signal spans [0, 1].
    random_state : int, RandomState instance or None, default=None
        The same number gives the same rows.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        The points.
    y : ndarray of shape (n_samples,)
        The signal at the points, with noise.

    Examples
    --------
    >>> from amforest import AMFRegressor
    >>> from amforest.datasets import make_signal, signal
    >>> X, y = make_signal("doppler", 2000, random_state=0)
    >>> forest = AMFRegressor(step=10.0, random_state=0).fit(X, y)
    >>> bool(abs(forest.predict(X) - signal(X[:, 0], "doppler")).mean() < 0.02)
    True
    """
    check_name(name, "signal", SIGNALS)
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(noise, "noise", Real, min_val=0)
    rng = check_random_state(random_state)
    x: Floats = rng.uniform(size=n_samples)
    return x[:, None], signal(x, name) + noise * rng.standard_normal(n_samples)


def _check_points(x: ArrayLike) -> Floats:
    points: Floats = check_array(x, ensure_2d=False, dtype=np.float64, input_name="x")
    if points.ndim != 1:
        raise ValueError(f"x has shape {points.shape}; it must have one dimension")
    if ((points < 0) | (points > 1)).any():
        raise ValueError("x has values outside of [0, 1], where signals are not defined")
    return points


@cache
def _range(name: str) -> tuple[float, float]:
    values = _FORMULAS[name](_GRID)
    return float(values.min()), float(values.max())


@cache
def _variation(name: str) -> Floats:
    """Return the total variation from 0 to each point of the grid."""
    return np.append(0.0, np.abs(np.diff(signal(_GRID, name))).cumsum())
