"""What a model is: its task, and the learner that makes it forecast and learn."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from amforest.evaluation.learners import Learner, Ours, River


def task_of(model: Any) -> str:
    """Return "classification" or "regression", or refuse what cannot learn a stream."""
    if inspect.isclass(model):
        raise TypeError(f"model is the class {model.__name__}; make an instance of it")
    if hasattr(model, "partial_fit"):
        kinds = is_classifier(model), is_regressor(model)
    elif hasattr(model, "learn_one"):
        kinds = _river_kinds(model)
    else:
        name = type(model).__name__
        advice = "it can only learn all rows at once"
        if hasattr(model, "steps"):
            advice = "transform the stream first, or take a pipeline of river's"
        raise TypeError(f"model is a {name}, which has neither partial_fit nor learn_one: {advice}")
    if not any(kinds):
        raise TypeError(f"model is a {type(model).__name__}, neither classifier nor regressor")
    return "classification" if kinds[0] else "regression"


def _river_kinds(model: Any) -> tuple[bool, bool]:
    from river import base  # noqa: PLC0415  # is there, or whence would the model be?

    last = _last_step(model)
    return isinstance(last, base.Classifier), isinstance(last, base.Regressor)


def _last_step(model: Any) -> Any:
    while hasattr(model, "_last_step"):  # of a pipeline of river
        model = model._last_step
    return model


def learner_of(
    model: Any,
    task: str,
    *,
    classes: NDArray[Any] | None,
    labels: NDArray[Any] | None,
    weighted: bool,
    ensemble: bool,
    rows: bool,
) -> Learner:
    """Return what makes a model forecast and learn.

    `labels` are all of the stream's, if they are there; `rows` says that rows must come singly.
    """
    if not hasattr(model, "partial_fit"):
        if weighted and not _takes(_last_step(model).learn_one, "w"):
            raise _no_weights(model, "learn_one")
        return River(model, task, classes)
    if weighted and not _takes(model.partial_fit, "sample_weight"):
        raise _no_weights(model, "partial_fit")
    ours = hasattr(model, f"partial_fit_predict{'_proba' * (task == 'classification')}")
    if ours:
        trees = ensemble and hasattr(model, "predict_by_tree")
        return Ours(model, task, classes, trees=trees, rows=rows)
    if task == "classification" and classes is None and not hasattr(model, "classes_"):
        if labels is None:
            raise ValueError(
                f"classes is None; a {type(model).__name__} must know all of them before its first "
                "row, and a stream does not tell"
            )
        classes = np.unique(labels)
    return Learner(model, task, classes)


def _takes(method: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(method).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _no_weights(model: Any, method: str) -> TypeError:
    name = f"{type(model).__name__}.{method}"
    return TypeError(f"sample_weight is given, but {name} takes no weights")
