"""The area under the ROC curve on rows that are held out, after one pass over the others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from experiments.paper._methods import SGD, new
from experiments.paper._run import Found
from experiments.paper._streams import Stream, split

DATASETS = ("adult", "bank", "default_cb", "spambase")  # those that the paper chose


def checkpoints(n_rows: int) -> list[int]:
    """Return when to test: every 100 rows, and after the last."""
    return [*range(100, n_rows, 100), n_rows]


def auc_along(method: str, name: str, seed: int, max_rows: int | None, stands_in: bool) -> Found:
    """Return the AUC of an online method of 10 trees at the checkpoints."""
    train, test = split(name, seed, max_rows, stands_in=stands_in)
    model, times, aucs = new(method, n_classes=2, seed=seed), checkpoints(len(train)), []
    classes = {"classes": [0, 1]} if method == SGD else {}  # the others know them
    for start, end in pairwise([0, *times]):
        model.partial_fit(train.X[start:end], train.y[start:end], **classes)
        aucs.append(_auc(model, test))
    return {"t": np.array(times), "auc": np.array(aucs)}


def auc_after_all(  # noqa: PLR0917  # the parts of a cell
    method: str, name: str, seed: int, n_trees: int, max_rows: int | None, stands_in: bool
) -> Found:
    """Return the AUC of a forest, online or not, that has learned all rows."""
    train, test = split(name, seed, max_rows, stands_in=stands_in)
    model = new(method, n_classes=2, seed=seed, n_trees=n_trees)
    return {"auc": np.array(_auc(model.fit(train.X, train.y), test))}


def _auc(model: Any, test: Stream) -> float:
    return float(roc_auc_score(test.y, model.predict_proba(test.X)[:, 1]))
