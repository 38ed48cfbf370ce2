"""Random numbers: xoshiro256++ of Blackman and Vigna, and distributions by inversion."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

MASK = 2**64 - 1


def rotate_left(word: int, count: int) -> int:
    """Rotate a 64-bit word."""
    return ((word << count) | (word >> (64 - count))) & MASK


class Generator:
    """A stream of random numbers from a state of four 64-bit words, not all of them 0."""

    def __init__(self, state: Iterable[int]) -> None:
        self.state = list(state)

    def next(self) -> int:
        a, b, c, d = self.state
        word = (rotate_left((a + d) & MASK, 23) + a) & MASK
        c, d = c ^ a, d ^ b
        self.state = [a ^ d, b ^ c, c ^ ((b << 17) & MASK), rotate_left(d, 45)]
        return word

    def uniform(self) -> float:
        """Draw from U([0, 1)): 53 bits."""
        return (self.next() >> 11) * 2.0**-53

    def below(self, count: int) -> int:
        """Draw from 0, …, count - 1, all equally likely."""
        return int(self.uniform() * count)

    def fork(self) -> list[int]:
        """Return the state of another generator, whose stream is independent of this one's."""
        return [self.next() for _ in range(4)]

    def exponential(self, rate: float) -> float:
        """Draw from Exp(rate)."""
        return -math.log1p(-self.uniform()) / rate

    def discrete(self, weights: NDArray[np.float32]) -> int:
        """Draw j with probability weights[j] / Σ weights."""
        sums = np.cumsum(weights, dtype=np.float64)
        target = self.uniform() * float(sums[-1])
        # The product may be rounded up to the total: then the last positive weight is taken.
        last = max(np.flatnonzero(weights), default=0)
        return int(min(np.searchsorted(sums, target, side="right"), last))
