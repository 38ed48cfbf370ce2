"""Models to start with: from a file, or new ones whose columns are inferred from the first rows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from sklearn.base import is_classifier

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.model_io import atomic_write, model_file
from amforest.reading import (
    CLASSIFICATION,
    REGRESSION,
    Scheme,
    StreamError,
    drop_unique_text,
    open_stream,
)
from amforest.serving.bodies import Given
from amforest.serving.limits import Limits
from amforest.serving.problems import Problem
from amforest.serving.row_conversion import JsonRow, opened_arrow
from amforest.serving.served_model import check_model

ADAPTIVE, AMF = "adaptive", "amf"  # the families of models
ROWS_FOR_TASK = 100  # whose labels tell whether whole numbers are classes


@dataclass(frozen=True)
class NewModel:
    """What a model is built from when the first rows come.

    Attributes
    ----------
    target : str
        The column of the labels.
    task : str or None
        "classification" or "regression". None: inferred.
    family : str or None
        "adaptive" or "amf". None: adaptive.
    options : dict
        Parameters of the model.
    types : dict of str to str
        The kinds of some columns.
    """

    target: str
    task: str | None
    family: str | None
    options: dict[str, Any]
    types: dict[str, str]

    def build(self, given: Given, limits: Limits) -> tuple[Any, Scheme, list[str]]:
        """Return a model for the first rows, its scheme, and notes for the user."""
        if given.arrow is not None:
            with opened_arrow(given.arrow, limits) as reader:
                reader.check()
        source, format = self._source(given)  # noqa: A001
        try:
            stream = open_stream(source, format=format, types=self.types, target=self.target)
            with stream:
                batches = [batch for batch in stream if len(batch) or batch.rejects]
                kinds, notes = drop_unique_text(stream.columns, {self.target, *self.types})
                notes = stream.notes + notes
            rejects = [reject for batch in batches for reject in batch.rejects]
            if rejects:
                first = rejects[0]
                raise Problem(422, f"rows[{first.line - 1}]: {first.reason}", field="rows")
            if not batches:
                raise Problem(422, "the request has no rows: give at least one", field="rows")
            y = np.concatenate([batch.y for batch in batches])
            self._check_task(y)
            scheme = Scheme.infer(batches[0].X, y, self.target, kinds, task=self.task)
        except StreamError as error:
            raise Problem(422, str(error), field=self.target) from error
        if (self.family or ADAPTIVE) == ADAPTIVE:
            scheme.scale = None
        is_class = scheme.task == CLASSIFICATION
        kind: Any
        if (self.family or ADAPTIVE) == ADAPTIVE:
            kind = AdaptiveAMFClassifier if is_class else AdaptiveAMFRegressor
        else:
            kind = AMFClassifier if is_class else AMFRegressor
        return kind(categorical_features=scheme.categories or None, **self.options), scheme, notes

    def _source(self, given: Given) -> tuple[Any, str]:
        if given.rows is None:
            return io.BytesIO(given.arrow or b""), "arrow"
        rows: Sequence[JsonRow] = given.rows
        if given.labels is not None:
            rows = [{**row, self.target: y} for row, y in zip(rows, given.labels, strict=True)]
        elif not any(self.target in row for row in rows):
            raise Problem(
                422,
                f"there are neither labels nor a column {self.target!r} in the rows: give one of "
                "them",
                field="labels",
            )
        return io.BytesIO(b"\n".join(map(orjson.dumps, rows))), "ndjson"

    def _check_task(self, y: Any) -> None:
        """Refuse to guess: few whole numbers may be classes, or numbers."""
        if self.task is not None or y.dtype.kind != "f" or len(y) >= ROWS_FOR_TASK:
            return
        if (y == np.rint(y)).all():
            raise Problem(
                422,
                f"the first {len(y):,} labels are whole numbers, which may be classes or numbers: "
                f"send at least {ROWS_FOR_TASK} rows first, or start the server with --task",
                field="labels",
            )


def load_model(path: str, target: str | None) -> tuple[Any, Any]:
    """Load a model that `amforest run` or `amforest.save` has saved, and the state with it."""
    data = atomic_write.read_all(path)
    try:
        model, state = model_file.from_bytes(data), model_file.extra_of(data)
    except model_file.ModelFormatError as error:
        raise ValueError(f"{path}: {error}") from error
    check_model(model)
    if not (isinstance(state, dict) and "scheme" in state):
        if target is None:
            raise ValueError(f"--target is missing: {path} does not name the column of labels")
        scheme = describe_columns(model, target)
        return model, {"scheme": scheme.to_json()}
    saved = Scheme.from_json(state["scheme"])
    if target not in (None, saved.target):
        raise ValueError(f"--target is {target!r}, but {path} predicts {saved.target!r}")
    return model, {"scheme": state["scheme"]}


def describe_columns(model: Any, target: str) -> Scheme:
    """Return the scheme of a model that was saved without one.

    Columns without names are called x0, x1, ….
    """
    if not model.__sklearn_is_fitted__():
        raise ValueError(
            "the model has learned nothing, so its columns are not known: omit MODEL, or train "
            "it first"
        )
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    names = names or [f"x{j}" for j in range(model.n_features_in_)]
    features = [str(name) for name in getattr(model, "feature_names_", names)]
    is_categorical = dict(zip(features, model.is_categorical_.tolist(), strict=True))
    kinds = {}
    for name in names:
        if name in is_categorical:
            kinds[name] = "category" if is_categorical[name] else "number"
        elif f"{name}.hour" in is_categorical:
            kinds[name] = "datetime"
        elif f"{name}.year" in is_categorical:
            kinds[name] = "date"
    if len(features) != len(names) and not hasattr(model, "feature_names_in_"):
        raise ValueError("the model has dates without names of columns: save it with a data frame")
    if target in kinds:
        raise ValueError(f"--target is {target!r}, which is a feature of the model")
    is_class = is_classifier(model)
    classes = model.classes_ if is_class else np.empty(0)
    whole = is_class and classes.dtype.kind in "iub"
    if is_class and not whole and classes.dtype.kind not in "UO":
        raise ValueError(f"the classes are {classes.dtype}; expected text or whole numbers")
    kinds[target] = "category" if is_class and not whole else "number"
    categories = [name for name, kind in kinds.items() if kind == "category" and name != target]
    numbers = [name for name in kinds if name not in {*categories, target}]
    task = CLASSIFICATION if is_class else REGRESSION
    return Scheme(target, task, whole, kinds, numbers, categories, None)
