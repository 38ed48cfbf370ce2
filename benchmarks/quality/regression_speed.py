"""CPU time per row of regressors, predicting and then learning, alone on one core."""

from benchmarks.importing import import_library
from benchmarks.quality.contenders import run_moa
from benchmarks.quality.kept import kept
from benchmarks.quality.regression_contenders import (
    ADAPTIVE_REG,
    AMF_REG,
    ARF_REG,
    REGRESSORS,
    moa_rows,
)
from benchmarks.quality.regression_streams import RegressionStream, load_regression_stream
from benchmarks.quality.speed import us_per_row

TIMED = (ADAPTIVE_REG, AMF_REG, ARF_REG)


def measure(name: str, contender: str, max_rows: int) -> float:
    """Return microseconds per row; a new version of ours has the others measured again, too."""
    return float(
        kept(
            "regression_speed",
            ADAPTIVE_REG,
            (name, contender, max_rows),
            lambda: _run(name, contender, max_rows),
        )
    )


def _run(name: str, contender: str, max_rows: int) -> float:
    stream = load_regression_stream(name, max_rows)
    return us_per_row(REGRESSORS[contender], stream, _seconds_of_loop)


def _seconds_of_loop(stream: RegressionStream) -> float:
    """Return the time of the loop with a learner that only averages."""
    rows = moa_rows(stream)
    model = import_library("capymoa.regressor").TargetMean(schema=rows.get_schema())
    return run_moa(model, model.predict, rows)[1]
