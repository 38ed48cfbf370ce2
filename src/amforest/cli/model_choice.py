"""The model of a run: the family that a stream gets, and the parameters that its options set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.cli.console import CommandError
from amforest.cli.reject_summary import RejectSummary
from amforest.cli.settings import ADAPTIVE, AMF, COVERAGE, Settings, open_source
from amforest.distributed import KeyedForests
from amforest.distributed.keyed_state import holds_models
from amforest.reading import (
    CLASSIFICATION,
    REGRESSION,
    Batch,
    Scheme,
    Stream,
    drop_unique_text,
    parse_types,
)

ROWS_FOR_TASK = 100  # whose labels tell whether they are classes or numbers
LEAST_DOUBTFUL, MOST_DOUBTFUL = 3, 100  # whole numbers that may be either


def infer_model(settings: Settings) -> tuple[Any, Scheme]:
    """Return a model for a stream, and its scheme, from the first rows."""
    with open_source(settings) as stream:
        kinds, _ = choose_kinds(settings, stream)
        first = read_first(settings, iter(stream))
        check_rows(first)
        model, state = build_model(settings, first, kinds)
    return model, Scheme.from_json(state["scheme"])


def read_first(settings: Settings, batches: Iterator[Batch]) -> list[Batch]:
    """Return the batches from which the task is inferred; they may have rejects only."""
    first: list[Batch] = []
    for batch in batches:
        first.append(batch)
        are_strings = len(batch) and _labels([batch]).dtype.kind == "O"
        if are_strings or settings.task is not None or sum(map(len, first)) >= ROWS_FOR_TASK:
            break
    return first


def check_rows(first: list[Batch]) -> None:
    """Raise `CommandError` if there is no row to learn, and name the cause."""
    n_rows = sum(map(len, first))
    RejectSummary(reject for batch in first for reject in batch.rejects).check_not_all(n_rows)
    if not n_rows:
        raise CommandError("there are no rows to learn")


def choose_kinds(settings: Settings, stream: Stream) -> tuple[dict[str, str], list[str]]:
    """Return the columns to learn from, with their kinds, and a note on each that is dropped."""
    types = parse_types(settings.types) if settings.types else {}
    kept = {settings.target_column(), settings.key, *settings.use, *types}
    features = [column for column in stream.columns if column.name != settings.id_column]
    return drop_unique_text(features, kept)


def note_task(settings: Settings, scheme: Scheme, first: list[Batch]) -> list[str]:
    """Return a note on whole numbers that may be classes or numbers, if nobody said which."""
    if settings.task is not None or settings.warm_start is not None or not first:
        return []
    labels = _labels(first)
    n_distinct = len(np.unique(labels)) if labels.dtype.kind == "f" else 0
    is_whole = bool(n_distinct) and bool((labels == np.rint(labels)).all())
    if not is_whole or not LEAST_DOUBTFUL <= n_distinct <= MOST_DOUBTFUL:
        return []
    kind, other = CLASSIFICATION, REGRESSION
    if scheme.task == REGRESSION:
        kind, other = other, kind
    what = {CLASSIFICATION: "classes", REGRESSION: "numbers"}
    return [
        f"the target {scheme.target!r} has {n_distinct} different whole numbers in the first rows: "
        f"they are {what[kind]}; --task {other} predicts {what[other]}"
    ]


def build_model(
    settings: Settings, first: list[Batch], kinds: dict[str, str]
) -> tuple[Any, dict[str, Any]]:
    """Return the model to start with, and its state: the scheme."""
    target = settings.target_column()
    X, y = next(batch.X for batch in first if len(batch)), _labels(first)
    scheme = Scheme.infer(X, y, target, kinds, task=settings.task, key=settings.key)
    family = settings.model or ADAPTIVE
    check_options(settings, family)
    if family == ADAPTIVE or settings.scale is False:
        scheme.scale = None
    options: dict[str, Any] = {
        "categorical_features": scheme.categories or None,
        "max_nodes": settings.max_nodes,
        "n_jobs": settings.threads,
        "random_state": settings.seed or 0,
    }
    if settings.trees is not None:
        options["n_estimators"] = settings.trees
    is_class = scheme.task == CLASSIFICATION
    if is_class and settings.key is not None:
        # A key's model is better off with the classes of other keys than with its first one only.
        options["classes"] = np.unique(scheme.labels(y)).tolist()
    model: Any
    if family == ADAPTIVE:
        model = (AdaptiveAMFClassifier if is_class else AdaptiveAMFRegressor)(**options)
    else:
        if settings.step is not None:
            options["step"] = settings.step
        model = (AMFClassifier if is_class else AMFRegressor)(**options)
    if settings.key is not None:
        model = KeyedForests(model, settings.key, max_bytes=settings.max_bytes)
    elif settings.max_bytes is not None:
        model.set_params(max_bytes=settings.max_bytes)
    return model, {"scheme": scheme.to_json()}


def choose_coverage(model: Any, requested: float | None) -> float | None:
    """Return the coverage of the intervals, or None for a model that does not predict any."""
    if hasattr(model, "predict_interval"):
        return COVERAGE if requested is None else requested
    if requested is None:
        return None
    what = "numbers" if is_regressor(model) else "classes"
    advice = f", or use --model {ADAPTIVE}" if is_regressor(model) else ""
    raise CommandError(
        f"--coverage is given, but {type(model).__name__} predicts {what} without intervals: "
        f"drop it{advice}"
    )


def check_options(settings: Settings, family: str) -> None:
    """Refuse options of the other family, and those that do not fit models of keys."""
    if settings.key is not None:
        _check_options_of_keys(settings)
    if family == AMF:
        return
    given = {
        "--step": settings.step is not None,
        "--scale": settings.scale is True,
        "--no-scale": settings.scale is False,
    }
    for option, is_given in given.items():
        if is_given:
            reason = "" if option == "--step" else ", which scales its features itself"
            raise CommandError(
                f"{option} is given, but has no meaning for the adaptive forest{reason}: drop it, "
                f"or use --model {AMF}"
            )


def _check_options_of_keys(settings: Settings) -> None:
    """Refuse what models of keys cannot do, before the first row."""
    given = {
        "--delay": settings.delay > 0,
        "--coverage": settings.coverage is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise CommandError(
                f"{option} is given, but cannot be used with --key: drop one of them"
            )
    if settings.key == settings.target_column():
        raise CommandError(f"--key is {settings.key!r}, which is the target, too")
    if settings.save is not None and holds_models(settings.save):
        raise CommandError(
            f"--save is {settings.save}, which holds models already: give an empty folder, or "
            "continue with them by --checkpoint"
        )


def _labels(batches: list[Batch]) -> NDArray[Any]:
    return np.concatenate([batch.y for batch in batches if len(batch)])
