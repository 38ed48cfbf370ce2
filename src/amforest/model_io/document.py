"""A model as a document of plain values, and arrays: the content of a model file."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

import amforest
from amforest._core import RegressorForest, UnrestrictedRegressorForest
from amforest._forest.categories import OTHERS, Categories
from amforest._forest.class_labels import ClassLabels, NumberLabels
from amforest._forest.column_kinds import AS_IT_IS, DROPPED, GivenColumns, Schema
from amforest._forest.core_handle import (
    Core,
    Fitted,
    Labels,
    count_threads,
    handle_of,
    is_adaptive_core,
    is_frozen_core,
    newer_columns,
    restore_core,
    restore_frozen_core,
)
from amforest._forest.date_parts import OF_DATES, OF_TIMES
from amforest._forest.early_rows import EarlyRows
from amforest._forest.encoder import Encoder, NamedColumns
from amforest._forest.estimator import Estimator
from amforest._forest.limits import MOST_ADDED_UP, MOST_ROWS
from amforest.frozen import FrozenModel, model_of, wrap
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

# The newest that this version reads, and the one that it writes. In format 1 the trees had no
# counts of rows, because all had learned the same, and no feature weights. Before format 3 models
# had no max_categories, and no limit but the core's. Before format 4 there were no importances, and
# no history of a mixer's weights.
FORMAT = 4
_MODULES = {
    "AMFClassifier": "amforest.classifier",
    "AdaptiveAMFClassifier": "amforest.classifier",
    "AMFRegressor": "amforest.regressor",
    "AdaptiveAMFRegressor": "amforest.regressor",
    "MondrianForestClassifier": "amforest.baselines",
    "river.AMFClassifier": "amforest.river",
    "river.AdaptiveAMFClassifier": "amforest.river",
    "river.AMFRegressor": "amforest.river",
    "river.AdaptiveAMFRegressor": "amforest.river",
}
# The keys of a document and of its parts.
_MODEL = ("format", "library", "model", "params", "columns", "forest", "extra")
_FOREST = ("params", "fitted", "core")
_FITTED = ("n_features", "names", "categorical", "categories", "classes", "progress")
_GIVEN = ("names", "parts")  # of the columns of X, where some are not features themselves
_CLASSES = ("dtype", "labels")
_COUNTS = "counts"  # of the rows of each class, if class_weight is "balanced"
_COLUMNS = ("numbers", "categorical", "categories")
_CORE = ("n_numbers", "categories", "n_samples", "options")
_CLASS_CORE = (*_CORE, "n_classes", "capacity", "dirichlet")
# Parameters that the first files of this format do not have, and their defaults.
_NEWER = {"strict": True, "class_weight": None, "threshold": None}
_PARTS = ("n_in_all", "held")  # of a forest whose other trees are elsewhere
_ADAPTIVE = ("groups", "n_estimators", "n_candidates", "row_limit", "mixer_rate")
_FROZEN = "frozen."  # before the name of a frozen copy's model
_FROZEN_CORE = ("n_numbers", "categories", "n_outputs", "n_samples")
_FROZEN_TREES, _FROZEN_GROUPS = ("n_trees",), ("n_groups", "n_estimators")
_EARLY = "early_"  # the arrays of rows that a regressor keeps until its step is settled
_OTHERS = {"others": None}  # instead of a category: the one for all others

Arrays = Mapping[str, NDArray[Any]]
Document = dict[str, Any]


def to_document(model: Any) -> tuple[Document, Arrays]:
    """Convert a model to a document for JSON, and arrays."""
    document: Document = {"format": FORMAT, "library": amforest.__version__}
    document["model"] = name = name_of(model)
    if isinstance(model, FrozenModel):
        model, name = model_of(model), name.removeprefix(_FROZEN)
    handle = handle_of(model)
    with handle.lock:
        if name.startswith("river."):
            forest = import_module(_MODULES[name]).forest_of(model)
            columns = NamedColumns() if handle.fitted is None else handle.fitted.encoder.named
            document |= {
                "params": _params_to_json(model._get_params()),
                "columns": _columns_to_json(columns or NamedColumns()),
            }
        else:
            forest = model
            document |= {"params": None, "columns": None}
        document["forest"], arrays = _forest_to_document(forest)
    return document | {"extra": None}, arrays


def from_document(document: Document, arrays: Arrays) -> Any:
    """Undo `to_document`; ValueError, TypeError and others if the document is not valid."""
    has_keys(document, _MODEL)
    full_name, version = entry(document, "model", str), entry(document, "format", int)
    name = full_name.removeprefix(_FROZEN)
    is_frozen = name != full_name
    model = _model_from_document(document, arrays, name, version, is_frozen)
    return wrap(model) if is_frozen else model


def _model_from_document(
    document: Document, arrays: Arrays, name: str, version: int, is_frozen: bool
) -> Any:
    if name not in _MODULES:
        raise ValueError(f"{name!r} is no model of this version")
    module = import_module(_MODULES[name])
    cls = getattr(module, name.removeprefix("river."))
    if not name.startswith("river."):
        if document["params"] is not None or document["columns"] is not None:
            raise ValueError("params and columns belong to models of river")
        return _forest_from_document(cls, document["forest"], arrays, version, is_frozen=is_frozen)
    model = cls(**_params_from_json(document["params"], version))
    columns = _columns_from_json(document["columns"])
    forest_class = type(module.forest_of(model))
    part = document["forest"]
    forest = _forest_from_document(
        forest_class, part, arrays, version, is_frozen=is_frozen, columns=columns
    )
    module.replace_forest(model, forest)
    return model


def name_of(model: Any) -> str:
    """Return the name of a model's class in a file; TypeError if a file cannot hold the model."""
    if isinstance(model, FrozenModel):
        return _FROZEN + name_of(model_of(model))
    name = type(model).__name__
    for key, module in _MODULES.items():
        if key.removeprefix("river.") == name and type(model).__module__ == module:
            return key
    raise TypeError(
        f"model is a {type(model).__module__}.{name}; a model file can hold "
        f"{', '.join(_MODULES)}, and no subclass of them"
    )


