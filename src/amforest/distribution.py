"""The distribution that a regressor predicts for each row."""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, stdtr
from sklearn.utils import check_random_state

from amforest._core import DEGREES, LEVELS, WIDTHS

__all__ = ["PredictiveDistribution"]

Floats = NDArray[np.float64]

_WIDTH, _DEGREE = (a.ravel() for a in np.meshgrid(WIDTHS, DEGREES))  # of each component
_LOG_CONSTANT = (
    gammaln((_DEGREE + 1) / 2) - gammaln(_DEGREE / 2) - np.log(np.pi * _DEGREE) / 2 - np.log(_WIDTH)
)
_BLOCK = 1 << 14  # rows at a time, so that scratch memory stays small
_FAST_TAIL = 1e-3  # from there on, absolute errors are small enough


class PredictiveDistribution:
    """The predicted distributions of some rows, with methods named as in `scipy.stats`.

    For each row it is that of m + s T: the mean m and the scale s are the row's, and T is a mixture
    of Student-t distributions of several widths and degrees of freedom, with weights that follow
    the errors of the last rows. All methods are vectorised over the rows: an argument has shape
    (n_rows,), or is one number for all rows.

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

    def uncorrected(self) -> PredictiveDistribution:
        """Return the distributions with the scales that the trees themselves state.

        Those of this object are corrected by the errors of the last rows.
        """
        is_unit = _WIDTH == 1
        weights = np.broadcast_to(is_unit / is_unit.sum(), self._weights.shape)
        parts = self._mean[:, None], self._scale[:, None], weights, self._levels
        return PredictiveDistribution(np.hstack(parts))

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
        values = self._by_row("y", y)
        below = self._by_blocks(_cdf, self._standardised(values))
        return np.where(np.isinf(values), values > 0, below)  # the sum has rounding errors

    def ppf(self, q: ArrayLike) -> Floats:
        """Return the quantile: the inverse of `cdf`.

        Parameters
        ----------
        q : array-like of shape (n_rows,), or a number, in [0, 1]
        """
        levels = self._by_row("q", q)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"q is {q!r}; it must lie in [0, 1]")
        return self._mean + self._scale * self._by_blocks(_ppf, levels)

    def rvs(self, size: int | None = None, random_state: Any = None) -> Floats:
        """Draw labels.

        Parameters
        ----------
        size : int, default=None
            How many for each row. None means one, without an axis for it.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        ndarray of shape (n_rows,) or (size, n_rows)
        """
        is_count = isinstance(size, Integral) and not isinstance(size, bool) and size >= 0
        if not (size is None or is_count):
            raise ValueError(f"size is {size!r}; it must be None or a whole number, at least 0")
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
        levels = check_levels(q)
        corrected = self._corrected(levels)
        if len(self) == 1:  # all at once, which is faster
            t = _ppf(corrected[0], np.repeat(self._weights, len(levels), axis=0))[None]
        else:
            t = np.stack([self._by_blocks(_ppf, column) for column in corrected.T], axis=1)
        return self._mean[:, None] + self._scale[:, None] * t

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
        distances: Floats = (self._by_row("y", y) - self._mean) / self._scale
        return np.clip(distances, -1e100, 1e100)

    def _by_row(self, name: str, values: ArrayLike) -> Floats:
        """Return the number for each row that an argument holds."""
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must be a number, or a number for each row: {error}"
            ) from None
        n_rows = len(self)
        if numbers.shape not in ((), (1,), (n_rows,)):
            raise ValueError(
                f"{name} has shape {numbers.shape}; it must be one number, or have shape "
                f"({n_rows},): a number for each row"
            )
        return np.broadcast_to(numbers, (n_rows,))

    def _by_blocks(self, call: Any, values: Floats) -> Floats:
        values = np.broadcast_to(values, self._mean.shape)
        result = np.empty(len(self))
        for start in range(0, len(self), _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] = call(values[block], self._weights[block])
        return result


def check_levels(q: ArrayLike) -> Floats:
    """Return the levels of quantiles; ValueError unless they are some numbers within (0, 1)."""
    levels = np.empty(0)
    with suppress(TypeError, ValueError):
        levels = np.asarray(q, dtype=np.float64)
    if levels.ndim != 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"q is {q!r}; it must be a number or a list of numbers within (0, 1)")
    return levels


def _cdf(t: Floats, weights: Floats) -> Floats:
    sums: Floats = (weights * stdtr(_DEGREE, t[:, None] / _WIDTH)).sum(axis=1)
    return sums


def _density(t: Floats, weights: Floats) -> Floats:
    logs = _LOG_CONSTANT - (_DEGREE + 1) / 2 * np.log1p((t[:, None] / _WIDTH) ** 2 / _DEGREE)
    sums: Floats = (weights * np.exp(logs)).sum(axis=1)
    return sums


def _ppf(q: Floats, weights: Floats) -> Floats:
    """Return quantiles of T."""
    if len(q) > 1 and (q == q[0]).all() and (weights == weights[0]).all():
        return np.full(len(q), _ppf(q[:1], weights[:1])[0])  # rows of one moment
    tail = np.minimum(q, 1 - q)  # T is symmetric: solve for the lower half
    t = np.full(len(q), -np.inf)
    for cdf, is_meant in ((_fast_cdf, tail >= _FAST_TAIL), (_cdf, tail < _FAST_TAIL)):
        rows = np.flatnonzero(is_meant & (tail > 0) & (tail < 0.5))
        if len(rows):
            t[rows] = _solve(cdf, tail[rows], weights[rows])
    t = np.where(q == 0.5, 0.0, t)
    return np.where(q > 0.5, -t, t)


def _solve(cdf: Any, tail: Floats, weights: Floats) -> Floats:
    """Solve cdf(t) = tail < 1/2 by Newton's method within a bracket.

    Each row stops by itself, so that its result does not depend on the other rows.
    """
    t, low, high = np.full(len(tail), -1.0), np.full(len(tail), -np.inf), np.zeros(len(tail))
    rows = np.arange(len(tail))
    for _ in range(200):
        below = cdf(t[rows], weights[rows])
        is_far = np.abs(below - tail[rows]) > 1e-12 * tail[rows]
        rows, below = rows[is_far], below[is_far]
        if not len(rows):
            break
        now, level = t[rows], tail[rows]
        low[rows] = np.where(below < level, now, low[rows])
        high[rows] = np.where(below < level, high[rows], now)
        # In the tail log F is nearly linear in log -t, near the middle F is in t.
        slope = np.maximum(_density(now, weights[rows]), 1e-300)
        in_tail = now * np.exp(np.clip(below * np.log(below / level) / (-now * slope), -9, 9))
        step = np.where(level < 0.25, in_tail, now - (below - level) / slope)
        is_inside = (step > low[rows]) & (step < high[rows])
        middle = np.where(np.isinf(low[rows]), 2 * now, (low[rows] + high[rows]) / 2)
        t[rows] = np.where(is_inside, step, middle)
    return t


def _fast_cdf(t: Floats, weights: Floats) -> Floats:
    """Return `_cdf` with an error of 10⁻¹⁶, but not relative to small tails; 100 times as fast."""
    z = t[:, None] / np.array(WIDTHS)
    parts = np.hstack([_student_cdf(z, int(degree)) for degree in DEGREES])
    sums: Floats = (weights * parts).sum(axis=1)
    return sums


def _student_cdf(z: Floats, degree: int) -> Floats:
    """Return the cdf of Student's t, in the closed form for whole degrees of freedom from 2 on.

    With θ = atan(z / √ν), a₀ = b₀ = 1:
    for even ν: ½ + ½ sin θ Σ_k a_k cos²ᵏ θ, k < ν/2, a_k = a_{k-1} (2k-1)/2k;
    for odd ν: ½ + (θ + sin θ cos θ Σ_k b_k cos²ᵏ θ) / π, k < (ν-1)/2, b_k = b_{k-1} 2k/(2k+1).
    """
    cosine2 = degree / (degree + z**2)
    is_odd = degree % 2
    coefficients = np.cumprod([1.0, *((k - 1) / k for k in range(2 + is_odd, degree, 2))])
    total = np.full_like(z, coefficients[-1])
    for coefficient in coefficients[-2::-1].tolist():  # Horner's scheme, in place
        total *= cosine2
        total += coefficient
    sine = z / np.sqrt(degree + z**2)
    if is_odd:
        angle = np.arctan(z / np.sqrt(degree))
        return np.asarray(0.5 + (angle + sine * np.sqrt(cosine2) * total) / np.pi)
    return np.asarray(0.5 + 0.5 * sine * total)
