"""The methods that the paper compares, and how each is drawn: the same in all figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import SGDClassifier

from amforest import AMFClassifier
from amforest.baselines import MondrianForestClassifier, OnlineDummyClassifier
from experiments.paper._onelearn import Onelearn

AMF, ALGORITHMS, ONELEARN = "AMF", "AMF, Algorithms 5–6", "AMF, onelearn"
MF, SGD, DUMMY, RF, ET = "MF", "SGD", "Dummy", "RF", "ET"


@dataclass(frozen=True)
class Style:
    """How a method's line is drawn."""

    color: str
    linestyle: Any
    marker: str


# Okabe and Ito's colours; AMF's variants share theirs and differ in their dashes.
STYLES = {
    AMF: Style("#0072B2", "-", "o"),
    ALGORITHMS: Style("#0072B2", (0, (4, 1.5)), "s"),
    ONELEARN: Style("#0072B2", (0, (1, 1)), "x"),
    MF: Style("#D55E00", "-", "^"),
    SGD: Style("#009E73", "-", "v"),
    DUMMY: Style("0.45", "-", "P"),
    RF: Style("#CC79A7", "-.", "D"),
    ET: Style("#E69F00", "-.", "*"),
}


def _amf(n_classes: int, seed: int, n_trees: int, **options: Any) -> Any:
    return AMFClassifier(n_trees, random_state=seed, classes=np.arange(n_classes), **options)


def _algorithms(*sizes: int) -> Any:
    return _amf(*sizes, charge_first=True, predict_extends=True, dirichlet=0.5)


def _mf(n_classes: int, seed: int, n_trees: int) -> Any:
    return MondrianForestClassifier(n_trees, random_state=seed, classes=np.arange(n_classes))


def _sgd(n_classes: int, seed: int, n_trees: int) -> Any:
    return SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1, random_state=seed)


_NEW: dict[str, Callable[[int, int, int], Any]] = {
    AMF: _amf,
    ALGORITHMS: _algorithms,
    ONELEARN: Onelearn,
    MF: _mf,
    SGD: _sgd,
    DUMMY: lambda n_classes, *_: OnlineDummyClassifier(dirichlet=0.5, classes=np.arange(n_classes)),
    RF: lambda _, seed, n_trees: RandomForestClassifier(n_trees, random_state=seed),
    ET: lambda _, seed, n_trees: ExtraTreesClassifier(n_trees, random_state=seed),
}


def new(method: str, *, n_classes: int, seed: int, n_trees: int = 10) -> Any:
    """Return a model with the settings of Section 5; labels are 0, …, K - 1.

    AMF has our defaults, which are onelearn's, and `ALGORITHMS` the paper's: a node is charged for
    its first label, predicting extends the partition, and the Dirichlet prior is 1/2.
    """
    return _NEW[method](n_classes, seed, n_trees)
