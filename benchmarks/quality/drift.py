"""A stream with drift in detail: accuracy over time, and the weights of the memories."""

import time
from typing import Any

import numpy as np

from benchmarks.quality.contenders import ADAPTIVE, ADAPTIVE_CLASS, CONTENDERS, new_model
from benchmarks.quality.kept import kept
from benchmarks.quality.streams import load_stream

STREAM = "agrawal_drift"
WINDOW = 250  # rows
_STEP = 50  # rows between two points


def measure(contender: str, max_rows: int) -> dict[str, Any]:
    """Return the rows, the accuracy over the last rows, and the weights if there are any."""
    run = _run_adaptive if contender == ADAPTIVE else lambda n: _run_other(contender, n)
    result: dict[str, Any] = kept("drift", contender, (STREAM, max_rows), lambda: run(max_rows))
    return result


def _run_adaptive(max_rows: int) -> dict[str, Any]:
    stream = load_stream(STREAM, max_rows)
    model = new_model(ADAPTIVE_CLASS, 0)
    classes = np.arange(stream.n_classes)
    is_correct, weights = [], []
    start = time.process_time()
    for i in range(0, len(stream.y), _STEP):
        X, y = stream.X[i : i + _STEP], stream.y[i : i + _STEP]
        predictions = model.partial_fit_predict_proba(X, y, classes=classes)
        is_correct.append(predictions.argmax(axis=1) == y)
        weights.append(np.asarray(model.memory_weights_, dtype=float).tolist())
    seconds = time.process_time() - start
    names = [str(name) for name in model.memory_names_]
    return _curve(np.concatenate(is_correct)) | {
        "weights": weights,
        "names": names,
        "us_per_row": 1e6 * seconds / len(stream.y),
    }


def _run_other(contender: str, max_rows: int) -> dict[str, Any]:
    stream = load_stream(STREAM, max_rows)
    predictions, _ = CONTENDERS[contender].test_then_train(stream, 0)
    return _curve(predictions.argmax(axis=1) == stream.y)


def _curve(is_correct: Any) -> dict[str, Any]:
    sums = np.concatenate([[0], np.cumsum(is_correct)])
    ends = np.arange(_STEP, len(is_correct) + 1, _STEP)
    starts = np.maximum(0, ends - WINDOW)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return {"rows": ends.tolist(), "accuracy": means.tolist()}
