"""The n-th allocation of the core fails, n = 1, 2, …: MemoryError, and the model is as it was.

`every_fault` builds the library that makes allocations fail and starts this file in a process into
which it is preloaded; that process prints a line of JSON for each call.
"""

from __future__ import annotations

import copy
import ctypes
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


# From outside


def build(folder: Path, compiler: str = "g++") -> Path:
    """Compile the library that makes allocations fail."""
    library = folder / "faulty_memory.so"
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    source = HERE / "cpp" / "faulty_memory.cpp"
    subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True)
    return library


def every_fault(library: Path, quick: bool) -> Iterator[dict[str, Any]]:
    """Run all calls with all faults in another process; yield the record of each call."""
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONFAULTHANDLER": "1"}
    done, crashed = 0, True
    while crashed:  # then another process continues with the next call
        command = [sys.executable, __file__, str(library), str(done), *(["--quick"] * quick)]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            for line in process.stdout or ():
                record = json.loads(line)
                if "faults" in record:
                    done += 1
                    yield record
        if crashed := process.returncode != 0:
            done += 1
            wrong = [f"the process ended with {process.returncode}"]
            yield {**record, "faults": 0, "errors": 0, "sites": [], "wrong": wrong}


# Within


class Faults:
    """The preloaded library."""

    def __init__(self, library: str) -> None:
        functions = ctypes.CDLL(library)
        for name, result in (("disarm", ctypes.c_long), ("site", ctypes.c_ulong)):
            getattr(functions, f"faults_{name}").restype = result
        for name in ("arm", "arm_from"):
            getattr(functions, f"faults_{name}").argtypes = [ctypes.c_long]
        self.arm, self.arm_from = functions.faults_arm, functions.faults_arm_from
        self.disarm, self.site = functions.faults_disarm, functions.faults_site


@dataclass(frozen=True)
class Call:
    """A call of a model."""

    name: str
    model: Any
    query: Callable[..., Any]  # of the model and, if `rows` are given, of them
    rows: tuple[Any, ...] = ()  # of which some may have been learned when it fails

    def __call__(self, model: Any, start: int = 0) -> Any:
        return self.query(model, *(part[start:] for part in self.rows))


def outcome(value: Any) -> Any:
    """Return something that can be compared: all bits of a result."""
    if hasattr(value, "to_bytes") and not isinstance(value, int):
        return value.to_bytes()
    return pickle.dumps(value)


def try_all(call: Call, faults: Faults, arm: Callable[[int], None]) -> dict[str, Any]:
    """Let the first allocation fail, then the second, until the call gets through."""
    before = call.model.to_bytes()
    untouched = copy.deepcopy(call.model)
    answer, after = outcome(call(untouched)), untouched.to_bytes()
    sites, errors, wrong = set(), 0, []
    for n in count(1):
        model = copy.deepcopy(call.model)
        arm(n)
        try:
            found: Any = call(model)
            failed = False
        except MemoryError:
            failed = True
        except BaseException as error:
            failed = True
            wrong.append(f"{n}: {type(error).__name__}: {error}")
        if faults.disarm() < n:
            break
        sites.add(faults.site())
        errors += failed
        start = 0
        if failed and call.rows:
            start = samples(model) - samples(call.model)
        if failed and not start and model.to_bytes() != before:
            wrong.append(f"{n}: the model is not as it was")
        if failed:
            found = call(model, start)
        if (not start and outcome(found) != answer) or model.to_bytes() != after:
            wrong.append(f"{n}: the call does not continue as if nothing had failed")
    return {"faults": n - 1, "errors": errors, "sites": sorted(sites), "wrong": wrong[:10]}


def samples(model: Any) -> int:
    return int(model.stats()["samples"])


def calls(quick: bool) -> Iterator[Call]:
    """All that a model does, with each kind of model that does it in another way."""
    models = Models(16 if quick else 400)
    yield from learning(models)
    yield from test_then_train(models)
    yield from adapting(models)
    yield from inspecting(models)
    yield from saving("classes", models.classes)
    yield from saving("adaptive", models.adaptive)
    yield from saving("categories", models.categories)
    if not quick:
        yield from saving("numbers", models.numbers)
        yield from saving("unrestricted", models.unrestricted)


