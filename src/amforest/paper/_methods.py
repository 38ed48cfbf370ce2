"""The methods that the paper compares, and how each is drawn: the same in all figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import SGDClassifier

from amforest import AMFClassifier
from amforest.baselines import MondrianForestClassifier, OnlineDummyClassifier
from amforest.paper._onelearn import Onelearn

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


def new(method: str, *, n_classes: int, seed: int, n_trees: int = 10) -> Any:
    """Return a model with the settings of Section 5; labels are 0, …, K - 1.

    AMF has our defaults, which are onelearn's, and `ALGORITHMS` the paper's: a node is charged for
    its first label, predicting extends the partition, and the Dirichlet prior is 1/2.
    """
    classes = list(range(n_classes))
    forest: dict[str, Any] = {"n_estimators": n_trees, "random_state": seed}
    match method:
        case "AMF":
            return AMFClassifier(**forest, classes=classes)
        case "AMF, Algorithms 5–6":
            paper: dict[str, Any] = {"charge_first": True, "predict_extends": True}
            return AMFClassifier(**forest, **paper, dirichlet=0.5, classes=classes)
        case "AMF, onelearn":
            return Onelearn(n_classes, seed, n_trees)
        case "MF":
            return MondrianForestClassifier(**forest, classes=classes)
        case "SGD":
            rate: dict[str, Any] = {"learning_rate": "constant", "eta0": 0.1}
            return SGDClassifier(loss="log_loss", random_state=seed, **rate)
        case "Dummy":
            return OnlineDummyClassifier(dirichlet=0.5, classes=classes)
        case "RF":
            return RandomForestClassifier(**forest)
        case "ET":
            return ExtraTreesClassifier(**forest)
    raise ValueError(f"unknown method {method!r}")
