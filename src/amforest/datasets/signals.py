"""Signals on [0, 1] to be found in noise: the four of Donoho and Johnstone (1994).

They are smooth in some places and rough in others, and are scaled to the range [0, 1].
"""

from __future__ import annotations

from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state, check_scalar

__all__ = ["SIGNALS", "make_signal", "roughness", "signal"]

Floats = NDArray[np.float64]

# Bumps peak, and blocks jump, at the same places.
_PLACES = np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.4, 0.44, 0.65, 0.76, 0.78, 0.81])
_HEIGHTS = np.array([4, 5, 3, 4, 5, 4.2, 2.1, 4.3, 3.1, 5.1, 4.2])
_WIDTHS = np.array([5, 5, 6, 10, 10, 30, 10, 10, 5, 8, 5]) / 1000
_JUMPS = np.array([4, -5, 3, -4, 5, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2])


def _blocks(x: Floats) -> Floats:
    return np.asarray((_JUMPS * (x[:, None] > _PLACES)).sum(axis=1))


def _bumps(x: Floats) -> Floats:
    bumps = _HEIGHTS / (1 + np.abs(x[:, None] - _PLACES) / _WIDTHS) ** 4
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

_FINE = np.linspace(0, 1, 20_001)  # holds all peaks and jumps


def signal(x: ArrayLike, name: str) -> Floats:
    """Return a signal without noise.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Where, in [0, 1].
    name : {"blocks", "bumps", "doppler", "heavisine"}
        Steps, peaks, a wave that slows down, or a sine with two jumps.

    Returns
    -------
    ndarray of shape (n_samples,)
        Its values: the lowest is 0 and the highest is 1.

    Examples
    --------
    >>> from amforest.datasets import signal
    >>> signal([0.05, 0.12, 0.14], "blocks").round(2)
    array([0.28, 0.83, 0.14])
    """
    places = _places(x)
    lowest, highest = _range(_known(name))
    values: Floats = (_FORMULAS[name](places) - lowest) / (highest - lowest)
    return values


def roughness(x: ArrayLike, name: str, *, width: float = 0.05) -> Floats:
    """Return how rough a signal is around some places: its mean absolute slope there.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Where, in [0, 1].
    name : {"blocks", "bumps", "doppler", "heavisine"}
        The signal.
    width : float, default=0.05
        The width of the window around each place, of which only what is in [0, 1] counts.

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
    places, variation = _places(x), _variation(_known(name))
    check_scalar(width, "width", Real, min_val=1e-3, max_val=1)
    low, high = np.clip(places - width / 2, 0, 1), np.clip(places + width / 2, 0, 1)
    rise = np.interp(high, _FINE, variation) - np.interp(low, _FINE, variation)
    return np.asarray(rise / (high - low))


def make_signal(
    name: str, n_samples: int = 1000, *, noise: float = 0.03, random_state: Any = None
) -> tuple[Floats, Floats]:
    """Generate noisy samples of a signal, at places uniform in [0, 1], in random order.

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
        Where.
    y : ndarray of shape (n_samples,)
        The signal there, and noise.

    Examples
    --------
    >>> from amforest import AMFRegressor
    >>> from amforest.datasets import make_signal, signal
    >>> X, y = make_signal("doppler", 2000, random_state=0)
    >>> forest = AMFRegressor(step=10.0, random_state=0).fit(X, y)
    >>> bool(abs(forest.predict(X) - signal(X[:, 0], "doppler")).mean() < 0.02)
    True
    """
    _known(name)
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(noise, "noise", Real, min_val=0)
    rng = check_random_state(random_state)
    x: Floats = rng.uniform(size=n_samples)
    return x[:, None], signal(x, name) + noise * rng.standard_normal(n_samples)


def _known(name: str) -> str:
    if name not in SIGNALS:
        raise ValueError(f"unknown signal {name!r}; known are {', '.join(SIGNALS)}")
    return name


def _places(x: ArrayLike) -> Floats:
    places: Floats = check_array(x, ensure_2d=False, dtype=np.float64, input_name="x")
    if places.ndim != 1:
        raise ValueError(f"x has shape {places.shape}; it must have one dimension")
    if ((places < 0) | (places > 1)).any():
        raise ValueError("x holds values outside of [0, 1], where no signal is")
    return places


@cache
def _range(name: str) -> tuple[float, float]:
    values = _FORMULAS[name](_FINE)
    return float(values.min()), float(values.max())


@cache
def _variation(name: str) -> Floats:
    """Return the total variation from 0 on, at the fine places."""
    return np.append(0.0, np.abs(np.diff(signal(_FINE, name))).cumsum())
