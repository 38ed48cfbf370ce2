"""Quantiles of predicted distributions: exact, and the same whatever the batch."""

import numpy as np
import pytest
from scipy.stats import t as student_t

from amforest._core import DEGREES, LEVELS, WIDTHS
from amforest.distribution import PredictiveDistribution


def outputs(n_rows, seed=0):
    """What the core may predict: means, scales, weights of components, levels."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(len(WIDTHS) * len(DEGREES), 0.2), n_rows)
    levels = np.clip(LEVELS + 0.02 * rng.normal(size=(n_rows, len(LEVELS))), 1e-5, 1 - 1e-5)
    ends = rng.normal(size=n_rows), np.exp(rng.normal(size=n_rows))
    return np.column_stack([*ends, weights, levels])


@pytest.mark.parametrize("q", [1e-9, 1e-4, 0.00099, 0.0011, 0.05, 0.4, 0.5, 0.7, 0.999, 1 - 1e-6])
def test_quantiles_invert_the_mixture_of_scipys_distributions(q):
    rows = outputs(50)
    dist = PredictiveDistribution(rows)
    z = (dist.ppf(q) - rows[:, 0]) / rows[:, 1]
    width, degree = (a.ravel() for a in np.meshgrid(WIDTHS, DEGREES))
    tail = z if q <= 0.5 else -z
    parts = student_t.cdf(tail[:, None] / width, degree)
    found = (rows[:, 2 : 2 + len(width)] * parts).sum(axis=1)
    np.testing.assert_allclose(found, min(q, 1 - q), rtol=1e-9)


def test_no_batch_changes_a_bit_of_an_interval():
    rows, q = outputs(300), [0.05, 0.2, 0.95]
    whole = PredictiveDistribution(rows).quantiles(q)
    for size in (1, 7, 150):
        parts = [
            PredictiveDistribution(rows[i : i + size]).quantiles(q) for i in range(0, 300, size)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
