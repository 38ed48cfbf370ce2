"""The arguments of plots: axes, models, rows and labels; and predictions as colours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize, to_rgb
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from amforest._forest.estimator import Estimator
from amforest.inspection import count_trees
from amforest.plotting.colours import (
    DARK,
    GLYPHS,
    NUMBERS,
    PROBABILITIES,
    get_colour,
    get_marker,
)

Floats = NDArray[np.float64]
Table = NDArray[Any]


def get_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the axes given, or those of a new figure of this size in inches."""
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax is {ax!r}; it must be one matplotlib Axes")
    return ax


# Models


def check_fitted(model: Any) -> Any:
    """Return a fitted scikit-learn estimator; models for river are converted."""
    if callable(convert := getattr(model, "to_sklearn", None)):
        model = convert()
    if isinstance(model, type) or not hasattr(model, "fit"):
        raise TypeError(f"model is {model!r}; it must be a fitted model")
    check_is_fitted(model)
    return model


def check_forest(model: Any) -> Estimator:
    """Return a fitted forest of amforest."""
    forest = check_fitted(model)
    if not isinstance(forest, Estimator):
        raise TypeError(f"model is {model!r}; it must be a forest of amforest")
    return forest


def check_tree(forest: Estimator, tree: int) -> int:
    """Return the number of a tree, from 0 on; raise an error if there is no such tree."""
    n_trees = count_trees(forest)
    if not -n_trees <= tree < n_trees:
        raise IndexError(f"tree is {tree}; it must be the number of one of {n_trees} trees")
    return tree % n_trees


def get_feature_names(model: Any) -> list[str]:
    """Return the labels of axes and splits."""
    names = getattr(model, "feature_names_", getattr(model, "feature_names_in_", None))
    if names is None:
        return [f"feature {j}" for j in range(count_features(model))]
    return [str(name) for name in names]


def count_features(model: Any) -> int:
    """Return the number of features: a forest may split the columns of X, or drop some."""
    is_categorical = getattr(model, "is_categorical_", None)
    return int(model.n_features_in_) if is_categorical is None else len(is_categorical)


def check_numeric(model: Any, *widths: int) -> None:
    """Raise an error unless the model has one of these numbers of features, all numeric."""
    width = count_features(model)
    if width not in widths:
        wanted = " or ".join(map(str, widths))
        raise ValueError(f"model has {width} features; a model with {wanted} can be drawn")
    is_categorical = getattr(model, "is_categorical_", np.zeros(width, dtype=bool))
    if is_categorical.any():
        name = get_feature_names(model)[is_categorical.argmax()]
        raise ValueError(f"model has categories in {name!r}; only numbers can be drawn as an axis")


def check_rows(model: Any, X: ArrayLike | None) -> Floats | None:
    """Return rows of numbers, if there are any; their columns must be the model's."""
    if X is None:
        return None
    how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    with ignoring_names():
        rows: Floats = validate_data(model, X, reset=False, **how)
    return rows


def get_range(model: Any, points: Floats | None) -> tuple[Floats, Floats]:
    """Return the corners of the points' range, or else of all that the model has seen."""
    if points is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice")
            lower, upper = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    elif isinstance(model, Estimator):
        root = model.tree_table(0)[0]
        lower, upper = root["lower"].astype(np.float64), root["upper"].astype(np.float64)
    else:
        raise ValueError("X is None; it is needed for the range, which only amforest's models keep")
    if np.isnan(lower).any():
        name = get_feature_names(model)[np.isnan(lower).argmax()]
        raise ValueError(f"{name!r} is missing in all rows; an axis needs at least one value")
    return lower, upper


@contextmanager
def ignoring_names() -> Iterator[None]:
    """Let a model that was fitted to a frame predict arrays of the same columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


# Arrays


def check_column(values: ArrayLike, name: str, length: int | None = None) -> Floats:
    """Return finite numbers in one dimension."""
    numbers: Floats = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1:
        raise ValueError(f"{name} has shape {numbers.shape}; it must have one dimension")
    if length is not None and len(numbers) != length:
        raise ValueError(f"{name} has {len(numbers)} values; there are {length} rows")
    return numbers


def check_count(value: Any, name: str, least: int) -> int:
    """Return a whole number that is not too small."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {least} on")
    return int(value)


# Predictions as colours


