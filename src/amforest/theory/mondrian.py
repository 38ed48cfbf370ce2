"""Mondrian partitions of a box, drawn by Algorithm 1, and their time prunings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import utils

from amforest.theory.prunings import Floats, Rows, Table, check_points, leaves_of, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class MondrianPartition:
    """A partition of a box by a tree of splits: see `sample_mondrian`.

    Attributes
    ----------
    table : structured ndarray
        The nodes, parents before children, with fields `parent`, `left`, `right` (rows of the
        table, or -1), `feature` and `threshold` (x[feature] <= threshold goes left; both -1 in
        leaves), `birth_time`, `lower` and `upper` (the node's cell).
    lifetime : float
        λ: no node was born later.
    """

    table: Table
    lifetime: float

    @property
    def n_leaves(self) -> int:
        """The number of cells."""
        return (len(self.table) + 1) // 2

    @property
    def leaves(self) -> Rows:
        """The leaves, as rows of the table."""
        return np.flatnonzero(self.table["left"] < 0)

    @property
    def cells(self) -> tuple[Floats, Floats]:
        """The lower and upper corners of the leaves' cells, of shape (n_leaves, d) each."""
        leaves = self.table[self.leaves]
        return leaves["lower"], leaves["upper"]

    def time_pruning(self, lifetime: float) -> MondrianPartition:
        """Return Π_λ (Definition 2): the partition without the nodes born after λ = lifetime."""
        require("lifetime", lifetime, 0 <= lifetime <= self.lifetime, f"in [0, {self.lifetime}]")
        table = _renumbered(self.table, np.flatnonzero(self.table["birth_time"] <= lifetime))
        table["feature"][table["left"] < 0] = table["threshold"][table["left"] < 0] = -1
        return MondrianPartition(table, float(lifetime))

    def locate(self, X: ArrayLike) -> Rows:
        """Return the leaf of each row of X; all must be in the box."""
        points, root = check_points(self.table, X), self.table[0]
        outside = ~((points >= root["lower"]) & (points <= root["upper"])).all(axis=1)
        if outside.any():
            raise ValueError(f"X has rows outside of the box; the first is row {outside.argmax()}")
        return leaves_of(self.table, points)

    def draw(self, ax: Axes | None = None) -> Axes:
        """Draw the cells of a partition of a rectangle or an interval; return the axis."""
        from matplotlib import collections, pyplot  # noqa: PLC0415

        d = self.table["lower"].shape[1]
        require("the number of features", d, d <= 2, "1 or 2 for a drawing")
        ax = pyplot.gca() if ax is None else ax
        a, b = self.cells
        if d == 1:
            a, b = np.insert(a, 1, 0, axis=1), np.insert(b, 1, 1, axis=1)
            ax.set_yticks([])
        x, y = np.stack([a[:, 0], b[:, 0], b[:, 0], a[:, 0]]), np.stack([a, a, b, b])[..., 1]
        cells = collections.PolyCollection(list(np.stack([x, y], axis=2).swapaxes(0, 1)))
        cells.set(facecolor="none", edgecolor="black")
        ax.add_collection(cells)
        ax.autoscale_view()
        ax.set_xlabel("feature 0")
        ax.set_ylabel("feature 1" if d == 2 else "")
        return ax


def _renumbered(nodes: Table, order: Rows, starts: Any = 0) -> Table:
    """Return the given nodes, whose links become rows of the result, counted from `starts`."""
    row = np.full(len(nodes) + 1, -1)  # the last entry is for no node, -1
    row[order] = np.arange(len(order)) - starts
    table: Table = nodes[order]
    for name in ("parent", "left", "right"):
        table[name] = row[table[name]]
    return table


def sample_mondrian(box: ArrayLike, lifetime: float, random_state: Any = None) -> MondrianPartition:
    """Draw a partition of a box from MP(λ), λ = lifetime: Algorithm 1 until time λ.

    Parameters
    ----------
    box : array-like of shape (d, 2)
        The lower and upper ends of the sides.
    lifetime : float
        λ. The mean number of leaves is ``Π_j (1 + λ |C^j|)`` for sides of lengths ``|C^j|``.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    MondrianPartition

    Examples
    --------
    >>> partition = sample_mondrian([[0, 1], [0, 1]], lifetime=2.0, random_state=1)
    >>> partition.n_leaves, partition.time_pruning(0.5).n_leaves
    (17, 3)
    >>> partition.time_pruning(0.5).locate([[0.5, 0.5], [0.5, 0.4]])
    array([2, 4])
    """
    return sample_mondrians(box, lifetime, 1, random_state)[0]


def sample_mondrians(
    box: ArrayLike, lifetime: float, n_partitions: int, random_state: Any = None
) -> list[MondrianPartition]:
    """Draw many partitions as `sample_mondrian` does, much faster than one by one.

    Examples
    --------
    >>> partitions = sample_mondrians([[0, 1]], 3.0, 1000, random_state=0)
    >>> float(np.mean([partition.n_leaves for partition in partitions]))  # 1 + λ
    4.041
    """
    sides = utils.check_array(box, dtype=np.float64, input_name="box")
    require("box", f"of shape {sides.shape}", sides.shape[1] == 2, "of shape (d, 2)")
    require("box", box, sides[:, 0] <= sides[:, 1], "lower ends with upper ends not below them")
    require("lifetime", lifetime, 0 <= lifetime < np.inf, "a finite number, not below 0")
    require("n_partitions", n_partitions, n_partitions >= 1, "at least 1")
    rng = utils.check_random_state(random_state)
    fields: list[Any] = [(name, np.intp) for name in ("parent", "left", "right", "feature")]
    fields += [("threshold", np.float64), ("birth_time", np.float64)]
    fields += [(name, np.float64, (len(sides),)) for name in ("lower", "upper")]
    cells = np.zeros(n_partitions, dtype=fields)
    cells["parent"], cells["lower"], cells["upper"] = -1, sides[:, 0], sides[:, 1]
    owner = np.arange(n_partitions)  # the partition of each cell
    generations, owners, n_nodes = [], [], 0
    while len(cells):
        generations.append(cells)
        owners.append(owner)
        first, n_nodes = n_nodes, n_nodes + len(cells)
        cells = _split(cells, lifetime, first, rng)
        owner = owner[cells["parent"] - first]
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(n_partitions))
    nodes = _renumbered(np.concatenate(generations), order, starts[owner[order]])
    return [MondrianPartition(table, float(lifetime)) for table in np.split(nodes, starts[1:])]


