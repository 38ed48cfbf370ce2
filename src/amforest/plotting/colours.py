"""Colours and markers of all plots.

Colours are those of Okabe and Ito, without their yellow, which vanishes on white. In grey, markers
differ. Fields have maps of even and growing lightness.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap, to_rgb

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
GLYPHS = ("●", "▲")  # the first two markers in text
DARK, GREY = "0.15", "0.55"


def _lighten(name: str) -> ListedColormap:
    """Mix a map with white, so that points and lines stand out; lightness still grows evenly."""
    colours = mpl.colormaps[name](np.linspace(0, 1, 256))
    return ListedColormap(0.6 * colours + 0.4, f"pale {name}")


def _join(*colours: str) -> ListedColormap:
    """Return a map that leads from one colour to the next."""
    places = np.linspace(0, len(colours) - 1, 256)
    channels = np.array([to_rgb(colour) for colour in colours]).T
    own = [np.interp(places, range(len(colours)), channel) for channel in channels]
    return ListedColormap(np.column_stack(own), "low to high")


# Of values as dots: visible on white and on black.
LOW_TO_HIGH = _join(COLOURS[0], COLOURS[4], COLOURS[3])
PROBABILITIES, NUMBERS = _lighten("cividis"), _lighten("viridis")


def get_colour(k: int) -> str:
    """Return the colour of class or line k."""
    return COLOURS[k % len(COLOURS)]


def get_marker(k: int) -> str:
    """Return the marker of class or line k: there are 56 pairs of colour and marker."""
    return MARKERS[k % len(MARKERS)]


def get_ink() -> Any:
    """Return the colour of text, in which axes are drawn, too."""
    return mpl.rcParams["text.color"]
