"""Labels where there is room for them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes

from amforest.plotting._common import Floats

# In points from the place that is labelled, in the order of preference.
PLACES = ((5, 3, "left", "bottom"), (-5, 3, "right", "bottom"), (0, -5, "center", "top"))
FONT_SIZE = 7.5
Place = tuple[float, float]


def place_labels(
    ax: Axes, labels: Iterable[tuple[Place, str]], lines: Iterable[tuple[Place, Place]]
) -> None:
    """Write labels, the most important first, unless they would cover a line or another label.

    Lines run along the axes.
    """
    ax.figure.figure.draw_without_rendering()  # only now the size of the axes is known
    ends = ax.transData.transform(np.array(list(lines)).reshape(-1, 2)).reshape(-1, 2, 2)
    taken = [*np.hstack([ends.min(axis=1) - 1, ends.max(axis=1) + 1])]
    frame = ax.get_window_extent()
    for place, text in labels:
        for dx, dy, ha, va in PLACES:
            label = ax.annotate(text, place, (dx, dy), textcoords="offset points")
            label.set(fontsize=FONT_SIZE, ha=ha, va=va, annotation_clip=False)
            box = np.array(label.get_window_extent().extents)
            # Saved at another resolution, text may become a tenth wider: letters have whole pixels.
            room = 0.1 * (box[2] - box[0])
            box += [-room * (ha != "left"), 0, room * (ha != "right"), 0]
            inside = frame.x0 < box[0] and box[2] <= frame.x1 and frame.y0 <= box[1]
            if inside and not _overlaps(box, np.array(taken)):
                taken.append(box)
                break
            label.remove()


def _overlaps(box: Floats, others: Floats) -> bool:
    """Tell whether a box (left, bottom, right, top) has a point in common with one of others."""
    apart = (others[:, 2:] < box[:2]) | (others[:, :2] > box[2:])
    return bool((~apart.any(axis=1)).any())
