"""What the playground shows: a toy in the plane, and two forests that learn the same points."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest import AdaptiveAMFClassifier, AMFClassifier
from amforest.datasets import TOYS, make_toy
from amforest.evaluation import Evaluator
from amforest.inspection import cells_of

Floats = NDArray[np.float64]

EMPTY = "empty"  # a plane without a toy: all points are clicks
NAMES = (*TOYS, EMPTY)
VIEWS = ("prediction", "partition", "depth")
HALF = 2.0  # the plane is [-2, 2]²
MOST_ROWS = 10_000  # of a session
GRID = 56  # places on each side
UNITS = 1_000  # of a side of the plane: cells are sent in whole ones
SHOWN_POINTS = 300
WINDOW = 200  # rows of the recent log-loss
CLICK_SPREAD = 0.08  # of points around a click
PAPER_TREES, GROUP_TREES = 10, 3
# The centre of each toy, and what its spread is multiplied by; circles lie beside the centre of the
# plane, so that rotating it moves them.
_PLACES = {"moons": ((0.5, 0.25), 1.0, (0.0, 0.0)), "linear": ((0.0, 0.0), 0.6, (0.0, 0.0))}
_PLACES["circles"] = ((0.0, 0.0), 0.8, (0.6, 0.0))


class PlaygroundSession:
    """A toy and its concept, which can rotate and swap classes, and the forests that learn it.

    Parameters
    ----------
    toy : {"moons", "circles", "linear", "empty"}
    seed : int
        Of the points and of the forests.
    """

    def __init__(self, toy: str, seed: int) -> None:
        self.toy = toy
        self.lock = Lock()  # held while it learns or is shown
        self._rng = np.random.RandomState(seed)
        self.models: dict[str, Any] = {
            "paper": AMFClassifier(PAPER_TREES, classes=[0, 1], random_state=seed),
            "adaptive": AdaptiveAMFClassifier(GROUP_TREES, classes=[0, 1], random_state=seed),
        }
        metrics = ("log_loss", "accuracy")
        self._evaluators = {
            name: Evaluator("classification", metrics, WINDOW) for name in self.models
        }
        self._points: deque[tuple[float, float, int]] = deque(maxlen=SHOWN_POINTS)
        self.n_rows = 0

    def learn(self, n_rows: int, rotation: float, *, swapped: bool) -> None:
        """Learn points of the toy, with its concept rotated by some degrees."""
        n_rows = min(n_rows, MOST_ROWS - self.n_rows)
        if self.toy == EMPTY or n_rows <= 0:
            return
        X, y = make_toy(self.toy, max(n_rows, 2), random_state=self._rng)
        centre, size, place = _PLACES[self.toy]
        X = (X - centre) * size + place
        angle = np.deg2rad(rotation)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        self._learn((X @ turn)[:n_rows], (y ^ swapped)[:n_rows])

    def add(self, x: float, y: float, label: int, n_points: int) -> None:
        """Learn points at a place: one, or some around it."""
        n_points = min(n_points, MOST_ROWS - self.n_rows)
        spread = CLICK_SPREAD if n_points > 1 else 0.0
        X = np.array([x, y]) + spread * self._rng.standard_normal((n_points, 2))
        self._learn(X, np.full(n_points, label))

    def _learn(self, X: Floats, y: NDArray[Any]) -> None:
        if not len(y):
            return
        X = np.clip(X, -HALF, HALF)
        for name, model in self.models.items():
            predicted = model.partial_fit_predict_proba(X, y)
            self._evaluators[name].update(y, predicted, [0, 1])
        self._points.extend(zip(*X.T.round(3).tolist(), y.tolist(), strict=True))
        self.n_rows += len(y)

    def show(self, view: str, memory: int, tree: int) -> dict[str, Any]:
        """Return what the page draws.

        Parameters
        ----------
        view : {"prediction", "partition", "depth"}
        memory : int
            The group of the adaptive forest whose tree is shown, or whose depths.
        tree : int
            The tree of a partition: of the paper's forest, and of the group.
        """
        adaptive = self.models["adaptive"]
        shown: dict[str, Any] = {
            "toy": self.toy,
            "rows": self.n_rows,
            "is_full": self.n_rows >= MOST_ROWS,
            "view": view,
            "points": list(self._points),
            "planes": {},
        }
        if not self.n_rows:
            return shown
        memory = min(memory, len(adaptive.memory_names_) - 1)
        first = memory * GROUP_TREES
        trees = {"paper": (0, PAPER_TREES), "adaptive": (first, GROUP_TREES)}
        for name, model in self.models.items():
            start, count = trees[name]
            shown["planes"][name] = _show_plane(model, view, start, count, tree % count)
        rows, weights = adaptive.memory_weights_history_
        shown["memories"] = {
            "names": adaptive.memory_names_,
            "rows": rows.tolist(),
            "weights": weights.round(4).tolist(),
        }
        shown["losses"] = {name: self._losses(name) for name in self.models}
        return shown

    def _losses(self, name: str) -> dict[str, Any]:
        progress = self._evaluators[name].result()
        return {
            "rows": progress.curve["row"].tolist(),
            "log_loss": progress.curve["log_loss_window"].round(4).tolist(),
            "accuracy": round(progress.window["accuracy"], 4),
        }


def _show_plane(model: Any, view: str, first: int, count: int, tree: int) -> dict[str, Any]:
    """Return a field of values on a grid, or the cells of a tree with what it predicts in them."""
    if view == "partition":
        return {"cells": _cells(model, first + tree)}
    if view == "depth":
        depths = model.weighted_depth(_grid())[:, first : first + count].mean(axis=1)
        return {"field": depths.round(2).tolist(), "most": round(float(depths.max()), 2)}
    probabilities = model.predict_proba(_grid())[:, 1]
    return {"field": probabilities.round(3).tolist(), "most": 1.0}


def _grid() -> Floats:
    """Return the places of a field, row by row from the top."""
    steps = (np.arange(GRID) + 0.5) / GRID * 2 * HALF - HALF
    x, y = np.meshgrid(steps, steps[::-1])
    return np.stack([x.ravel(), y.ravel()], axis=1)


def _cells(model: Any, tree: int) -> list[list[float]]:
    """Return the leaves' cells: left, top, width and height in units, and the prediction."""
    table = model.tree_table(tree)
    corners = cells_of(table, np.array([[-HALF, -HALF], [HALF, HALF]]))
    is_leaf = table["left"] < 0
    lower, upper = (corners[side][is_leaf].clip(-HALF, HALF) for side in ("lower", "upper"))
    inside = np.where(np.isnan(table["lower"]), corners["lower"], table["upper"])[is_leaf]
    predicted = model.predict_proba_by_tree(inside.clip(-HALF, HALF))[:, tree, 1]
    edges = np.rint(np.hstack([lower, upper]) * UNITS / (2 * HALF) + UNITS / 2).astype(int)
    left, bottom, right, top = edges.T
    is_seen = (right > left) & (top > bottom)
    columns = (left, UNITS - top, right - left, top - bottom, predicted.round(3))
    return [list(cell) for cell in zip(*(c[is_seen].tolist() for c in columns), strict=True)]
