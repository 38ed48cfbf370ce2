"""A model as a document of plain values, and arrays: what a model file holds."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

import amforest
from amforest._forest.base import Forest
from amforest._forest.categories import Categories
from amforest._forest.classes import ClassForest
from amforest.model_io.json_values import (
    array_of,
    as_kind,
    entry,
    from_json,
    has_keys,
    hashables,
    text_array,
    to_json,
)

FORMAT = 1  # the newest that this version reads, and the one that it writes
_MODULES = {
    "AMFClassifier": "amforest.estimators",
    "AMFRegressor": "amforest.estimators",
    "MondrianForestClassifier": "amforest.baselines",
    "river.AMFClassifier": "amforest.river",
    "river.AMFRegressor": "amforest.river",
}
# The keys of a document and of its parts.
_MODEL = ("format", "library", "model", "params", "columns", "forest", "extra")
_FOREST = ("params", "fitted", "core")
_FITTED = ("n_features", "names", "categorical", "categories", "classes", "progress")
_CLASSES = ("dtype", "labels")
_COLUMNS = ("numbers", "categorical", "categories")
_CORE = ("n_numbers", "categories", "n_samples", "options")
_CLASS_CORE = (*_CORE, "n_classes", "capacity", "dirichlet")
_COLUMNS_OF_TREES = (
    *("seeds", "n_nodes", "feature", "threshold", "split_time", "odds", "odds_scale", "kind"),
    *("lower", "upper", "seen", "n_samples"),
)
_CLASS_COLUMNS, _MEAN_COLUMNS = ("counts", "label", "mixed"), ("mean", "constant")

Arrays = Mapping[str, NDArray[Any]]
Document = dict[str, Any]


def taken_apart(model: Any) -> tuple[Document, Arrays]:
    """Return a model as a document for JSON, and arrays."""
    name = name_of(model)
    document: Document = {"format": FORMAT, "library": amforest.__version__, "model": name}
    if name.startswith("river."):
        with model._model._lock:
            forest, arrays = _forest_taken_apart(model._model)
            document["params"] = _params(model._get_params())
            columns = model._columns
        document["columns"] = {
            "numbers": [to_json(name, "a feature's name") for name in columns.numbers],
            "categorical": [to_json(name, "a feature's name") for name in columns.categorical],
            "categories": _categories_to_json(columns.categories),
        }
    else:
        forest, arrays = _forest_taken_apart(model)
        document |= {"params": None, "columns": None}
    return document | {"forest": forest, "extra": None}, arrays


def put_together(document: Document, arrays: Arrays) -> Any:
    """Undo `taken_apart`; ValueError, TypeError and others if it is nothing that it gives."""
    has_keys(document, _MODEL)
    name = entry(document, "model", str)
    if name not in _MODULES:
        raise ValueError(f"{name!r} is no model of this version")
    cls = getattr(import_module(_MODULES[name]), name.removeprefix("river."))
    if not name.startswith("river."):
        if document["params"] is not None or document["columns"] is not None:
            raise ValueError("params and columns belong to models of river")
        forest = _forest(cls, document["forest"], arrays)
        if forest._room and forest._categories is None:
            raise ValueError("the categories of categorical features are missing")
        return forest
    model = cls(**_parameters(document["params"]))
    forest = _forest(cls._estimator, document["forest"], arrays)
    columns = _columns(document["columns"])
    if forest._has_learnt():
        core = forest._core
        room = columns.categories.room(core.categories)
        if (core.n_numbers, core.categories) != (columns.n_numbers, list(room)):
            raise ValueError("columns do not fit the forest")
        if arrays["feature"].max(initial=-1) >= len(columns.of):
            raise ValueError("a split is on a column that is not there")
        if hasattr(forest, "feature_names_in_") or forest._categories is not None:
            raise ValueError("names and categories belong to columns")
    model._model, model._columns = forest, columns
    return model


def name_of(model: Any) -> str:
    """Return how a file calls the class of a model; TypeError if it cannot hold one."""
    name = type(model).__name__
    for key, module in _MODULES.items():
        if key.removeprefix("river.") == name and type(model).__module__ == module:
            return key
    raise TypeError(
        f"model is a {type(model).__module__}.{name}; a model file can hold "
        f"{', '.join(_MODULES)}, and no subclass of them"
    )


def _columns(part: Any) -> Any:
    from amforest._forest.named_columns import Columns  # noqa: PLC0415  # only for models of river

    has_keys(part, _COLUMNS)
    numbers, categorical = hashables(part["numbers"]), hashables(part["categorical"])
    if set(numbers) & set(categorical):
        raise ValueError("features must have different names")
    codes = _categories(part["categories"], len(categorical)).codes
    return Columns(numbers, dict(zip(categorical, codes, strict=True)))


def _params(params: Mapping[str, Any]) -> Document:
    return {name: to_json(value, name) for name, value in params.items()}


def _parameters(part: Any) -> dict[str, Any]:
    return {name: from_json(value) for name, value in as_kind(part, dict).items()}


# A forest


def _forest_taken_apart(model: Forest) -> tuple[Document, Arrays]:
    with model._lock:
        model._validate_params()
        params = _params(model.get_params(deep=False))
        if not model._has_learnt():
            return {"params": params, "fitted": None, "core": None}, {}
        core, arrays = core_taken_apart(model._core)
        names = getattr(model, "feature_names_in_", None)
        fitted = {
            "n_features": model.n_features_in_,
            "names": None if names is None else [str(name) for name in names],
            "categorical": np.flatnonzero(model.is_categorical_).tolist(),
            "categories": _categories_to_json(model._categories),
            "classes": _classes_to_json(model) if isinstance(model, ClassForest) else None,
            "progress": list(model._progress),
        }
        return {"params": params, "fitted": fitted, "core": core}, arrays


def _forest(cls: type[Forest], part: Any, arrays: Arrays) -> Forest:
    has_keys(part, _FOREST)
    model = cls(**_parameters(part["params"]))
    model._validate_params()
    model._n_threads()
    if part["fitted"] is None:
        if part["core"] is not None or arrays:
            raise ValueError("there is a forest, but nothing of how it was fitted")
        return model
    fitted = part["fitted"]
    has_keys(fitted, _FITTED)
    model._core = core = core_of(model, part["core"], arrays)
    model._room = tuple(core.categories)
    _set_features(model, fitted)
    weight, loss = (float(as_kind(x, int, float)) for x in entry(fitted, "progress", list))
    if not (np.isfinite([weight, loss]).all() and weight >= 0):
        raise ValueError("progress must be finite")
    model._progress = weight, loss
    if isinstance(model, ClassForest):
        _set_classes(model, fitted["classes"])
    elif fitted["classes"] is not None:
        raise ValueError("classes belong to classifiers")
    return model


def _set_features(model: Forest, fitted: Document) -> None:
    n_features, room = entry(fitted, "n_features", int), model._room
    if n_features != model._core.n_numbers + len(room):
        raise ValueError("n_features is not that of the forest")
    model.n_features_in_ = n_features
    categorical = [as_kind(j, int) for j in entry(fitted, "categorical", list)]
    if not all(a < b for a, b in zip([-1, *categorical], [*categorical, n_features], strict=True)):
        raise ValueError("categorical must be increasing numbers of features")
    model.is_categorical_ = np.isin(np.arange(n_features), categorical)
    if fitted["categories"] is not None:
        if not categorical:
            raise ValueError("there are categories, but no categorical features")
        model._categories = _categories(fitted["categories"], len(categorical))
        if list(model._categories.room(room)) != list(room) or len(categorical) != len(room):
            raise ValueError("categories do not fit the forest")
    elif categorical:  # a model of river's keeps its categories elsewhere
        raise ValueError("the categories of categorical features are missing")
    if fitted["names"] is not None:
        names = [as_kind(name, str) for name in entry(fitted, "names", list)]
        if len(names) != n_features or len(set(names)) < n_features:
            raise ValueError("names must be as many as features, all different")
        model.feature_names_in_ = np.array(names, dtype=object)


def _categories_to_json(categories: Categories | None) -> Any:
    if categories is None:
        return None
    lists = categories.lists()
    return [[to_json(value, "a category") for value in values] for values in lists]


def _categories(part: Any, n_features: int) -> Categories:
    lists = [hashables(values) for values in as_kind(part, list)]
    if len(lists) != n_features or any(None in values for values in lists):
        raise ValueError("categories must be lists, one for each categorical feature, without None")
    return Categories.from_lists(lists)


def _classes_to_json(model: ClassForest) -> Document:
    dtype = model.classes_.dtype
    labels = [to_json(label, "a class") for label in model._index_of]
    return {"dtype": dtype.kind if dtype.kind in "UO" else dtype.str, "labels": labels}


def _set_classes(model: ClassForest, part: Any) -> None:
    has_keys(part, _CLASSES)
    labels, dtype = hashables(part["labels"]), entry(part, "dtype", str)
    if len(labels) != model._core.forecast_size:
        raise ValueError("classes must be as many as those of the forest")
    if dtype == "U":
        array = text_array([as_kind(label, str) for label in labels])
    else:
        array = array_of(labels, from_json({"array": [dtype, []]}).dtype.str)
    if array.ndim != 1 or len(np.unique(array)) < len(labels):
        raise ValueError("classes must be plain values, all different")
    model._set_classes(labels, np.sort(array))


# A core


def core_taken_apart(core: Any) -> tuple[Document, Arrays]:
    """Return a core as a document and arrays."""
    state = core.state()
    arrays: dict[str, NDArray[Any]] = state["trees"]
    if state["bounds"] is not None:
        arrays["bounds"] = state["bounds"]
    if "n_classes" in state:
        _check_room(state["capacity"], arrays)
    keys = _CLASS_CORE if "n_classes" in state else _CORE
    options = {name: to_json(value, name) for name, value in state["options"].items()}
    return {key: options if key == "options" else state[key] for key in keys}, arrays


def _check_room(capacity: int, arrays: Arrays) -> None:
    """Refuse a file that is small beside the room that its trees make for all classes.

    Such a model is not saved either, because nobody could load it.
    """
    n_trees, n_bytes = len(arrays["n_nodes"]), sum(array.nbytes for array in arrays.values())
    if 8 * capacity * n_trees > 64 * n_bytes + 2**24:
        raise ValueError(
            f"there are too many trees for so many classes ({n_trees} for {capacity}) while so "
            "few samples are learnt: it would take more memory to load than its file has a right to"
        )


def core_of(model: Forest, part: Any, arrays: Arrays) -> Any:
    """Undo `core_taken_apart`, for a model of that kind."""
    has_classes = isinstance(model, ClassForest)
    has_keys(part, _CLASS_CORE if has_classes else _CORE)
    state = {key: entry(part, key, int) for key in ("n_numbers", "n_samples")}
    if state["n_samples"] < 1:
        raise ValueError("a forest must have learnt something")
    if has_classes:
        n_classes, capacity = (entry(part, key, int) for key in ("n_classes", "capacity"))
        if not 1 <= n_classes <= capacity <= max(2 * n_classes, n_classes + 1):
            raise ValueError("capacity must be n_classes at least, and twice as many at the most")
        _check_room(capacity, arrays)
        state |= {"n_classes": n_classes, "capacity": capacity}
        state["dirichlet"] = entry(part, "dirichlet", float)
    state["categories"] = [as_kind(count, int) for count in entry(part, "categories", list)]
    state["options"] = {
        name: from_json(value) for name, value in entry(part, "options", dict).items()
    }
    columns = _CLASS_COLUMNS if has_classes else _MEAN_COLUMNS
    if unknown := sorted(set(arrays) - {*_COLUMNS_OF_TREES, *columns, "bounds"}):
        raise ValueError(f"there is no array {unknown[0]!r}")
    trees = dict(arrays)
    return model._core_from(state | {"bounds": trees.pop("bounds", None), "trees": trees})
