"""Frozen copies and ONNX beside live forests: differences, speed of batch prediction, and sizes.

Run it with ``python -m benchmarks.frozen``. Speeds are those of one core: the contenders alternate,
and each counts its own CPU time. Differences of regressors are in standard deviations of y.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    ScaleWarning,
)
from amforest.datasets import NAMES
from amforest.export import to_onnx
from amforest.inspection import count_bytes
from benchmarks import data
from benchmarks.machine import describe
from benchmarks.quality.regression_streams import (
    FILES,
    available_regression_streams,
    load_regression_stream,
)
from benchmarks.quality.streams import FILE, STREAMS, available_streams, load_stream
from benchmarks.timing import Medians, one_core

LIVE, FROZEN, ONNX = "live", "frozen", "onnx"
Case = tuple[str, Any, Any, Any]  # a name, a forest that has learned nothing, X, y


def main() -> None:
    """Measure and print, a line for each data set and forest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000, help="of each data set, at most")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", help="data sets whose names contain this")
    options = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in describe().items()))
    print(
        f"{'data set':15} {'forest':22} {'rows':>6} {'ONNX':>8} {'frozen':>8} "
        f"{'live µs':>8} {'frozen':>7} {'onnx':>7} {'live MB':>8} {'frozen':>7} {'onnx':>7}"
    )
    print(
        f"{'':15} {'':22} {'':>6} {'diff.':>8} {'diff.':>8} {'a row':>8} {'times':>7} {'times':>7}"
    )
    speeds: dict[str, list[float]] = {}
    for case in cases(options.rows):
        if options.only is None or options.only in case[0]:
            name, ratio = measure(case, options.repetitions)
            speeds.setdefault(name, []).append(ratio)
    for name, ratios in speeds.items():
        mean = float(np.exp(np.log(ratios).mean()))
        print(f"{name}: frozen {min(ratios):.2f} times as fast at least, {mean:.2f} in the mean")


def cases(n_rows: int) -> Iterator[Case]:
    """Return the paper's data sets, then the other streams, with categories as codes."""
    for name in NAMES:
        stream = data.stream(name, n_rows)
        for cls in (AMFClassifier, AdaptiveAMFClassifier):
            yield name, cls(random_state=0), stream.X, stream.y
    files = [name for name, spec in STREAMS.items() if spec.group == FILE]
    for name in [*available_streams(files), *available_streams(NAMES)]:
        other = load_stream(name, n_rows)
        if name in NAMES and not other.code_columns:
            continue
        for cls in (AMFClassifier, AdaptiveAMFClassifier):
            columns = list(other.code_columns) or None
            forest = cls(categorical_features=columns, random_state=0)
            yield f"{name}, codes" if columns else name, forest, other.codes, other.y
    for name in available_regression_streams(FILES):
        numbers = load_regression_stream(name, n_rows)
        for regressor in (AMFRegressor, AdaptiveAMFRegressor):
            yield name, regressor(random_state=0), numbers.X, numbers.y


def measure(case: Case, repetitions: int) -> tuple[str, float]:
    """Fit, freeze and export a forest; print its line; return how much faster the copy is."""
    name, forest, X, y = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)
        forest.fit(X, y)
    frozen, onnx_model = forest.freeze(), to_onnx(forest)
    is_classifier = hasattr(forest, "predict_proba")
    with one_core():
        run = onnx_predictor(onnx_model, X)
        contenders = {LIVE: predictor(forest), FROZEN: predictor(frozen), ONNX: run}
        outputs = {key: predict(X) for key, predict in contenders.items()}
        medians = Medians()
        for _ in range(repetitions):
            for key, predict in contenders.items():
                medians.add(name, key, seconds_of(predict, X))
    unit = 1.0 if is_classifier else float(np.std(y))
    differences = [np.abs(outputs[key] - outputs[LIVE]).max() / unit for key in (ONNX, FROZEN)]
    times = medians.table()[name]
    sizes = (count_bytes(forest), frozen.stats()["bytes"], len(onnx_model.SerializeToString()))
    ratio = times[LIVE] / times[FROZEN]
    kind = type(forest).__name__
    print(
        f"{name:15} {kind:22} {len(y):6} {differences[0]:8.0e} {differences[1]:8.0e} "
        f"{1e6 * times[LIVE] / len(y):8.2f} {ratio:7.2f} {times[LIVE] / times[ONNX]:7.2f} "
        + " ".join(f"{size / 1e6:7.2f}" for size in sizes),
        flush=True,
    )
    return kind, ratio


def seconds_of(predict: Callable[[Any], Any], X: Any) -> float:
    """Return the CPU time of a call, the shortest of calls that last a tenth of a second."""
    gc.disable()
    best, start = np.inf, time.process_time()
    while best == np.inf or time.process_time() - start < 0.1:
        before = time.process_time()
        predict(X)
        best = min(best, time.process_time() - before)
    gc.enable()
    return float(best)


def predictor(model: Any) -> Callable[[Any], NDArray[Any]]:
    """Return what predicts probabilities, or numbers."""
    method: Callable[[Any], NDArray[Any]] = getattr(model, "predict_proba", model.predict)
    return method


def onnx_predictor(onnx_model: Any, X: Any) -> Callable[[Any], NDArray[Any]]:
    """Return what predicts with onnxruntime, in one thread, from inputs that are prepared."""
    import onnxruntime  # noqa: PLC0415  # only needed here

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    inputs = [value.name for value in session.get_inputs()]
    output = session.get_outputs()[-1].name
    if inputs == ["X"]:
        fed = {"X": np.asarray(X, dtype=np.float32)}
    else:
        columns = np.asarray(X, dtype=np.float32).T
        fed = {name: column[:, None] for name, column in zip(inputs, columns, strict=True)}

    def predict(_: Any) -> NDArray[Any]:
        found: NDArray[Any] = session.run([output], fed)[0]
        return found[:, 0] if output == "variable" else found

    return predict


if __name__ == "__main__":
    main()