class Models:
    """Models that have learned n rows, and more rows for them."""

    def __init__(self, n: int) -> None:
        from amforest import (
            AdaptiveAMFClassifier,
            AdaptiveAMFRegressor,
            AMFClassifier,
            AMFRegressor,
        )
        from amforest.baselines import MondrianForestClassifier

        rng = np.random.default_rng(0)
        X, self.X = rng.normal(size=(2, n, 3))
        self.y, self.labels = X[:, 0] + X[:, 1], (X[:, 0] > 0).astype(int)
        fifth = np.arange(n) % 5 == 4
        self.new_classes = np.where(fifth, 5 + np.arange(n) // 5 % 3, self.labels)
        self.weights = rng.exponential(size=n)
        self.codes = np.column_stack([rng.integers(0, 5, n), X[:, 1:]])
        # So many that threads are used, and large blocks of memory.
        self.many = rng.normal(size=(2 * n + 300, 3))
        self.many_labels = (self.many[:, 0] > 0).astype(int)
        how = {"n_estimators": 2, "random_state": 0}
        self.new = AMFClassifier(**how)
        self.classes = AMFClassifier(**how).partial_fit(X, self.labels)
        self.numbers = AMFRegressor(**how).partial_fit(X, self.y)
        self.threads = AMFClassifier(**how, n_jobs=2).partial_fit(X, self.labels)
        self.categories = AMFClassifier(**how, categorical_features=[0])
        self.categories.partial_fit(self.codes, self.labels)
        box = {"partition": "unrestricted", "bounds": (-9.0, 9.0), "predict_extends": True}
        self.unrestricted = AMFClassifier(**how, **box).partial_fit(X[:16], self.labels[:16])
        self.extends = AMFRegressor(**how, predict_extends=True).partial_fit(X, self.y)
        self.smoothing = MondrianForestClassifier(**how).partial_fit(X, self.labels)
        # Of the trees of the short memory, one is being regrown all the time.
        short = {"memories": (None, 8), "honest_memories": (), "n_candidates": 800}
        self.adaptive = AdaptiveAMFClassifier(1, **short, categorical_features=[0], random_state=0)
        for _ in range(2):
            self.adaptive.partial_fit(self.codes, self.labels)
        few = {"memories": (None, 8), "n_candidates": 800, "random_state": 0}
        self.adaptive_numbers = AdaptiveAMFRegressor(1, **few, categorical_features=[0])
        for _ in range(2):
            self.adaptive_numbers.partial_fit(self.codes, self.y)
        # No tree of it was regrown.
        self.few_numbers = AdaptiveAMFRegressor(1, memories=(8,), random_state=0)
        self.few_numbers.partial_fit(X[:2], self.y[:2])
        bytes_ = {"max_bytes": 200_000, "classes": [0, 1], "n_jobs": 2}
        self.full = AdaptiveAMFClassifier(1, **short | bytes_, random_state=0)
        self.full.partial_fit(self.many, self.many_labels).partial_fit(self.X, self.labels)


def learning(of: Models) -> Iterator[Call]:
    X, y, labels, weights, many = of.X, of.y, of.labels, of.weights, of.many
    gaps = np.where(X > 0, X, np.nan)
    more_codes = of.codes + np.array([3, 0, 0])

    def learn(m: Any, X: Any, y: Any, **how: Any) -> Any:
        return m.partial_fit(X, y, **how)

    def of_known_classes(m: Any) -> Any:
        return learn(m, X, labels, classes=[0, 1])

    yield Call("partial_fit, classes", of.classes, lambda m: learn(m, many, of.many_labels))
    yield Call("partial_fit, two threads", of.threads, lambda m: learn(m, many, of.many_labels))
    yield Call("partial_fit, numbers", of.numbers, lambda m: learn(m, X, y))
    yield Call("partial_fit, the first", of.new, of_known_classes)
    yield Call("partial_fit, the first, of unknown classes", of.new, learn, (X, labels))
    yield Call("partial_fit, new classes", of.classes, learn, (X, of.new_classes))
    yield Call("partial_fit, gaps", of.classes, lambda m: learn(m, gaps, labels))
    yield Call("partial_fit, weights", of.numbers, lambda m: learn(m, X, y, sample_weight=weights))
    yield Call(
        "partial_fit, the first fractions",
        of.classes,
        lambda m: learn(m, X, labels, sample_weight=weights),
    )
    yield Call("partial_fit, new categories", of.categories, lambda m: learn(m, more_codes, labels))
    yield Call("partial_fit, unrestricted", of.unrestricted, learn, (X[:16], labels[:16]))
    yield Call("fit, afresh", of.numbers, lambda m: m.fit(X, y))
    yield Call("learn_one, classes", of.classes, lambda m: m.learn_one(X[0], 1))
    yield Call("learn_one, numbers", of.numbers, lambda m: m.learn_one(X[0], 1.5))
    yield Call("learn_one, a new class", of.classes, lambda m: m.learn_one(X[0], 7))
    yield Call("learn_one, a new category", of.categories, lambda m: m.learn_one([50.0, 0, 0], 1))
    yield Call("learn_one, unrestricted", of.unrestricted, lambda m: m.learn_one(X[0], 1))


def adapting(of: Models) -> Iterator[Call]:
    X, y, new, many = of.codes, of.labels, of.new_classes, (of.many, of.many_labels)
    more_codes = X + np.array([3, 0, 0])

    def learn(m: Any, X: Any, y: Any) -> Any:
        return m.partial_fit(X, y)

    def grow(m: Any) -> Any:  # as river does for features that come later
        return m._core.reserve(n_numbers=7, categories=[9, 4]).n_bytes

    yield Call("partial_fit, adaptive", of.adaptive, lambda m: learn(m, X, y))
    yield Call("partial_fit, adaptive, new classes", of.adaptive, learn, (X, new))
    yield Call("partial_fit, adaptive, categories", of.adaptive, lambda m: learn(m, more_codes, y))
    yield Call("partial_fit, adaptive, two threads", of.full, lambda m: learn(m, *many))
    yield Call("learn_one, adaptive", of.adaptive, lambda m: m.learn_one(X[0].tolist(), 1))
    yield Call("learn_one, adaptive, a new class", of.adaptive, lambda m: m.learn_one([0, 1, 2], 7))
    yield Call("learn_one, adaptive, full", of.full, lambda m: m.learn_one(of.X[0], 1))
    yield Call(
        "test-then-train, adaptive", of.adaptive, lambda m: m.partial_fit_predict_proba(X, y)
    )
    numbers = of.adaptive_numbers
    yield Call("partial_fit, adaptive numbers", numbers, lambda m: learn(m, X, of.y))
    yield Call(
        "partial_fit, adaptive numbers, several regrows of a tree",
        of.few_numbers,
        lambda m: learn(m, of.many[:60], of.many[:60, 0]),
    )
    yield Call("learn_one, adaptive numbers", numbers, lambda m: m.learn_one(X[0].tolist(), 1.5))
    yield Call(
        "test-then-train, adaptive numbers", numbers, lambda m: m.partial_fit_predict(X, of.y)
    )
    yield Call("grow, adaptive numbers", numbers, grow)
    yield Call("predict, adaptive numbers", numbers, lambda m: m.predict_interval(X))
    yield Call("by_memory, adaptive numbers", numbers, lambda m: m.predict_by_memory(X))
    yield Call("grow, adaptive", of.adaptive, grow)
    yield Call("predict, adaptive", of.adaptive, lambda m: m.predict_proba(X))
    yield Call("predict_one, adaptive", of.adaptive, lambda m: m.predict_proba_one(X[0].tolist()))
    yield Call("by_memory, adaptive", of.adaptive, lambda m: m.predict_proba_by_memory(X))
    yield Call("tree_table, adaptive", of.adaptive, lambda m: m.tree_table(0))
    yield Call("stats, adaptive", of.adaptive, lambda m: m.stats())


def test_then_train(of: Models) -> Iterator[Call]:
    X, labels, many = of.X, of.labels, of.many

    def learn(m: Any, X: Any, y: Any) -> Any:
        return m.partial_fit_predict_proba(X, y)

    yield Call("test-then-train, classes", of.classes, lambda m: learn(m, X, labels))
    yield Call("test-then-train, two threads", of.threads, lambda m: learn(m, many, of.many_labels))
    yield Call("test-then-train, new classes", of.classes, learn, (X, of.new_classes))
    yield Call("test-then-train, numbers", of.numbers, lambda m: m.partial_fit_predict(X, of.y))


def inspecting(of: Models) -> Iterator[Call]:
    rows = {"categories": of.codes, "unrestricted": of.X[:3]}
    kinds = ("classes", "numbers", "threads", "categories", "unrestricted", "extends", "smoothing")
    for kind in kinds:
        X, model = rows.get(kind, of.many), getattr(of, kind)
        name = "two threads" if kind == "threads" else kind
        yield Call(f"predict, {name}", model, lambda m, X=X: m.predict(X))
        yield Call(f"predict_one, {name}", model, lambda m, X=X: m.predict_one(X[0]))
    yield Call("predict_proba_by_tree", of.classes, lambda m: m.predict_proba_by_tree(of.X))
    yield Call("weighted_depth", of.classes, lambda m: m.weighted_depth(of.X))
    yield Call("apply", of.classes, lambda m: m.apply(of.X))
    for kind in ("classes", "numbers", "categories"):
        yield Call(f"tree_table, {kind}", getattr(of, kind), lambda m: m.tree_table(0))
        yield Call(f"stats, {kind}", getattr(of, kind), lambda m: m.stats())


def saving(kind: str, model: Any) -> Iterator[Call]:
    """The ways into bytes and back."""
    from amforest.model_io import model_file

    data, pickled = model.to_bytes(), pickle.dumps(model)
    yield Call(f"to_bytes, {kind}", model, lambda m: m.to_bytes())
    yield Call(f"from_bytes, {kind}", model, lambda m: model_file.from_bytes(data))
    yield Call(f"pickle.dumps, {kind}", model, pickle.dumps)
    yield Call(f"pickle.loads, {kind}", model, lambda m: pickle.loads(pickled))


def main() -> None:
    """Make the calls from some number on; print the name of each, then its record."""
    faults, quick = Faults(sys.argv[1]), "--quick" in sys.argv
    ways = [("", faults.arm), (", and all after it", faults.arm_from)][: 1 if quick else 2]
    trials = [(call, suffix, arm) for call in calls(quick) for suffix, arm in ways]
    for call, suffix, arm in trials[int(sys.argv[2]) :]:
        name = {"call": call.name + suffix, "of": len(trials)}
        print(json.dumps(name), flush=True)
        print(json.dumps(name | try_all(call, faults, arm)), flush=True)


if __name__ == "__main__":
    main()
