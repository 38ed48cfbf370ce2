"""Data to learn from: the paper's ten UCI data sets (Table 3), and generators.

This is the only package that reads or downloads data.
"""

from amforest.datasets.uci import NAMES, Dataset, load

__all__ = ["NAMES", "Dataset", "load"]
