"""Simple models that learn beside the forest, for the report: labels alone, and a linear model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier, SGDRegressor

from amforest.baselines import OnlineDummyClassifier, OnlineDummyRegressor
from amforest.cli.scheme import CLASSIFICATION, RunningScale, Scheme
from amforest.evaluation import Evaluator, Progress
from amforest.evaluation.blocks import as_list
from amforest.model_io.json_values import floats_from_json, floats_to_json, from_json, to_json

Floats = NDArray[np.float64]
Convert = Callable[[list[Any]], NDArray[Any]]

ROWS_AT_ONCE = 100  # of the linear model: it takes as long for a single row
HASHED_COLUMNS = 64  # of the categories, for models that need numbers
LARGEST = 5.0  # value of a standardised feature
NO_CURVE = 1 << 62  # rows between two points


class Baselines:
    """Test, then train simple models on the rows of a run.

    Parameters
    ----------
    scheme : Scheme
    """

    def __init__(self, scheme: Scheme) -> None:
        self._scheme, self._is_class = scheme, scheme.task == CLASSIFICATION
        self._scale = RunningScale(len(scheme.numbers)) if scheme.scale is None else None
        self._dummy: Any = OnlineDummyClassifier() if self._is_class else OnlineDummyRegressor()
        self._linear: LogisticRegression | LinearRegression = (
            LogisticRegression() if self._is_class else LinearRegression()
        )
        self._last: Any = None
        # Rows that are not predicted yet, so that results do not depend on how rows are cut.
        self._waiting: list[tuple[Floats, NDArray[Any]]] = []
        both = ("log_loss", "accuracy") if self._is_class else ("rmse", "mae")
        linear = "logistic regression" if self._is_class else "linear regression"
        names = ["class frequencies" if self._is_class else "mean so far", "last label", linear]
        # The last label has no probability.
        metrics = [both, ("accuracy",) if self._is_class else both, both]
        self._evaluators = {
            name: Evaluator(scheme.task, some, every=NO_CURVE, unknown_classes="skip")
            for name, some in zip(names, metrics, strict=True)
        }

    def update(self, table: Any, labels: NDArray[Any]) -> None:
        """Predict rows, then learn them; the last of them may wait for more."""
        X = self._matrix(table)
        if self._last is None:  # no model can predict the first row
            for evaluator in self._evaluators.values():
                evaluator.update(labels[:1], None)
            self._learn(X[:1], labels[:1])
            X, labels = X[1:], labels[1:]
        self._waiting.append((X, labels))
        if sum(len(y) for _, y in self._waiting) < ROWS_AT_ONCE:
            return
        X, labels = self._take_waiting()
        end = len(labels) - len(labels) % ROWS_AT_ONCE
        for start in range(0, end, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            self._test_then_train(X[part], labels[part])
        self._waiting.append((X[end:], labels[end:]))

    def results(self) -> dict[str, Progress]:
        """Predict and learn the rows that wait; return the metrics of each model by its name."""
        if self._waiting:
            X, labels = self._take_waiting()
            if len(labels):
                self._test_then_train(X, labels)
        return {name: evaluator.result() for name, evaluator in self._evaluators.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the state in values of JSON."""
        # Joined in place: the rows wait as before.
        self._waiting = [self._take_waiting()] if self._waiting else []
        X, labels = self._waiting[0] if self._waiting else (np.empty((0, 0)), np.empty(0))
        return {
            "scale": None if self._scale is None else self._scale.to_json(),
            "dummy": to_json(self._dummy.__getstate__(), "dummy"),
            "linear": self._linear.to_json(),
            "last": [] if self._last is None else as_list(self._last),
            "waiting": [floats_to_json(X), as_list(labels)],
            "evaluators": {name: each.to_json() for name, each in self._evaluators.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `to_json`."""
        convert = self._scheme.labels
        if self._scale is not None:
            self._scale = RunningScale.from_json(state["scale"])
        self._dummy.__setstate__(from_json(state["dummy"]))
        self._linear.restore(state["linear"], convert)
        self._last = convert(state["last"]) if state["last"] else None
        X, labels = state["waiting"]
        rows = floats_from_json(X, (len(labels), None))
        self._waiting = [(rows, convert(labels))] if labels else []
        for name, evaluator in self._evaluators.items():
            evaluator.restore(state["evaluators"][name])

    def _take_waiting(self) -> tuple[Floats, NDArray[Any]]:
        X, labels = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting = []
        return X, labels

    def _learn(self, X: Floats, y: NDArray[Any]) -> None:
        self._dummy.partial_fit(X, y)
        self._linear.learn(X, y)
        self._last = y[-1:]

    def _test_then_train(self, X: Floats, y: NDArray[Any]) -> None:
        dummy, last, linear = self._evaluators.values()
        linear.update(y, self._linear.predict(X), self._linear.classes)
        self._linear.learn(X, y)
        name = "partial_fit_predict_proba" if self._is_class else "partial_fit_predict"
        dummy.update(y, getattr(self._dummy, name)(X, y), getattr(self._dummy, "classes_", None))
        last.update(y, np.concatenate((self._last, y[:-1])))
        self._last = y[-1:]

    def _matrix(self, table: Any) -> Floats:
        """Return standardised numbers, 0 where they are missing, and hashed categories."""
        numbers = stack_numbers(self._scheme, table)
        if self._scale is not None:
            numbers = self._scale.transform(numbers)
        numbers = np.nan_to_num(np.clip(numbers, -LARGEST, LARGEST))
        return np.hstack([numbers, hash_categories(self._scheme, table)])


def stack_numbers(scheme: Scheme, table: Any) -> Floats:
    """Return the columns of numbers; NaN where they are missing."""
    columns = [table.column(name).to_numpy() for name in scheme.numbers]
    return np.column_stack(columns) if columns else np.empty((len(table), 0))


def hash_categories(scheme: Scheme, table: Any) -> Floats:
    """Return the categories in a fixed number of columns, or none."""
    if not scheme.categories:
        return np.empty((len(table), 0))
    words = zip(*(table.column(name).to_pylist() for name in scheme.categories), strict=True)
    named = ([f"{n}={w}" for n, w in zip(scheme.categories, row, strict=True)] for row in words)
    hashed: Floats = FeatureHasher(HASHED_COLUMNS, input_type="string").transform(named).toarray()
    return hashed


class LogisticRegression:
    """Logistic regression by stochastic gradients, to which classes may be added at any time."""

    def __init__(self) -> None:
        self.classes: NDArray[Any] = np.empty(0)
        self._model: Any = None

    def predict(self, X: Floats) -> Floats:
        """Return the probabilities of the classes so far."""
        if self._model is None:
            return np.ones((len(X), 1))
        probabilities: Floats = self._model.predict_proba(X)
        return probabilities

    def learn(self, X: Floats, y: NDArray[Any]) -> None:
        """Learn rows."""
        known = np.union1d(self.classes, y) if len(self.classes) else np.unique(y)
        if len(known) > len(self.classes):
            self.classes = known
            if len(known) > 1:
                self._model = self._grow(X.shape[1])
        if self._model is not None:
            self._model.partial_fit(X, y)

    def _grow(self, n_features: int) -> Any:
        """Return a model for all classes, with the weights so far."""
        rate = min(0.1, 1 / (n_features + 1))
        model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rate, random_state=0)
        nothing = np.zeros((1, n_features)), self.classes[:1]
        model.partial_fit(*nothing, classes=self.classes)
        model.coef_[:], model.intercept_[:] = 0.0, 0.0
        if self._model is not None:
            weights, offsets = self._model.coef_, self._model.intercept_
            if len(weights) == 1:
                weights, offsets = np.vstack((-weights, weights)), np.append(-offsets, offsets)
            places = np.searchsorted(self.classes, self._model.classes_)
            model.coef_[places], model.intercept_[places] = weights, offsets
        return model

    def to_json(self) -> dict[str, Any]:
        """Return the state in values of JSON."""
        return {"classes": as_list(self.classes), "model": _weights_to_json(self._model)}

    def restore(self, state: dict[str, Any], convert: Convert) -> None:
        """Continue from the result of `to_json`; `convert` turns labels into an array."""
        self.classes, self._model = convert(state["classes"]), None
        if state["model"] is not None:
            n_features = floats_from_json(state["model"]["coef"], (None, None)).shape[1]
            self._model = self._grow(n_features)
            _restore_weights(self._model, state["model"])


class LinearRegression:
    """Linear regression by stochastic gradients, on labels that are standardised."""

    classes = None

    def __init__(self) -> None:
        self._model: Any = None
        self._n, self._mean, self._squares = 0, 0.0, 0.0
        self._lowest, self._highest = np.inf, -np.inf

    def predict(self, X: Floats) -> Floats:
        """Return predictions within the range of the labels so far."""
        predictions = self._mean + self._spread() * self._model.predict(X)
        clipped: Floats = np.clip(predictions, self._lowest, self._highest)
        return clipped

    def learn(self, X: Floats, y: Floats) -> None:
        """Learn rows."""
        n, mean = self._n + len(y), float(y.mean())
        shift = mean - self._mean
        self._squares += float(((y - mean) ** 2).sum()) + shift**2 * self._n * len(y) / n
        self._mean += shift * len(y) / n
        self._n = n
        self._lowest, self._highest = min(self._lowest, y.min()), max(self._highest, y.max())
        if self._model is None:
            self._model = self._build(X.shape[1])
        scaled = (y - self._mean) / self._spread()
        self._model.partial_fit(X, np.clip(scaled, -2 * LARGEST, 2 * LARGEST))

    def to_json(self) -> dict[str, Any]:
        """Return the state in values of JSON."""
        sums = self._n, self._mean, self._squares, self._lowest, self._highest
        return {"sums": floats_to_json(sums), "model": _weights_to_json(self._model)}

    def restore(self, state: dict[str, Any], convert: Convert) -> None:
        """Continue from the result of `to_json`."""
        n, *sums = floats_from_json(state["sums"], (5,)).tolist()
        self._n = int(n)
        self._mean, self._squares, self._lowest, self._highest = sums
        if state["model"] is not None:
            (n_features,) = floats_from_json(state["model"]["coef"], (None,)).shape
            self._model = self._build(n_features).partial_fit(np.zeros((1, n_features)), [0.0])
            _restore_weights(self._model, state["model"])

    def _build(self, n_features: int) -> Any:
        return SGDRegressor(eta0=min(0.01, 1 / (n_features + 1)), random_state=0)

    def _spread(self) -> float:
        return float(np.sqrt(self._squares / self._n)) or 1.0


def _weights_to_json(model: Any) -> dict[str, Any] | None:
    """Return what a model of scikit-learn has learned by stochastic gradients."""
    if model is None:
        return None
    return {
        "coef": floats_to_json(model.coef_),
        "intercept": floats_to_json(model.intercept_),
        "rows": float(model.t_),  # they decide on the learning rate
    }


def _restore_weights(model: Any, state: dict[str, Any]) -> None:
    model.coef_[:] = floats_from_json(state["coef"], model.coef_.shape)
    model.intercept_[:] = floats_from_json(state["intercept"], model.intercept_.shape)
    model.t_ = float(state["rows"])
