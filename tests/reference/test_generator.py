"""The reference's random numbers are the core's, and the published ones."""

import numpy as np
import pytest

from amforest._core import Rng
from amforest.reference import Generator

# The first outputs of xoshiro256++ from the state (1, 2, 3, 4), as its authors publish them.
XOSHIRO = (41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205)
SEEDS = [(1, 2, 3, 4), (2**64 - 1, 0, 0, 0), (0, 2**63, 12345, 678)]


def test_the_generator_is_xoshiro256_plus_plus():
    rng = Generator([1, 2, 3, 4])
    assert tuple(rng.next() for _ in XOSHIRO) == XOSHIRO


@pytest.mark.parametrize("seed", SEEDS)
def test_all_draws_equal_those_of_the_core(seed):
    rng, core = Generator(seed), Rng(list(seed))
    weights = np.array([0, 3, 0.5, 0, 1e-3, 1e-45, 0], dtype=np.float32)
    for rate in np.geomspace(1e-30, 1e30, 300).tolist():
        assert rng.uniform() == core.uniform()
        assert rng.exponential(rate) == core.exponential(rate)
        assert rng.below(1000) == core.below(1000)
        assert rng.fork() == core.fork()
        assert rng.discrete(weights) == core.discrete(weights)