def _split(cells: Table, lifetime: float, first: int, rng: np.random.RandomState) -> Table:
    """Split the cells, rows from `first` on, whose time comes before λ; return their children."""
    cells["left"] = cells["right"] = cells["feature"] = cells["threshold"] = -1
    ends = np.cumsum(cells["upper"] - cells["lower"], axis=1)  # of the sides, laid end to end
    with np.errstate(divide="ignore", invalid="ignore"):  # a cell of size 0 is never split
        times = cells["birth_time"] + rng.standard_exponential(len(cells)) / ends[:, -1]
    split = np.flatnonzero(times <= lifetime)
    # A point that is uniform on all sides is on side j with probability |C^j| / |C|.
    ends = ends[split]
    point = rng.random_sample(len(split)) * ends[:, -1]
    point = np.minimum(point, np.nextafter(ends[:, -1], 0))
    j, i = (ends <= point[:, None]).sum(axis=1), np.arange(len(split))
    threshold = cells["upper"][split, j] - (ends[i, j] - point)
    threshold = np.maximum(threshold, cells["lower"][split, j])
    cells["left"][split] = first + len(cells) + 2 * i
    cells["right"][split] = first + len(cells) + 2 * i + 1
    cells["feature"][split], cells["threshold"][split] = j, threshold
    children: Table = np.repeat(cells[split], 2)
    children["parent"], children["birth_time"] = first + split.repeat(2), times[split].repeat(2)
    children["upper"][2 * i, j] = children["lower"][2 * i + 1, j] = threshold
    return children
