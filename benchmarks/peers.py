"""The compared libraries behind one interface: ten trees, one thread."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.importing import import_library

N_TREES = 10


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows, and the same rows in the format of a library's one-row calls: (x, y)."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    rows: list[tuple[Any, Any]]


class Forest(ABC):
    """A forest of some library.

    `learn_one` and `predict_one` are the library's own bound methods: only the loop is ours.
    """

    learn_one: Callable[[Any, Any], Any]
    predict_one: Callable[[Any], Any]

    @abstractmethod
    def learn(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        """Learn a batch."""

    @abstractmethod
    def predict(self, X: NDArray[np.float32]) -> None:
        """Predict a batch."""

    @abstractmethod
    def block(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> Block:
        """Prepare rows for one-row calls."""

    def learner(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> Callable[[], None]:
        """Prepare rows; the returned function learns them in the library's usual way."""
        return partial(self.learn, X, y)

    def learn_rows(self, block: Block) -> None:
        """Learn row by row."""
        learn_one = self.learn_one
        for x, y in block.rows:
            learn_one(x, y)

    def predict_rows(self, block: Block) -> None:
        """Predict row by row."""
        predict_one = self.predict_one
        for x, _ in block.rows:
            predict_one(x)

    def test_then_train(self, block: Block) -> None:
        """Predict each row just before it is learned."""
        learn_one, predict_one = self.learn_one, self.predict_one
        for x, y in block.rows:
            predict_one(x)
            learn_one(x, y)


class Amforest(Forest):
    """The library of this repository."""

    def __init__(self, n_classes: int, seed: int | None, n_jobs: int = 1) -> None:
        self.model = import_library("amforest").AMFClassifier(
            N_TREES, classes=np.arange(n_classes), n_jobs=n_jobs, random_state=seed
        )
        self.learn_one = self.model.learn_one
        self.predict_one = self.model.predict_proba_one

    def learn(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        """Learn a batch."""
        self.model.partial_fit(X, y)

    def predict(self, X: NDArray[np.float32]) -> None:
        """Predict a batch."""
        self.model.predict_proba(X)

    def block(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> Block:
        """Prepare rows as one-dimensional arrays."""
        return Block(X, y, list(zip(X, y.tolist(), strict=True)))

    def test_then_train(self, block: Block) -> None:
        """Predict each row just before it is learned, in one call for the block."""
        self.model.partial_fit_predict_proba(block.X, block.y)


class Onelearn(Forest):
    """The package of the paper's authors: its one-row calls are batches of one row."""

    def __init__(self, n_classes: int, seed: int | None) -> None:
        model = import_library("onelearn").AMFClassifier(
            n_classes, n_estimators=N_TREES, random_state=seed
        )
        self.learn_one = model.partial_fit
        self.predict_one = model.predict_proba

    def learn(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        """Learn a batch."""
        self.learn_one(X, y)

    def predict(self, X: NDArray[np.float32]) -> None:
        """Predict a batch."""
        self.predict_one(X)

    def block(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> Block:
        """Prepare rows as matrices of one row."""
        return Block(X, y, list(zip(X[:, None], y[:, None], strict=True)))


class River(Forest):
    """river's AMFClassifier: it learns dicts one by one, and has no batches."""

    def __init__(self, n_classes: int, seed: int | None) -> None:
        # Its default is 0.5; the other libraries use 0.01 for more than two classes.
        dirichlet = 0.5 if n_classes == 2 else 0.01
        model = import_library("river.forest").AMFClassifier(
            N_TREES, dirichlet=dirichlet, seed=seed
        )
        self.learn_one = model.learn_one
        self.predict_one = model.predict_proba_one

    def learn(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        """Learn a batch, row by row."""
        self.learner(X, y)()

    def learner(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> Callable[[], None]:
        """Prepare dicts; the returned function learns them one by one."""
        return partial(self.learn_rows, self.block(X, y))

    def predict(self, X: NDArray[np.float32]) -> None:
        """Predict a batch, row by row."""
        self.predict_rows(self.block(X, np.zeros(len(X), dtype=np.int64)))

    def block(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> Block:
        """Prepare rows as dicts."""
        dicts = [dict(enumerate(x)) for x in X.tolist()]
        return Block(X, y, list(zip(dicts, y.tolist(), strict=True)))


NewForest = Callable[[int, int | None], Forest]
LIBRARIES: dict[str, NewForest] = {"amforest": Amforest, "onelearn": Onelearn, "river": River}


def warmed_up(name: str) -> bool:
    """Use a library once, so that it compiles; return False if it is not installed."""
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 3), dtype=np.float32), rng.integers(2, size=20)
    warnings.filterwarnings("ignore", module="numba|onelearn")
    try:
        forest = LIBRARIES[name](2, 0)
    except ImportError:
        return False
    forest.learn(X, y)
    forest.predict(X)
    block = forest.block(X, y)
    forest.learn_rows(block)
    forest.test_then_train(block)
    return True