def _columns_to_json(columns: NamedColumns) -> Document:
    return {
        "numbers": [to_json(name, "a feature's name") for name in columns.numbers],
        "categorical": [to_json(name, "a feature's name") for name in columns.categorical],
        "categories": _categories_to_json(columns.categories),
    }


def _columns_from_json(part: Any) -> NamedColumns:
    has_keys(part, _COLUMNS)
    numbers, categorical = hashables(part["numbers"]), hashables(part["categorical"])
    if set(numbers) & set(categorical):
        raise ValueError("features must have different names")
    codes = _categories_from_json(part["categories"], len(categorical)).codes
    return NamedColumns(numbers, dict(zip(categorical, codes, strict=True)))


def _params_to_json(params: Mapping[str, Any]) -> Document:
    """Convert parameters; a newer one is skipped where it has its default, as in older files."""
    given = {k: v for k, v in params.items() if k not in _NEWER or v is not _NEWER[k]}
    return {name: to_json(value, name) for name, value in given.items()}


def _params_from_json(part: Any, version: int) -> dict[str, Any]:
    params = {name: from_json(value) for name, value in as_kind(part, dict).items()}
    return params if version >= 3 else {"max_categories": None} | params


# A forest


def _forest_to_document(model: Estimator) -> tuple[Document, Arrays]:
    model._validate_params()  # scikit-learn's
    handle, params = handle_of(model), _params_to_json(model.get_params(deep=False))
    if handle.fitted is None:
        return {"params": params, "fitted": None, "core": None}, {}
    encoder, labels, core = handle.fitted.encoder, handle.fitted.labels, handle.fitted.core
    schema = encoder.schema
    fitted = {
        "n_features": schema.n_features,
        "names": None if schema.names is None else [str(name) for name in schema.names],
        "categorical": np.flatnonzero(schema.is_categorical).tolist(),
        "categories": _categories_to_json(encoder.categories),
        "classes": _classes_to_json(labels) if isinstance(labels, ClassLabels) else None,
        "progress": list(handle.progress),
    }
    if schema.columns is not None:
        fitted["columns"] = _given_to_json(schema.columns)
    core_document, arrays = core_to_document(core)
    if (early := handle.fitted.early) is not None:
        arrays = {**arrays, **{_EARLY + name: a for name, a in early.to_arrays(core).items()}}
    return {"params": params, "fitted": fitted, "core": core_document}, arrays


