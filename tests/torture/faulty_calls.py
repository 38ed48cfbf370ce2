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
    """Run all calls with all faults in another process; yield what each call had to tell."""
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONFAULTHANDLER": "1"}
    done, crashed = 0, True
    while crashed:  # then another process goes on with the next call
        command = [sys.executable, __file__, str(library), str(done), *(["--quick"] * quick)]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            for line in process.stdout or ():
                told = json.loads(line)
                if "faults" in told:
                    done += 1
                    yield told
        if crashed := process.returncode != 0:
            done += 1
            wrong = [f"the process ended with {process.returncode}"]
            yield {**told, "faults": 0, "errors": 0, "sites": [], "wrong": wrong}


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
    """Something that is asked of a model."""

    name: str
    model: Any
    ask: Callable[..., Any]  # of the model and, if `rows` are given, of them
    rows: tuple[Any, ...] = ()  # of which some may have been learnt when it fails

    def __call__(self, model: Any, start: int = 0) -> Any:
        return self.ask(model, *(part[start:] for part in self.rows))


def outcome(value: Any) -> Any:
    """Return something that can be compared: all bits of an answer."""
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
            wrong.append(f"{n}: the call does not go on as if nothing had failed")
    return {"faults": n - 1, "errors": errors, "sites": sorted(sites), "wrong": wrong[:10]}


def samples(model: Any) -> int:
    return int(model.stats()["samples"])


