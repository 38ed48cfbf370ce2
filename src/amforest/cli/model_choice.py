"""The model of a run: the family that a stream gets, and the parameters that its options set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest import AdaptiveAMFClassifier, AMFClassifier, AMFRegressor
from amforest.cli.console import CommandError
from amforest.cli.scheme import CLASSIFICATION, REGRESSION, Scheme, load_with_scheme
from amforest.cli.settings import ADAPTIVE, AMF, Settings, open_source
from amforest.reading import Batch

ROWS_FOR_STEP = 100  # the rows from which the variance of the labels is estimated


def infer_model(settings: Settings) -> tuple[Any, Scheme]:
    """Return a model for a stream, and its scheme, from the first rows."""
    with open_source(settings) as stream:
        model, state = build_model(settings, read_first(settings, iter(stream)), stream.schema)
    return model, Scheme.from_json(state["scheme"])


def read_first(settings: Settings, batches: Iterator[Batch]) -> list[Batch]:
    """Return the batches from which the task and the step are inferred."""
    first: list[Batch] = []
    for batch in batches:
        first.append(batch)
        are_strings = len(batch) and _labels([batch]).dtype.kind == "O"
        if are_strings or settings.step is not None or sum(map(len, first)) >= ROWS_FOR_STEP:
            break
    if not sum(map(len, first)):
        raise CommandError("there are no rows with a label")
    return first


def build_model(
    settings: Settings, first: list[Batch], kinds: dict[str, str]
) -> tuple[Any, dict[str, Any]]:
    """Return the model to start with, and its state: the scheme."""
    target = settings.target_column()
    if settings.warm_start is not None:
        return _load_model(settings, settings.warm_start, target)
    X, y = next(batch.X for batch in first if len(batch)), _labels(first)
    scheme = Scheme.infer(X, y, target, kinds, task=settings.task)
    family = choose_family(settings, scheme)
    _check_options(settings, family)
    if family == ADAPTIVE or settings.scale is False:
        scheme.scale = None
    options: dict[str, Any] = {
        "categorical_features": scheme.categories or None,
        "max_nodes": settings.max_nodes,
        "n_jobs": settings.threads,
        "random_state": settings.seed,
    }
    if settings.trees is not None:
        options["n_estimators"] = settings.trees
    model: Any
    if family == ADAPTIVE:
        model = AdaptiveAMFClassifier(**options)
    else:
        is_class = scheme.task == CLASSIFICATION
        options["step"] = _choose_step(settings, None if is_class else y)
        model = (AMFClassifier if is_class else AMFRegressor)(**options)
    return model, {"scheme": scheme.to_json()}


def choose_family(settings: Settings, scheme: Scheme) -> str:
    """Return the requested family, or the adaptive one if there is one for the task."""
    if settings.model == ADAPTIVE and scheme.task == REGRESSION:
        raise CommandError(
            f"--model is {ADAPTIVE}, which predicts classes, but column {scheme.target!r} holds "
            f"numbers: use --model {AMF}, or --task {CLASSIFICATION} if whole numbers are classes"
        )
    return settings.model or (ADAPTIVE if scheme.task == CLASSIFICATION else AMF)


def _check_options(settings: Settings, family: str) -> None:
    """Refuse options of the other family."""
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


def _load_model(settings: Settings, path: str, target: str) -> tuple[Any, dict[str, Any]]:
    model, state, scheme = load_with_scheme(path)
    if scheme.target != target:
        raise CommandError(f"--target is {target!r}, but {path} predicts {scheme.target!r}")
    family = ADAPTIVE if model.is_adaptive else AMF
    if settings.model not in (None, family):
        name = type(model).__name__
        raise CommandError(f"--model is {settings.model}, but {path} is a model of class {name}")
    _check_options(settings, family)
    model.n_jobs = settings.threads
    return model, {"scheme": state["scheme"]}


def _labels(batches: list[Batch]) -> NDArray[Any]:
    return np.concatenate([batch.y for batch in batches if len(batch)])


def _choose_step(settings: Settings, labels: Any) -> float:
    """Return η: 1, or for numbers one that does not depend on their unit.

    For pure noise the mean is best predicted with up to 1/4 of the inverse variance; signals allow
    more.
    """
    if settings.step is not None or labels is None:
        return 1.0 if settings.step is None else settings.step
    variance = float(np.var(labels[:ROWS_FOR_STEP]))
    return 1 / (4 * variance) if variance > 0 else 1.0