def _forest_from_document(
    cls: type[Estimator],
    part: Any,
    arrays: Arrays,
    version: int,
    *,
    is_frozen: bool,
    columns: NamedColumns | None = None,
) -> Estimator:
    """Restore a forest of a version of the format; `columns` are those of a model of river."""
    has_keys(part, _FOREST)
    model = cls(**_params_from_json(part["params"], version))
    model._validate_params()
    count_threads(model.n_jobs)
    fitted = part["fitted"]
    if fitted is None:
        if part["core"] is not None or arrays:
            raise ValueError("there is a forest, but nothing of how it was fitted")
        return model
    has_keys(fitted, _FITTED + ("columns",) * ("columns" in as_kind(fitted, dict)))
    early_arrays = {k.removeprefix(_EARLY): a for k, a in arrays.items() if k.startswith(_EARLY)}
    arrays = {name: array for name, array in arrays.items() if not name.startswith(_EARLY)}
    kind = {"has_classes": is_classifier(model), "is_adaptive": model.is_adaptive}
    if is_frozen:
        core = _frozen_core_from_document(part["core"], arrays, **kind)
    else:
        core = core_from_document(part["core"], arrays, version, **kind)
    encoder = _encoder_from_document(fitted, core)
    if columns is not None:
        encoder = _named_encoder(columns, encoder, core, arrays)
    elif core.categories and encoder.categories is None:
        raise ValueError("the categories of categorical features are missing")
    handle = handle_of(model)
    early = _early_from_arrays(early_arrays, core) if early_arrays else None
    labels = _labels_from_document(model, fitted["classes"], core)
    handle.fitted = Fitted(encoder, labels, core, early)
    weight, loss = (float(as_kind(x, int, float)) for x in entry(fitted, "progress", list))
    if not (np.isfinite([weight, loss]).all() and weight >= 0):
        raise ValueError("progress must be finite")
    handle.progress = weight, loss
    return model


def _early_from_arrays(arrays: Arrays, core: Core) -> EarlyRows:
    if not isinstance(core, RegressorForest | UnrestrictedRegressorForest) or len(arrays) != 4:
        raise ValueError("there are other arrays than those of a forest and of early rows")
    return EarlyRows.from_arrays(arrays, core)


def _encoder_from_document(fitted: Document, core: Core) -> Encoder:
    n_features = entry(fitted, "n_features", int)
    if n_features != core.n_numbers + len(core.categories):
        raise ValueError("n_features is not that of the forest")
    indices = [as_kind(j, int) for j in entry(fitted, "categorical", list)]
    if not all(a < b for a, b in zip([-1, *indices], [*indices, n_features], strict=True)):
        raise ValueError("categorical must be increasing indices of features")
    categories = None
    if fitted["categories"] is not None:
        if not indices:
            raise ValueError("there are categories, but no categorical features")
        categories = _categories_from_json(fitted["categories"], len(indices))
        capacities = list(categories.capacities(core.categories)) if core.categories else None
        if len(indices) != len(core.categories) or capacities != core.categories:
            raise ValueError("categories do not fit the forest")
    elif indices:  # a model of river has its categories in columns
        raise ValueError("the categories of categorical features are missing")
    names = None
    if fitted["names"] is not None:
        texts = [as_kind(name, str) for name in entry(fitted, "names", list)]
        if len(texts) != n_features or len(set(texts)) < n_features:
            raise ValueError("names must be as many as features, all different")
        names = np.array(texts, dtype=object)
    is_categorical = np.isin(np.arange(n_features), indices)
    columns = _given_from_json(fitted["columns"], names) if "columns" in fitted else None
    if columns is not None and len(columns.sources) != n_features:
        raise ValueError("the columns of X do not fit the features")
    return Encoder(Schema(is_categorical, names, columns), categories)


def _given_to_json(columns: GivenColumns) -> Document:
    names = None if columns.names is None else [str(name) for name in columns.names]
    return {"names": names, "parts": [list(parts) for parts in columns.parts]}


def _given_from_json(part: Any, features: NDArray[Any] | None) -> GivenColumns:
    """Return the columns of X, if the features have the names that follow from theirs."""
    has_keys(part, _GIVEN)
    lists = [as_kind(parts, list) for parts in entry(part, "parts", list)]
    parts = tuple(tuple(as_kind(suffix, str) for suffix in suffixes) for suffixes in lists)
    if not all(suffixes in (AS_IT_IS, DROPPED, OF_DATES, OF_TIMES) for suffixes in parts):
        raise ValueError("the parts of columns are those of dates")
    if part["names"] is None:
        names = None
    else:
        names = np.array([as_kind(name, str) for name in entry(part, "names", list)], dtype=object)
        if len(names) != len(parts) or len(set(names)) < len(names):
            raise ValueError("names must be as many as columns, all different")
    columns = GivenColumns(names, parts)
    expected = columns.feature_names()
    if (None if expected is None else expected.tolist()) != (
        None if features is None else features.tolist()
    ):
        raise ValueError("the names of features do not follow from those of columns")
    return columns


