"""Models that are saved, loaded and continue are bit for bit those that were never saved."""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator, RandomState
from result import Report, Result

import amforest
from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    river,
)
from amforest.baselines import MondrianForestClassifier
from amforest.model_io.model_file import from_bytes

TITLE = "save, load, continue"
SEED = int(os.environ.get("TORTURE_SEED", "0"))
N_PARTS, N_ROWS, N_PROBES = 5, 12, 6  # of a stream: parts, rows of each, rows to be predicted

CATEGORIES: dict[str, Callable[[int], Any]] = {
    "text": lambda k: ["", "é", "a\0", "long" * 9][k % 4] + str(k // 4),
    "int": lambda k: (-1) ** k * 7**k,
    "float": lambda k: [0.1, -0.0, float("inf"), 1e-320][k % 4] + k // 4,
    "bool": lambda k: k % 2 == 1,
    "bytes": lambda k: bytes([k, 255 - k]),
    "date": lambda k: date(2024, 2, 28) + timedelta(days=k),
    "datetime": lambda k: datetime(2024, 2, 28, k % 24, tzinfo=[None, UTC][k % 2]),
    "tuple": lambda k: (k, ("x", k / 2), b"y"),
    "frozenset": lambda k: frozenset({k, str(k)}),
}
NUMBERS: list[Callable[[Generator], float]] = [
    lambda rng: rng.uniform(),
    lambda rng: float(rng.integers(3)),
    lambda rng: rng.normal() * 1e20,
    lambda rng: rng.uniform() * 1e-40,
    lambda rng: 0.5,
]
LABELS: list[Callable[[int], Any]] = [
    lambda k: k,
    lambda k: np.int8(5 - k),
    lambda k: np.uint64(2**63 + k),
    lambda k: k / 1.0,
    lambda k: "abcdefghijklmnopqrstuvwxyz"[-k] * k,
    lambda k: k % 2 == 0,
]


Step = Callable[[Any], list[Any]]


@dataclass
class Column:
    """One feature: its values, and from which part of the stream on it is there."""

    name: Any
    value: Callable[[int], Any]  # at a moment
    is_category: bool
    gaps: float
    since: int = 0


@dataclass
class Case:
    """A configuration: a model, and a stream that is the same each time it is made."""

    number: int
    rng: Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([SEED, self.number])
        self.kind = self.any_of(list(MODELS))
        self.is_classifier = "Classifier" in self.kind
        self.is_river = self.kind.startswith("river")
        self.is_adaptive = "Adaptive" in self.kind
        self.is_box = self.kind.startswith("AMF") and self.chance(0.25)
        self.form = self.any_of(["array", "lists", "frame"])
        self.columns = [self.column(j) for j in range(self.rng.integers(1, 6))]
        self.label = self.any_of(LABELS)
        self.weights = self.any_of([None, "whole", "real"])
        self.has_late_classes = self.chance(0.6)

    def any_of(self, choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.uniform() < p)

    def column(self, j: int) -> Column:
        is_category = not self.is_box and self.chance(0.4)
        gaps = 0.0 if self.is_box else self.any_of([0.0, 0.0, 0.2])
        if is_category:
            # Rows of nothing but tuples would be read as rows of rows.
            make = CATEGORIES[self.any_of([kind for kind in CATEGORIES if j or kind != "tuple"])]

            def value(moment: int) -> Any:  # ever more categories
                return make(int(self.rng.integers(2 + moment // 8)))
        else:
            number = NUMBERS[0] if self.is_box else self.any_of(NUMBERS)

            def value(moment: int) -> Any:
                return number(self.rng)

        names = [f"x{j}", j, (j, "x"), f"é {j}"] if self.is_river else [f"x{j}", f"é {j}"]
        since = int(self.rng.integers(N_PARTS)) if self.is_river and j else 0
        return Column(self.any_of(names), value, is_category, gaps, since)

    # The model

    def model(self) -> Any:
        params = self.shared() | MODELS[self.kind](self)
        cls = getattr(river, self.kind[6:]) if self.is_river else CLASSES[self.kind]
        return cls(**params)

    def shared(self) -> dict[str, Any]:
        n_trees = int(self.rng.integers(1, 5))
        params: dict[str, Any] = {
            "n_estimators": n_trees,
            "split_pure": self.chance(0.5),
            "n_jobs": self.any_of([None, 1, 2, -1]),
            "max_nodes": self.any_of([None, None, n_trees, 13 * n_trees]),
            "max_bytes": self.any_of([None, None, 8_000 * n_trees]),
            "max_categories": self.any_of([256, 3, None]),
        }
        seed = int(self.rng.integers(2**31))
        if self.is_river:
            params["seed"] = seed
        else:
            params["random_state"] = self.any_of([seed, RandomState(seed), np.int64(seed)])
        return params | self.categorical_features()

    def categorical_features(self) -> dict[str, Any]:
        wanted = [column for column in self.columns if column.is_category]
        if self.is_river:
            return {"categorical_features": {column.name for column in wanted} or None}
        if self.form == "frame":
            names = [column.name for column in wanted]
            return {"categorical_features": self.any_of([names, "from_dtype"])}
        mask = [column.is_category for column in self.columns]
        numbers = np.flatnonzero(mask)
        return {"categorical_features": self.any_of([mask, numbers, numbers.tolist(), tuple(mask)])}

    def aggregation(self) -> dict[str, Any]:
        alpha = self.any_of([0.5, 0.5, 0.2])
        extends = self.chance(0.4)
        beta = self.any_of([0.0, 1.0]) if self.is_box and not extends else 0.0
        params = {
            "step": self.any_of([1.0, 0.3, 2]),
            "use_aggregation": self.chance(0.8),
            "charge_first": self.chance(0.5),
            "predict_extends": extends,
            "split_prior": (alpha, beta),
        }
        if self.is_box:
            one = self.any_of([None, (0, 1), [[-1.0, 1.5]] * len(self.columns)])
            params |= {"partition": "unrestricted", "bounds": self.any_of([one, as_array(one)])}
        return params

    def of_classifier(self) -> dict[str, Any]:
        params = self.aggregation() | {"dirichlet": self.any_of([None, 0.7, 3])}
        return params if self.is_river else params | self.announced()

    def of_adaptive(self) -> dict[str, Any]:
        """Trees are regrown all the time, and for many rows if there are many candidates."""
        params = {
            "memories": self.any_of([(None, 30, 8), [15], (8, None)]),
            "n_candidates": self.any_of([1, 5, 30, 700]),
            "row_limit": self.any_of([16, 40, 65_536]),
            "use_aggregation": self.chance(0.8),
            "max_nodes": self.any_of([None, None, 30_000]),
            "max_bytes": self.any_of([None, None, 9_000_000]),
        }
        if not self.is_classifier:
            return params
        params |= {
            "honest_memories": self.any_of([[], (20,), (None, 8)]),
            "mixer_rate": self.any_of([0, 0.01, 0.3]),
            "step": self.any_of([1.0, 0.3]),
            "dirichlet": self.any_of([None, 0.7]),
        }
        return params if self.is_river else params | self.announced()

    def of_mondrian(self) -> dict[str, Any]:
        discount = self.any_of([None, 0.5])
        return self.announced() | {
            "discount": discount,
            "lifetime": self.any_of([np.inf, 3.0]),
        }

    def announced(self) -> dict[str, Any]:
        classes = np.array([self.label(k) for k in range(2)])
        return {"classes": self.any_of([None, classes, classes.tolist()])}

    def of_regressor(self) -> dict[str, Any]:
        params = self.aggregation()
        if not self.is_river and self.chance(0.3):
            params |= {"step": None, "bound": 2.0}
        return params

    # The stream

    def steps(self) -> list[Step]:
        """Return what is done to a model, part by part; each step returns what it shows."""
        return [self.step(part) for part in range(N_PARTS)]

    def step(self, part: int) -> Step:
        rows, probes = self.rows(part), self.rows(part)[:N_PROBES]
        most = 2 + part if self.has_late_classes else 2
        labels = [self.label(int(k)) for k in self.rng.integers(most, size=N_ROWS)]
        if not self.is_classifier:
            labels = self.rng.normal(size=N_ROWS).tolist()
        weights = None
        if self.weights is not None and self.chance(0.7):
            weights = self.rng.integers(0, 3, size=N_ROWS) / (1 if self.weights == "whole" else 1.7)
            weights[0] = 1.0
        ways = ["batch", "test_then_train", "one"]
        if part == 0 and (self.form == "frame" or has_tuples(rows[0])):
            ways.pop()  # names and types of columns are known from a frame or an array only
        way = "one" if self.is_river else self.any_of(ways)
        learn = partial(self.learn, rows=rows, labels=labels, weights=weights, way=way)
        return lambda model: learn(model) + self.inspect(model, probes)

    def rows(self, part: int) -> list[Any]:
        """Return lists of values; for river, dicts of those that are there."""
        moments = range(part * N_ROWS, (part + 1) * N_ROWS)
        rows = [[self.value(column, moment) for column in self.columns] for moment in moments]
        if not self.is_river:
            return rows
        names = [column.name for column in self.columns]
        return [
            {name: x for name, x in zip(names, row, strict=True) if x is not None} for row in rows
        ]

    def value(self, column: Column, moment: int) -> Any:
        value, is_missing = column.value(moment), self.chance(column.gaps)
        if is_missing or moment < column.since * N_ROWS:
            return None if column.is_category or self.is_river else np.nan
        return value

    def learn(self, model: Any, rows: Any, labels: Any, weights: Any, way: str) -> list[Any]:
        if way == "one":
            each = [1.0] * N_ROWS if weights is None else weights
            for x, y, w in zip(rows, labels, each, strict=True):
                model.learn_one(x, y, w)
            return []
        X, y = self.in_form(rows), np.array(labels)
        if way == "batch":
            model.partial_fit(X, y, sample_weight=weights)
            return []
        name = "partial_fit_predict_proba" if self.is_classifier else "partial_fit_predict"
        return [getattr(model, name)(X, y, sample_weight=weights)]

    def inspect(self, model: Any, rows: list[Any]) -> list[Any]:
        """Return all that can be seen of a model."""
        stats = model.stats()
        del stats["bytes"]  # a leaf that became a point again is kept as one when it is loaded
        if self.is_river and self.is_classifier:
            return [stats, *(list(model.predict_proba_one(x).items()) for x in rows)]
        if self.is_river:
            return [stats, *(model.predict_one(x) for x in rows)]
        X = self.in_form(rows)
        predict = model.predict_proba if self.is_classifier else model.predict_by_tree
        tables = [model.tree_table(i).tobytes() for i in range(model._core.n_trees)]
        if self.is_adaptive:
            by_memory = "predict_proba_by_memory" if self.is_classifier else "predict_by_memory"
            tables += [model.memory_weights_, getattr(model, by_memory)(X)]
        queries = (predict, model.predict, model.apply, model.weighted_depth)
        return [stats, model.categories_, tables, *(query(X) for query in queries)]

    def in_form(self, rows: list[list[Any]]) -> Any:
        if self.form == "frame":
            return self.frame(rows)
        if not any(column.is_category for column in self.columns):
            return np.array(rows, dtype=float) if self.form == "array" else rows
        X = np.empty((len(rows), len(self.columns)), dtype=object)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                X[i, j] = value
        return X

    def frame(self, rows: list[list[Any]]) -> pd.DataFrame:
        columns = {}
        for j, column in enumerate(self.columns):
            values = pd.Series([row[j] for row in rows], dtype=object)
            as_type = "category" if column.is_category else float
            columns[column.name] = values.astype(as_type)
        return pd.DataFrame(columns)


CLASSES = {
    "AMFClassifier": AMFClassifier,
    "AdaptiveAMFClassifier": AdaptiveAMFClassifier,
    "AMFRegressor": AMFRegressor,
    "AdaptiveAMFRegressor": AdaptiveAMFRegressor,
    "MondrianForestClassifier": MondrianForestClassifier,
}
MODELS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "AMFClassifier": Case.of_classifier,
    "AdaptiveAMFClassifier": Case.of_adaptive,
    "AMFRegressor": Case.of_regressor,
    "AdaptiveAMFRegressor": Case.of_adaptive,
    "MondrianForestClassifier": Case.of_mondrian,
    "river.AMFClassifier": Case.of_classifier,
    "river.AdaptiveAMFClassifier": Case.of_adaptive,
    "river.AMFRegressor": Case.of_regressor,
    "river.AdaptiveAMFRegressor": Case.of_adaptive,
}


def has_tuples(row: Any) -> bool:
    return any(isinstance(value, tuple) for value in row)


def as_array(values: Any) -> Any:
    return None if values is None else np.array(values)


# Ways to copy a model


def by_file(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.amf"
        digest = amforest.save(model, path)
        loaded = amforest.load(path, sha256=digest)
        assert loaded.to_bytes() == path.read_bytes()
    return loaded


def by_pickle(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


WAYS = {"file": by_file, "pickle": by_pickle, "deepcopy": copy.deepcopy}


def compare(number: int) -> None:
    """Let copies of a model continue beside it, which is never saved until the end."""
    case = Case(number)
    never_saved = case.model()
    copies = {name: way(never_saved) for name, way in WAYS.items()}
    for step in case.steps():
        expected = as_bits(step(never_saved))
        for name, way in WAYS.items():
            copies[name] = way(copies[name])
            assert as_bits(step(copies[name])) == expected, name
    saved = never_saved.to_bytes()
    for name, model in copies.items():
        assert model.to_bytes() == saved, name
    assert from_bytes(saved).to_bytes() == saved
    refit(case, [never_saved, *copies.values()])


def refit(case: Case, models: list[Any]) -> None:
    """Learn afresh: a generator given as random_state continues, too."""
    if case.is_river:
        return
    rows = case.in_form(case.rows(0))
    names = [case.label(k) if case.is_classifier else float(k) for k in range(2)]
    labels = np.array(names * (N_ROWS // 2))
    assert len({model.fit(rows, labels).to_bytes() for model in models}) == 1


def as_bits(seen: Any) -> Any:
    """What two models show is equal if this is: NaN is equal to itself, and 0 is not -0."""
    if isinstance(seen, np.ndarray):
        return seen.dtype.str, seen.shape, seen.tolist() if seen.dtype == object else seen.tobytes()
    if isinstance(seen, dict):  # of categories, whose text depends on Python's random hashes
        return list(seen.items())
    return [as_bits(item) for item in seen] if isinstance(seen, list) else repr(seen)


def run(report: Report, quick: bool) -> list[Result]:
    return [run_cases(report, 25 if quick else 200), run_machine(report, 40 if quick else 2_000)]


def run_cases(report: Report, count: int) -> Result:
    failures = []
    for number in range(count):
        try:
            compare(number)
        except Exception as error:
            failures.append(f"#{number}: {type(error).__name__}: {error}"[:300])
        report("configurations", number + 1, count)
    details = "\n".join(failures[:10]) or f"files, pickle and deepcopy, at {N_PARTS} moments each"
    bar = "bit for bit as if never saved"
    return Result("save, load, continue", count, bar, not failures, details)


def run_machine(report: Report, count: int) -> Result:
    """The state machine of the tests, for longer."""
    import test_state_machine as machine  # a test file, which is not there without hypothesis

    report("state machine", 0, count)
    details, passed = "20 steps each", True
    try:
        machine.run(count)
    except Exception as error:
        details, passed = "".join(traceback.format_exception_only(error)), False
    report("state machine", count, count)
    bar = "trees valid, copies equal to the bit, after each step"
    return Result("learn, save, copy, refuse … in any order", count, bar, passed, details)
