"""The distribution that a regressor predicts for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, stdtr
from sklearn.utils import check_random_state

from amforest._core import DEGREES, LEVELS, WIDTHS

Floats = NDArray[np.float64]

_WIDTH, _DEGREE = (a.ravel() for a in np.meshgrid(WIDTHS, DEGREES))  # of each component
_LOG_CONSTANT = (
    gammaln((_DEGREE + 1) / 2) - gammaln(_DEGREE / 2) - np.log(np.pi * _DEGREE) / 2 - np.log(_WIDTH)
)
_BLOCK = 1 << 14  # rows at a time, so that scratch memory stays small


class PredictiveDistribution:
    """The predicted distributions of some rows, with methods named as in `scipy.stats`.

    For each row it is that of m + s T: the mean m and the scale s are the row's, and T is a mixture
    of Student-t distributions of several widths and degrees of freedom, with weights that follow
    the errors of the last rows. All methods are vectorised over the rows: an argument has shape
    (n_rows,), or can be broadcast to it.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_outputs)
        What the core predicts: the mean, the scale, the weights of the components, and the levels
        that intervals use.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AdaptiveAMFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> y = 3 * X[:, 0] + 0.1 * rng.normal(size=2000)
    >>> dist = AdaptiveAMFRegressor(random_state=0).fit(X, y).predict_dist([[0.5, 0.5]])
    >>> bool(abs(dist.mean() - 1.5)[0] < 0.1), bool(abs(dist.std() - 0.1)[0] < 0.03)
    (True, True)
    >>> dist.cdf(dist.ppf(0.25)).round(6)
    array([0.25])
    """

    def __init__(self, outputs: Floats) -> None:
        self._mean, self._scale = outputs[:, 0], outputs[:, 1]
        n = len(_WIDTH)
        self._weights, self._levels = outputs[:, 2 : 2 + n], outputs[:, 2 + n :]
        # While all labels are equal the scale is 0: then all mass is next to the mean.
        least = np.maximum(1e-12 * np.abs(self._mean), 1e-150)
        self._scale = np.maximum(self._scale, least)

    def __len__(self) -> int:
        return len(self._mean)

    def __getitem__(self, rows: Any) -> PredictiveDistribution:
        """Return the distributions of some of the rows: a slice, a mask or indices."""
        parts = self._mean[:, None], self._scale[:, None], self._weights, self._levels
        return PredictiveDistribution(np.atleast_2d(np.hstack(parts)[rows]))

    def mean(self) -> Floats:
        """Return the mean of each row."""
        return self._mean.copy()

    def median(self) -> Floats:
        """Return the median of each row: the mean, because the distributions are symmetric."""
        return self.mean()

    def var(self) -> Floats:
        """Return the variance of each row."""
        of_components = _WIDTH**2 * _DEGREE / (_DEGREE - 2)
        variances: Floats = self._scale**2 * (self._weights @ of_components)
        return variances

    def std(self) -> Floats:
        """Return the standard deviation of each row."""
        return np.sqrt(self.var())

    def logpdf(self, y: ArrayLike) -> Floats:
        """Return the log of the density at y.

        Parameters
        ----------
        y : array-like of shape (n_rows,), or a number
        """

        def of_block(t: Floats, weights: Floats) -> Floats:
            z = t[:, None] / _WIDTH
            logs = _LOG_CONSTANT - (_DEGREE + 1) / 2 * np.log1p(z**2 / _DEGREE)
            largest = logs.max(axis=1)
            sums = (weights * np.exp(logs - largest[:, None])).sum(axis=1)
            return np.asarray(largest + np.log(sums))

        return self._by_blocks(of_block, self._standardised(y)) - np.log(self._scale)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density at y.

        Parameters
        ----------
        y : array-like of shape (n_rows,), or a number
        """
        return np.exp(self.logpdf(y))

    def cdf(self, y: ArrayLike) -> Floats:
        """Return the probability of labels up to y.

        Parameters
        ----------
        y : array-like of shape (n_rows,), or a number
        """
        return self._by_blocks(_cdf, self._standardised(y))

    def ppf(self, q: ArrayLike) -> Floats:
        """Return the quantile: the inverse of `cdf`.

        Parameters
        ----------
        q : array-like of shape (n_rows,), or a number, in [0, 1]
        """
        levels = np.broadcast_to(np.asarray(q, dtype=np.float64), self._mean.shape)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"q is {q!r}; it must lie in [0, 1]")
        return self._mean + self._scale * self._by_blocks(_ppf, levels)

    def rvs(self, size: int | None = None, random_state: Any = None) -> Floats:
        """Draw labels.

        Parameters
        ----------
        size : int, default=None
            How many for each row. None means one.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        ndarray of shape (n_rows,) or (size, n_rows)
        """
        rng = check_random_state(random_state)
        n_draws = 1 if size is None else int(size)
        steps = np.cumsum(self._weights, axis=1)
        u = rng.uniform(size=(n_draws, len(self), 1)) * steps[:, -1:]
        component = np.minimum((u > steps).sum(axis=2), len(_WIDTH) - 1)
        t = rng.standard_t(_DEGREE[component]) * _WIDTH[component]
        drawn: Floats = self._mean + self._scale * t
        return drawn[0] if size is None else drawn

    def quantiles(self, q: ArrayLike) -> Floats:
        """Return quantiles whose levels are corrected by how often labels were below them so far.

        Parameters
        ----------
        q : array-like of shape (n_quantiles,), in (0, 1)

        Returns
        -------
        ndarray of shape (n_rows, n_quantiles)
        """
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"q is {q!r}; it must be a number or a list of numbers within (0, 1)")
        corrected = self._corrected(levels)
        return np.stack([self.ppf(column) for column in corrected.T], axis=1)

    def _corrected(self, q: Floats) -> Floats:
        """Interpolate the tracked levels; where nothing is tracked, between them and 0 or 1."""
        known = np.concatenate([[0.0], LEVELS, [1.0]])
        rows, which = np.unique(self._levels, axis=0, return_inverse=True)
        tracked = np.sort(rows, axis=1)  # each follows its own errors: two may cross for a while
        ends = np.zeros((len(rows), 1)), np.ones((len(rows), 1))
        tracked = np.hstack([ends[0], tracked, ends[1]])
        by_rows = np.array([np.interp(q, known, levels) for levels in tracked])
        return by_rows.reshape(len(rows), len(q))[which.ravel()]

    def _standardised(self, y: ArrayLike) -> Floats:
        labels = np.asarray(y, dtype=np.float64)
        distances: Floats = (labels - self._mean) / self._scale
        return np.clip(distances, -1e100, 1e100)

    def _by_blocks(self, call: Any, values: Floats) -> Floats:
        values = np.broadcast_to(values, self._mean.shape)
        result = np.empty(len(self))
        for start in range(0, len(self), _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] = call(values[block], self._weights[block])
        return result


