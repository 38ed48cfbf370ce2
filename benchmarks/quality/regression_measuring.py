"""The sections of a run that measure regressors."""

from collections.abc import Callable, Iterable
from functools import partial
from statistics import mean
from typing import Any

from benchmarks.quality import (
    latency,
    long_stream,
    regression_distribution,
    regression_runs,
    regression_speed,
)
from benchmarks.quality.regression_contenders import (
    ADAPTIVE_REG,
    AMF_AUTO,
    AMF_REG,
    ARF_REG,
    REGRESSORS,
    RIVER_ROWS,
    SGBR,
    SOKNL,
)
from benchmarks.quality.regression_scores import RegressionScores
from benchmarks.quality.regression_streams import FILES, PERMUTED, load_regression_stream
from benchmarks.quality.results import Table
from benchmarks.quality.session import Session

REG_MAIN, REG_FIRST_ROWS = "regression", "regression, first rows"
REG_PERMUTED, REG_UNITS = "regression, permuted", "regression, units"
REG_NOISE = "regression, noise"
REG_DISTRIBUTION, REG_CHANGE = "regression, distribution", "regression, change"
REG_SPEED, REG_LATENCY = "regression, speed", "regression, latency"
REG_LONG = "regression, long"
NOISE_STREAM = "friedman1"
_WHOLE = (ADAPTIVE_REG, AMF_REG, AMF_AUTO, ARF_REG, SOKNL, SGBR)  # that run on whole streams

Runs = dict[tuple[str, str], list[RegressionScores]]
"""The runs of all seeds, by stream and contender."""


def _runs(
    session: Session,
    title: str,
    names: Iterable[str],
    contenders: Iterable[str],
    *,
    max_rows: int | None = None,
    variant: str = "",
) -> Runs:
    """Return the runs of all seeds by stream and contender, without those that failed."""
    plan = session.plan
    cases = [
        (name, contender, seed)
        for contender in session.able(contenders)
        for name in names
        for seed in range(min(plan.n_seeds, REGRESSORS[contender].n_seeds))
    ]
    limits = [min(max_rows or plan.max_rows, REGRESSORS[case[1]].max_rows) for case in cases]
    tasks = [
        partial(regression_runs.measure, *case, limit, variant)
        for case, limit in zip(cases, limits, strict=True)
    ]
    runs: Runs = {}
    for (name, contender, _), result in zip(cases, session.run(title, tasks), strict=True):
        if result is not None:
            runs.setdefault((name, contender), []).append(result)
    return runs


def _table(runs: Runs, max_rows: int | None = None) -> Table:
    """Return means over seeds by stream and contender."""
    table: Table = {}
    for (name, contender), of_seeds in runs.items():
        parts = of_seeds if max_rows is None else [run.first(max_rows) for run in of_seeds]
        table.setdefault(name, {})[contender] = {
            "rmse": mean(run.rmse for run in parts),
            "us_per_row": mean(run.us_per_row for run in parts),
            "n_rows": parts[0].n_rows,
            "n_seeds": len(parts),
        }
    return table


def _streams(session: Session) -> None:
    runs = _runs(session, "regression", session.regression_streams, REGRESSORS)
    is_partial = session.is_partial
    session.results.update(REG_MAIN, _table(runs), is_partial=is_partial)
    session.results.update(REG_FIRST_ROWS, _table(runs, RIVER_ROWS), is_partial=is_partial)


def _robustness(session: Session) -> None:
    files = [name for name in FILES if name in session.regression_streams]
    runs = _runs(session, "y permuted", files, _WHOLE, variant=PERMUTED)
    table = _table(runs)
    for name, row in table.items():
        sd = float(load_regression_stream(name, session.plan.max_rows).y.std())
        for contender in row.values():
            contender["sd"] = sd
    session.results.update(REG_PERMUTED, table, is_partial=session.is_partial)
    _units(session)
    if NOISE_STREAM in session.regression_streams:
        n_rows = session.plan.noise_rows
        runs = _runs(session, "error over noise", [NOISE_STREAM], _WHOLE, max_rows=n_rows)
        session.results.update(REG_NOISE, _table(runs), is_partial=session.is_partial)


