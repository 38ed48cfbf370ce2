"""Colours and markers of all plots.

Colours are those of Okabe and Ito, without their yellow, which vanishes on white. In grey, markers
differ. Fields have maps of even and growing lightness.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
GLYPHS = ("●", "▲")  # the first two markers in text
DARK = "0.15"


def _lighten(name: str) -> ListedColormap:
    """Mix a map with white, so that points and lines stand out; lightness still grows evenly."""
    colours = mpl.colormaps[name](np.linspace(0, 1, 256))
    return ListedColormap(0.6 * colours + 0.4, f"pale {name}")


PROBABILITIES, NUMBERS = _lighten("cividis"), _lighten("viridis")


def get_colour(k: int) -> str:
    """Return the colour of class or line k."""
    return COLOURS[k % len(COLOURS)]


def get_marker(k: int) -> str:
    """Return the marker of class or line k: there are 56 pairs of colour and marker."""
    return MARKERS[k % len(MARKERS)]
