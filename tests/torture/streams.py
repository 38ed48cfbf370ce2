"""Streams made to hurt: deep trees, equal points, very many features, the ends of all numbers."""

from __future__ import annotations

import gc
import math
import multiprocessing
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from result import Report, Result

from amforest import AdaptiveAMFClassifier, AMFClassifier, AMFRegressor
from amforest.baselines import MondrianForestClassifier
from amforest.model_io.model_file import from_bytes

TITLE = "hostile streams"
SECONDS = 1_800  # that one stream may take
STACK = 256 << 10  # bytes: depth must not cost any
SMALLEST, LARGEST = -149, 100  # of the powers of 2 that features may be
SPAWN = multiprocessing.get_context("spawn")

Rows = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Stream:
    """A stream by its length, and the model that has to bear it."""

    make: Callable[[int], Rows]
    n_rows: int
    n_quick: int
    model: Callable[[], Any]
    weights: Callable[[int], NDArray[np.float64]] | None = None
    beside: float = 200.0  # microseconds that a row may take beside its path


def labels(n: int) -> NDArray[np.int64]:
    return np.arange(n) % 2


# Streams


def rising(n: int) -> Rows:
    return np.linspace(0, 1, n, dtype=np.float32)[:, None], labels(n)


def geometric(n: int) -> Rows:
    """Along each axis all powers of 2, one each, the largest first: all paths go to the origin.

    Of n points in n / 249 dimensions, each split takes one away.
    """
    powers = np.arange(LARGEST - 1, SMALLEST - 1, -1)
    d = -(-n // len(powers))
    X = np.zeros((len(powers), d, d), dtype=np.float32)
    with np.errstate(under="ignore"):
        X[:, range(d), range(d)] = np.ldexp(1.0, powers)[:, None]
    return X.reshape(-1, d)[:n], labels(n)


def geometric_in_box(n: int) -> Rows:
    X, y = geometric(n * 2)
    X = X[(X <= 1).all(axis=1)][:n]
    return X, y[: len(X)].astype(np.float64)


def one_point(n: int) -> Rows:
    return np.full((n, 2), 0.5, dtype=np.float32), labels(n) * 0


def one_point_of_two_labels(n: int) -> Rows:
    return np.full((n, 2), 0.5, dtype=np.float32), labels(n)


def very_wide(n: int) -> Rows:
    return np.random.default_rng(0).uniform(size=(n, 100_000)).astype(np.float32), labels(n)


def denormal(n: int) -> Rows:
    steps = np.random.default_rng(0).integers(-(2**20), 2**20, size=(n, 3))
    return (steps * 2.0**SMALLEST).astype(np.float32), labels(n)


def adjacent(n: int) -> Rows:
    """Floats between which there is none."""
    first = np.float32(1).view(np.int32)
    return (first + np.arange(n, dtype=np.int32)).view(np.float32)[:, None], labels(n)


def mixed_sizes(n: int) -> Rows:
    rng = np.random.default_rng(0)
    sizes = np.ldexp(1.0, rng.integers(SMALLEST, LARGEST + 1, size=(n, 4)))
    return (rng.choice([-1.0, 0.0, 1.0], size=(n, 4)) * sizes).astype(np.float32), labels(n)


def all_missing(n: int) -> Rows:
    X = np.full((n, 3), math.nan, dtype=np.float32)
    X[n // 2 :: 7, 1] = 0.5  # late, something is there
    return X, labels(n)


def extreme_labels(n: int) -> Rows:
    X = np.random.default_rng(0).uniform(size=(n, 2)).astype(np.float32)
    return X, np.where(np.arange(n) % 3 == 0, 1e75, np.where(np.arange(n) % 3 == 1, -1e75, 1e-300))


def ever_new_classes(n: int) -> Rows:
    return np.random.default_rng(0).uniform(size=(n, 2)).astype(np.float32), np.arange(n)


def ever_new_categories(n: int) -> Rows:
    X = np.empty((n, 2), dtype=object)
    X[:, 0], X[:, 1] = [f"category {i}" for i in range(n)], 0.5
    return X, labels(n)


def random_rows(n: int) -> Rows:
    return np.random.default_rng(0).uniform(size=(n, 2)).astype(np.float32), labels(n)


def extreme_weights(n: int) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = 10.0 ** np.random.default_rng(1).integers(-30, 12, size=n)
    return weights


def classifier(**params: Any) -> Callable[[], Any]:
    return lambda: AMFClassifier(1, split_pure=True, random_state=0, **params)


def regressor(**params: Any) -> Callable[[], Any]:
    return lambda: AMFRegressor(1, split_pure=True, random_state=0, **params)


def adaptive(**params: Any) -> Callable[[], Any]:
    few = {"n_estimators": 1, "memories": (None, 250, 15), "honest_memories": (60,)}
    return lambda: AdaptiveAMFClassifier(**few, split_pure=True, random_state=0, **params)


def mondrian() -> Any:
    return MondrianForestClassifier(1, split_pure=True, random_state=0)


BOX = {"partition": "unrestricted"}
STREAMS: dict[str, Stream] = {
    "sorted": Stream(rising, 200_000, 5_000, classifier()),
    "geometric spacing": Stream(geometric, 30_000, 600, classifier()),
    "geometric, extending": Stream(geometric, 4_000, 600, classifier(predict_extends=True)),
    "geometric, Mondrian forest": Stream(geometric, 4_000, 600, mondrian),
    "geometric, in a box": Stream(geometric_in_box, 4_000, 600, regressor(**BOX)),
    "one point": Stream(one_point, 1_000_000, 20_000, classifier()),
    "one point, two labels": Stream(one_point_of_two_labels, 1_000_000, 20_000, classifier()),
    "one point, in a box": Stream(one_point_of_two_labels, 100_000, 2_000, regressor(**BOX)),
    "100,000 features": Stream(very_wide, 100, 10, classifier()),
    "denormals": Stream(denormal, 20_000, 1_000, classifier()),
    "denormals, extending": Stream(denormal, 5_000, 500, classifier(predict_extends=True)),
    "adjacent floats": Stream(adjacent, 20_000, 1_000, classifier()),
    "sizes from 2^-149 to 2^100": Stream(mixed_sizes, 20_000, 1_000, classifier()),
    "all values missing": Stream(all_missing, 20_000, 1_000, classifier()),
    "labels of ±1e75": Stream(extreme_labels, 20_000, 1_000, regressor()),
    "ever new classes": Stream(ever_new_classes, 3_000, 200, classifier(), beside=10_000),
    "ever new categories": Stream(
        ever_new_categories, 4_000, 300, classifier(categorical_features=[0]), beside=10_000
    ),
    "weights from 1e-30 to 1e11": Stream(random_rows, 20_000, 1_000, classifier(), extreme_weights),
}
STREAMS |= {
    f"{name}, adaptive": Stream(
        STREAMS[name].make, n_rows, 500, adaptive(), STREAMS[name].weights, beside=20_000
    )
    for name, n_rows in {
        **{"sorted": 20_000, "geometric spacing": 4_000, "one point": 20_000},
        **{"one point, two labels": 20_000, "denormals": 20_000, "adjacent floats": 20_000},
        **{"sizes from 2^-149 to 2^100": 20_000, "all values missing": 20_000},
        **{"ever new classes": 1_000, "weights from 1e-30 to 1e11": 20_000},
    }.items()
}
STREAMS["ever new categories, adaptive"] = Stream(
    ever_new_categories, 4_000, 300, adaptive(categorical_features=[0]), beside=20_000
)


# What must come of them


def bear(name: str, n_rows: int) -> dict[str, Any]:
    """Let the model learn the stream; return what that took."""
    stream = STREAMS[name]
    X, y = stream.make(n_rows)
    weights = None if stream.weights is None else stream.weights(len(X))
    model, before = stream.model(), resident()
    seconds = 0.0
    for part in parts(len(X)):
        began = time.perf_counter()
        how = {} if weights is None else {"sample_weight": weights[part]}
        model.partial_fit(X[part], y[part], **how)
        seconds = time.perf_counter() - began
    last, stats = X[-min(20, len(X)) :], model.stats()
    gc.collect()
    rise = resident() - before
    predictions = check_predictions(model, last)
    check_goes_on(model, last, y[-len(last) :], predictions)
    return {
        "rows": len(X),
        "depth": stats["depth"],
        "nodes": stats["nodes"],
        "bytes": stats["bytes"],
        "resident": rise,
        "microseconds": 1e6 * seconds / len(X[part]),  # of the last rows, where trees are deepest
    }


def parts(n_rows: int) -> Iterator[slice]:
    """Nine tenths of a stream, then the rest."""
    first = max(1, n_rows * 9 // 10)
    yield from (slice(0, first), slice(first, n_rows))


def check_predictions(model: Any, X: NDArray[Any]) -> NDArray[np.float64]:
    if not hasattr(model, "predict_proba"):
        predictions = model.predict(X)
        assert np.isfinite(predictions).all()
        return np.asarray(predictions)
    predictions = model.predict_proba(X)
    assert np.isfinite(predictions).all()
    assert np.abs(predictions.sum(axis=1) - 1).max() < 1e-6
    return np.asarray(predictions)


def check_goes_on(
    model: Any, X: NDArray[Any], y: NDArray[Any], predictions: NDArray[np.float64]
) -> None:
    """Save, load, and learn on."""
    copy = from_bytes(model.to_bytes())
    assert check_predictions(copy, X).tobytes() == predictions.tobytes()
    for one in (model, copy):
        one.partial_fit(X, y)
    assert copy.to_bytes() == model.to_bytes()


def resident() -> int:
    """Return how many bytes the process holds in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# Each in a process of its own, on a small stack


def work(name: str, n_rows: int, answers: Any) -> None:
    signal.alarm(SECONDS)
    answer: list[Any] = ["the thread ended"]

    def body() -> None:
        try:
            answer[0] = bear(name, n_rows)
        except Exception as error:
            answer[0] = "".join(traceback.format_exception(error)[-3:])

    threading.stack_size(STACK)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    answers.put(answer[0])


def run_stream(name: str, n_rows: int) -> Result:
    answers = SPAWN.SimpleQueue()
    process = SPAWN.Process(target=work, args=(name, n_rows, answers))
    began = time.monotonic()
    process.start()
    process.join()
    seconds = time.monotonic() - began
    fault, bar = f"hostile stream: {name}", "completes; a row costs its path's length"
    if process.exitcode:
        return Result(fault, n_rows, bar, False, f"process ended with {process.exitcode}")
    answer = answers.get()
    if isinstance(answer, str):
        return Result(fault, n_rows, bar, False, answer)
    rows, depth = answer["rows"], answer["depth"]
    details = f"depth {depth:,}; {answer['microseconds']:,.1f} µs a row at the end; "
    details += f"{answer['nodes']:,} nodes, {answer['bytes'] / 1e6:,.1f} MB "
    details += f"({answer['resident'] / 1e6:,.1f} MB resident); {seconds:.0f} s"
    return Result(fault, rows, bar, is_cheap(name, answer), details)


def is_cheap(name: str, answer: dict[str, Any]) -> bool:
    """Tell whether a row took a time in proportion to its path: generously, for slow machines."""
    width = 100_000 if name == "100,000 features" else 50
    per_node = 2 + 0.02 * width
    path = (answer["depth"] + 1) * per_node
    return bool(answer["microseconds"] < STREAMS[name].beside + path)


def run(report: Report, quick: bool) -> list[Result]:
    results = []
    for i, (name, stream) in enumerate(STREAMS.items()):
        report("streams", i, len(STREAMS))
        results.append(run_stream(name, stream.n_quick if quick else stream.n_rows))
    report("streams", len(STREAMS), len(STREAMS))
    return results
