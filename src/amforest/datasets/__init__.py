"""Data to learn from: the paper's ten UCI data sets (Table 3), and generators.

This is the only package that reads or downloads data.
"""

from amforest.datasets.download import are_here, cache_folder, fetch
from amforest.datasets.generators import SHAPES, TOYS, make_drift, make_toy, simulated
from amforest.datasets.signals import SIGNALS, make_signal, roughness, signal
from amforest.datasets.uci import NAMES, Dataset, load

__all__ = [
    "NAMES",
    "SHAPES",
    "SIGNALS",
    "TOYS",
    "Dataset",
    "are_here",
    "cache_folder",
    "fetch",
    "load",
    "make_drift",
    "make_signal",
    "make_toy",
    "roughness",
    "signal",
    "simulated",
]
