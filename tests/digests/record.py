"""Records what 60 forests are and predict, so that a later version can be held to it.

`python tests/digests/record.py` writes `digests.json` beside this file; with `--compare` it checks
the installed version against that file: structure by its digest, predictions to 1e-12.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from amforest import AMFClassifier, AMFRegressor, river
from amforest.baselines import MondrianForestClassifier

FILE = Path(__file__).with_name("digests.json")
TOLERANCE = 1e-12
N_ROWS, N_FEATURES, N_PREDICTED = 300, 6, 12
# What makes a tree, apart from its weights.
STRUCTURE = ("parent", "left", "right", "depth", "feature", "threshold", "category", "birth_time")
STRUCTURE += ("n_samples", "counts", "mean", "lower", "upper", "seen")


@dataclass(frozen=True)
class Data:
    """A stream: rows, labels of both kinds, and weights."""

    X: Any
    classes: np.ndarray[Any, Any]
    numbers: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None = None


def numbers(seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    X[:, 1] = np.round(X[:, 1])  # ties
    X[:, 2] *= 1e-3
    X[rng.integers(0, N_ROWS, 40)] = X[rng.integers(0, N_ROWS, 40)]  # equal rows
    return X


def labels_of(X: np.ndarray[Any, Any], n_classes: int) -> np.ndarray[Any, Any]:
    noise = np.random.default_rng(1).normal(size=len(X))
    return np.digitize(np.nan_to_num(X[:, 0]) + 0.3 * noise, np.linspace(-1, 1, n_classes - 1))


def data(kind: str) -> Data:
    """Return a stream of one of the kinds of data."""
    X = numbers()
    targets = np.nan_to_num(X[:, 0] * 2 + X[:, 1])
    rng = np.random.default_rng(2)
    if kind == "many classes":
        return Data(X, labels_of(X, 9), targets)
    if kind == "missing":
        X[rng.random(X.shape) < 0.2] = np.nan
        return Data(X, labels_of(X, 3), targets)
    if kind == "categories":
        frame = pd.DataFrame(X, columns=list("abcdef"))
        words = np.array(["u", "v", "w", "x", None], dtype=object)
        frame["b"] = pd.Categorical(words[np.minimum(rng.geometric(0.4, N_ROWS) - 1, 4)])
        frame["e"] = pd.Categorical(rng.integers(0, 40, N_ROWS))
        return Data(frame, labels_of(X, 3), targets)
    if kind == "whole weights":
        return Data(X, labels_of(X, 2), targets, rng.integers(0, 4, N_ROWS).astype(float))
    if kind == "real weights":
        return Data(X, labels_of(X, 3), targets, rng.choice([0.0, 0.25, 1.0, 2.5], N_ROWS))
    return Data(X, labels_of(X, 2), targets)


KINDS = ("numbers", "many classes", "missing", "categories", "whole weights", "real weights")
SWITCHES: tuple[dict[str, Any], ...] = (
    {},
    {"charge_first": True, "predict_extends": True},
    {"use_aggregation": False, "split_pure": True},
    {"step": 0.3, "split_prior": (0.7, 0.0), "max_nodes": 300},
)


@dataclass(frozen=True)
class Case:
    """One forest: how it is made, and from what it learns."""

    name: str
    model: Callable[[], Any]
    kind: str
    learn: Callable[[Any, Data], Any]
    params: dict[str, Any] = field(default_factory=dict)


def learn_batches(model: Any, stream: Data) -> Any:
    """Learn in three batches, the second by test-then-train; classes may appear in each."""
    y = stream.numbers if isinstance(model, AMFRegressor) else stream.classes
    ends = [0, 7, 150, N_ROWS]
    for k, (start, end) in enumerate(pairwise(ends)):
        X = stream.X[start:end]
        weights = None if stream.weights is None else stream.weights[start:end]
        if k == 1 and isinstance(model, AMFRegressor):
            model.partial_fit_predict(X, y[start:end], sample_weight=weights)
        elif k == 1 and hasattr(model, "partial_fit_predict_proba"):
            model.partial_fit_predict_proba(X, y[start:end], sample_weight=weights)
        else:
            model.partial_fit(X, y[start:end], sample_weight=weights)
    return model


def learn_rows(model: Any, stream: Data) -> Any:
    """Learn row by row; for river as dicts in which features come late and go."""
    y = stream.numbers if "Regressor" in type(model).__name__ else stream.classes
    weights = np.ones(N_ROWS) if stream.weights is None else stream.weights
    for i in range(N_ROWS):
        model.learn_one(row_of(model, stream, i), y[i], float(weights[i]))
    return model


def row_of(model: Any, stream: Data, i: int) -> Any:
    if not type(model).__module__.startswith("amforest.river"):
        is_frame = isinstance(stream.X, pd.DataFrame)
        return [_plain(x) for x in stream.X.iloc[i].tolist()] if is_frame else stream.X[i]
    names = list("abcdef")
    values = stream.X.iloc[i].tolist() if isinstance(stream.X, pd.DataFrame) else stream.X[i]
    row = {name: _plain(x) for name, x in zip(names, values, strict=True)}
    return {name: x for k, (name, x) in enumerate(row.items()) if i >= 20 * k and (i + k) % 11}


def _plain(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return value
    return None if np.isnan(value) else float(value)


def cases() -> Iterator[Case]:
    """Yield 60 forests of all estimators, switches, kinds of data and ways of learning."""
    for cls, (s, switches), kind in product(
        (AMFClassifier, AMFRegressor), enumerate(SWITCHES), KINDS
    ):
        params = {"n_estimators": 3, "random_state": s, "step": 1.0, **switches}
        learn = learn_rows if (s + len(kind)) % 2 else learn_batches
        if kind == "categories":  # of one row nobody could tell which columns hold categories
            learn = learn_batches
        yield Case(f"{cls.__name__} {kind} {s}", lambda c=cls, p=params: c(**p), kind, learn)
    box = {"partition": "unrestricted", "bounds": [(-6.0, 6.0)] * N_FEATURES}
    for cls, kind in product((AMFClassifier, AMFRegressor), ("numbers", "real weights")):
        params = {"n_estimators": 2, "random_state": 5, "step": 1.0, **box}
        params["split_prior"] = (0.4, 0.5)
        yield Case(f"{cls.__name__} box {kind}", lambda c=cls, p=params: c(**p), kind, learn_rows)
    params = {"n_estimators": 2, "random_state": 6, "predict_extends": True, **box}
    yield Case("AMFClassifier box extends", lambda: AMFClassifier(**params), "numbers", learn_rows)
    for kind in ("many classes", "missing"):
        yield Case(
            f"MondrianForestClassifier {kind}",
            lambda: MondrianForestClassifier(3, lifetime=80.0, random_state=7),
            kind,
            learn_batches,
        )
    for cls, kind in product((river.AMFClassifier, river.AMFRegressor), ("numbers", "categories")):
        yield Case(
            f"river {cls.__name__} {kind}", lambda c=cls: c(3, step=1.0, seed=8), kind, learn_rows
        )
    yield Case("river weights", lambda: river.AMFClassifier(2, seed=9), "real weights", learn_rows)


def structure_of(model: Any) -> str:
    """Return a digest of the structure of all trees."""
    model = model.to_sklearn() if hasattr(model, "to_sklearn") else model
    digest = hashlib.sha256()
    for t in range(model.n_estimators):
        table = model.tree_table(t)
        for name in STRUCTURE:
            if name in (table.dtype.names or ()):
                column = np.ascontiguousarray(table[name])
                digest.update(f"{name} {column.dtype.str} {column.shape}".encode())
                digest.update(column.tobytes())
    return digest.hexdigest()


def predictions_of(model: Any, stream: Data) -> list[list[float]]:
    """Return predictions of rows that were learned, and of others a little beside them."""
    predict = getattr(model, "predict_proba_one", None) or model.predict_one
    beside = stream.X.copy()
    column = beside.columns[0] if isinstance(beside, pd.DataFrame) else (slice(None), 0)
    beside[column] = beside[column] * 1.1 + 0.01
    found = []
    for i in np.linspace(0, N_ROWS - 1, N_PREDICTED).astype(int).tolist():
        where = stream if i % 2 else Data(beside, stream.classes, stream.numbers)
        answer = predict(row_of(model, where, i))
        values = answer.values() if isinstance(answer, dict) else np.ravel(answer)
        found.append([float(value) for value in values])
    return found


def recorded() -> dict[str, Any]:
    """Return the structure and the predictions of all forests, by name."""
    found = {}
    for case in cases():
        stream = data(case.kind)
        model = case.learn(case.model(), stream)
        found[case.name] = {
            "structure": structure_of(model),
            "predictions": predictions_of(model, stream),
        }
    return found


def differences(found: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    """Yield what differs, a line each."""
    if found.keys() != expected.keys():
        yield f"other forests: {sorted(found.keys() ^ expected.keys())}"
    for name in found.keys() & expected.keys():
        if found[name]["structure"] != expected[name]["structure"]:
            yield f"{name}: structure"
        new, old = found[name]["predictions"], expected[name]["predictions"]
        gap = max(
            (abs(a - b) for p, q in zip(new, old, strict=True) for a, b in zip(p, q, strict=True)),
            default=0.0,
        )
        if not gap <= TOLERANCE:
            yield f"{name}: predictions by {gap:.3g}"


def main() -> None:
    """Record, or compare with what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", action="store_true", help="check against digests.json")
    found = recorded()
    if not parser.parse_args().compare:
        FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{len(found)} forests recorded")
        return
    lines = list(differences(found, json.loads(FILE.read_text(encoding="utf-8"))))
    print("\n".join(lines) or f"{len(found)} forests: equal structure, equal predictions")
    raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
