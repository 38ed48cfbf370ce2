"""CPU time per row of predicting and then learning, alone on one core."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.importing import import_library
from benchmarks.quality.contenders import (
    ADAPTIVE,
    AMF,
    ARF_10,
    CONTENDERS,
    RIVER_ARF,
    Contender,
    run_moa,
)
from benchmarks.quality.kept import kept
from benchmarks.quality.plan import Plan
from benchmarks.quality.streams import Stream, load_stream

OURS_FIRST_ROWS = "adaptive, first rows"
_WARM_UP = 3_000  # rows: Java compiles while it runs


def cases(plan: Plan) -> Iterator[tuple[str, str, int]]:
    """Yield the name of a measurement, the contender and the rows."""
    yield ADAPTIVE, ADAPTIVE, plan.speed_rows
    yield AMF, AMF, plan.speed_rows
    yield ARF_10, ARF_10, plan.speed_rows
    yield OURS_FIRST_ROWS, ADAPTIVE, plan.slow_rows
    yield RIVER_ARF, RIVER_ARF, plan.slow_rows


def measure(name: str, contender: str, max_rows: int) -> float:
    """Return microseconds per row; a new version of ours has the others measured again, too."""
    return float(
        kept(
            "speed", ADAPTIVE, (name, contender, max_rows), partial(_run, name, contender, max_rows)
        )
    )


def _run(name: str, contender: str, max_rows: int) -> float:
    return us_per_row(CONTENDERS[contender], load_stream(name, max_rows), _seconds_of_loop)


def us_per_row(
    contender: Contender[Any], stream: Any, seconds_of_loop: Callable[[Any], float]
) -> float:
    """Return microseconds per row, for Java without those of the loop in Python."""
    run = contender.test_then_train
    is_java = contender.package == "capymoa"
    if is_java:
        run(stream.first(_WARM_UP), 1)
    # The faster one of two: the other one was disturbed. A run of many seconds is enough.
    costs = []
    for _ in range(2):
        costs.append(run(stream, 0)[1])
        if costs[0] > 4:
            break
    glue = seconds_of_loop(stream) if is_java else 0.0
    return 1e6 * (min(costs) - glue) / len(stream.y)


def _seconds_of_loop(stream: Stream) -> float:
    """Return the time of the loop with a learner that only counts classes."""
    rows = import_library("capymoa.stream").NumpyStream(
        stream.X, stream.y, target_type="categorical"
    )
    model = import_library("capymoa.classifier").MajorityClass(schema=rows.get_schema())
    return run_moa(model, model.predict_proba, rows)[1]