def _named_encoder(columns: NamedColumns, encoder: Encoder, core: Core, arrays: Arrays) -> Encoder:
    """Return the encoder of a model of river, if its columns fit the forest."""
    capacities = columns.categories.capacities(core.categories)
    if (core.n_numbers, core.categories) != (columns.n_numbers, list(capacities)):
        raise ValueError("columns do not fit the forest")
    features = arrays["feature"][arrays["feature"] >= 0]
    if is_adaptive_core(core):
        features = core.tree_columns[features]
    elif "columns" in arrays:  # of a frozen copy
        features = arrays["columns"][features]
    if features.max(initial=0) >= max(len(columns.of), 1):
        raise ValueError("a split is on a column that does not exist")
    schema = encoder.schema
    if schema.names is not None or schema.columns is not None or encoder.categories is not None:
        raise ValueError("names and categories belong to columns")
    return Encoder.of_named(columns)


def _labels_from_document(model: Estimator, part: Any, core: Core) -> Labels:
    if is_classifier(model):
        return _classes_from_json(part, core.prediction_size)
    if part is not None:
        raise ValueError("classes belong to classifiers")
    return NumberLabels()


def _categories_to_json(categories: Categories | None) -> Any:
    if categories is None:
        return None
    return [[_category_to_json(value) for value in values] for values in categories.lists()]


def _category_to_json(value: Any) -> Any:
    return _OTHERS if value is OTHERS else to_json(value, "a category")


def _categories_from_json(part: Any, n_features: int) -> Categories:
    lists = [_category_list(values) for values in as_kind(part, list)]
    if len(lists) != n_features or any(None in values for values in lists):
        raise ValueError("categories must be lists, one for each categorical feature, without None")
    return Categories.from_lists(lists)


def _category_list(part: Any) -> list[Hashable]:
    """Return categories; the last may be that which stands for all others."""
    if as_kind(part, list)[-1:] == [_OTHERS]:
        return [*hashables(part[:-1]), OTHERS]
    return hashables(part)


def _classes_to_json(labels: ClassLabels) -> Document:
    dtype = labels.classes.dtype
    names = [to_json(label, "a class") for label in labels.index_of]
    part = {"dtype": dtype.kind if dtype.kind in "UO" else dtype.str, "labels": names}
    return part | ({_COUNTS: labels.counts.by_class} if labels.counts.by_class else {})


def _classes_from_json(part: Any, n_classes: int) -> ClassLabels:
    has_counts = _COUNTS in as_kind(part, dict)
    has_keys(part, (*_CLASSES, _COUNTS) if has_counts else _CLASSES)
    labels, dtype = hashables(part["labels"]), entry(part, "dtype", str)
    if len(labels) != n_classes:
        raise ValueError("classes must be as many as those of the forest")
    if dtype == "U":
        array = text_array([as_kind(label, str) for label in labels])
    else:
        array = array_of(labels, from_json({"array": [dtype, []]}).dtype.str)
    if array.ndim != 1 or len(np.unique(array)) < len(labels):
        raise ValueError("classes must be plain values, all different")
    return ClassLabels(labels, np.sort(array), _counts_from_json(part.get(_COUNTS, []), n_classes))


def _counts_from_json(part: Any, n_classes: int) -> list[int]:
    counts = [as_kind(count, int) for count in as_kind(part, list)]
    if len(counts) > n_classes or min(counts, default=0) < 0 or sum(counts) > MOST_ADDED_UP:
        raise ValueError("counts must be those of the rows of each class")
    return counts


# A core


def core_to_document(core: Core) -> tuple[Document, Arrays]:
    """Convert a core, which may be a part of a forest, to a document and arrays."""
    state = core.state()
    arrays: dict[str, NDArray[Any]] = state["trees"]
    if is_frozen_core(core):
        return {key: value for key, value in state.items() if key != "trees"}, arrays
    if state.get("bounds") is not None:
        arrays["bounds"] = state["bounds"]
    if "n_classes" in state:
        _check_capacity(state["capacity"], arrays)
    keys = _CLASS_CORE if "n_classes" in state else _CORE
    if is_adaptive_core(core):
        keys = (*keys, *_ADAPTIVE)
        state["groups"] = [list(group) for group in state["groups"]]
    options = {name: to_json(value, name) for name, value in state["options"].items()}
    keys = (*keys, *(key for key in _PARTS if key in state))
    return {key: options if key == "options" else state[key] for key in keys}, arrays