@dataclass(frozen=True)
class Shades:
    """Predictions of rows as colours.

    Attributes
    ----------
    values : ndarray of shape (n_rows,) or (n_rows, 4)
        Numbers for a map of colours; for more than two classes the colours, red to alpha: that of
        the most probable class, paler where it is less probable.
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


def predict_shades(model: Any, rows: Floats, tree: int | None, positive: Any) -> Shades:
    """Predict rows with a model, or with one of its trees.

    `positive` is the class whose probability is wanted; None means the second of two, and of more
    the most probable one.
    """
    if not is_classifier(model):
        values = _predict(model, rows, tree, "predict")
        return Shades(values, _named("prediction", tree), NUMBERS, Normalize(*_limits(values)))
    probabilities = _predict(model, rows, tree, "predict_proba")
    k, best = _position(model.classes_, positive), probabilities.argmax(axis=1)
    if k is None:
        label, values = "most probable class", _mixed(probabilities)
    else:
        label, values = f"probability of {model.classes_[k]}", probabilities[:, k]
    return Shades(values, _named(label, tree), PROBABILITIES, Normalize(0, 1), best)


def _predict(model: Any, rows: Floats, tree: int | None, method: str) -> Floats:
    if not hasattr(model, method):
        raise TypeError(f"model is {model!r}; a classifier needs predict_proba to be drawn")
    with ignoring_names():
        if tree is None:
            return np.asarray(getattr(model, method)(rows), dtype=np.float64)
        if not isinstance(model, Estimator):
            raise ValueError(f"tree is {tree}; only trees of amforest's models can predict alone")
        tree = check_tree(model, tree)
        by_tree: Floats = getattr(model, f"{method}_by_tree")(rows)[:, tree]
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
    colours = np.array([to_rgb(get_colour(k)) for k in range(n_classes)])
    rgba = np.ones((len(best), 4))
    rgba[:, :3] = 1 - depth * (1 - colours[best])
    return rgba


# Points, and their legend


@dataclass(frozen=True)
class Points:
    """Rows to draw, and their labels: positions among the classes, or numbers."""

    rows: Floats
    labels: NDArray[Any] | None


def check_labelled(model: Any, X: ArrayLike | None, y: ArrayLike | None) -> Points | None:
    """Validate rows and labels, if there are any, before anything is drawn."""
    rows = check_rows(model, X)
    if rows is None:
        if y is not None:
            raise ValueError("X is None; it must hold the points whose labels y holds")
        return None
    if y is None:
        return Points(rows, None)
    if is_classifier(model):
        return Points(rows, _class_codes(model.classes_, y, len(rows)))
    return Points(rows, check_column(y, "y", len(rows)))


def draw_points(ax: Axes, points: Points, model: Any, shades: Shades) -> None:
    """Draw points: by class, or coloured as predictions are."""
    rows, labels = points.rows, points.labels
    size = float(np.clip(3_000 / len(rows), 5, 28))
    if labels is None:
        _scatter(ax, rows, size / 2, color=DARK)
    elif is_classifier(model):
        for k in range(len(model.classes_)):
            _scatter(ax, rows[labels == k], size, color=get_colour(k), marker=get_marker(k))
    else:
        _scatter(ax, rows, size, c=labels, cmap=shades.cmap, norm=shades.norm, edgecolor=DARK)


def _scatter(ax: Axes, rows: Floats, size: float, **style: Any) -> None:
    edge: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.5 if size > 10 else 0.25}
    ax.scatter(rows[:, 0], rows[:, 1], s=size, zorder=3, **edge | style)


def add_legend(ax: Axes, shades: Shades | None, model: Any, points: Points | None) -> None:
    """Draw the scale of the field, if there is any, and the classes beside the axes."""
    has_labels = points is not None and points.labels is not None
    if shades is None or not shades.is_scale:
        if is_classifier(model) and (has_labels or shades is not None):
            add_class_legend(ax, model.classes_)
        return
    label, extend = shades.label, "neither"
    if has_labels and not is_classifier(model):
        label, extend = f"{label}, and y of the points", "both"  # labels may lie beyond predictions
    elif has_labels and len(model.classes_) == 2:  # two markers need no legend of their own
        names = [f"{glyph} {name}" for glyph, name in zip(GLYPHS, model.classes_, strict=True)]
        label = f"{label}   ({', '.join(names)})"
    elif has_labels:
        add_class_legend(ax, model.classes_)
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


def add_class_legend(ax: Axes, classes: NDArray[Any]) -> None:
    """List the classes to the right of the axes, where no data is."""
    handles = [
        Line2D([], [], linestyle="", color=get_colour(k), marker=get_marker(k), label=str(label))
        for k, label in enumerate(classes)
    ]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
