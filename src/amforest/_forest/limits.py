"""The limits of a forest, as the core has them."""

from amforest._core import (
    LARGEST_FEATURE,
    LARGEST_LABEL,
    LEAST_MEMORY,
    LEAST_WEIGHT,
    MOST_CATEGORIES,
    MOST_CLASSES,
    MOST_COUNTED,
    MOST_ROWS,
    MOST_THREADS,
    MOST_TREES,
)

__all__ = [
    "LARGEST_FEATURE",  # of numbers in X
    "LARGEST_LABEL",  # of a regressor
    "LEAST_MEMORY",  # rows from which a tree is regrown
    "LEAST_WEIGHT",  # of one row
    "MOST_CATEGORIES",  # of one feature
    "MOST_CLASSES",
    "MOST_COUNTED",  # the largest total weight that whole numbers of 32 bits count
    "MOST_ROWS",
    "MOST_THREADS",
    "MOST_TREES",
]
