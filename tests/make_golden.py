"""Write small model files of this version, which later versions must load: tests/golden/.

Run it once for each version of the format, and keep what it wrote: `python tests/make_golden.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import RandomState

import amforest
from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    river,
)
from amforest.baselines import MondrianForestClassifier
from amforest.model_io.document import FORMAT

FOLDER = Path(__file__).with_name("golden")  # with a folder for each format
N_LEARNED, N_MORE, N_PREDICTED = 12, 20, 5  # rows before a model is saved, after it, predicted
CATEGORIES = [
    "é",
    "",
    7,
    2.5,
    b"\xff",
    True,
    date(2024, 2, 29),
    datetime(2024, 2, 29, 12),
    (1, "x"),
]
# What a tree is, whatever else its table may show one day.
FIELDS = ("parent", "feature", "threshold", "category", "birth_time", "n_samples", "counts")
FIELDS += ("mean", "lower", "upper", "seen", "odds", "odds_scale")


# A stream without random numbers


def number(i: int, j: int) -> float:
    """In [0, 1), different for each row and column."""
    return (i * 0.6180339887 + j * 0.4142135624 + i * j * 0.7320508076) % 1


def row(i: int) -> list[Any]:
    return [number(i, 1), round(number(i, 2), 1), number(i, 3) if i % 5 else float("nan")]


def mixed_row(i: int) -> list[Any]:
    category = CATEGORIES[i % 3 if i < N_LEARNED else i % len(CATEGORIES)]
    return [category if i % 4 else None, *row(i)[1:]]


def named_row(i: int) -> dict[Any, Any]:
    values = {"a": number(i, 1), "word": "uvw"[i % 3], 3: float(i % 2), ("late", 1): number(i, 2)}
    return {name: x for k, (name, x) in enumerate(values.items()) if i > 3 * k and (i + k) % 5}


def full_row(i: int) -> list[Any]:
    return row(i)[:2]


def label(i: int) -> str:
    return ["no", "yes", "late", "é"][i % (2 + i // 6) % 4]


def target(i: int) -> float:
    return number(i, 1) * 10 - 3


def weight(i: int) -> float:
    return [1.0, 0.5, 2.0, 0.0][i % 4]


# Models


class Golden:
    """A model that has learned the first rows of the stream, and how it continues."""

    def __init__(
        self,
        model: Callable[[], Any],
        row: Callable[[int], Any] = row,
        label: Callable[[int], Any] = label,
        weight: Callable[[int], float] = lambda i: 1.0,
        n_learned: int = N_LEARNED,
    ) -> None:
        self.model, self.row, self.label, self.weight = model, row, label, weight
        self.n_learned = n_learned

    def build(self) -> Any:
        return self.learn(self.model(), range(1, 1 + self.n_learned))

    def learn(self, model: Any, moments: range) -> Any:
        for i in moments:
            model.learn_one(self.row(i), self.label(i), self.weight(i))
        return model

    def continue_learning(self, model: Any) -> Any:
        return self.learn(model, range(1 + self.n_learned, 1 + self.n_learned + N_MORE))

    def predictions(self, model: Any) -> list[list[str]]:
        """Return some predictions, to the bit."""
        predict = getattr(model, "predict_proba_one", None) or model.predict_one
        answers = [predict(self.row(100 + i)) for i in range(N_PREDICTED)]
        values = [a.values() if isinstance(a, dict) else np.ravel(a) for a in answers]
        return [[float(x).hex() for x in answer] for answer in values]


class FromFrame(Golden):
    """The same, learned from a frame by test-then-train: features have names, and losses count."""

    def build(self) -> Any:
        model, moments = self.model(), range(1, 1 + self.n_learned)
        X = pd.DataFrame([self.row(i) for i in moments], columns=["category", "é", "b"])
        X["category"] = X["category"].astype("category")
        model.partial_fit_predict(X, [self.label(i) for i in moments])
        return model


# Models of formats 1 and 2 had no such limit, and those of formats 1 to 3 have the default of their
# time: they must be written as those of the newest.
NO_LIMIT: dict[str, Any] = {"max_categories": None, "categorical_features": "from_dtype"}


def params(**others: Any) -> dict[str, Any]:
    return {"n_estimators": 2, "random_state": 1, **NO_LIMIT, **others}


# They are saved in the middle of regrowths.
ADAPTIVE = {"n_estimators": 1, "memories": (None, 10), "honest_memories": (8,), **NO_LIMIT}
ADAPTIVE_NUMBERS = {"n_estimators": 1, "memories": (None, 10), **NO_LIMIT}
ADAPTIVE_NUMBERS |= {"n_candidates": 10_000, "row_limit": 64}
SLOW = {"n_candidates": 700, "row_limit": 16}
BOX = params(partition="unrestricted", bounds=[[0.0, 1.0], [-1.0, 2.0]])
EXACT = {"charge_first": True, "predict_extends": True}
GOLDEN: dict[str, Golden] = {
    "classifier": Golden(lambda: AMFClassifier(**params())),
    "classifier_exact": Golden(lambda: AMFClassifier(**params(split_pure=True, **EXACT))),
    "classifier_categories": Golden(
        lambda: AMFClassifier(**params(categorical_features=[0])), mixed_row
    ),
    "classifier_others": Golden(
        lambda: AMFClassifier(**params(categorical_features=[0], max_categories=2)), mixed_row
    ),
    "classifier_weights": Golden(lambda: AMFClassifier(**params()), weight=weight),
    "classifier_limits": Golden(lambda: AMFClassifier(**params(max_nodes=10, max_bytes=9_999))),
    "classifier_box": Golden(lambda: AMFClassifier(**BOX, dirichlet=0.3), full_row),
    "classifier_numbers": Golden(
        lambda: AMFClassifier(**params(classes=np.array([3, 5], np.int16))),
        label=lambda i: 3 + i % 4,
    ),
    "classifier_generator": Golden(
        lambda: AMFClassifier(1, random_state=RandomState(7), **NO_LIMIT), n_learned=3
    ),
    "classifier_unfitted": Golden(lambda: AMFClassifier(**params(step=0.5)), n_learned=0),
    "adaptive": Golden(
        lambda: AdaptiveAMFClassifier(**ADAPTIVE, **SLOW, random_state=1), n_learned=24
    ),
    "adaptive_categories": Golden(
        lambda: AdaptiveAMFClassifier(**ADAPTIVE | {"categorical_features": [0]}, random_state=1),
        mixed_row,
        weight=weight,
        n_learned=40,
    ),
    "regressor": Golden(lambda: AMFRegressor(**params(step=None, bound=8.0)), label=target),
    "regressor_auto": Golden(lambda: AMFRegressor(**params()), label=target),  # of 12 rows
    "regressor_box": Golden(
        lambda: AMFRegressor(**BOX, split_prior=(0.4, 1.0), step=1.0), full_row, target, weight
    ),
    "regressor_frame": FromFrame(
        lambda: AMFRegressor(**params(use_aggregation=False, step=1.0)), mixed_row, target
    ),
    "mondrian_forest": Golden(
        lambda: MondrianForestClassifier(**params(lifetime=50.0)), label=label
    ),
    "adaptive_regressor": Golden(
        lambda: AdaptiveAMFRegressor(
            **ADAPTIVE_NUMBERS | {"categorical_features": [0]}, random_state=1
        ),
        mixed_row,
        target,
        weight,
        n_learned=43,
    ),
    "river_adaptive_regressor": Golden(
        lambda: river.AdaptiveAMFRegressor(**ADAPTIVE_NUMBERS, seed=1),
        named_row,
        target,
        n_learned=22,
    ),
    "river_adaptive": Golden(
        lambda: river.AdaptiveAMFClassifier(**ADAPTIVE, **SLOW, seed=1), named_row, n_learned=24
    ),
    "river_classifier": Golden(
        lambda: river.AMFClassifier(2, seed=1, **NO_LIMIT), named_row, lambda i: i % 3 == 0, weight
    ),
    "river_others": Golden(
        lambda: river.AMFRegressor(2, step=1.0, seed=1, **NO_LIMIT | {"max_categories": 2}),
        named_row,
        target,
    ),
    "river_auto": Golden(
        lambda: river.AMFRegressor(2, seed=1, **NO_LIMIT), named_row, target, weight
    ),
    "river_regressor": Golden(
        lambda: river.AMFRegressor(2, step=1.0, seed=1, **NO_LIMIT), named_row, target
    ),
}


def tables(model: Any) -> str:
    """Return a digest of all trees."""
    model = model.to_sklearn() if hasattr(model, "to_sklearn") else model
    digest = hashlib.sha256()
    for i in range(model._core.n_trees):
        table = model.tree_table(i)
        for name in FIELDS:
            if name in (table.dtype.names or ()):
                column = np.ascontiguousarray(table[name])
                digest.update(f"{name} {column.shape}".encode())
                digest.update(column.astype(column.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def described(name: str, model: Any, data: bytes) -> dict[str, Any]:
    """Return what a later version must find in a file, and after going on from it."""
    golden, found = GOLDEN[name], {"sha256": hashlib.sha256(data).hexdigest()}
    if golden.n_learned:
        found |= {"forecasts": golden.predictions(model), "trees": tables(model)}
    model = golden.continue_learning(model)
    return found | {"next_forecasts": golden.predictions(model), "next_trees": tables(model)}


# Of which frozen copies are kept, too: they no longer learn.
FROZEN = ("classifier_others", "adaptive_categories", "regressor", "adaptive_regressor")
FROZEN += ("river_adaptive",)


def write_frozen() -> None:
    folder = FOLDER / f"frozen_{FORMAT}"
    folder.mkdir(exist_ok=True)
    found = {}
    for name in FROZEN:
        frozen = GOLDEN[name].build().freeze()
        digest = amforest.save(frozen, folder / f"{name}.amf")
        found[name] = {"sha256": digest, "predictions": GOLDEN[name].predictions(frozen)}
    text = json.dumps({"format": FORMAT, "files": found}, indent=1)
    (folder / "golden.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    folder = FOLDER / f"format_{FORMAT}"
    folder.mkdir(exist_ok=True)
    found = {}
    for name, golden in GOLDEN.items():
        model = golden.build()
        data = model.to_bytes()
        (folder / f"{name}.amf").write_bytes(data)
        found[name] = described(name, model, data)
    about = {"format": FORMAT, "library": amforest.__version__, "files": found}
    text = json.dumps(about, indent=1, ensure_ascii=False)
    (folder / "golden.json").write_text(text + "\n", encoding="utf-8")
    write_frozen()


if __name__ == "__main__":
    main()
