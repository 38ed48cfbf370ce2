"""The limits of a forest, each in one place; the core has the same."""

from __future__ import annotations

MOST_CLASSES = 65_535
MOST_CATEGORIES = 65_535  # of one feature
MOST_TREES = 65_535
MOST_THREADS = 256
LARGEST_FEATURE = 2.0**100  # a sum of range extensions beyond it could overflow in float32
LARGEST_LABEL = 1e75  # sums of squares beyond it could overflow
LEAST_WEIGHT = 2.0**-100  # of one row; ratios of smaller counts could overflow
MOST_COUNTED = 2**31  # total weight from which whole numbers of 32 bits no longer suffice
