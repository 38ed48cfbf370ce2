"""Data sets: the paper's ten UCI data sets (Table 3), downloaded if needed, and generated ones."""

from amforest.datasets.download import are_available, cache_folder, fetch
from amforest.datasets.generators import SHAPES, TOYS, make_drift, make_simulated, make_toy
from amforest.datasets.signals import SIGNALS, make_signal, roughness, signal
from amforest.datasets.uci import NAMES, Dataset, load

__all__ = [
    "NAMES",
    "SHAPES",
    "SIGNALS",
    "TOYS",
    "Dataset",
    "are_available",
    "cache_folder",
    "fetch",
    "load",
    "make_drift",
    "make_signal",
    "make_simulated",
    "make_toy",
    "roughness",
    "signal",
]
