"""Models that a run continues: a saved one, or that of a checkpoint. They keep their options."""

from __future__ import annotations

from typing import Any

from amforest.cli.console import CommandError
from amforest.cli.model_choice import check_options
from amforest.cli.saved_model import load_checkpoint, load_with_scheme
from amforest.cli.settings import ADAPTIVE, AMF, Settings
from amforest.reading import Batch, Scheme, parse_types

_NEW_MODEL = "learn a new model without --warm-start"
_NEW_FOLDER = "use the options of the first run, or another folder"


def load_continued(settings: Settings) -> tuple[Any, dict[str, Any]] | None:
    """Return the model to continue, and its state: the scheme; None if there is none."""
    path = settings.warm_start
    if path is None:
        return None
    if settings.key is not None:
        raise CommandError(
            "--warm-start is given, but cannot be used with --key: continue by --checkpoint"
        )
    model, state, scheme = load_with_scheme(path)
    _check_target(settings, scheme, path)
    _check_model(settings, model, scheme, path, f"drop the option, or {_NEW_MODEL}")
    model.n_jobs = settings.threads
    return model, {"scheme": state["scheme"]}


def check_labels(settings: Settings, model: Any, first: list[Batch]) -> None:
    """Refuse numbers as labels of a model to continue whose classes are all words.

    The stream has the kinds of the model's columns, so each number would be a class of its own.
    """
    target = settings.target_column()
    is_requested = settings.types is not None and target in parse_types(settings.types)
    classes = getattr(model, "classes_", [])
    if is_requested or any(map(_is_number, classes)) or not len(classes):
        return
    labels = [label for batch in first if batch.y is not None for label in batch.y]
    if all(map(_is_number, labels)):
        some = ", ".join(repr(str(name)) for name in classes[:2])
        raise CommandError(
            f"--warm-start is {settings.warm_start}, whose classes are text such as {some}, but "
            f"column {target!r} holds numbers such as {labels[0]!r}: give rows with these classes, "
            f"{_NEW_MODEL}, or make each number a class by --types {target}=category"
        )


def _is_number(label: Any) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def check_checkpoint(settings: Settings) -> None:
    """Refuse options that differ from those of the checkpoint to resume, if there is one.

    Those that are not given are compared when it is loaded.
    """
    folder = settings.checkpoint
    saved = None if folder is None else load_checkpoint(folder)
    if folder is None or saved is None:
        return
    model, scheme = saved
    _check_target(settings, scheme, folder)
    if settings.key != scheme.key:
        given = f"--key is {settings.key!r}, but " if settings.key is not None else ""
        has, remedy = "one model for all rows", "drop --key"
        if scheme.key is not None:
            has, remedy = f"a model for each {scheme.key!r}", f"give --key {scheme.key!r}"
        raise CommandError(f"{given}{folder} holds {has}: {remedy}, or another folder")
    _check_model(settings, model, scheme, folder, _NEW_FOLDER)


def _check_target(settings: Settings, scheme: Scheme, path: str) -> None:
    target = settings.target_column()
    if scheme.target != target:
        raise CommandError(f"--target is {target!r}, but {path} predicts {scheme.target!r}")


def _check_model(settings: Settings, model: Any, scheme: Scheme, path: str, remedy: str) -> None:
    """Refuse options that a model cannot follow: it keeps its family, size and columns."""
    family = ADAPTIVE if model.is_adaptive else AMF
    if settings.model not in (None, family):
        name = type(model).__name__
        raise CommandError(f"--model is {settings.model}, but {path} is a model of class {name}")
    if settings.task not in (None, scheme.task):
        raise CommandError(f"--task is {settings.task}, but {path} is a model of {scheme.task}")
    check_options(settings, family)
    _check_same_shape(settings, model, scheme, path, remedy)
    _check_same_columns(settings, scheme, path, remedy)


def _check_same_shape(
    settings: Settings, model: Any, scheme: Scheme, path: str, remedy: str
) -> None:
    """Refuse options that a model to continue cannot follow: it keeps its own."""
    is_scaled = scheme.scale is not None
    own = {
        "--trees": (settings.trees, model.n_estimators),
        "--step": (settings.step, getattr(model, "step", None)),
        "--seed": (settings.seed, model.random_state),
        "--max-nodes": (settings.max_nodes, model.max_nodes),
    }
    if scheme.key is None:  # with keys it limits those in memory, and may change
        own["--max-bytes"] = (settings.max_bytes, model.max_bytes)
    for option, (given, kept) in own.items():
        if given is not None and given != kept:
            has = "no such limit" if kept is None else f"{kept}"
            raise CommandError(
                f"{option} is {given}, but {path} has {has}, which cannot change while it learns: "
                + remedy
            )
    if settings.scale is not None and settings.scale != is_scaled:
        option, how = ("--scale", "as they are") if settings.scale else ("--no-scale", "scaled")
        raise CommandError(f"{option} is given, but {path} has learned numbers {how}: {remedy}")


def _check_same_columns(settings: Settings, scheme: Scheme, path: str, remedy: str) -> None:
    """Refuse options that would give a model to continue other columns than it has learned."""
    others = {scheme.target, scheme.key, settings.id_column}  # they are no features
    features = {name: kind for name, kind in scheme.kinds.items() if name not in others}
    types = parse_types(settings.types) if settings.types else {}
    for name, kind in features.items():
        if kind == "datetime" and types.get(name) == "date":  # becomes one if it has times
            types[name] = kind
    used = set(settings.use) - {*settings.drop, *others}
    differs = {
        "--use": bool(settings.use) and used != features.keys(),
        "--drop": not features.keys().isdisjoint(settings.drop),
        "--types": any(features.get(name, kind) != kind for name, kind in types.items()),
    }
    for option, is_other in differs.items():
        if is_other:
            learned = ", ".join(f"{name}={kind}" for name, kind in features.items())
            raise CommandError(f"{option} is given, but {path} has learned {learned}: {remedy}")
