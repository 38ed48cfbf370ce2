"""Functions are called where the losses of a model rise, however it learns."""

import json
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier
from amforest.evaluation import DriftWatch, progressive_validation, watch_drift
from amforest.evaluation.feature_changes import find_changed_features
from amforest.model_io import from_bytes

N_ROWS, CHANGE = 1_600, 1_000
SMALL: dict[str, Any] = {"n_estimators": 2, "memories": (None, 250, 60), "random_state": 0}


def stream(kind, n_rows=N_ROWS, change=CHANGE):
    """Return rows whose label depends on the first feature, and later on the last."""
    X = np.random.default_rng(0).normal(size=(n_rows, 4))
    number = np.where(np.arange(n_rows) < change, X[:, 0], X[:, 3])
    return X, number > 0 if kind == "classifier" else number


def new(kind, **params):
    if kind == "classifier":
        return AdaptiveAMFClassifier(classes=[False, True], **SMALL | params)
    return AdaptiveAMFRegressor(**SMALL | params)


def rows_of(drifts):
    return [(drift.row, drift.since, drift.before, drift.after) for drift in drifts]


@pytest.fixture(scope="module", params=["classifier", "regressor"])
def watched(request):
    X, y = stream(request.param)
    heard: list[Any] = []
    model = new(request.param)
    watch = watch_drift(model, heard.append)
    model.partial_fit(X, y)
    assert heard == watch.drifts
    return request.param, model, watch


def test_a_change_is_detected_soon_once_and_with_its_losses(watched):
    _, _, watch = watched
    (drift,) = watch.drifts
    assert drift.since == CHANGE
    assert CHANGE < drift.row <= CHANGE + 200
    assert drift.after > 2 * drift.before


def test_what_has_changed_are_the_features_that_have(watched):
    (drift,) = watched[2].drifts
    first, second = drift.changed[:2]
    assert {first.feature, second.feature} == {0, 3}
    change = {part.feature: part.after - part.before for part in drift.changed}
    assert change[0] < 0 < change[3]


@pytest.mark.parametrize("how", ["parts", "rows", "test-then-train", "threads"])
def test_drift_is_detected_at_the_same_row_however_rows_are_learned(watched, how):
    kind, _, expected = watched
    (X, y), model = stream(kind), new(kind)
    watch = watch_drift(model)
    if how == "rows":
        for x, label in zip(X, y, strict=True):
            model.learn_one(x, label)
    elif how == "threads":
        model.set_params(n_jobs=2).fit(X, y)
    else:
        model.partial_fit(X[:1], y[:1])
        name = "partial_fit"
        if how == "test-then-train":
            name = f"partial_fit_predict{'_proba' * (kind == 'classifier')}"
        for i in range(1, N_ROWS, 333):
            getattr(model, name)(X[i : i + 333], y[i : i + 333])
    assert rows_of(watch.drifts) == rows_of(expected.drifts)


def test_models_for_river_are_watched_as_others(watched):
    river = pytest.importorskip("amforest.river")
    kind, _, expected = watched
    X, y = stream(kind)
    cls = river.AdaptiveAMFClassifier if kind == "classifier" else river.AdaptiveAMFRegressor
    model = cls(n_estimators=2, memories=SMALL["memories"], seed=0)
    with watch_drift(model) as watch:
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            model.learn_one(dict(enumerate(x)), label)
    (drift,), (other,) = watch.drifts, expected.drifts
    assert (drift.since, drift.row) == (other.since, other.row)
    assert {change.feature for change in drift.changed[:2]} == {0, 3}


def test_a_stationary_stream_has_no_drift():
    for kind in ("classifier", "regressor"):
        X, y = stream(kind, 3_000, 3_000)
        model = new(kind)
        watch = watch_drift(model)
        model.partial_fit(X, y)
        assert not watch.drifts


def test_fitting_anew_starts_the_rows_anew():
    X, y = stream("classifier")
    model = new("classifier")
    watch = watch_drift(model)
    model.fit(X[:500], y[:500]).fit(X, y)
    assert [drift.since for drift in watch.drifts] == [CHANGE]


def test_what_a_callback_raises_comes_after_the_rows_are_learned():
    X, y = stream("classifier")
    expected, model = new("classifier").fit(X, y), new("classifier")

    def fail(drift):
        raise LookupError(f"drift since row {drift.since}")

    watch = watch_drift(model, fail)
    with pytest.raises(LookupError, match="since row 1000"):
        model.partial_fit(X, y)
    assert len(watch.drifts) == 1
    assert model.to_bytes() == expected.to_bytes()
    assert model.stats()["rejected_rows"] == 0
    model.partial_fit(X[:10], y[:10])  # the lock is free, and the drift was told


