"""Table 3: the ten data sets, as loaded, beside the paper's numbers."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from amforest.datasets import SHAPES
from experiments.paper import _run
from experiments.paper._findings import Claim, Table
from experiments.paper._streams import must_stand_in, stream

TITLE = "The data sets"
ABOUT = """
Rows, features and classes of the ten data sets from UCI as `amforest.datasets.load` gives them:
columns of words become one column for each word, and all columns are scaled to [0, 1].
"""
Found = dict[str, tuple[int, ...]]


def shape(name: str, stands_in: bool) -> _run.Found:
    """Load a data set, and return its numbers of samples, features and classes."""
    data = stream(name, 0, None, stands_in=stands_in)
    return {"shape": np.array([*data.X.shape, data.n_classes])}


def compute(run: _run.Run) -> Found:
    """Load all data sets."""
    cells = [(name, must_stand_in(run)) for name in SHAPES]
    results = run.cells(shape, cells, "Table 3: data sets")
    shapes = (tuple(result["shape"].tolist()) for result in results)
    return dict(zip(SHAPES, shapes, strict=True))


def draw(found: Found) -> Figure | None:
    """Draw nothing: it is a table."""
    return None


def tables(found: Found) -> list[Table]:
    """Return our numbers; the paper's stand in brackets where they differ."""
    rows = [
        [name, *(_beside(*pair) for pair in zip(ours, SHAPES[name], strict=True))]
        for name, ours in found.items()
    ]
    return [Table(["data set", "samples", "features", "classes"], rows)]


def _beside(ours: int, paper: int) -> str:
    return f"{ours:,}" if ours == paper else f"{ours:,} (paper: {paper:,})"


def claims(found: Found) -> list[Claim]:
    """Check that all numbers are those of the paper."""
    other = [name for name, ours in found.items() if ours != SHAPES[name]]
    return [
        Claim(
            "The ten data sets have these numbers of samples, features and classes",
            f"equal on {len(found) - len(other)} of {len(found)}"
            + (f"; not on {', '.join(other)}" if other else ""),
            not other,
            "The files differ from those that the authors used.",
        )
    ]
