"""Streams with known change points, and streams without change, for `benchmarks.drift`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1

from amforest import datasets
from benchmarks.quality.streams import Floats, load_stream

N_ROWS = 8_000  # of a stream with a change, which is in its middle
N_STATIONARY = 20_000  # of a stream without, at most
WIDTH = 1_000  # rows over which a gradual change takes place


@dataclass(frozen=True, eq=False)
class DriftStream:
    """Rows in their order, and the row after which they change; None if they do not."""

    name: str
    about: str
    X: Floats
    y: NDArray[Any]
    change: int | None

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return self.y.dtype.kind == "f"


Pair = tuple[Floats, NDArray[Any]]
Concept = Callable[[int], Pair]  # so many rows


def drifting_streams() -> list[DriftStream]:
    """Return twenty streams that change once."""
    return [_change(name, *spec) for name, spec in CHANGES.items()]


def stationary_streams() -> list[DriftStream]:
    """Return ten generated streams without change, and the paper's data sets, shuffled."""
    streams = []
    for name, concept in STATIONARY.items():
        streams.append(DriftStream(name, "generated", *concept(N_STATIONARY), None))
    for name in datasets.NAMES:
        stream = load_stream(name, N_STATIONARY)
        streams.append(DriftStream(name, "data set, shuffled", stream.X, stream.y, None))
    return streams


