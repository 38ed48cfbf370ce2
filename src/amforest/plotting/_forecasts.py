"""Forecasts as colours, and points beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize, to_rgb
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from amforest._forest.estimator import Estimator
from amforest.plotting._common import (
    DARK,
    GLYPHS,
    NUMBERS,
    PROBABILITIES,
    Floats,
    check_tree,
    colour,
    column,
    marker,
    no_names_needed,
    rows_of,
)


@dataclass(frozen=True)
class Shades:
    """Forecasts of rows as colours.

    Attributes
    ----------
    values : ndarray of shape (n_rows,) or (n_rows, 4)
        Numbers for a map of colours; for more than two classes the colours, red to alpha: that of
        the most probable class, the paler the less sure.
    label : str
        What the numbers are.
    cmap, norm
        From numbers to colours.
    best : ndarray of shape (n_rows,) or None
        The most probable class, if there are classes.
    """

    values: Floats
    label: str
    cmap: Colormap
    norm: Normalize
    best: NDArray[np.intp] | None = None

    @property
    def is_scale(self) -> bool:
        """Whether the values are numbers."""
        return self.values.ndim == 1


def shades_of(model: Any, rows: Floats, tree: int | None, positive: Any) -> Shades:
    """Ask a model, or one of its trees, about rows.

    `positive` is the class whose probability is wanted; None means the second of two, and of more
    the most probable one.
    """
    if not is_classifier(model):
        values = _forecasts(model, rows, tree, "predict")
        return Shades(values, _named("forecast", tree), NUMBERS, Normalize(*_limits(values)))
    probabilities = _forecasts(model, rows, tree, "predict_proba")
    k, best = _position(model.classes_, positive), probabilities.argmax(axis=1)
    if k is None:
        label, values = "most probable class", _mixed(probabilities)
    else:
        label, values = f"probability of {model.classes_[k]}", probabilities[:, k]
    return Shades(values, _named(label, tree), PROBABILITIES, Normalize(0, 1), best)


def _forecasts(model: Any, rows: Floats, tree: int | None, ask: str) -> Floats:
    if not hasattr(model, ask):
        raise TypeError(f"model is {model!r}; a classifier needs predict_proba to be drawn")
    with no_names_needed():
        if tree is None:
            return np.asarray(getattr(model, ask)(rows), dtype=np.float64)
        if not isinstance(model, Estimator):
            raise ValueError(f"tree is {tree}; only the trees of amforest's models can be asked")
        tree = check_tree(model, tree)
        by_tree: Floats = getattr(model, f"{ask}_by_tree")(rows)[:, tree]
    return by_tree


def _position(classes: NDArray[Any], positive: Any) -> int | None:
    if positive is None:
        return len(classes) - 1 if len(classes) <= 2 else None
    found = np.flatnonzero(classes == positive)
    if not len(found):
        raise ValueError(f"positive is {positive!r}; it must be one of {classes.tolist()}")
    return int(found[0])


def _named(what: str, tree: int | None) -> str:
    return what if tree is None else f"{what} (tree {tree})"


def _limits(values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest value, and some room around a single one."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _mixed(probabilities: Floats) -> Floats:
    """Mix the colour of the most probable class with white, by (p - 1/K) / (1 - 1/K)."""
    best, n_classes = probabilities.argmax(axis=1), probabilities.shape[1]
    sure = (probabilities.max(axis=1) - 1 / n_classes) / (1 - 1 / n_classes)
    depth = 0.12 + 0.5 * np.clip(sure, 0, 1)[:, None]  # points stay darker than the field
    colours = np.array([to_rgb(colour(k)) for k in range(n_classes)])
    rgba = np.ones((len(best), 4))
    rgba[:, :3] = 1 - depth * (1 - colours[best])
    return rgba


# Points, and what explains them


@dataclass(frozen=True)
class Points:
    """Rows to be drawn, and their labels: positions among the classes, or numbers."""

    rows: Floats
    labels: NDArray[Any] | None


def points_of(model: Any, X: ArrayLike | None, y: ArrayLike | None) -> Points | None:
    """Check rows and labels, if there are any, before anything is drawn."""
    rows = rows_of(model, X)
    if rows is None:
        if y is not None:
            raise ValueError("X is None; it must hold the points whose labels y holds")
        return None
    if y is None:
        return Points(rows, None)
    if is_classifier(model):
        return Points(rows, _class_codes(model.classes_, y, len(rows)))
    return Points(rows, column(y, "y", len(rows)))


def draw_points(ax: Axes, points: Points, model: Any, shades: Shades) -> None:
    """Draw points: by class, or coloured as forecasts are."""
    rows, labels = points.rows, points.labels
    size = float(np.clip(3_000 / len(rows), 5, 28))
    if labels is None:
        _scatter(ax, rows, size / 2, color=DARK)
    elif is_classifier(model):
        for k in range(len(model.classes_)):
            _scatter(ax, rows[labels == k], size, color=colour(k), marker=marker(k))
    else:
        _scatter(ax, rows, size, c=labels, cmap=shades.cmap, norm=shades.norm, edgecolor=DARK)


def _scatter(ax: Axes, rows: Floats, size: float, **style: Any) -> None:
    edge: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.5 if size > 10 else 0.25}
    ax.scatter(rows[:, 0], rows[:, 1], s=size, zorder=3, **edge | style)


def explain(ax: Axes, shades: Shades | None, model: Any, points: Points | None) -> None:
    """Put the scale of the field, if there is any, and the classes beside the axes."""
    has_labels = points is not None and points.labels is not None
    if shades is None or not shades.is_scale:
        if is_classifier(model) and (has_labels or shades is not None):
            class_legend(ax, model.classes_)
        return
    label, extend = shades.label, "neither"
    if has_labels and not is_classifier(model):
        label, extend = f"{label}, and y of the points", "both"  # where labels are beyond forecasts
    elif has_labels and len(model.classes_) == 2:  # two markers need no legend of their own
        names = [f"{glyph} {name}" for glyph, name in zip(GLYPHS, model.classes_, strict=True)]
        label = f"{label}   ({', '.join(names)})"
    elif has_labels:
        class_legend(ax, model.classes_)
    scale = ScalarMappable(shades.norm, shades.cmap)
    ax.figure.colorbar(scale, ax=ax, label=label, pad=0.02, extend=extend)


def _class_codes(classes: NDArray[Any], y: ArrayLike, length: int) -> NDArray[np.intp]:
    """Return the positions of labels among the classes."""
    labels = np.asarray(y)
    if labels.shape != (length,):
        raise ValueError(f"y has shape {labels.shape}; it must have a label for {length} rows")
    position = {label: k for k, label in enumerate(classes.tolist())}
    codes = np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.intp)
    if (codes < 0).any():
        unknown = labels[(codes < 0).argmax()]
        raise ValueError(f"y holds {unknown!r}; the model's classes are {classes.tolist()}")
    return codes


def class_legend(ax: Axes, classes: NDArray[Any]) -> None:
    """List the classes to the right of the axes, where no data is."""
    handles = [
        Line2D([], [], linestyle="", color=colour(k), marker=marker(k), label=str(label))
        for k, label in enumerate(classes)
    ]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
