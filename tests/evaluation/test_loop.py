"""The hooks of the test-then-train loop, and rows that wait for their labels."""

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.evaluation import Block, Evaluator, Loop
from amforest.evaluation.adapters import adapt
from amforest.evaluation.blocks import cut_blocks
from amforest.model_io.interrupts import Interrupts
from helpers import tables

ADAPTIVE = (AdaptiveAMFClassifier, AdaptiveAMFRegressor)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.uniform(size=120), "b": RNG.choice(["x", "y"], 120)})
Y = np.where(FRAME["a"] + (FRAME["b"] == "x") > 1, "high", "low")


def new_model():
    return AMFClassifier(3, categorical_features=["b"], random_state=0)


def new_loop(model, delay=0, **hooks):
    adapter = adapt(model, "classification", by_row=delay > 0)
    return adapter, Loop(adapter, Evaluator("classification"), delay=delay, **hooks)


def blocks(adapter, size=50, rows=slice(0, 120)):
    whole = Block(FRAME[rows], Y[rows])
    for block in cut_blocks([whole], size):
        yield block._replace(X=adapter.convert_block(block.X))


@pytest.mark.parametrize("delay", [0, 9])
def test_predictions_are_reported_in_the_order_of_the_rows(delay):
    labels, values, sizes = [], [], []

    def keep(block, prediction):
        labels.extend(block.y)
        values.extend([None] * len(block.y) if prediction is None else prediction.values)

    adapter, loop = new_loop(
        new_model(), delay, on_predictions=keep, on_block=lambda n, _: sizes.append(n)
    )
    result = loop.run(blocks(adapter), Interrupts())
    assert labels == Y.tolist()
    assert sizes == [50, 50, 20]
    assert result.n_skipped == sum(value is None for value in values) == delay + 1
    assert result.n_rows == 120
    twin = new_model().partial_fit(FRAME[: 100 - delay], Y[: 100 - delay])
    np.testing.assert_array_equal(values[100], twin.predict_proba(FRAME[100:101])[0])


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_rows_that_wait_can_be_handed_to_another_loop(cls):
    model, naive = (cls(3, categorical_features=["b"], random_state=0) for _ in range(2))
    adapter, loop = new_loop(model, delay=30)
    with Interrupts() as interrupts:
        interrupts.hold(2)  # so that the labels still due are not learned
        result = loop.run(blocks(adapter, rows=slice(0, 70)), interrupts)
    assert (result.interrupted, result.n_rows) == (True, 40)
    assert sum(len(item.block.y) for item in loop.pending) == 30
    assert model.n_samples_seen_ == 40
    adapter, rest = new_loop(model, delay=30)
    rest.restore(loop.pending, loop.seconds)
    assert rest.seconds == loop.seconds > 0
    result = rest.run(blocks(adapter, rows=slice(70, 120)), Interrupts())
    assert (result.n_rows, rest.pending) == (80, [])  # the predictions that wait are measured, too
    assert tables(model) == tables(naive.partial_fit(FRAME, Y))


@pytest.mark.parametrize("value", [float("nan"), True, 3, "x"])
def test_rows_of_frames_are_learned_alike_one_by_one(value):
    frame = FRAME.assign(c=[value, *FRAME["a"][1:]]) if value != "x" else FRAME[["b", "a"]]
    model, naive = new_model(), new_model().partial_fit(frame, Y)
    adapter, loop = new_loop(model, delay=1)
    X = adapter.convert_block(frame)
    loop.run([Block(X, Y)], Interrupts())
    assert tables(model) == tables(naive)


def new_regressor():
    return AdaptiveAMFRegressor(2, categorical_features=["b"], random_state=0)


@pytest.mark.parametrize("delay", [0, 9])
def test_intervals_are_those_of_the_model_in_the_same_loop(delay):
    y, means, ends = FRAME["a"].to_numpy() + (FRAME["b"] == "x"), [], []

    def keep(block, prediction):
        if prediction is not None:
            means.extend(prediction.values)
            ends.extend(prediction.intervals)

    adapter = adapt(new_regressor(), "regression", by_row=delay > 0, coverage=0.8)
    evaluator = Evaluator("regression", ["mse", "coverage", "interval_width"])
    loop = Loop(adapter, evaluator, delay=delay, on_predictions=keep)
    parts = cut_blocks([Block(FRAME, y)], 50)
    result = loop.run((b._replace(X=adapter.convert_block(b.X)) for b in parts), Interrupts())
    twin = new_regressor()
    expected = []
    for i in range(delay + 1, 120):
        twin.partial_fit(FRAME[i - delay - 1 : i - delay], y[i - delay - 1 : i - delay])
        expected.append(twin.predict_interval(FRAME[i : i + 1], 0.8)[0])
    np.testing.assert_array_equal(ends, expected)
    lower, upper = np.transpose(expected)
    known = y[delay + 1 :]
    assert result.metrics["coverage"] == np.mean((lower <= known) & (known <= upper))
    assert result.metrics["interval_width"] == pytest.approx(np.mean(upper - lower))
    assert result.metrics["mse"] == pytest.approx(np.mean((means - known) ** 2))


@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor, *ADAPTIVE])
@pytest.mark.parametrize("delay", [1, 10, 100])
def test_late_labels_in_blocks_equal_the_plain_loop_bit_for_bit(cls, delay):
    blocked, plain = (cls(2, categorical_features=["b"], random_state=0) for _ in range(2))
    is_class, predicted, expected = "Classifier" in cls.__name__, [], []
    y = Y if is_class else FRAME["a"].to_numpy() + RNG.normal(size=120)

    def values_of(values, classes):
        if classes is None:
            return values.tolist()
        return [{c: p for c, p in zip(classes, row, strict=True) if p > 0} for row in values]

    def keep(block, prediction):
        n_rows = len(block.y)
        predicted.extend(n_rows * [None] if prediction is None else values_of(*prediction[:2]))

    task = "classification" if is_class else "regression"
    adapter = adapt(blocked, task, by_row=True)
    loop = Loop(adapter, Evaluator(task), delay=delay, on_predictions=keep)
    loop.run(cut_blocks([Block(FRAME, y)], 37), Interrupts())
    for i in range(delay + 1, 120):
        plain.partial_fit(FRAME[i - delay - 1 : i - delay], y[i - delay - 1 : i - delay])
        values = (plain.predict_proba if is_class else plain.predict)(FRAME[i : i + 1])
        expected += values_of(values, getattr(plain, "classes_", None))
    plain.partial_fit(FRAME[119 - delay :], y[119 - delay :])
    assert predicted == (delay + 1) * [None] + expected
    assert tables(blocked) == tables(plain)


def test_late_labels_are_learned_in_one_call_for_each_block(monkeypatch):
    calls = []
    call = AMFClassifier.partial_fit_predict_proba

    def counted(self, X, y, **how):
        calls.append(len(y))
        return call(self, X, y, **how)

    monkeypatch.setattr(AMFClassifier, "partial_fit_predict_proba", counted)
    adapter, loop = new_loop(new_model(), delay=1)
    loop.run(blocks(adapter), Interrupts())
    assert calls == [2 * 48, 2 * 50, 2 * 20]  # the first rows are predicted alone
