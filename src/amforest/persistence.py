"""The model file: a forest as bytes that anybody may read, and that are checked before use.

The format is safetensors: arrays, and a document in JSON. No pickle is read or written, and no code
is run. Whatever bytes are given, reading them yields a valid forest or a `ModelFormatError`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

import amforest
from amforest import _files, _safetensors
from amforest._base import Forest
from amforest._categories import Categories
from amforest._classes import ClassForest
from amforest._values import as_kind, from_json, hashables, text_array, to_json

__all__ = ["ModelFormatError", "from_bytes", "load", "save", "to_bytes"]

FORMAT = 1  # the newest that this version reads, and the one that it writes
_DOCUMENT, _DIGEST = "amforest", "sha256"
_BLANK = "0" * 64  # in the place of the digest, while it is computed
_MODULES = {
    "AMFClassifier": "amforest.estimators",
    "AMFRegressor": "amforest.estimators",
    "MondrianForestClassifier": "amforest.baselines",
    "river.AMFClassifier": "amforest.river",
    "river.AMFRegressor": "amforest.river",
}
# Parts of a document: each has just these keys.
_MODEL = ("format", "library", "model", "params", "columns", "forest")
_FOREST = ("params", "fitted", "core")
_FITTED = ("n_features", "names", "categorical", "categories", "classes", "progress")
_CLASSES = ("dtype", "labels")
_COLUMNS = ("numbers", "categorical", "categories")
_CORE = ("n_numbers", "categories", "n_samples", "options")
_CLASS_CORE = (*_CORE, "n_classes", "capacity", "dirichlet")

Arrays = Mapping[str, NDArray[Any]]
Document = dict[str, Any]


class ModelFormatError(ValueError):
    """What was read is no model, or not one of this format."""


def save(model: Any, path: str | PathLike[str]) -> str:
    """Write a model to a file; whatever happens, the file is the old one or the new one.

    Parameters
    ----------
    model : AMFClassifier, AMFRegressor, MondrianForestClassifier, or one of `amforest.river`'s
        The model, fitted or not.
    path : str or path-like
        The file. Only its owner may read it.

    Returns
    -------
    str
        The SHA-256 digest of the file, for `load`.

    Examples
    --------
    >>> import amforest
    >>> model = amforest.AMFClassifier(random_state=0).fit([[0.0], [1.0]], ["no", "yes"])
    >>> folder = getfixture("tmp_path")
    >>> digest = amforest.save(model, folder / "model.amf")
    >>> amforest.load(folder / "model.amf", sha256=digest).predict([[0.1]])
    array(['no'], dtype='<U3')
    """
    return _files.write_atomically(path, _pieces(*_taken_apart(model)))


def load(path: str | PathLike[str], *, sha256: str | None = None) -> Any:
    """Read a model, which goes on as if it had never been saved.

    Parameters
    ----------
    path : str or path-like
        The file.
    sha256 : str, default=None
        The digest that the file must have: what `save` returned, or ``sha256sum`` prints.

    Returns
    -------
    The model.

    Raises
    ------
    ModelFormatError
        If the file holds no valid model, has another digest, or is of a newer format.
    """
    data = _files.read_all(path)
    if sha256 is not None:
        found = hashlib.sha256(data).hexdigest()
        if found != sha256.strip().lower():
            raise ModelFormatError(f"{path} has the SHA-256 digest {found}, not {sha256}")
    return from_bytes(data)


def to_bytes(model: Any) -> bytes:
    """Return a model as bytes: those that `save` writes. The same model gives the same bytes."""
    return b"".join(_pieces(*_taken_apart(model)))


def from_bytes(data: bytes) -> Any:
    """Return the model that `to_bytes` made bytes of; `ModelFormatError` if it did not."""
    document, arrays = _opened(data)
    with _reading():
        version = _of(document, "format", int)
        if version > FORMAT:
            raise ModelFormatError(
                f"the model is of format {version}, written by amforest "
                f"{_of(document, 'library', str)}; this is amforest {amforest.__version__}, which "
                f"reads formats up to {FORMAT}: install a newer one"
            )
        if version != FORMAT:
            raise ValueError(f"there is no format {version}")
        _has_keys(document, _MODEL)
        return _put_together(document, arrays)


def core_to_bytes(core: Any) -> bytes:
    """Return a core alone, for pickling: what else there is pickles by itself."""
    document, arrays = _core_taken_apart(core)
    return b"".join(_pieces({"format": FORMAT, "core": document}, arrays))


def core_from_bytes(model: Forest, data: bytes) -> Any:
    """Return the core for a model, from what `core_to_bytes` gave."""
    document, arrays = _opened(data)
    with _reading():
        _has_keys(document, ("format", "core"))
        return _core(model, document["core"], arrays)


# Bytes


def _pieces(document: Document, arrays: Arrays) -> list[bytes | memoryview]:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    blank = _safetensors.pack(arrays, {_DOCUMENT: text, _DIGEST: _BLANK})
    digest = hashlib.sha256()
    for piece in blank:
        digest.update(piece)
    sealed = {_DOCUMENT: text, _DIGEST: digest.hexdigest()}
    return [_safetensors.header(arrays, sealed), *blank[1:]]


def _opened(data: bytes) -> tuple[Document, Arrays]:
    with _reading():
        arrays, metadata = _safetensors.unpack(as_kind(data, bytes))
        _has_keys(metadata, (_DOCUMENT, _DIGEST))
        blank = _safetensors.header(arrays, metadata | {_DIGEST: _BLANK})
        digest = hashlib.sha256(blank)
        digest.update(memoryview(data)[len(blank) :])
        if digest.hexdigest() != metadata[_DIGEST]:
            raise ValueError("its digest is not that of its content: it was changed or damaged")
        document = json.loads(metadata[_DOCUMENT], parse_constant=_no_constant)
        return as_kind(document, dict), arrays


@contextmanager
def _reading() -> Iterator[None]:
    """Whatever is wrong with a file is one kind of error."""
    try:
        yield
    except ModelFormatError:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise ModelFormatError(f"this is no model of amforest: {error}") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no value of JSON")


def _has_keys(document: Any, keys: tuple[str, ...]) -> None:
    if list(as_kind(document, dict)) != list(keys):
        raise ValueError(f"the keys are {list(document)[:20]}, not {list(keys)}")


def _of(document: Document, key: str, *kinds: type) -> Any:
    return as_kind(document[key], *kinds)


# A model as a document and arrays


def _taken_apart(model: Any) -> tuple[Document, Arrays]:
    name = _name_of(model)
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
    return document | {"forest": forest}, arrays


def _put_together(document: Document, arrays: Arrays) -> Any:
    name = _of(document, "model", str)
    if name not in _MODULES:
        raise ValueError(f"{name!r} is no model of this version")
    cls = getattr(import_module(_MODULES[name]), name.removeprefix("river."))
    if not name.startswith("river."):
        if document["params"] is not None or document["columns"] is not None:
            raise ValueError("params and columns belong to models of river")
        return _forest(cls, document["forest"], arrays)
    model = cls(**_parameters(document["params"]))
    forest = _forest(cls._estimator, document["forest"], arrays)
    columns = _columns(document["columns"])
    if forest._has_learnt():
        core = forest._core
        room = columns.categories.room(core.categories)
        if (core.n_numbers, core.categories) != (columns.n_numbers, list(room)):
            raise ValueError("columns do not fit the forest")
    model._model, model._columns = forest, columns
    return model


def _name_of(model: Any) -> str:
    name = type(model).__name__
    for key, module in _MODULES.items():
        if key.removeprefix("river.") == name and type(model).__module__ == module:
            return key
    raise TypeError(
        f"model is a {type(model).__module__}.{name}; a model file can hold "
        f"{', '.join(_MODULES)}, and no subclass of them"
    )


def _columns(part: Any) -> Any:
    from amforest._columns import Columns  # noqa: PLC0415  # only for models of river

    _has_keys(part, _COLUMNS)
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
        core, arrays = _core_taken_apart(model._core)
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
    _has_keys(part, _FOREST)
    model = cls(**_parameters(part["params"]))
    model._validate_params()
    if part["fitted"] is None:
        if part["core"] is not None or arrays:
            raise ValueError("there is a forest, but nothing of how it was fitted")
        return model
    fitted = part["fitted"]
    _has_keys(fitted, _FITTED)
    model._core = core = _core(model, part["core"], arrays)
    model._room = tuple(core.categories)
    _set_features(model, fitted)
    weight, loss = (float(as_kind(x, int, float)) for x in _of(fitted, "progress", list))
    model._progress = weight, loss
    if isinstance(model, ClassForest):
        _set_classes(model, fitted["classes"])
    elif fitted["classes"] is not None:
        raise ValueError("classes belong to classifiers")
    return model


def _set_features(model: Forest, fitted: Document) -> None:
    n_features, room = _of(fitted, "n_features", int), model._room
    if n_features != model._core.n_numbers + len(room):
        raise ValueError("n_features is not that of the forest")
    model.n_features_in_ = n_features
    categorical = [as_kind(j, int) for j in _of(fitted, "categorical", list)]
    if not all(a < b for a, b in zip([-1, *categorical], [*categorical, n_features], strict=True)):
        raise ValueError("categorical must be increasing numbers of features")
    model.is_categorical_ = np.isin(np.arange(n_features), categorical)
    if fitted["categories"] is not None:
        model._categories = _categories(fitted["categories"], len(categorical))
        if list(model._categories.room(room)) != list(room) or len(categorical) != len(room):
            raise ValueError("categories do not fit the forest")
    elif categorical:  # a model of river's keeps its categories elsewhere
        raise ValueError("the categories of categorical features are missing")
    if fitted["names"] is not None:
        names = [as_kind(name, str) for name in _of(fitted, "names", list)]
        if len(names) != n_features:
            raise ValueError("names must be as many as features")
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
    _has_keys(part, _CLASSES)
    labels, dtype = hashables(part["labels"]), _of(part, "dtype", str)
    if len(labels) != model._core.forecast_size:
        raise ValueError("classes must be as many as those of the forest")
    if dtype == "U":
        array = text_array([as_kind(label, str) for label in labels])
    else:
        array = from_json({"array": [dtype, []]}).astype(dtype)
        array = np.array(labels, dtype=array.dtype)
    if array.ndim != 1:
        raise ValueError("classes must be plain values")
    model._set_classes(labels, np.sort(array))


# A core


def _core_taken_apart(core: Any) -> tuple[Document, Arrays]:
    state = core.state()
    arrays: dict[str, NDArray[Any]] = state["trees"]
    if state["bounds"] is not None:
        arrays["bounds"] = state["bounds"]
    keys = _CLASS_CORE if "n_classes" in state else _CORE
    options = {name: to_json(value, name) for name, value in state["options"].items()}
    return {key: options if key == "options" else state[key] for key in keys}, arrays


def _core(model: Forest, part: Any, arrays: Arrays) -> Any:
    has_classes = isinstance(model, ClassForest)
    _has_keys(part, _CLASS_CORE if has_classes else _CORE)
    state = {key: _of(part, key, int) for key in ("n_numbers", "n_samples")}
    if state["n_samples"] < 1:
        raise ValueError("a forest must have learnt something")
    if has_classes:
        n_classes, capacity = (_of(part, key, int) for key in ("n_classes", "capacity"))
        if not 1 <= n_classes <= capacity <= max(2 * n_classes, n_classes + 1):
            raise ValueError("capacity must be n_classes at least, and twice as many at the most")
        state |= {"n_classes": n_classes, "capacity": capacity}
        state["dirichlet"] = _of(part, "dirichlet", float)
    state["categories"] = [as_kind(count, int) for count in _of(part, "categories", list)]
    state["options"] = {
        name: from_json(value) for name, value in _of(part, "options", dict).items()
    }
    trees = dict(arrays)
    return model._core_from(state | {"bounds": trees.pop("bounds", None), "trees": trees})