def test_a_callback_may_use_the_model():
    X, y = stream("classifier")
    model = new("classifier")
    watch_drift(model, lambda drift: model.fit(X[drift.since :], y[drift.since :]))
    model.partial_fit(X, y)
    assert model.n_samples_seen_ == N_ROWS - CHANGE


def test_clones_copies_and_files_are_not_watched_and_do_not_differ(watched):
    kind, model, _ = watched
    plain = new(kind).fit(*stream(kind))
    assert model.to_bytes() == plain.to_bytes()
    assert model.get_params() == plain.get_params()
    for copy in (clone(model), pickle.loads(pickle.dumps(model)), from_bytes(model.to_bytes())):
        assert copy._handle.listeners == ()


def test_stopping_ends_watching():
    X, y = stream("classifier")
    model = new("classifier")
    with watch_drift(model) as watch:
        model.partial_fit(X[:CHANGE], y[:CHANGE])
    model.partial_fit(X[CHANGE:], y[CHANGE:])
    assert not watch.drifts
    assert model._core.take_losses()[1].size == 0


@pytest.mark.parametrize("batch_size", [None, 77])
def test_progressive_validation_tells_the_drift_of_any_model(batch_size):
    X, y = stream("classifier")
    heard: list[Any] = []
    how: dict[str, Any] = {"on_drift": heard.append, "batch_size": batch_size}
    progressive_validation(new("classifier"), X, y, **how)
    (drift,) = heard
    assert abs(drift.since - CHANGE) <= 1
    assert {change.feature for change in drift.changed[:2]} == {0, 3}
    paper: list[Any] = []
    progressive_validation(AMFClassifier(3, random_state=0), X, y, on_drift=paper.append)
    assert [(abs(drift.since - CHANGE) <= 1, drift.changed) for drift in paper] == [(True, ())]


def test_rows_of_weight_zero_have_no_loss_but_are_counted():
    X, y = stream("classifier")
    weights = np.tile([1.0, 0.0], N_ROWS)
    heard: list[Any] = []
    X, y = X.repeat(2, axis=0), y.repeat(2)
    progressive_validation(new("classifier"), X, y, sample_weight=weights, on_drift=heard.append)
    assert [abs(drift.since - 2 * CHANGE) <= 2 for drift in heard] == [True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((AMFClassifier(),), "only an adaptive forest.*progressive_validation"),
        ((new("classifier"), 3), "on_drift is 3; it must be a function"),
    ],
)
def test_what_cannot_be_watched_is_refused(arguments, message):
    with pytest.raises(TypeError, match=message):
        watch_drift(*arguments)


@pytest.mark.parametrize("detector", ["auto", int, 0.1])
def test_a_detector_must_have_the_methods_of_river(detector):
    with pytest.raises(TypeError, match=r"update\(x\) and drift_detected"):
        DriftWatch(new("classifier"), detector=detector)


@dataclass
class Found:
    """What `find_changed_features` reads."""

    names: list[Any]
    memories: list[str]
    by_memory: np.ndarray


def test_the_longest_memory_within_the_rows_since_the_change_is_compared():
    names, memories = ["a", "b"], ["all", "250", "60", "plain"]
    found = Found(names, memories, np.array([[3.0, 1], [1, 1], [0, 1], [-5, 9]]))
    by_rows = {n: [c.after for c in find_changed_features(found, n)] for n in (10, 60, 300)}
    assert by_rows == {10: [0.0, 1.0], 60: [0.0, 1.0], 300: [0.5, 0.5]}
    alike = Found(names, memories[:1], found.by_memory[:1])
    assert find_changed_features(alike, 100) == ()


@pytest.mark.parametrize("cut", [0, 777, CHANGE + 20, N_ROWS])
def test_a_restored_watch_continues_with_the_losses_so_far(watched, cut):
    kind, model, expected = watched
    losses = np.random.default_rng(0).uniform(size=N_ROWS)
    losses[CHANGE:] += 2 if kind == "regressor" else -(losses[CHANGE:] ** 9)
    losses[::7] = np.nan
    watch, heard = DriftWatch(model, detector=None), []
    watch.update(losses[:cut])
    state = json.loads(json.dumps(watch.to_json(), allow_nan=False))
    again = DriftWatch(model, heard.append)
    again.restore(state)
    assert again.drifts == watch.drifts
    new, others = again.update(losses[cut:]), watch.update(losses[cut:])
    assert new == others == heard
    assert again.drifts == watch.drifts
    assert again.to_json() == watch.to_json()
    restored = DriftWatch(model)
    restored.restore(json.loads(json.dumps(expected.to_json())))
    assert restored.drifts == expected.drifts


def test_a_watch_with_a_detector_of_river_cannot_be_saved():
    drift = pytest.importorskip("river.drift")
    watch = DriftWatch(new("classifier"), detector=drift.ADWIN())
    with pytest.raises(TypeError, match="ADWIN of river"):
        watch.to_json()
