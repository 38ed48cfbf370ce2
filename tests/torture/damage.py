"""Model files that are cut, flipped and changed at random: rejected, or valid and safe."""

from __future__ import annotations

import math
import multiprocessing
import re
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from changes import Original, both, changed, flipped, originals, truncated
from invariants import check_trees
from numpy.typing import NDArray
from result import Report, Result

from amforest._forest.core_handle import Fitted, handle_of
from amforest.model_io.model_file import ModelFormatError, from_bytes

TITLE = "damaged model files"
N_WORKERS = 2
SECONDS = 10  # that one damaged file may take
SPARE = 256 << 20  # bytes of address space that all of them may take beside the process itself
MOST_RESIDENT = 512 << 20  # bytes

# What a file that is not rejected must do


def survives(data: bytes) -> bool:
    """Return whether a file is accepted; whatever goes wrong is raised."""
    try:
        model = from_bytes(data)
    except ModelFormatError:
        return False
    exercise(model)
    return True


def exercise(model: Any) -> None:
    """Predict, learn, save and load."""
    fitted = handle_of(model).fitted
    if fitted is None:
        assert_saved(model)
        return
    check_trees(model)
    rows, labels = probes(model, fitted)
    check_predictions(model, rows)
    check_batch(model, rows)
    learn(model, rows, labels)
    if fitted.encoder.named is not None:
        learn(model, [{"a feature that is new": 1.0}], labels[:1])
    check_predictions(model, rows)
    copy = assert_saved(model)
    for x in rows:
        assert predict(copy, x).tobytes() == predict(model, x).tobytes()


def assert_saved(model: Any) -> Any:
    saved = model.to_bytes()
    copy = from_bytes(saved)
    assert copy.to_bytes() == saved
    return copy


def probes(model: Any, fitted: Fitted) -> tuple[list[Any], list[Any]]:
    """Return some rows that the model must accept, and labels that it has learned."""
    numbers = [0.25, -3.0, math.nan, 1e30]
    columns, bounds = fitted.encoder.named, fitted.core.bounds
    if bounds is not None:
        low, high = bounds
        points = [np.clip(low + (high - low) * np.float32(k / 3), low, high) for k in range(4)]
        rows: list[Any] = [point.tolist() for point in points]
    elif columns is not None:
        known = dict(zip(columns.categorical, columns.categories.lists(), strict=True))
        values = [(name, known.get(name, numbers)) for name in columns.of]
        rows = [{name: at(k, some) for name, some in values} for k in range(4)]
    else:
        lists = iter(model.categories_.values())
        per_column = [next(lists) if is_one else numbers for is_one in model.is_categorical_]
        rows = [[at(j + k, values) for j, values in enumerate(per_column)] for k in range(4)]
    labels = list(getattr(fitted.labels, "index_of", (1.0, -1.0, 0.5)))
    return rows, [labels[k % len(labels)] for k in range(4)]


def at(k: int, values: list[Any]) -> Any:
    """Return one of the values, or None after the last."""
    return [*values, None][k % (len(values) + 1)]


def predict(model: Any, x: Any) -> NDArray[np.float64]:
    if not hasattr(model, "predict_proba_one"):
        return np.array([model.predict_one(x)])
    probabilities = model.predict_proba_one(x)
    if isinstance(probabilities, dict):
        probabilities = np.array(list(probabilities.values()))
    assert abs(probabilities.sum() - 1) < 1e-5
    assert (probabilities >= 0).all()
    return probabilities


def check_predictions(model: Any, rows: list[Any]) -> None:
    for x in rows:
        assert np.isfinite(predict(model, x)).all()
    if hasattr(model, "stats"):
        model.stats()


def check_batch(model: Any, rows: list[Any]) -> None:
    """A batch has the predictions of its rows."""
    is_river = isinstance(rows[0], dict)
    if is_river and not all(isinstance(name, str) for name in rows[0]):
        return  # to pandas, None and NaN are the same name
    try:
        X = pd.DataFrame(rows, dtype=object) if is_river else table(model, rows)
    except UnicodeEncodeError:
        return  # pandas cannot have half a character in a name, as Python can
    if is_river:
        batch = model.predict_proba_many(X).to_numpy()
    else:
        query = model.predict_proba if hasattr(model, "predict_proba") else model.predict
        batch = query(X).reshape(len(rows), -1)
    for x, expected in zip(rows, batch, strict=True):
        assert predict(model, x).tobytes() == expected.tobytes()


def table(model: Any, rows: list[Any]) -> Any:
    X = np.empty((len(rows), len(rows[0])), dtype=object)
    X[:] = rows
    if not model.is_categorical_.any():
        X = X.astype(np.float64)
    names = getattr(model, "feature_names_in_", None)
    return X if names is None else pd.DataFrame(X, columns=names)


def learn(model: Any, rows: list[Any], labels: list[Any]) -> None:
    for x, y in zip(rows, labels, strict=True):
        try:
            model.learn_one(x, y)
        except ValueError as error:
            if not re.search("add up to too much|at most 2", str(error)):
                raise  # there is a limit to what a forest can count, and the file is there


# All of it, in processes of their own


