"""The regressors behind one call: predict each row of a stream, then learn it."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.importing import import_library
from benchmarks.quality.contenders import (
    CONTENDERS,
    Contender,
    Run,
    new_model,
    one_by_one,
    river_model,
    run_moa,
    scaled,
    without_class,
)
from benchmarks.quality.regression_adapter import predict_means
from benchmarks.quality.regression_streams import RegressionStream
from benchmarks.quality.streams import Floats

ADAPTIVE_REG, AMF_REG, AMF_AUTO = "adaptive-Reg", "AMF-Reg", "AMF-Reg auto"
ARF_REG, SOKNL, SGBR = "ARF-Reg", "SOKNL", "SGBR"
RIVER_AMF_REG, RIVER_ARF_REG = "river AMF-Reg", "river ARF-Reg"
ADAPTIVE_REG_CLASS = "AdaptiveAMFRegressor"
RIVER_ROWS = 5_000


def _step(y: Floats) -> float:
    """Return the step of an AMF that fits the unit of y, known from the whole stream."""
    return float(1 / (4 * np.var(y)))


def _adaptive(stream: RegressionStream, seed: int) -> Run:
    model = new_model(ADAPTIVE_REG_CLASS, seed)
    start = time.process_time()
    means = predict_means(model, stream.X, stream.y)
    return means, time.process_time() - start


def _amf(is_auto: bool, stream: RegressionStream, seed: int) -> Run:
    model = new_model("AMFRegressor", seed, step="auto" if is_auto else _step(stream.y))
    X = scaled(stream.X)
    start = time.process_time()
    predictions = model.partial_fit_predict(X, stream.y)
    return predictions, time.process_time() - start


def _without_auto() -> str:
    step = import_library("amforest").AMFRegressor().get_params()["step"]
    return "" if step == "auto" else 'this AMFRegressor has no step="auto"'


def _river_amf(seed: int, y: Floats) -> Any:
    return import_library("river.forest").AMFRegressor(seed=seed, step=_step(y))


def _river_arf(seed: int, _: Floats) -> Any:
    return river_model("ARFRegressor", seed)


def _river(
    make: Callable[[int, Floats], Any], is_scaled: bool, stream: RegressionStream, seed: int
) -> Run:
    X = scaled(stream.X) if is_scaled else stream.X
    model = make(seed, stream.y)
    rows = zip([dict(enumerate(x)) for x in X.tolist()], stream.y.tolist(), strict=True)
    predictions, seconds = one_by_one(model.predict_one, model.learn_one, rows)
    return np.array(predictions, dtype=np.float64), seconds


def _moa(class_name: str, options: dict[str, Any], stream: RegressionStream, seed: int) -> Run:
    """Run a learner of MOA by CapyMOA. The time contains the building of MOA's instances."""
    rows = moa_rows(stream)
    model_type = getattr(import_library("capymoa.regressor"), class_name)
    model = model_type(schema=rows.get_schema(), random_seed=seed + 1, **options)
    predictions, seconds = run_moa(model, model.predict, rows)
    return np.array([float(value) for value in predictions]), seconds


def _sgbr(stream: RegressionStream, seed: int) -> Run:
    """Run streaming boosting; it fails with a single feature, so a constant one is added."""
    if stream.X.shape[1] == 1:
        stream = replace(stream, X=np.hstack([stream.X, np.zeros((len(stream.y), 1))]))
    return _moa("StreamingGradientBoostedRegression", {}, stream, seed)


def moa_rows(stream: RegressionStream) -> Any:
    """Return the stream as one of CapyMOA."""
    return import_library("capymoa.stream").NumpyStream(stream.X, stream.y, target_type="numeric")


REGRESSORS: dict[str, Contender[RegressionStream]] = {
    contender.name: contender
    for contender in (
        Contender(
            ADAPTIVE_REG,
            "amforest's `AdaptiveAMFRegressor`",
            "amforest",
            _adaptive,
            n_seeds=3,
            max_rows=40_000,
            find_gap=partial(without_class, ADAPTIVE_REG_CLASS),
        ),
        Contender(
            AMF_REG,
            "amforest's `AMFRegressor`, features scaled to [0, 1] and step = 1 / (4 var y), both "
            "in advance",
            "amforest",
            partial(_amf, False),
            n_seeds=3,
            max_rows=40_000,
        ),
        Contender(
            AMF_AUTO,
            'amforest\'s `AMFRegressor` with `step="auto"`, features scaled to [0, 1] in advance',
            "amforest",
            partial(_amf, True),
            n_seeds=3,
            max_rows=40_000,
            find_gap=_without_auto,
        ),
        Contender(
            ARF_REG,
            "MOA's adaptive random forest for regression, 10 trees",
            "capymoa",
            partial(_moa, "AdaptiveRandomForestRegressor", {"ensemble_size": 10}),
            max_rows=40_000,
        ),
        Contender(
            SOKNL,
            "MOA's self-optimising k nearest leaves, 10 trees",
            "capymoa",
            partial(_moa, "SOKNL", {"ensemble_size": 10}),
            max_rows=40_000,
        ),
        Contender(
            SGBR,
            "MOA's streaming gradient boosted regression, 10 steps of 10 bagged trees",
            "capymoa",
            _sgbr,
            max_rows=40_000,
        ),
        Contender(
            RIVER_ARF_REG,
            "river's `ARFRegressor`",
            "river",
            partial(_river, _river_arf, False),
            max_rows=RIVER_ROWS,
        ),
        Contender(
            RIVER_AMF_REG,
            "river's `AMFRegressor`, features and step as for AMF-Reg",
            "river",
            partial(_river, _river_amf, True),
            max_rows=RIVER_ROWS,
        ),
    )
}
"""All regressors by name, the adaptive forest first."""

EVERYONE: dict[str, Contender[Any]] = {**CONTENDERS, **REGRESSORS}
"""The contenders of all sections; no two have the same name."""
