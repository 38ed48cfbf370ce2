"""Watching a model for drift: functions are called when its losses rise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from amforest._forest.core_handle import handle_of
from amforest.evaluation.adapters import Prediction, find_task
from amforest.evaluation.base_metric import Floats
from amforest.evaluation.blocks import as_list
from amforest.evaluation.drift import Drift, DriftDetector, RiverDetector
from amforest.evaluation.feature_changes import FeatureChange, find_changed_features
from amforest.inspection import importances
from amforest.model_io.json_values import from_json, to_json

OnDrift = Callable[[Drift], object]


class DriftWatch:
    """Detect drift in the losses of a model, and call a function for each.

    The loss of a row is that of the prediction before the row is learned: 1 - p of its class, or
    the absolute error of a number. `watch_drift` watches all that an adaptive forest learns; pass
    losses from elsewhere to `update`.

    Parameters
    ----------
    model : classifier or regressor
        A model of ours, of scikit-learn or of river.
    on_drift : callable, default=None
        Called with each `Drift`, after the call that has learned its row. If it raises an error,
        that call raises it; the model has learned all rows by then, and stays valid. It may use
        the model.
    detector : detector of river, default=None
        As in `DriftDetector`. None is the detector of that class itself.

    Attributes
    ----------
    drifts : list of Drift
        All so far.
    """

    def __init__(
        self, model: Any, on_drift: OnDrift | None = None, *, detector: RiverDetector | None = None
    ) -> None:
        if on_drift is not None and not callable(on_drift):
            raise TypeError(f"on_drift is {on_drift!r}; it must be a function of a Drift, or None")
        given: object = detector
        is_detector = hasattr(given, "update") and hasattr(given, "drift_detected")
        if isinstance(given, type) or not (given is None or is_detector):
            raise TypeError(
                f"detector is {detector!r}; it must be an object with update(x) and "
                "drift_detected, such as river.drift.ADWIN(), or None"
            )
        self.model, self.on_drift = model, on_drift
        self.task = find_task(model)
        self._template = detector
        self.drifts: list[Drift] = []
        self.restart()

    def restart(self, n_rows: int = 0) -> None:
        """Forget the losses: the next row is number `n_rows` + 1."""
        is_bounded = self.task == "classification"
        self._detector = DriftDetector(is_bounded=is_bounded, detector=self._template)
        self._first, self._n_rows = n_rows, n_rows

    def to_json(self) -> dict[str, Any]:
        """Return the losses so far and the drifts in values of JSON.

        TypeError with a detector of river, or with features whose names are not values of JSON.
        """
        return {
            "counts": [self._first, self._n_rows],
            "detector": self._detector.to_json(),
            "drifts": [_drift_to_json(drift) for drift in self.drifts],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `to_json`; `on_drift` is not called for its drifts."""
        self._first, self._n_rows = (int(n) for n in state["counts"])
        self._detector.restore(state["detector"])
        self.drifts = [_drift_from_json(drift) for drift in state["drifts"]]

    def update(self, losses: Floats | list[float]) -> list[Drift]:
        """Take the losses of the next rows, NaN where there is none; return drifts that are new.

        Losses of classes must be between 0 and 1. `on_drift` is called for each new drift, when all
        losses are taken.
        """
        self._n_rows += len(losses)
        new = []
        for drift in self._detector.update(losses):
            changed = self._find_changed(drift.row - drift.since)
            row, since = drift.row + self._first, drift.since + self._first
            new.append(replace(drift, row=row, since=since, changed=changed))
        self.drifts += new
        if self.on_drift is not None:
            for drift in new:
                self.on_drift(drift)
        return new

    def update_predictions(
        self, labels: Any, prediction: Prediction | None, weights: Any = None
    ) -> list[Drift]:
        """Take the predictions of the next rows; rows without one or of weight 0 have no loss."""
        if prediction is None:
            losses: Floats = np.full(len(labels), np.nan)
        else:
            losses = row_losses(self.task, labels, prediction)
        if weights is not None:
            losses = np.where(np.asarray(weights) > 0, losses, np.nan)
        return self.update(losses)

    def _find_changed(self, n_rows: int) -> tuple[FeatureChange, ...]:
        if not _is_adaptive(self.model):
            return ()
        try:
            return find_changed_features(importances(self.model), n_rows)
        except NotFittedError:
            return ()

    # What an adaptive forest learns

    def start(self) -> Self:
        """Watch all that the model learns; an adaptive forest, or one of `amforest.river`."""
        if not _is_adaptive(self.model):
            raise TypeError(
                f"model is a {type(self.model).__name__}; only an adaptive forest, such as "
                "AdaptiveAMFClassifier, predicts each row that it learns. Pass on_drift to "
                "progressive_validation instead, or call update with the losses"
            )
        handle_of(self.model).listen(self._listen)
        return self

    def stop(self) -> None:
        """Stop watching. Drifts so far are kept."""
        handle_of(self.model).stop_listening(self._listen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _listen(self, first_row: int, losses: Floats) -> None:
        if first_row != self._n_rows + 1:  # the model was fitted anew
            self.restart(first_row - 1)
        self.update(losses)


def watch_drift(
    model: Any, on_drift: OnDrift | None = None, *, detector: RiverDetector | None = None
) -> DriftWatch:
    """Watch an adaptive forest for drift while it learns, by whichever method.

    Parameters
    ----------
    model : AdaptiveAMFClassifier or AdaptiveAMFRegressor, also of `amforest.river`
    on_drift, detector
        As in `DriftWatch`.

    Returns
    -------
    DriftWatch
        With all `drifts` so far. Its method `stop` ends watching; so does the end of a ``with``
        block.

    Notes
    -----
    Rows are numbered as the model has learned them; after `fit` from 1 again. They do not depend on
    how the stream is cut into batches. What is watched belongs to the object: clones, copies,
    pickles and model files of it are not watched.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AdaptiveAMFClassifier
    >>> from amforest.evaluation import watch_drift
    >>> X = np.random.default_rng(0).normal(size=(4000, 4))
    >>> y = np.where(np.arange(4000) < 2000, X[:, 0], X[:, 3]) > 0
    >>> model = AdaptiveAMFClassifier(random_state=0)
    >>> watch = watch_drift(model, lambda drift: print("drift since row", drift.since))
    >>> model = model.partial_fit(X, y)
    drift since row 2000
    >>> sorted(change.feature for change in watch.drifts[0].changed)
    [0, 3]
    """
    return DriftWatch(model, on_drift, detector=detector).start()


def _drift_to_json(drift: Drift) -> list[Any]:
    changed = [[change.feature, change.before, change.after] for change in drift.changed]
    values = [drift.row, drift.since, drift.before, drift.after, changed]
    converted: list[Any] = to_json(values, "drifts")
    return converted


def _drift_from_json(state: list[Any]) -> Drift:
    row, since, before, after, changed = from_json(state)
    changes = (FeatureChange(feature, *parts) for feature, *parts in changed)
    return Drift(int(row), int(since), float(before), float(after), tuple(changes))


def row_losses(task: str, labels: Any, prediction: Prediction) -> Floats:
    """Return 1 - p of each row's class, or the absolute error of each number.

    A predicted class counts as p = 1, and an ensemble as its mean.
    """
    values, losses = prediction.values, np.empty(0)
    if task != "classification":
        numbers = values.mean(axis=1) if values.ndim == 2 else values
        losses = np.abs(numbers - np.asarray(labels, dtype=np.float64))
    elif prediction.classes is None:
        losses = (values != np.asarray(labels)).astype(np.float64)
    else:
        losses = 1 - _probabilities(as_list(labels), values, as_list(prediction.classes))
    return losses


def _probabilities(labels: list[Any], values: NDArray[Any], classes: list[Any]) -> Floats:
    """Return the probability of each row's class: 0 for a class without a column."""
    column_of = {label: k for k, label in enumerate(classes)}
    columns = np.array([column_of.get(label, -1) for label in labels], dtype=np.intp)
    of_label: Floats = np.where(columns >= 0, values[np.arange(len(labels)), columns], 0.0)
    return of_label


def _is_adaptive(model: Any) -> bool:
    """Return whether a model is an adaptive forest, or one of our adaptive models for river."""
    return hasattr(type(model), "memory_weights_history_")
