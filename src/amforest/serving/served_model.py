"""The model behind a server: predictions, and learning with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest._forest.class_labels import decide
from amforest._forest.core_handle import handle_of, predict_row
from amforest._forest.estimator import Estimator
from amforest._forest.losses import log_losses, squared_errors
from amforest.evaluation import Evaluator
from amforest.evaluation.adapters import Prediction, adapt
from amforest.evaluation.blocks import Block
from amforest.evaluation.drift import DriftDetector
from amforest.model_io import model_file
from amforest.reading import CLASSIFICATION, Scheme
from amforest.regressor import ends_of
from amforest.serving.limits import Limits
from amforest.serving.row_conversion import RowConverter, Values

COVERAGE = 0.9  # of intervals
MOST_CATEGORIES = 100  # of a column in a description
METRICS = {
    (CLASSIFICATION, False): ("log_loss", "accuracy"),
    ("regression", False): ("rmse", "mae"),
    ("regression", True): ("rmse", "mae", "coverage"),
}


@dataclass(frozen=True)
class Explained:
    """What columns contribute to the predictions of some rows.

    Attributes
    ----------
    unit : {"log-odds", "log-probability", "probability", "number"}
        What base values and contributions add up to. Log-odds are those of the only class in the
        explanations; log-probabilities lack what makes the probabilities add up to 1.
    bases : list of dict, or of float
        For each row the base values by class; in regression the base value.
    contributions : list of dict
        For each row the contributions of the columns by class; in regression the contributions.
    """

    unit: str
    bases: list[Any]
    contributions: list[Any]


@dataclass(frozen=True)
class Predicted:
    """Predictions of some rows.

    Attributes
    ----------
    values : list
        Classes, or numbers.
    names : list of str, or None
        The classes of the columns of `probabilities`, as keys.
    probabilities : list of list, or None
    intervals : list of list, or None
    """

    values: list[Any]
    names: list[str] | None = None
    probabilities: list[list[float]] | None = None
    intervals: list[list[float]] | None = None


class ServedModel:
    """A forest, its columns, and how well it has predicted what it then learned.

    Any thread may predict; one thread learns.

    Parameters
    ----------
    model : AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier or AMFRegressor
    scheme : Scheme
    limits : Limits

    Attributes
    ----------
    evaluator : Evaluator
        Of the rows learned since the server started.
    drift : DriftDetector
    rows : RowConverter
    """

    def __init__(self, model: Any, scheme: Scheme, limits: Limits) -> None:
        self.model, self.scheme = model, scheme
        self.is_classifier = scheme.task == CLASSIFICATION
        has_intervals = hasattr(model, "predict_interval")
        self._coverage = COVERAGE if has_intervals else None
        self._adapter = adapt(model, scheme.task, coverage=self._coverage)
        self.evaluator = Evaluator(scheme.task, METRICS[scheme.task, has_intervals])
        self.drift = DriftDetector(is_bounded=self.is_classifier)
        self.rows = RowConverter(scheme, limits)
        self._scale_lock = Lock()  # held while scales are updated, or read
        self._is_bool = scheme.kinds.get(scheme.target) == "bool"
        self._shown: tuple[Any, list[Any], list[str]] = (None, [], [])

    @property
    def n_samples(self) -> int:
        """The number of rows learned."""
        fitted = handle_of(self.model).fitted
        return 0 if fitted is None else fitted.core.n_samples

    @property
    def can_predict(self) -> bool:
        """Whether a row was learned."""
        return handle_of(self.model).fitted is not None

    @property
    def classes(self) -> list[Any] | None:
        """The classes as answers show them; None for regression."""
        if not self.is_classifier:
            return None
        return self._show(self.model.classes_)[0] if self.can_predict else []

    # Predictions

    def predict_one(self, values: Values) -> Predicted:
        """Predict one row."""
        fitted = handle_of(self.model).fitted
        assert fitted is not None
        if self._coverage is not None:
            return self.predict(self.rows.table_of([values]))
        by_index = predict_row(fitted, self._scaled(values), self.model)
        if not self.is_classifier:
            return Predicted(by_index.tolist())
        probabilities = fitted.labels.sort_columns(by_index)
        return self._classified(fitted.labels, probabilities[None])

    def predict(self, table: pa.RecordBatch) -> Predicted:
        """Predict the rows of a table."""
        fitted = handle_of(self.model).fitted
        assert fitted is not None
        X = self._features(table, learn=False)
        if self._coverage is not None:
            distribution = self.model.predict_dist(X)
            ends = distribution.quantiles(ends_of(self._coverage))
            return Predicted(distribution.mean().tolist(), intervals=ends.tolist())
        if not self.is_classifier:
            return Predicted(self.model.predict(X).tolist())
        return self._classified(fitted.labels, self.model.predict_proba(X))

    def explain(self, table: pa.RecordBatch) -> Explained:
        """Return what the columns contribute to the predictions of the rows of a table."""
        found = self.model.explain(self._features(table, learn=False))
        names = self.feature_names(found.feature_names)
        values, bases = found.values.tolist(), found.base_values.tolist()
        if not self.is_classifier:
            return Explained(
                "number", bases, [dict(zip(names, row, strict=True)) for row in values]
            )
        if found.values.ndim == 2:  # of two classes
            (name,) = self._show(self.model.classes_)[1][1:2]
            contributions = [{name: dict(zip(names, row, strict=True))} for row in values]
            return Explained("log-odds", [{name: base} for base in bases], contributions)
        shown = self._show(np.asarray(found.output_names))[1]
        return Explained(
            "log-probability" if self.model.is_adaptive else "probability",
            [dict(zip(shown, row, strict=True)) for row in bases],
            [
                {
                    label: dict(zip(names, by_class, strict=True))
                    for label, by_class in zip(shown, zip(*row, strict=True), strict=True)
                }
                for row in values
            ],
        )

    def feature_names(self, given: Sequence[Any] | None) -> list[str]:
        """Return the names of the features; those of the columns if the model has none."""
        if given is None or not all(isinstance(name, str) for name in given):
            return self.scheme.names
        return list(given)

    def _classified(self, labels: Any, probabilities: NDArray[np.float64]) -> Predicted:
        """Return the predictions of probabilities: their number of columns gives the classes."""
        classes = labels.first(probabilities.shape[1])[0]
        shown, names = self._show(classes)
        best = decide(probabilities, self.model.threshold).tolist()
        return Predicted([shown[k] for k in best], names, probabilities.tolist())

    def _show(self, classes: NDArray[Any]) -> tuple[list[Any], list[str]]:
        """Return classes as answers show them, and as keys of JSON."""
        given, shown, names = self._shown
        if classes is not given:
            shown = classes.tolist()
            names = [str(label) for label in shown]
            if self._is_bool:
                shown = [bool(label) for label in shown]
                names = [str(label).lower() for label in shown]
            self._shown = classes, shown, names  # at once: others read it
        return shown, names

    def _scaled(self, values: Values) -> Values:
        scale = self.scheme.scale
        if scale is None or not self.scheme.numbers:
            return values
        n = len(self.scheme.numbers)
        with self._scale_lock:
            numbers = scale.apply(np.array([values[:n]], dtype=np.float64))
        return [*numbers[0].tolist(), *values[n:]]

    def _features(self, table: pa.RecordBatch, *, learn: bool) -> Any:
        with self._scale_lock:
            X = self.scheme.features(table, "the request", learn=learn)
        if not self.can_predict or hasattr(self.model, "feature_names_in_"):
            return X
        # Fitted with an array: names would be an error.
        columns = [column.to_numpy() for column in X.columns]
        return np.column_stack(columns) if not self.scheme.categories else _as_objects(X)

    # Learning

    def learn(self, table: pa.RecordBatch, labels: NDArray[Any]) -> None:
        """Predict each row, then learn it."""
        X = self._features(table, learn=True)
        for part, prediction in self._adapter.test_then_train(Block(X, labels)):
            self._measure(np.asarray(part.y), prediction)

    def _measure(self, labels: NDArray[Any], prediction: Prediction | None) -> None:
        if prediction is None:
            self.evaluator.update(labels, None)
            return
        values, classes, intervals = prediction
        self.evaluator.update(labels, values, classes, intervals=intervals)
        if classes is None:
            self.drift.update(np.sqrt(squared_errors(values, labels)))
        else:
            columns = np.searchsorted(classes, labels)
            known = np.isin(labels, classes)
            losses = log_losses(values, np.where(known, columns, len(classes)))
            self.drift.update(-np.expm1(-losses))

    def new_classes(self, labels: NDArray[Any], known: set[Any]) -> set[Any]:
        """Return the classes of some labels that are not known."""
        return set(labels.tolist()) - known if self.is_classifier else set()

    def known_classes(self) -> set[Any]:
        """Return the classes of the model, as it learns them."""
        if not (self.is_classifier and self.can_predict):
            return set()
        return set(self.model.classes_.tolist())

    # Descriptions

    def to_bytes(self, sequence: int) -> bytes:
        """Return the model file, which `amforest predict` and `amforest serve` read."""
        return model_file.to_bytes(self.model, extra=self.state(sequence))

    def state(self, sequence: int) -> dict[str, Any]:
        """Return what is saved with the model; `sequence` counts the entries of the journal."""
        return {"scheme": self.scheme.to_json(), "serving": {"sequence": sequence}}

    def describe(self) -> dict[str, Any]:
        """Return the schema, the classes, the parameters, the counts and the size, for JSON."""
        model, scheme = self.model, self.scheme
        stats: dict[str, Any] = model.stats()
        del stats["rejected_rows"]  # rows are validated before the model gets them
        described: dict[str, Any] = {
            "model": type(model).__name__,
            "target": scheme.target,
            "task": scheme.task,
            "columns": [
                {"name": name, "kind": kind} | self._categories_of(name, kind)
                for name, kind in scheme.kinds.items()
                if name != scheme.target
            ],
            "ignored_columns": list(self.rows.ignored),
            "classes": self.classes,
            "parameters": {k: _plain(v) for k, v in model.get_params(deep=False).items()},
            "stats": stats,
            "metrics": _finite(self.evaluator.metrics),
            "last_rows": _finite(self.evaluator.window),
            "window": self.evaluator.window_size,
            "measured_rows": self.evaluator.n_rows,
            "drifts": [drift.row for drift in self.drift.drifts],
        }
        if model.is_adaptive and self.can_predict:
            weights = zip(model.memory_names_, model.memory_weights_.tolist(), strict=True)
            described["memories"] = [{"memory": name, "weight": weight} for name, weight in weights]
        return described

    def _categories_of(self, name: str, kind: str) -> dict[str, Any]:
        """Return some categories of a column, for forms."""
        if kind != "category" or not self.can_predict:
            return {}
        categories = self.model.categories_.get(name, [])
        return {"categories": [str(value) for value in categories[:MOST_CATEGORIES]]}


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _finite(metrics: dict[str, float]) -> dict[str, float | None]:
    return {name: value if isfinite(value) else None for name, value in metrics.items()}


def _as_objects(X: pa.Table) -> NDArray[Any]:
    rows = np.empty(X.shape, dtype=object)
    for j, column in enumerate(X.columns):
        rows[:, j] = column.to_pylist()
    return rows


def check_model(model: Any) -> None:
    """Refuse a model that cannot be served."""
    if not isinstance(model, Estimator) or not hasattr(model, "get_params"):
        advice = ": convert it with its method to_sklearn" if hasattr(model, "to_sklearn") else ""
        raise ValueError(f"a {type(model).__name__} cannot be served{advice}")