def calls(quick: bool) -> Iterator[Call]:
    """All that a model does, with each kind of model that does it in another way."""
    from amforest import AMFClassifier, AMFRegressor
    from amforest.baselines import MondrianForestClassifier

    rng = np.random.default_rng(0)
    n = 40 if quick else 400
    X, more = rng.normal(size=(2, n, 3))
    y, labels = X[:, 0] + X[:, 1], (X[:, 0] > 0).astype(int)
    weights = rng.exponential(size=n)
    codes = np.column_stack([rng.integers(0, 5, n), X[:, 1:]])
    seeded = {"n_estimators": 2, "random_state": 0}
    classifier = AMFClassifier(**seeded).partial_fit(X, labels)
    regressor = AMFRegressor(**seeded).partial_fit(X, y)
    threads = AMFClassifier(**seeded, n_jobs=2).partial_fit(X, labels)
    box = AMFClassifier(
        **seeded, partition="unrestricted", bounds=(-9.0, 9.0), predict_extends=True
    ).partial_fit(X[:20], labels[:20])
    mixed = AMFClassifier(**seeded, categorical_features=[0]).partial_fit(codes, labels)
    extends = AMFRegressor(**seeded, predict_extends=True).partial_fit(X, y)
    mondrian = MondrianForestClassifier(**seeded).partial_fit(X, labels)
    many = rng.normal(size=(2 * n + 300, 3))  # so many that threads, and large blocks, are used
    many_labels = (many[:, 0] > 0).astype(int)

    # Learning
    yield Call("partial_fit, classes", classifier, lambda m: m.partial_fit(many, many_labels))
    yield Call("partial_fit, numbers", regressor, lambda m: m.partial_fit(more, y))
    yield Call("partial_fit, two threads", threads, lambda m: m.partial_fit(many, many_labels))
    new = AMFClassifier(**seeded)
    yield Call("partial_fit, the first", new, lambda m: m.partial_fit(X, labels, classes=[0, 1]))
    yield Call(
        "partial_fit, the first, of unknown classes",
        new,
        lambda m, X, y: m.partial_fit(X, y),
        (X, labels),
    )
    yield Call("fit, afresh", regressor, lambda m: m.fit(more, y))
    yield Call(
        "partial_fit, weights", regressor, lambda m: m.partial_fit(more, y, sample_weight=weights)
    )
    yield Call(
        "partial_fit, the first fractions",
        classifier,
        lambda m: m.partial_fit(more, labels, sample_weight=weights),
    )
    yield Call(
        "partial_fit, gaps", classifier, lambda m: m.partial_fit(np.where(more > 0, more, np.nan), labels)
    )
    yield Call("learn_one, classes", classifier, lambda m: m.learn_one(more[0], 1))
    yield Call("learn_one, numbers", regressor, lambda m: m.learn_one(more[0], 1.5))
    yield Call("learn_one, a new class", classifier, lambda m: m.learn_one(more[0], 7))
    yield Call(
        "partial_fit, new classes",
        classifier,
        lambda m, X, y: m.partial_fit(X, y),
        (more, np.where(np.arange(n) % 10 == 9, np.arange(n) // 10 % 4, labels)),
    )
    yield Call(
        "partial_fit, new categories",
        mixed,
        lambda m: m.partial_fit(codes + [3, 0, 0], labels),
    )
    yield Call("learn_one, a new category", mixed, lambda m: m.learn_one([50.0, 0.5, 0.5], 1))
    yield Call(
        "partial_fit, unrestricted",
        box,
        lambda m, X, y: m.partial_fit(X, y),
        (more[:20], labels[:20]),
    )
    yield Call("learn_one, unrestricted", box, lambda m: m.learn_one(more[0], 1))
    yield Call(
        "test-then-train, classes",
        classifier,
        lambda m: m.partial_fit_predict_proba(more, labels),
    )
    yield Call("test-then-train, numbers", regressor, lambda m: m.partial_fit_predict(more, y))
    yield Call(
        "test-then-train, two threads",
        threads,
        lambda m: m.partial_fit_predict_proba(many, many_labels),
    )
    yield Call(
        "test-then-train, new classes",
        classifier,
        lambda m, X, y: m.partial_fit_predict_proba(X, y),
        (more, np.where(np.arange(n) % 20 == 9, 5 + np.arange(n) // 20 % 3, labels)),
    )

    # Looking
    for name, model in (
        ("classes", classifier),
        ("numbers", regressor),
        ("two threads", threads),
        ("categories", mixed),
        ("unrestricted", box),
        ("extends", extends),
        ("smoothing", mondrian),
    ):
        rows = {mixed: codes, box: more[:3]}.get(model, many)
        yield Call(f"predict, {name}", model, lambda m, rows=rows: m.predict(rows))
        yield Call(f"predict_one, {name}", model, lambda m, rows=rows: m.predict_one(rows[0]))
    yield Call("predict_proba_by_tree", classifier, lambda m: m.predict_proba_by_tree(more))
    yield Call("weighted_depth", classifier, lambda m: m.weighted_depth(more))
    yield Call("apply", classifier, lambda m: m.apply(more))
    for name, model in (("classes", classifier), ("numbers", regressor), ("categories", mixed)):
        yield Call(f"tree_table, {name}", model, lambda m: m.tree_table(0))
        yield Call(f"stats, {name}", model, lambda m: m.stats())
        yield from save_and_load(name, model)
    yield from save_and_load("unrestricted", box)


def save_and_load(name: str, model: Any) -> Iterator[Call]:
    """The ways into bytes and back."""
    from amforest import persistence

    data, pickled = model.to_bytes(), pickle.dumps(model)
    yield Call(f"to_bytes, {name}", model, lambda m: m.to_bytes())
    yield Call(f"from_bytes, {name}", model, lambda m: persistence.from_bytes(data))
    yield Call(f"pickle.dumps, {name}", model, pickle.dumps)
    yield Call(f"pickle.loads, {name}", model, lambda m: pickle.loads(pickled))
    yield Call(f"deepcopy, {name}", model, copy.deepcopy)


def main() -> None:
    """Make the calls from some number on; print the name of each, then what it had to tell."""
    faults, quick = Faults(sys.argv[1]), "--quick" in sys.argv
    ways = [("", faults.arm), (", and all after it", faults.arm_from)][: 1 if quick else 2]
    trials = [(call, suffix, arm) for call in calls(quick) for suffix, arm in ways]
    for call, suffix, arm in trials[int(sys.argv[2]) :]:
        name = {"call": call.name + suffix, "of": len(trials)}
        print(json.dumps(name), flush=True)
        print(json.dumps(name | try_all(call, faults, arm)), flush=True)


if __name__ == "__main__":
    main()