def _units(session: Session) -> None:
    names = [name for name in (*FILES, NOISE_STREAM) if name in session.regression_streams]
    cases = [(name, who) for who in session.able((ADAPTIVE_REG, AMF_AUTO)) for name in names]
    n_rows = session.plan.max_rows
    tasks = [partial(regression_runs.measure_units, *case, 0, n_rows) for case in cases]
    table: Table = {}
    for (name, contender), result in zip(cases, session.run("units of y", tasks), strict=True):
        if result is not None:
            table.setdefault(name, {})[contender] = result
    session.results.update(REG_UNITS, table, is_partial=session.is_partial)


def _distribution(session: Session) -> None:
    if not session.able([ADAPTIVE_REG]):
        return
    seeds = range(session.plan.n_seeds)
    cases = [(name, seed) for name in session.regression_streams for seed in seeds]
    n_rows = session.plan.max_rows
    tasks = [partial(regression_distribution.measure, *case, n_rows) for case in cases]
    runs: dict[str, list[dict[str, Any]]] = {}
    for (name, _), result in zip(cases, session.run("distributions", tasks), strict=True):
        if result is not None:
            runs.setdefault(name, []).append(result)
    table = {name: average_distribution(of_seeds) for name, of_seeds in runs.items()}
    session.results.update(REG_DISTRIBUTION, table, is_partial=session.is_partial)
    change = partial(regression_distribution.measure_change, session.plan.flip_rows)
    [curve] = session.run("a change", [change])
    if curve is not None:
        session.results.update(REG_CHANGE, {ADAPTIVE_REG: curve})


def average_distribution(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over seeds, of each block as of the whole; None where none are counted."""
    result: dict[str, Any] = {"n_counted": runs[0]["n_counted"]}
    for key in ("coverage", "log_density", "running_normal", "uncorrected"):
        if key in runs[0]:
            values = [run[key] for run in runs]
            result[key] = None if None in values else mean(values)
    blocks = zip(*(run["blocks"] for run in runs), strict=True)
    result["lowest_block"] = min((mean(block) for block in blocks), default=None)
    return result


def _speed(session: Session) -> None:
    names = [n for n in session.plan.regression_speed_streams if n in session.regression_streams]
    cases = [(name, who) for name in names for who in session.able(regression_speed.TIMED)]
    n_rows = session.plan.speed_rows
    tasks = [partial(regression_speed.measure, *case, n_rows) for case in cases]
    results = session.run_alone("time per row, regression", tasks)
    table: Table = {}
    for (name, contender), us in zip(cases, results, strict=True):
        if us is not None:
            table.setdefault(name, {})[contender] = us
    session.results.update(REG_SPEED, table, is_partial=session.is_partial)


def _latency(session: Session) -> None:
    names = session.able((ADAPTIVE_REG, AMF_REG))
    tasks = [partial(latency.measure, name, session.plan.latency_rows) for name in names]
    results = session.run_alone("learn_one, regression", tasks)
    table = {name: r for name, r in zip(names, results, strict=True) if r is not None}
    session.results.update(REG_LATENCY, table, is_partial=session.is_partial)


def _long(session: Session) -> None:
    if session.able([ADAPTIVE_REG]):
        n_rows = session.plan.long_rows
        result = long_stream.measure(ADAPTIVE_REG, n_rows, session.bars.say, session.is_again)
        session.results.update(REG_LONG, {ADAPTIVE_REG: result})


REGRESSION_SECTIONS: dict[str, Callable[[Session], None]] = {
    "regression-streams": _streams,
    "regression-robustness": _robustness,
    "regression-distribution": _distribution,
    "regression-speed": _speed,
    "regression-latency": _latency,
    "regression-long": _long,
}
"""By name, in the order of a run."""

REGRESSION_BY_REQUEST = ("regression-long",)
"""Sections that run only if `--only` names them."""
