"""Generated data: toys in the plane, streams with drift, and substitutes for the UCI data sets."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_circles, make_moons
from sklearn.utils import check_random_state, check_scalar

from amforest.datasets.uci import NAMES, Dataset, check_name

__all__ = ["SHAPES", "TOYS", "make_drift", "make_simulated", "make_toy"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

_NOISE = {"moons": 0.2, "circles": 0.1, "linear": 0.5}

TOYS: tuple[str, ...] = tuple(_NOISE)
"""The names that `make_toy` accepts."""

SHAPES: dict[str, tuple[int, int, int]] = {
    "adult": (32_561, 107, 2),
    "bank": (45_211, 51, 2),
    "car": (1_728, 21, 4),
    "cardio": (2_126, 24, 3),
    "churn": (3_333, 71, 2),
    "default_cb": (30_000, 23, 2),
    "letter": (20_000, 16, 26),
    "satimage": (5_104, 36, 6),
    "sensorless": (58_509, 48, 11),
    "spambase": (4_601, 57, 2),
}
"""The numbers of rows, features and classes of the paper's data sets (Table 3)."""


def make_toy(
    name: str, n_samples: int = 300, *, noise: float | None = None, random_state: Any = None
) -> tuple[Floats, Labels]:
    """Generate two classes of equal size in the plane, in random order.

    Parameters
    ----------
    name : {"moons", "circles", "linear"}
        Two moons; two concentric circles; or two clouds on either side of a line.
    n_samples : int, default=300
        The number of rows.
    noise : float, default=None
        The standard deviation of the Gaussian noise. None means 0.2 for moons, 0.1 for circles, and
        0.5 for the clouds, whose distance from the line is 1.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same rows.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The features.
    y : ndarray of shape (n_samples,)
        The classes, 0 and 1.

    Examples
    --------
    >>> from amforest import AMFClassifier
    >>> from amforest.datasets import make_toy
    >>> X, y = make_toy("moons", 500, random_state=0)
    >>> forest = AMFClassifier(split_pure=True, random_state=0).fit(X[:250], y[:250])
    >>> forest.score(X[250:], y[250:]) > 0.9
    True
    """
    check_name(name, "toy", TOYS)
    check_scalar(n_samples, "n_samples", Integral, min_val=2)
    spread = _NOISE[name] if noise is None else noise
    check_scalar(spread, "noise", Real, min_val=0)
    rng = check_random_state(random_state)
    if name == "linear":
        return _clouds(n_samples, spread, rng)
    if name == "circles":
        X, y = make_circles(n_samples, noise=spread, factor=0.5, random_state=rng)
    else:
        X, y = make_moons(n_samples, noise=spread, random_state=rng)
    return X, y


def _clouds(n_samples: int, noise: float, rng: Any) -> tuple[Floats, Labels]:
    """Centre both classes at distance 1 from a line that rises by 60 degrees."""
    y: Labels = rng.permutation(n_samples) % 2
    across = noise * rng.standard_normal(n_samples) + 2 * y - 1
    along = rng.standard_normal(n_samples)
    cosine, sine = np.cos(np.pi / 6), np.sin(np.pi / 6)
    return np.stack([cosine * across - sine * along, sine * across + cosine * along], axis=1), y


def make_drift(
    n_samples: int = 1000,
    *,
    task: str = "classification",
    drift: str = "abrupt",
    n_changes: int = 3,
    n_features: int = 5,
    noise: float = 0.1,
    random_state: Any = None,
) -> tuple[Floats, NDArray[Any]]:
    """Generate a stream whose concept changes: a direction that rotates in the first two features.

    The features are uniform in [0, 1]. Let s be the distance of x from the centre, along the
    direction at the time of x. The class is 1 if s > 0, and the label of regression is sin(2 π s).

    Parameters
    ----------
    n_samples : int, default=1000
        The number of rows.
    task : {"classification", "regression"}, default="classification"
        Whether labels are classes or numbers.
    drift : {"abrupt", "gradual"}, default="abrupt"
        The direction rotates by a right angle at each change, or steadily by as much in total.
    n_changes : int, default=3
        The number of changes, at equal distances. 0 means no drift.
    n_features : int, default=5
        The number of features. All but the first two are irrelevant.
    noise : float, default=0.1
        The probability that a class is flipped, or the standard deviation of the Gaussian noise of
        regression.
    random_state : int, RandomState instance or None, default=None
        The same number gives the same rows.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The features.
    y : ndarray of shape (n_samples,)
        The classes 0 and 1, or numbers.

    Examples
    --------
    >>> from amforest import AMFClassifier
    >>> from amforest.datasets import make_drift
    >>> X, y = make_drift(2000, n_changes=1, noise=0.0, random_state=0)
    >>> forest = AMFClassifier(random_state=0).fit(X[:800], y[:800])
    >>> before, after = forest.score(X[800:1000], y[800:1000]), forest.score(X[1000:], y[1000:])
    >>> before > 0.9, after < 0.6
    (True, True)
    """
    check_name(task, "task", ("classification", "regression"))
    check_name(drift, "drift", ("abrupt", "gradual"))
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(n_changes, "n_changes", Integral, min_val=0)
    check_scalar(n_features, "n_features", Integral, min_val=2)
    most = 0.5 if task == "classification" else None
    check_scalar(noise, "noise", Real, min_val=0, max_val=most)
    rng = check_random_state(random_state)
    X: Floats = rng.uniform(size=(n_samples, n_features))
    angles = rng.uniform(0, 2 * np.pi) + _rotations(n_samples, n_changes, drift)
    s = (X[:, 0] - 0.5) * np.cos(angles) + (X[:, 1] - 0.5) * np.sin(angles)
    if task == "regression":
        return X, np.sin(2 * np.pi * s) + noise * rng.standard_normal(n_samples)
    return X, ((s > 0) ^ (rng.uniform(size=n_samples) < noise)).astype(np.int64)


def _rotations(n_samples: int, n_changes: int, drift: str) -> Floats:
    """Return the angle by which the direction has rotated at each row."""
    rows = np.arange(n_samples)
    if drift == "gradual":
        return np.asarray(np.pi / 2 * n_changes * rows / n_samples)
    return np.asarray(np.pi / 2 * (rows * (n_changes + 1) // n_samples))


def make_simulated(name: str, n_samples: int | None = None) -> Dataset:
    """Generate a data set with the shape of one of the paper's, for use where its file is missing.

    Each class has a centre. Nine rows of ten lie around the centre of their class, and the others
    around that of the next. The same name gives the same rows. Classes have equal sizes. Only the
    shape is that of the real data set.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    n_samples : int, default=None
        The number of rows. None means that of Table 3.

    Returns
    -------
    Dataset
        Numbers in [0, 1], in random order.

    Examples
    --------
    >>> from amforest import datasets
    >>> letter = datasets.make_simulated("letter")
    >>> letter.X.shape, len(letter.classes)
    ((20000, 16), 26)
    """
    check_name(name, "data set", NAMES)
    n_rows, n_features, n_classes = SHAPES[name]
    if n_samples is not None:
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        n_rows = n_samples
    rng = np.random.default_rng(NAMES.index(name))
    centres = rng.random((n_classes, n_features), dtype=np.float32)
    y = rng.permutation(n_rows) % n_classes
    around = (y + (rng.random(n_rows) < 0.1)) % n_classes
    X = rng.random((n_rows, n_features), dtype=np.float32)
    X += 0.4 * (centres[around] - X)
    classes = tuple(map(str, range(n_classes)))
    names = tuple(f"X{j}" for j in range(n_features))
    return Dataset(name, X, y, classes, names, ((),) * n_features)
