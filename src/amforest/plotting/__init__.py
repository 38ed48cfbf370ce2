"""Pictures of forests and of how well they do: each function returns matplotlib's axes.

All take `ax`, the axes to draw into; without it they make a figure by pyplot, which its owner shows
and closes. Colours are those of Okabe and Ito, fields have maps of even and growing lightness, and
lines and classes differ in style or marker too: for all eyes, and for print in grey.
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("amforest.plotting needs matplotlib: pip install amforest[plot]") from error

from amforest.plotting.decision import plot_decision
from amforest.plotting.depth import plot_weighted_depth
from amforest.plotting.interval import plot_interval
from amforest.plotting.partition import plot_partition
from amforest.plotting.progress import plot_progress
from amforest.plotting.reliability import plot_reliability
from amforest.plotting.tree import plot_tree

__all__ = [
    "plot_decision",
    "plot_interval",
    "plot_partition",
    "plot_progress",
    "plot_reliability",
    "plot_tree",
    "plot_weighted_depth",
]
