"""Streaming metrics equal scikit-learn's on the same rows, however these are cut into batches."""

import json
import pickle
from math import isnan, log, nan

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk

from amforest.evaluation import Evaluator
from amforest.evaluation.base_metric import Ring
from amforest.evaluation.class_metrics import EDGES, NO_CLASS, ClassCodes, ClassPredictions
from amforest.evaluation.evaluator import ALIASES, METRICS, build_metrics

N, WINDOW = 700, 150
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def rows(n_classes=3, seed=0):
    """Labels, probabilities of the classes, and weights, of which some are 0."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, N)
    scores = rng.normal(size=(N, n_classes)).round(1)  # with ties
    scores[np.arange(N), y] += 1
    shares = np.exp(scores)
    return y, shares / shares.sum(axis=1, keepdims=True), rng.integers(0, 4, N) / 3


def numbers(seed=0, n_members=None):
    rng = np.random.default_rng(seed)
    y = rng.normal(loc=1_000, size=N)
    size = N if n_members is None else (n_members, N)
    return y, (y + rng.normal(size=size)).T, rng.integers(0, 4, N) / 3


def said(probabilities):
    n_classes = probabilities.shape[1]
    return ClassPredictions(probabilities.argmax(axis=1), probabilities, n_classes, n_classes - 1)


def fed(name, y, predictions, weights, cuts=(), *, window=WINDOW):
    """The metric of that name after all rows, given in batches."""
    task = next(task for task in METRICS if name in METRICS[task])
    metric = build_metrics(task, [name], window)[name]
    for part in np.split(np.arange(len(y)), cuts):
        prediction = predictions[part]
        metric.update(
            y[part],
            said(prediction) if task == "classification" else prediction,
            None if weights is None else weights[part],
        )
    return metric


def brier(y, p, sample_weight):
    return sk.brier_score_loss(y, p if p.shape[1] > 2 else p[:, 1], sample_weight=sample_weight)


def auc(y, p, sample_weight):
    scores = p if p.shape[1] > 2 else p[:, 1]
    return sk.roc_auc_score(y, scores, sample_weight=sample_weight, multi_class="ovr")


def of_labels(score):
    return lambda y, p, sample_weight: score(y, p.argmax(axis=1), sample_weight=sample_weight)


CLASSES = {
    "log_loss": lambda y, p, sample_weight: sk.log_loss(y, p, sample_weight=sample_weight),
    "accuracy": of_labels(sk.accuracy_score),
    "auc": auc,
    "balanced_accuracy": of_labels(sk.balanced_accuracy_score),
    "brier": brier,
    "kappa": of_labels(sk.cohen_kappa_score),
}
NUMBERS = {
    "mse": sk.mean_squared_error,
    "rmse": sk.root_mean_squared_error,
    "mae": sk.mean_absolute_error,
    "r2": sk.r2_score,
}


INTERVALS = {
    "coverage": lambda y, ends, weights: np.average(
        (ends[:, 0] <= y) & (y <= ends[:, 1]), weights=weights
    ),
    "interval_width": lambda y, ends, weights: np.average(np.ptp(ends, axis=1), weights=weights),
}


def intervals():
    """Labels, the ends of intervals, some of which are labels, and weights."""
    y, predictions, weights = numbers()
    ends = np.stack([predictions - 1, predictions + 0.5], axis=1)
    ends[:20, 0] = y[:20]
    return y, np.sort(ends, axis=1), weights


def some_cuts(seed=1):
    return np.sort(np.random.default_rng(seed).integers(1, N, 30))


def test_every_metric_is_compared():
    assert {*CLASSES} == {*METRICS["classification"]}
    assert {*NUMBERS, "crps", *INTERVALS} == {*METRICS["regression"]}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSES)
def test_metrics_of_classes_are_scikit_learns(name, n_classes, weighted):
    if name == "brier" and n_classes > 2:
        pytest.importorskip("sklearn", "1.7", reason="earlier ones have it for two classes only")
    y, p, weights = rows(n_classes)
    w = weights if weighted else None
    metric = fed(name, y, p, w, some_cuts())
    last = slice(N - WINDOW, None)
    some = None if w is None else w[last]
    expected = CLASSES[name](y[last], p[last], sample_weight=some)
    np.testing.assert_allclose(metric.window_value, expected, **EXACT)
    expected = CLASSES[name](y, p, sample_weight=w)
    how = {"rtol": 0, "atol": metric.error + 1e-12} if name == "auc" else EXACT
    np.testing.assert_allclose(metric.value, expected, **how)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_metrics_of_numbers_are_scikit_learns(name, weighted):
    y, predictions, weights = numbers()
    w = weights if weighted else None
    metric = fed(name, y, predictions, w, some_cuts())
    last = slice(N - WINDOW, None)
    some = None if w is None else w[last]
    expected = NUMBERS[name](y, predictions, sample_weight=w)
    np.testing.assert_allclose(metric.value, expected, **EXACT)
    expected = NUMBERS[name](y[last], predictions[last], sample_weight=some)
    np.testing.assert_allclose(metric.window_value, expected, **EXACT)


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS, "crps"])
def test_batches_never_change_a_bit(name):
    y, predictions, weights = rows() if name in CLASSES else numbers(n_members=7)
    whole = fed(name, y, predictions, weights)
    for cuts in (np.arange(1, N), some_cuts()):
        parts = fed(name, y, predictions, weights, cuts)
        assert (parts.value, parts.window_value) == (whole.value, whole.window_value)


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS, "crps"])
def test_a_window_that_holds_all_rows_is_all_rows(name):
    y, predictions, weights = rows() if name in CLASSES else numbers(n_members=7)
    metric = fed(name, y, predictions, weights, window=N + 1)
    error = metric.error if name == "auc" else 1e-12 * abs(metric.value)
    assert abs(metric.window_value - metric.value) <= error


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS, "crps"])
def test_without_rows_or_weight_there_is_no_value(name):
    y, predictions, _ = rows() if name in CLASSES else numbers()
    for metric in (fed(name, y[:0], predictions[:0], None), fed(name, y, predictions, np.zeros(N))):
        assert isnan(metric.value)
        assert isnan(metric.window_value)


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS, "crps"])
def test_metrics_can_be_pickled(name):
    y, predictions, _ = rows() if name in CLASSES else numbers()
    metric = fed(name, y, predictions, None)
    assert pickle.loads(pickle.dumps(metric)).value == metric.value


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", INTERVALS)
def test_metrics_of_intervals_are_means_over_the_rows(name, weighted):
    y, ends, weights = intervals()
    w = weights if weighted else None
    metric = fed(name, y, ends, w, some_cuts())
    np.testing.assert_allclose(metric.value, INTERVALS[name](y, ends, w), **EXACT)
    last = slice(N - WINDOW, None)
    expected = INTERVALS[name](y[last], ends[last], None if w is None else w[last])
    np.testing.assert_allclose(metric.window_value, expected, **EXACT)
    assert fed(name, y, ends, w).value == fed(name, y, ends, w, np.arange(1, N)).value


# The area under the curve


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-7, 1e-11])
def test_small_probabilities_have_fine_bins_too(scale):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    score = scale * (0.4 * rng.uniform(size=N) + 0.2 * y)
    for p, labels in ((score, y), (1 - score, 1 - y)):
        metric = fed("auc", labels, np.column_stack((1 - p, p)), None)
        exact = sk.roc_auc_score(labels, p)
        assert abs(metric.value - exact) <= metric.error + 1e-12
        assert metric.error < 0.01


def test_bins_are_narrow_and_rise():
    widths = np.diff(EDGES[1:])
    room = np.minimum(EDGES[1:-1], 1 - EDGES[1:-1])
    assert (np.diff(EDGES) > 0).all()
    assert (widths <= np.minimum(1.0001e-4, 0.0101 * np.maximum(room, 1e-12))).all()


def test_scores_in_one_bin_count_half_and_the_bound_says_so():
    p = np.array([0.30001, 0.30002, 0.30003, 0.30004])
    metric = fed("auc", np.array([0, 1, 0, 1]), np.column_stack((1 - p, p)), None)
    assert (metric.value, metric.error, metric.window_value) == (0.5, 0.5, 0.75)


def test_classes_that_did_not_come_are_left_out_of_the_mean():
    y, p, _ = rows(3)
    kept = y < 2
    metric = fed("auc", y[kept], p[kept], None, window=N)
    expected = [sk.roc_auc_score(y[kept] == k, p[kept, k]) for k in (0, 1)]
    np.testing.assert_allclose(metric.window_value, np.mean(expected), **EXACT)


def test_a_late_class_had_probability_zero():
    y, p, weights = rows(3)
    late = 400
    early = y[:late] < 2
    y, weights = (
        np.append(y[:late][early], y[late:]),
        np.append(weights[:late][early], weights[late:]),
    )
    p = np.concatenate((p[:late][early], p[late:]))
    n_early = int(early.sum())
    p[:n_early, 2] = 0
    for name in CLASSES:
        grown = build_metrics("classification", [name], N)[name]
        grown.update(y[:n_early], said(p[:n_early, :2]), weights[:n_early])
        grown.update(y[n_early:], said(p[n_early:]), weights[n_early:])
        whole = fed(name, y, p, weights, window=N)
        assert (grown.value, grown.window_value) == (whole.value, whole.window_value), name


# Single formulas


def test_an_impossible_label_costs_what_the_smallest_step_does():
    metric = fed("log_loss", np.array([0]), np.array([[0.0, 1.0]]), None)
    assert metric.value == -log(np.finfo(float).eps)


def test_no_prediction_is_a_wrong_one():
    y, nothing = np.array([0, 1]), ClassPredictions(np.array([NO_CLASS, 1]), None, 2, 1)
    for name, expected in (("accuracy", 0.5), ("balanced_accuracy", 0.5), ("kappa", 1 / 3)):
        metric = build_metrics("classification", [name], 5)[name]
        metric.update(y, nothing)
        assert metric.value == metric.window_value == pytest.approx(expected)


@pytest.mark.parametrize("n_members", [1, 2, 9])
def test_crps_is_its_double_sum(n_members):
    y, members, weights = numbers(n_members=n_members)
    spread = np.abs(members[:, :, None] - members[:, None]).mean(axis=(1, 2)) / 2
    expected = np.abs(members - y[:, None]).mean(axis=1) - spread
    metric = fed("crps", y, members, weights, some_cuts())
    np.testing.assert_allclose(metric.value, np.average(expected, weights=weights), rtol=1e-10)


def test_the_crps_of_numbers_is_their_absolute_error():
    y, predictions, _ = numbers()
    assert fed("crps", y, predictions, None).value == fed("mae", y, predictions, None).value


def test_the_prediction_of_an_ensemble_is_its_mean():
    y, members, _ = numbers(n_members=5)
    for name in NUMBERS:
        mean = fed(name, y, members.mean(axis=1), None)
        assert fed(name, y, members, None).value == mean.value


def test_r2_survives_a_large_mean():
    y, predictions, _ = numbers()
    shifted = fed("r2", y + 1e9, predictions + 1e9, None, some_cuts())
    np.testing.assert_allclose(shifted.value, sk.r2_score(y + 1e9, predictions + 1e9), rtol=1e-9)


@pytest.mark.parametrize(("error", "expected"), [(0.0, 1.0), (0.1, 0.0)])
def test_r2_without_spread_is_scikit_learns(error, expected):
    y = np.full(9, 0.1)
    metric = fed("r2", y, y + error, None)
    assert metric.value == metric.window_value == expected == sk.r2_score(y, y + error)
    assert isnan(fed("r2", y[:1], y[:1], None).value)


def test_a_ring_keeps_the_last_rows_in_order():
    ring, pushed = Ring(5), np.empty((0, 2))
    for n in (2, 2, 3, 11, 0, 1, 5):
        new = np.random.default_rng(n).uniform(size=(n, 2))
        pushed = np.concatenate((pushed, new))
        ring.push(new[:, 0], new[:, 1:])
        np.testing.assert_array_equal(ring.rows(), pushed[-5:])


# Names and labels


@pytest.mark.parametrize(
    ("task", "name", "says"),
    [
        ("classification", "acuracy", "did you mean 'accuracy'"),
        ("classification", "neg_log_loss", "did you mean 'log_loss'"),
        ("classification", "roc-auc", "did you mean 'roc_auc'"),
        ("regression", "neg_mean_squared_error", "did you mean 'mean_squared_error'"),
        ("regression", "accuracy", "none of regression: mse, rmse, mae, r2, crps"),
        ("regression", "zzz", "there are mse, rmse, mae, r2, crps"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(task, name, says):
    with pytest.raises(ValueError, match=f"metrics has '{name}', .*{says}"):
        build_metrics(task, [name], 5)


def test_scikit_learns_names_will_do():
    for alias, name in ALIASES.items():
        task = next(task for task in METRICS if name in METRICS[task])
        assert type(build_metrics(task, [alias], 5)[alias]) is METRICS[task][name]


@pytest.mark.parametrize(
    ("labels", "error", "says"),
    [
        ([1, None], ValueError, "y holds None: a label is missing"),
        ([1.0, nan], ValueError, "y holds nan: a label is missing"),
        ([1, pd.NA], ValueError, "y holds <NA>: a label is missing"),
        ([0.5], ValueError, "y holds fractions such as 0.5"),
        (["a", 1], TypeError, "y holds 1, which is of another type than 'a'"),
        ([[1], [2]], TypeError, "y holds a value that cannot be a label"),
    ],
)
def test_what_is_no_label_is_refused(labels, error, says):
    classes = ClassCodes()
    with pytest.raises(error, match=says):
        classes.validate(labels, "y")
    assert len(classes) == 0


@pytest.mark.parametrize(("labels", "positive"), [(["no", "yes"], 1), (["yes", "no"], 0), ([1], 0)])
def test_the_positive_class_is_the_last_one(labels, positive):
    classes = ClassCodes()
    classes.add(labels)
    assert classes.positive == positive


@pytest.mark.parametrize("size", [1, 3, 100])
def test_rows_of_classes_without_a_probability_so_far_can_be_left_out_of_the_log_loss(size):
    y = ["a", "b", "a", "c", "c", "b", "c"]
    p = [[1, 0, 0], [1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [0.2, 0, 0.8]]
    p = np.array([*p, [0.5, 0.25, 0.25]])
    evaluator = Evaluator("classification", ["log_loss", "accuracy"], unknown_classes="skip")
    counting = Evaluator("classification", ["log_loss", "accuracy"])
    for start in range(0, len(y), size):
        part = slice(start, start + size)
        evaluator.update(y[part], p[part], ["a", "b", "c"])
        counting.update(y[part], p[part], ["a", "b", "c"])
    assert evaluator.n_unknown_classes == 3  # the first b, and the first two c
    # That of b in row 6 is a mistake: b had a probability before.
    losses = [0, np.log(2), -np.log(np.finfo(float).eps), np.log(4)]
    assert evaluator.metrics["log_loss"] == pytest.approx(np.mean(losses))
    assert evaluator.window["log_loss"] == pytest.approx(np.mean(losses))
    assert evaluator.metrics["accuracy"] == counting.metrics["accuracy"]
    assert counting.n_unknown_classes == 0
    assert counting.metrics["log_loss"] > 20


def test_an_unknown_way_to_treat_classes_is_refused():
    with pytest.raises(
        ValueError, match="unknown_classes is 'drop'; it must be one of count, skip"
    ):
        Evaluator("classification", unknown_classes="drop")


# States


def evaluate(cut, metrics, task="classification", **how):
    """Evaluate some rows, the rest of them by another evaluator that restores the state."""
    y, values, weights = rows() if task == "classification" else numbers()
    names = np.array(["no", "yes", "late"])
    evaluator = Evaluator(task, metrics, WINDOW, **how)
    for part in (slice(0, cut), slice(cut, N)):
        if part.start:
            state = json.dumps(evaluator.to_json(), allow_nan=False)
            evaluator = Evaluator(task, metrics, WINDOW, **how)
            evaluator.restore(json.loads(state))
        if task == "regression":
            evaluator.update(y[part], values[part], None, weights[part])
        elif how.get("every") == 7:  # labels alone
            evaluator.update(names[y[part]], names[values[part].argmax(axis=1)])
        else:
            y, late = np.where(np.arange(N) < 300, y % 2, y), np.arange(N) >= 310
            values = np.where(late[:, None], values, values * [1, 1, 0])
            evaluator.update(names[y[part]], values[part], names, weights[part])
    return evaluator


@pytest.mark.parametrize(
    ("task", "metrics", "how"),
    [
        ("classification", None, {}),
        ("classification", list(CLASSES), {"unknown_classes": "skip"}),
        ("classification", None, {"every": 7}),
        ("regression", [*NUMBERS, "crps"], {}),
    ],
)
def test_a_restored_evaluator_continues_exactly(task, metrics, how):
    whole = evaluate(N, metrics, task, **how).result()
    for cut in (1, 100, 305, N - 1):
        evaluator = evaluate(cut, metrics, task, **how)
        result = evaluator.result()
        assert (result.n_rows, result.n_skipped) == (whole.n_rows, whole.n_skipped)
        assert (result.metrics, result.window) == (whole.metrics, whole.window)
        assert result.curve.keys() == whole.curve.keys()
        for name, values in whole.curve.items():
            np.testing.assert_array_equal(result.curve[name], values)
        np.testing.assert_array_equal(result.classes, whole.classes)


def test_the_state_of_an_empty_evaluator_is_an_empty_evaluator():
    evaluator = Evaluator("regression")
    evaluator.restore(json.loads(json.dumps(Evaluator("regression").to_json())))
    assert evaluator.n_rows == 0
    assert all(map(isnan, evaluator.metrics.values()))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"metrics": ["accuracy"]}, "metrics are"),
        ({"window": 50}, "more than 50"),
    ],
)
def test_the_state_of_another_evaluator_is_refused(how, says):
    state = evaluate(N, ["accuracy", "log_loss"]).to_json()
    options = {"metrics": ["accuracy", "log_loss"], "window": WINDOW} | how
    with pytest.raises(ValueError, match=says):
        Evaluator("classification", **options).restore(state)


@pytest.mark.parametrize("name", ["accuracy", "auc", "kappa", "log_loss"])
@pytest.mark.parametrize("value", [None, [[2, 2], ""], [[-1], "AAAA"], [3, "AAAAAAAAAAA="]])
def test_the_rows_of_a_damaged_state_are_refused(name, value):
    state = evaluate(N, [name]).to_json()
    state["metrics"][name]["last"] = value
    with pytest.raises((TypeError, ValueError)):
        Evaluator("classification", [name], WINDOW).restore(state)
