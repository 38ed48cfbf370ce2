"""Plots of forests and of their performance: each function returns matplotlib's axes.

All take `ax`, the axes to draw into. Without it they create a figure with pyplot, which the caller
shows and closes. Colours are those of Okabe and Ito, fields have maps of even and growing
lightness, and lines and classes also differ in style or marker: for colour-blind readers, and for
print in grey.
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("amforest.plotting needs matplotlib: pip install 'amforest[plot]'") from error

from amforest.plotting.bands import plot_predictions
from amforest.plotting.curves import plot_progress, plot_reliability
from amforest.plotting.importance_bars import plot_importances
from amforest.plotting.memory_areas import plot_memory_weights
from amforest.plotting.partition import plot_partition
from amforest.plotting.surfaces import plot_decision, plot_interval, plot_weighted_depth
from amforest.plotting.swarm import plot_contribution_swarm
from amforest.plotting.tree import plot_tree
from amforest.plotting.waterfall import plot_contributions

__all__ = [
    "plot_contribution_swarm",
    "plot_contributions",
    "plot_decision",
    "plot_importances",
    "plot_interval",
    "plot_memory_weights",
    "plot_partition",
    "plot_predictions",
    "plot_progress",
    "plot_reliability",
    "plot_tree",
    "plot_weighted_depth",
]
