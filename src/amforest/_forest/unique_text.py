"""When text is an identifier rather than a category."""

LEAST_VALUES = 50  # of which almost all must differ
LARGEST_PART = 0.9


def is_nearly_unique(n_distinct: int, n_known: int) -> bool:
    """Return whether so many of the known values differ that they name rows, not categories."""
    return n_known >= LEAST_VALUES and n_distinct > LARGEST_PART * n_known