def _check_capacity(capacity: int, arrays: Arrays) -> None:
    """Refuse a file that is small beside the memory that its trees reserve for all classes.

    Such a model is not saved either, because it could not be loaded.
    """
    n_trees, n_bytes = len(arrays["n_nodes"]), sum(array.nbytes for array in arrays.values())
    if 8 * capacity * n_trees > 64 * n_bytes + 2**24:
        raise ValueError(
            f"there are too many trees for so many classes ({n_trees} for {capacity}) and so few "
            "samples: loading would take far more memory than the size of the file"
        )


def core_from_document(
    part: Any, arrays: Arrays, version: int = FORMAT, *, has_classes: bool, is_adaptive: bool
) -> Core:
    """Undo `core_to_document`."""
    part_keys = tuple(key for key in _PARTS if key in as_kind(part, dict))
    keys = (_CLASS_CORE if has_classes else _CORE) + (_ADAPTIVE if is_adaptive else ())
    has_keys(part, keys + part_keys)
    state: dict[str, Any] = {key: entry(part, key, int) for key in ("n_numbers", "n_samples")}
    if state["n_samples"] < 1 and not part_keys:
        raise ValueError("a forest must have learned something")
    if has_classes:
        n_classes, capacity = (entry(part, key, int) for key in ("n_classes", "capacity"))
        if not 1 <= n_classes <= capacity <= max(2 * n_classes, n_classes + 1):
            raise ValueError("capacity must be at least n_classes, and at most twice as many")
        _check_capacity(capacity, arrays)
        state |= {"n_classes": n_classes, "capacity": capacity}
        state["dirichlet"] = entry(part, "dirichlet", float)
    state["categories"] = [as_kind(count, int) for count in entry(part, "categories", list)]
    state["options"] = {
        name: from_json(value) for name, value in entry(part, "options", dict).items()
    }
    state |= {key: part[key] for key in part_keys}
    trees = dict(arrays)
    if is_adaptive:
        state |= _adaptive_options(part)
    if version >= 4 and not trees.keys() >= newer_columns(state).keys():
        raise ValueError("columns are missing")
    if is_adaptive:
        return restore_core(state | {"trees": trees})
    if version == 1:
        n_features = state["n_numbers"] + len(state["categories"])
        trees["n_rows"] = np.full(len(trees["n_nodes"]), state["n_samples"], np.uint64)
        trees["feature_weights"] = np.empty((0, n_features), np.float32)
    return restore_core(state | {"bounds": trees.pop("bounds", None), "trees": trees})


def _frozen_core_from_document(
    part: Any, arrays: Arrays, *, has_classes: bool, is_adaptive: bool
) -> Core:
    """Restore a frozen copy's core; the core checks the trees."""
    has_keys(part, _FROZEN_CORE + (_FROZEN_GROUPS if is_adaptive else _FROZEN_TREES))
    state = {key: as_kind(value, int) for key, value in part.items() if key != "categories"}
    if not all(0 <= value <= MOST_ROWS for value in state.values()):
        raise ValueError("numbers of a frozen copy must lie in [0, 2**31 - 1]")
    state["categories"] = [as_kind(count, int) for count in entry(part, "categories", list)]
    if state["n_samples"] < 1:
        raise ValueError("a forest must have learned something")
    if (is_adaptive and not has_classes) != ("expert_state" in arrays):
        raise ValueError("expert_state belongs to adaptive regressors")
    if not has_classes and not is_adaptive and state["n_outputs"] != 1:
        raise ValueError("n_outputs must be 1 for a regressor")
    core = restore_frozen_core(state | {"trees": dict(arrays)})
    values = arrays["values"]
    if has_classes and not (
        values.min() >= 0 and np.allclose(values.sum(axis=1), 1, rtol=0, atol=1e-9)
    ):
        raise ValueError("values must be probabilities")
    if is_adaptive and not has_classes and values[:, 1].min() < 0:
        raise ValueError("values must hold squared scales, which are not negative")
    return cast(Core, core)


def _adaptive_options(part: Document) -> dict[str, Any]:
    """Return the parameters of an adaptive core; the core checks their values."""
    options: dict[str, Any] = {name: entry(part, name, int) for name in _ADAPTIVE[1:4]}
    options["mixer_rate"] = entry(part, "mixer_rate", float)
    options["groups"] = [_group(group) for group in entry(part, "groups", list)]
    return options


def _group(part: Any) -> tuple[Any, ...]:
    memory, *flags = as_kind(part, list)
    return None if memory is None else as_kind(memory, int), *(as_kind(x, bool) for x in flags)