def _cdf(t: Floats, weights: Floats) -> Floats:
    sums: Floats = (weights * stdtr(_DEGREE, t[:, None] / _WIDTH)).sum(axis=1)
    return sums


def _density(t: Floats, weights: Floats) -> Floats:
    logs = _LOG_CONSTANT - (_DEGREE + 1) / 2 * np.log1p((t[:, None] / _WIDTH) ** 2 / _DEGREE)
    sums: Floats = (weights * np.exp(logs)).sum(axis=1)
    return sums


def _ppf(q: Floats, weights: Floats) -> Floats:
    """Return quantiles of T, by Newton's method within a bracket."""
    if len(q) > 1 and (q == q[0]).all() and (weights == weights[0]).all():
        return np.full(len(q), _ppf(q[:1], weights[:1])[0])  # rows of one moment
    tail = np.minimum(q, 1 - q)  # T is symmetric: solve for the lower half
    t = np.where(tail > 0, -1.0, -np.inf)
    t[tail == 0.5] = 0
    waiting = np.flatnonzero((tail > 0) & (tail < 0.5))
    low, high = np.full(len(q), -np.inf), np.zeros(len(q))
    for _ in range(200):
        if not len(waiting):
            break
        below = _cdf(t[waiting], weights[waiting])
        is_far = np.abs(below - tail[waiting]) > 1e-12 * tail[waiting]
        waiting, below = waiting[is_far], below[is_far]
        now, level, of = t[waiting], tail[waiting], weights[waiting]
        excess = below - level
        low[waiting] = np.where(excess < 0, now, low[waiting])
        high[waiting] = np.where(excess < 0, high[waiting], now)
        # In the tail log F is nearly linear in log -t, near the middle F is in t.
        slope = np.maximum(_density(now, of), 1e-300)
        in_tail = now * np.exp(np.clip(below * np.log(below / level) / (-now * slope), -9, 9))
        step = np.where(level < 0.25, in_tail, now - excess / slope)
        inside = (step > low[waiting]) & (step < high[waiting])
        middle = np.where(np.isinf(low[waiting]), 2 * now, (low[waiting] + high[waiting]) / 2)
        t[waiting] = np.where(inside, step, middle)
    return np.where(q > 0.5, -t, t)
