"""Experiments with the library, which are not part of it."""