def _change(name: str, about: str, before: Concept, after: Concept, width: int = 0) -> DriftStream:
    """Return rows of one concept, then of another; within `width` rows either may come."""
    (X, y), (new_X, new_y) = before(N_ROWS), after(N_ROWS)
    rng, rows = np.random.default_rng(0), np.arange(N_ROWS)
    part = (rows - N_ROWS // 2) / width if width else rows >= N_ROWS // 2
    is_new = rng.uniform(size=N_ROWS) < part
    X = np.where(is_new[:, None], new_X, X)
    return DriftStream(name, about, X, np.where(is_new, new_y, y), N_ROWS // 2)


# Concepts


def _synth(class_name: str, n_rows: int, **options: Any) -> Pair:
    """Return rows of a generator of river, with text as numbers."""
    from river.datasets import synth  # noqa: PLC0415  # an optional dependency

    pairs = list(islice(iter(getattr(synth, class_name)(**options)), n_rows))
    columns = [np.array([x[name] for x, _ in pairs]) for name in pairs[0][0]]
    numbers = [
        c if c.dtype.kind in "fiub" else np.unique(c, return_inverse=True)[1] for c in columns
    ]
    return np.stack(numbers, axis=1).astype(np.float64), np.array([int(y) for _, y in pairs])


def synth(class_name: str, **options: Any) -> Concept:
    """Return a generator of river."""
    return lambda n_rows: _synth(class_name, n_rows, **options)


def _line(n_rows: int, *, degrees: float, noise: float, seed: int = 0) -> Pair:
    """Return classes on two sides of a line in the first two of five features, with noise."""
    rng, angle = np.random.default_rng(seed), np.deg2rad(degrees)
    X = rng.uniform(-1, 1, size=(n_rows, 5))
    side = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0
    return X, (side ^ (rng.uniform(size=n_rows) < noise)).astype(np.int64)


def line(**options: Any) -> Concept:
    """Return two classes on two sides of a line."""
    return partial(_line, **options)


def _friedman(
    n_rows: int, *, first: int = 0, noise: float = 1.0, degrees_of_freedom: float = np.inf
) -> Pair:
    """Return Friedman's first function of five of ten features, from the first of them on."""
    X, y = make_friedman1(n_rows, random_state=first)
    rng = np.random.default_rng(1)
    errors = rng.standard_normal(n_rows)
    if np.isfinite(degrees_of_freedom):
        errors = rng.standard_t(degrees_of_freedom, n_rows)
    return np.roll(X, first, axis=1), y + noise * errors


def friedman(**options: Any) -> Concept:
    """Return Friedman's first function with noise."""
    return partial(_friedman, **options)


def _wave(n_rows: int, *, noise: float = 0.1) -> Pair:
    return datasets.make_drift(n_rows, task="regression", n_changes=0, noise=noise, random_state=0)


_LED = {"noise_percentage": 0.1, "irrelevant_features": True}
_TREE = {"n_classes": 3, "n_num_features": 5}
_RBF = {"n_features": 10, "n_classes": 5, "n_centroids": 30}
_AGRAWAL = [synth("Agrawal", classification_function=k, seed=k + 1) for k in range(7)]
_SEA = [synth("SEA", variant=k, noise=0.1, seed=k + 1) for k in range(4)]
_SINE = [synth("Sine", classification_function=k, has_noise=True, seed=k + 1) for k in range(4)]
_MIXED = [synth("Mixed", classification_function=k, seed=k + 1) for k in range(2)]
_STAGGER = [synth("STAGGER", classification_function=k, seed=k + 1) for k in range(3)]
_TREES = [synth("RandomTree", seed_tree=k, seed_sample=k, **_TREE) for k in (1, 2)]
_RBFS = [synth("RandomRBF", seed_model=k, seed_sample=k, **_RBF) for k in (1, 2)]

# What changes, before, after, and the width of the change.
CHANGES: dict[str, tuple[Any, ...]] = {
    "agrawal 0-3": ("abrupt", _AGRAWAL[0], _AGRAWAL[3]),
    "agrawal 2-6": ("abrupt", _AGRAWAL[2], _AGRAWAL[6]),
    "agrawal 0-6": ("gradual", _AGRAWAL[0], _AGRAWAL[6], WIDTH),
    "sea 0-2": ("abrupt, small", _SEA[0], _SEA[2]),
    "sea 1-3": ("gradual, small", _SEA[1], _SEA[3], WIDTH),
    "sine 0-1": ("abrupt, labels exchanged", _SINE[0], _SINE[1]),
    "sine 0-2": ("abrupt", _SINE[0], _SINE[2]),
    "sine 1-3": ("gradual", _SINE[1], _SINE[3], WIDTH),
    "mixed 0-1": ("abrupt, labels exchanged", _MIXED[0], _MIXED[1]),
    "stagger 0-1": ("abrupt", _STAGGER[0], _STAGGER[1]),
    "led 1-7": (
        "abrupt, ten classes",
        synth("LEDDrift", n_drift_features=1, seed=1, **_LED),
        synth("LEDDrift", n_drift_features=7, seed=2, **_LED),
    ),
    "tree 1-2": ("abrupt, three classes", *_TREES),
    "rbf 1-2": ("abrupt, five classes", *_RBFS),
    "line 90°": ("abrupt", line(degrees=0, noise=0.1), line(degrees=90, noise=0.1)),
    "line 30°": ("abrupt, small", line(degrees=0, noise=0.1), line(degrees=30, noise=0.1)),
    "noise 5-25 %": ("label noise", line(degrees=0, noise=0.05), line(degrees=0, noise=0.25)),
    "noise 10-15 %": (
        "label noise, small",
        line(degrees=0, noise=0.1),
        line(degrees=0, noise=0.15),
    ),
    "friedman": ("regression, abrupt", friedman(), friedman(first=5)),
    "friedman slow": ("regression, gradual", friedman(), friedman(first=5), WIDTH),
    "friedman noise": ("regression, noise doubled", friedman(), friedman(noise=2.0)),
}

STATIONARY: dict[str, Concept] = {
    "agrawal": _AGRAWAL[2],
    "sea": _SEA[0],
    "sine": _SINE[0],
    "led": synth("LEDDrift", n_drift_features=3, seed=3, **_LED),
    "tree": _TREES[0],
    "rbf": _RBFS[0],
    "line": line(degrees=45, noise=0.1),
    "friedman, normal": friedman(),
    "friedman, heavy tails": friedman(degrees_of_freedom=3),
    "wave": _wave,
}