@dataclass(frozen=True)
class Kind:
    """A kind of damage: how many there are, and the number-th of them."""

    name: str
    count: int
    make: Callable[[int], bytes]


def kinds(n_random: int, stride: int) -> list[Kind]:
    """Of what can be listed, each stride-th."""
    files = originals()

    def listed(name: str, make: Callable[[Original, int], bytes], per_byte: int) -> Kind:
        every = [(file, i) for file in files for i in range(0, per_byte * len(file.data), stride)]
        return Kind(name, len(every), lambda number: make(*every[number]))

    return [
        listed("truncation at every offset", truncated, 1),
        listed("every single-bit flip", flipped, 8),
        Kind("random changes", n_random, lambda n: changed(files[n % len(files)], n)),
    ]


@dataclass
class Tally:
    """What one process has done, where its parent can see it."""

    current: Any = field(default_factory=lambda: SPAWN.Value("q", -1, lock=False))
    inputs: Any = field(default_factory=lambda: SPAWN.Value("q", 0, lock=False))
    accepted: Any = field(default_factory=lambda: SPAWN.Value("q", 0, lock=False))
    resident: Any = field(default_factory=lambda: SPAWN.Value("q", 0, lock=False))


SPAWN = multiprocessing.get_context("spawn")


def work(which: int, shape: tuple[int, int], first: int, tally: Tally, wrong: Any) -> None:
    """Damage the first-th file and each N_WORKERS-th after it; put what is wrong."""
    kind = kinds(*shape)[which]
    for file in originals():
        assert survives(file.data)  # also loads all that is loaded when it is first needed
    bound_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(first, kind.count, N_WORKERS):
            tally.current.value = number
            for data in both(kind.make(number)):
                signal.alarm(SECONDS)  # ends the process
                tally.inputs.value += 1
                try:
                    tally.accepted.value += survives(data)
                except Exception as error:
                    wrong.put((number, describe(error)))
    signal.alarm(0)
    tally.resident.value = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def describe(error: Exception) -> str:
    """Return what went wrong, and where."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).strip().split("\n")[0][:200] or where.line
    return f"{type(error).__name__} in {where.name}: {text}"


def bound_memory() -> None:
    """Let the process have little more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run_kind(which: int, shape: tuple[int, int], report: Report) -> Result:
    kind, began = kinds(*shape)[which], time.monotonic()
    wrong, failures = SPAWN.SimpleQueue(), dict[int, str]()
    tallies = [Tally() for _ in range(N_WORKERS)]
    start = partial(started, which, shape, wrong)
    workers = [start(first, tally) for first, tally in enumerate(tallies)]
    while not all(worker.exitcode == 0 for worker in workers) or not wrong.empty():
        time.sleep(0.2)
        for i, (worker, tally) in enumerate(zip(workers, tallies, strict=True)):
            if worker.exitcode:  # killed: by what it read, or because it took too long
                number = tally.current.value
                failures[number] = f"process ended with {worker.exitcode}"
                workers[i] = start(number + N_WORKERS, tally)
        while not wrong.empty():
            number, message = wrong.get()
            failures.setdefault(number, message)
        report(
            kind.name,
            min(sum(t.current.value // N_WORKERS for t in tallies), kind.count),
            kind.count,
        )
    report(kind.name, kind.count, kind.count)
    while not wrong.empty():
        number, message = wrong.get()
        failures.setdefault(number, message)
    return summed_up(kind, tallies, failures, time.monotonic() - began)


def started(which: int, shape: tuple[int, int], wrong: Any, first: int, tally: Tally) -> Any:
    process = SPAWN.Process(target=work, args=(which, shape, first, tally, wrong))
    process.start()
    return process


def summed_up(kind: Kind, tallies: list[Tally], failures: dict[int, str], seconds: float) -> Result:
    resident = max(tally.resident.value for tally in tallies)
    accepted = sum(tally.accepted.value for tally in tallies)
    inputs = sum(tally.inputs.value for tally in tallies)
    details = f"{inputs:,} inputs, with and without the digest repaired: {accepted:,} valid and "
    details += f"safe, {inputs - accepted:,} rejected; {resident >> 20} MB; {seconds:.0f} s"
    if failures:
        details = "\n".join([f"{len(failures):,} failed", *grouped(failures), details])
    passed = not failures and inputs >= kind.count and resident < MOST_RESIDENT
    return Result(kind.name, kind.count, "rejected, or valid and safe", passed, details)


def grouped(failures: dict[int, str]) -> list[str]:
    """Return each kind of failure once, with the first input that had it."""
    kinds: dict[str, list[int]] = {}
    for number, message in sorted(failures.items()):
        kinds.setdefault(re.sub(r"[\d.]+(e[+-]?\d+)?", "…", message), []).append(number)
    by_count = sorted(kinds.values(), key=len, reverse=True)
    return [f"{len(some):,} like #{some[0]}: {failures[some[0]]}" for some in by_count[:20]]


def run(report: Report, quick: bool) -> list[Result]:
    shape = (10_000, 11) if quick else (1_000_000, 1)
    return [run_kind(which, shape, report) for which in range(len(kinds(*shape)))]
