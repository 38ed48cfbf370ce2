"""What all plots share: axes, colours, and what they ask of models and arrays."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from amforest._forest.estimator import Estimator
from amforest.inspection import count_trees

Floats = NDArray[np.float64]
Table = NDArray[Any]

# Okabe and Ito's, without their yellow, which vanishes on white. In grey, markers differ.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
GLYPHS = ("●", "▲")  # the first two markers in text
DARK = "0.15"


def _paler(name: str) -> ListedColormap:
    """Mix a map with white, so that points and lines stand out; lightness still grows evenly."""
    colours = mpl.colormaps[name](np.linspace(0, 1, 256))
    return ListedColormap(0.6 * colours + 0.4, f"pale {name}")


PROBABILITIES, NUMBERS = _paler("cividis"), _paler("viridis")


def colour(k: int) -> str:
    """Return the colour of class or line k."""
    return COLOURS[k % len(COLOURS)]


def marker(k: int) -> str:
    """Return the marker of class or line k: there are 56 pairs of colour and marker."""
    return MARKERS[k % len(MARKERS)]


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the axes given, or those of a new figure of this size in inches."""
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax is {ax!r}; it must be one matplotlib Axes")
    return ax


# Models


def grown(model: Any) -> Any:
    """Return an estimator of scikit-learn's kind that has learnt; river's twins become such."""
    if callable(convert := getattr(model, "to_sklearn", None)):
        model = convert()
    if isinstance(model, type) or not hasattr(model, "fit"):
        raise TypeError(f"model is {model!r}; it must be a model that has learnt")
    check_is_fitted(model)
    return model


def grown_forest(model: Any) -> Estimator:
    """Return a forest of ours that has learnt."""
    forest = grown(model)
    if not isinstance(forest, Estimator):
        raise TypeError(f"model is {model!r}; it must be a forest of amforest")
    return forest


def check_tree(forest: Estimator, tree: int) -> int:
    """Refuse numbers of trees that are not there."""
    n_trees = count_trees(forest)
    if not -n_trees <= tree < n_trees:
        raise IndexError(f"tree is {tree}; it must be the number of one of {n_trees} trees")
    return tree % n_trees


def feature_names(model: Any) -> list[str]:
    """Return how axes and splits are labelled."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"feature {j}" for j in range(model.n_features_in_)]
    return [str(name) for name in names]


def check_numeric(model: Any, *widths: int) -> None:
    """Refuse models whose number of features is not one of these, or which have categories."""
    width = model.n_features_in_
    if width not in widths:
        wanted = " or ".join(map(str, widths))
        raise ValueError(f"model has {width} features; a model with {wanted} can be drawn")
    is_categorical = getattr(model, "is_categorical_", np.zeros(width, dtype=bool))
    if is_categorical.any():
        name = feature_names(model)[is_categorical.argmax()]
        raise ValueError(f"model has categories in {name!r}; only numbers can be drawn as an axis")


def rows_of(model: Any, X: ArrayLike | None) -> Floats | None:
    """Return rows of numbers, if there are any; their columns must be the model's."""
    if X is None:
        return None
    how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    with no_names_needed():
        rows: Floats = validate_data(model, X, reset=False, **how)
    return rows


def box_of(model: Any, points: Floats | None) -> tuple[Floats, Floats]:
    """Return the corners of the points' range, or else of all that the model has seen."""
    if points is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice")
            lower, upper = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    elif isinstance(model, Estimator):
        root = model.tree_table(0)[0]
        lower, upper = root["lower"].astype(np.float64), root["upper"].astype(np.float64)
    else:
        raise ValueError("X is None; it is needed for the range, which only amforest's models know")
    if np.isnan(lower).any():
        name = feature_names(model)[np.isnan(lower).argmax()]
        raise ValueError(f"{name!r} is missing in all rows; an axis needs at least one value")
    return lower, upper


@contextmanager
def no_names_needed() -> Iterator[None]:
    """Ask a model that has learnt frames about arrays, whose columns are its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


# Arrays


def column(values: ArrayLike, name: str, length: int | None = None) -> Floats:
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
