"""Explanations: they add up to predictions, name the right features, and fit shap."""

import pickle
import signal
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.special import expit, softmax
from sklearn.exceptions import NotFittedError

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.baselines import MondrianForestClassifier
from amforest.inspection import Explanation

MEMORIES = {"memories": (None, 60, 15), "n_estimators": 2}
MODELS = {
    "AMFClassifier": lambda **how: AMFClassifier(3, **how),
    "AMFClassifier, extends": lambda **how: AMFClassifier(3, predict_extends=True, **how),
    "AMFRegressor": lambda **how: AMFRegressor(3, **how),
    "AMFRegressor, extends": lambda **how: AMFRegressor(3, predict_extends=True, **how),
    "MondrianForestClassifier": lambda **how: MondrianForestClassifier(3, **how),
    "AdaptiveAMFClassifier": lambda **how: AdaptiveAMFClassifier(**MEMORIES, **how),
    "AdaptiveAMFRegressor": lambda **how: AdaptiveAMFRegressor(**MEMORIES, **how),
}


def new(name):
    return MODELS[name](random_state=0)


def mixed_frame(rng, n_rows, *, gaps=0.1):
    """A column of numbers, one of text, one of dates, and a last one that matters."""
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "city": rng.choice(["Oslo", "Rome", "Lima"], size=n_rows),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 999, n_rows), "h"),
            "price": rng.uniform(size=n_rows),
        }
    )
    y = 2 * (frame["city"] == "Rome") + frame["price"] + 0.1 * rng.normal(size=n_rows)
    frame = frame.mask(rng.random(frame.shape) < gaps)
    return frame, y.to_numpy()


def labels_for(model, y, n_classes=3):
    is_number = hasattr(model, "predict_interval") or isinstance(model, AMFRegressor)
    return y if is_number else np.array(["a", "b", "c"])[np.digitize(y, [0.8, 2.0]) % n_classes]


def assert_adds_up(model, X):
    explanation = model.explain(X)
    sums = explanation.base_values + explanation.values.sum(axis=1)
    if not hasattr(model, "predict_proba"):
        expected = model.predict(X)
        scale = np.abs(explanation.values).sum(axis=1).max() + np.abs(expected).max()
        assert np.abs(sums - expected).max() <= 1e-12 * scale
    elif not model.is_adaptive:
        np.testing.assert_allclose(sums, model.predict_proba(X), rtol=1e-12, atol=1e-14)
    elif len(model.classes_) == 2:
        np.testing.assert_allclose(expit(sums), model.predict_proba(X)[:, 1], rtol=1e-9)
    else:
        np.testing.assert_allclose(softmax(sums, axis=1), model.predict_proba(X), rtol=1e-9)
    return explanation


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_categories_dates_gaps_weights_and_late_classes_add_up(name, n_classes):
    rng = np.random.default_rng(n_classes)
    model = new(name)
    X, y = mixed_frame(rng, 240)
    y = labels_for(model, y, n_classes)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], size=len(X))
    order = np.argsort(y, kind="stable")[:60]  # the other classes come later
    model.partial_fit(X.iloc[order], y[order], sample_weight=weights[order] + 0.5)
    assert_adds_up(model, X)
    model.partial_fit(X, y, sample_weight=weights)
    explanation = assert_adds_up(model, X)
    parts = ["when.year", "when.month", "when.day", "when.weekday", "when.hour"]
    assert explanation.feature_names == ["size", "city", *parts, "price"]
    assert explanation.feature_names == model.feature_names_.tolist()


@st.composite
def streams(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    name = draw(st.sampled_from(sorted(MODELS)))
    n_rows, n_features = draw(st.integers(1, 80)), draw(st.sampled_from([1, 2, 5]))
    scale = draw(st.sampled_from([1.0, 1e-6, 1e6]))
    X = rng.normal(size=(n_rows, n_features)) * scale
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    y = scale * rng.normal(size=n_rows) + scale
    if "Regressor" not in name:
        y = rng.integers(draw(st.integers(1, 4)), size=n_rows)
    weights = rng.choice([0.25, 1.0, 2.0], size=n_rows)
    return new(name), X, y, weights


@given(streams())
def test_any_stream_adds_up(stream):
    model, X, y, weights = stream
    model.partial_fit(X, y, sample_weight=weights)
    assert_adds_up(model, np.concatenate([X, 3 * X]))


@pytest.mark.parametrize("name", ["AMFClassifier", "AdaptiveAMFClassifier", "AdaptiveAMFRegressor"])
def test_the_feature_that_decides_contributes_most(name):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1_500, 5))
    y = X[:, 3] > 0.5
    model = new(name).fit(X, y.astype(float) if "Regressor" in name else y)
    values = np.abs(model.explain(X[:200]).values).reshape(200, 5, -1).sum(axis=(0, 2))
    assert values.argmax() == 3
    assert values[3] > 3 * np.delete(values, 3).max()


def test_the_contributions_of_a_tree_are_those_of_its_table():
    """reach_v (p_v - p_u), by hand, on a tree with a category and gaps."""
    rng = np.random.default_rng(1)
    X, y = mixed_frame(rng, 200)
    X = X[["size", "city", "price"]]
    model = AMFClassifier(1, random_state=0).fit(X, y > 1)
    table, codes = model.tree_table(0), dict(zip(model.categories_["city"], range(3), strict=True))
    p = (table["counts"] + 0.5) / (table["counts"].sum(axis=1, keepdims=True) + 1)
    explanation = model.explain(X[:50])
    assert table["category"].max() >= 0
    for row, values, base in zip(
        X[:50].itertuples(index=False), explanation.values, explanation.base_values, strict=True
    ):
        expected, v, reach = np.zeros((3, 2)), 0, 1.0
        while table["left"][v] >= 0:
            j, left, right = table["feature"][v], table["left"][v], table["right"][v]
            if pd.isna(row[j]):
                child = right if table["n_samples"][right] > table["n_samples"][left] else left
            elif j == 1:
                child = right if codes[row[j]] == table["category"][v] else left
            else:
                child = left if np.float32(row[j]) <= table["threshold"][v] else right
            reach *= 1 - table["share"][v]
            expected[j] += reach * (p[child] - p[v])
            v = child
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13)
        np.testing.assert_allclose(base, p[0], rtol=1e-14)


def test_classes_have_the_order_of_predictions_and_late_ones_their_place():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(["c", "b", "a"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    for model in (AMFClassifier(3, random_state=0), AdaptiveAMFClassifier(**MEMORIES)):
        for label in "cba":  # so that the core has another order
            model.partial_fit(X[y == label], y[y == label])
        explanation = assert_adds_up(model, X)
        assert explanation.output_names == ["a", "b", "c"] == model.classes_.tolist()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_gives_a_frame_of_its_library(library):
    rng = np.random.default_rng(0)
    columns = {"b": rng.normal(size=40).tolist(), "a": ["x", "y"] * 20}
    X, y = library(columns), np.arange(40) % 3
    model = AMFClassifier(2, random_state=0).fit(X, y)
    explanation = model.explain(X)
    frames = explanation.to_frame()
    assert list(frames) == [0, 1, 2]
    assert type(frames[1]) is type(X)
    names = frames[1].column_names if library is pa.table else list(frames[1].columns)
    assert names == ["b", "a"]
    np.testing.assert_array_equal(np.array(frames[1]["a"]), explanation.values[:, 1, 1])
    assert explanation.data[3].tolist() == [columns["b"][3], "y"]
    assert type(explanation[:3, :, 0].to_frame("polars")) is pl.DataFrame


def test_a_frame_of_pandas_keeps_its_index():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0]}, index=["x", "y", "z"])
    explanation = AMFRegressor(2, random_state=0).fit(X, [0.0, 1.0, 2.0]).explain(X)
    assert explanation.to_frame().index.tolist() == ["x", "y", "z"]
    assert explanation[[2, 0]].to_frame().index.tolist() == ["z", "x"]


def test_slices_are_those_of_shap():
    import shap

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
    explanation = AMFClassifier(2, random_state=0).fit(X, np.arange(30) % 3).explain(X)
    other = explanation.to_shap()
    assert isinstance(other, shap.Explanation)
    keys = [0, slice(3, 7), (slice(None), 1), (4, slice(None), 2), (slice(None), slice(1, 3), 0)]
    keys += [(..., 1), (2, slice(1, 3), 1), (slice(None), "c"), ([3, 1], [0, 2])[:1]]
    for key in keys:
        part, expected = explanation[key], other[key]
        np.testing.assert_array_equal(part.values, expected.values)
        np.testing.assert_array_equal(part.data, expected.data)
        np.testing.assert_array_equal(part.base_values, expected.base_values)
    by_label = AMFClassifier(2, random_state=0).fit(X, np.resize(["x", "y"], 30)).explain(X)
    np.testing.assert_array_equal(by_label[..., "y"].values, by_label.values[..., 1])
    assert by_label[0, ["d", "a"], "x"].feature_names == ["d", "a"]
    assert explanation[4:9][2, "b"].data == X["b"][6]
    assert len(explanation[5:9]) == 4
    assert explanation[5:9].shape == (4, 4, 3)


def test_a_wrong_slice_names_what_there_is():
    explanation = AMFRegressor(1).fit([[0.0], [1.0]], [0.0, 1.0]).explain([[0.0]])
    with pytest.raises(IndexError, match="has the axes rows, features; 3 indices were given"):
        explanation[0, 0, 0]
    with pytest.raises(KeyError, match="'a' is none of the features"):
        explanation[:, "a"]
    with pytest.raises(ValueError, match="slice the whole one with lists"):
        explanation[0].to_frame()
    with pytest.raises(ValueError, match="backend is None, and X was not a data frame"):
        explanation.to_frame()
    assert explanation.to_frame("pandas").columns.tolist() == ["x0"]


@pytest.mark.parametrize("name", ["AMFRegressor", "AdaptiveAMFClassifier"])
def test_the_plots_of_shap_take_it(name):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import shap

    rng = np.random.default_rng(0)
    X, y = mixed_frame(rng, 150, gaps=0)
    model = new(name)
    values = model.fit(X, y if name == "AMFRegressor" else y > 1).explain(X).to_shap()
    for plot, argument in [
        (shap.plots.waterfall, values[0]),
        (shap.plots.beeswarm, values),
        (shap.plots.bar, values),
    ]:
        plot(argument, show=False)
        texts = [text.get_text() for text in plt.gcf().axes[0].get_yticklabels()]
        assert any("price" in text for text in texts)
        plt.close("all")


@pytest.mark.parametrize(
    "convert", [np.asarray, lambda X: X.tolist(), csr_matrix, np.ma.masked_invalid]
)
def test_arrays_of_all_kinds_are_explained(convert):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(60, 3)).astype(float)
    model = AMFRegressor(2, random_state=0).fit(X, X[:, 1])
    explanation = model.explain(convert(X))
    np.testing.assert_array_equal(explanation.values, model.explain(X).values)
    np.testing.assert_array_equal(explanation.data, X)
    assert explanation.feature_names is None


def test_data_has_the_values_as_given():
    X = np.array([[0.1, "red"], [0.2, None], [None, "blue"]] * 8, dtype=object)
    model = AMFClassifier(2, random_state=0).fit(X, [0, 1, 1] * 8)
    assert model.explain(X[:3]).data.tolist() == X[:3].tolist()
    numbers = np.array([[0.1, 0.7]] * 4)
    data = AMFRegressor(1).fit(numbers, [1.0] * 4).explain(numbers).data
    assert data.tolist() == numbers.tolist()  # not those of float32


@pytest.mark.parametrize("name", MODELS)
def test_threads_and_copies_give_the_same_bits(name):
    rng = np.random.default_rng(0)
    X, y = mixed_frame(rng, 200)
    model = new(name)
    model.fit(X, labels_for(model, y))
    explanation = model.explain(X)
    model.set_params(n_jobs=3)
    np.testing.assert_array_equal(model.explain(X).values, explanation.values)
    same = pickle.loads(pickle.dumps(explanation))
    np.testing.assert_array_equal(same.values, explanation.values)
    assert list(same.to_frame()) == list(explanation.to_frame())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_has_learned_nothing_and_wrong_rows_are_refused(name):
    model = new(name)
    with pytest.raises(NotFittedError, match="not fitted"):
        model.explain([[0.0]])
    model.fit([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="X has 1 features"):
        model.explain([[0.0]])


class Learning(str):
    """A category that lets a model learn a new class when it is encoded."""

    __slots__ = ("learn",)

    def __hash__(self):
        self.learn()
        return super().__hash__()


@pytest.mark.parametrize("name", ["AMFClassifier", "AdaptiveAMFClassifier"])
def test_a_class_that_comes_between_two_blocks_is_unknown_in_the_first(name):
    city = np.array(["Oslo", "Rome"] * 4_200, dtype=object)
    model = new(name).fit(city[:60, None], [0, 1, 1, 0] * 15)
    model.partial_fit([["Oslo"], ["Rome"]], [2, 3])  # the core has capacity for more
    before = model.predict_proba(city[:1, None])[0]
    learner = Learning("Rome")
    learner.learn = lambda: 4 in model.classes_ or model.partial_fit([["Oslo"]], [4])
    city[-1] = learner  # in the second block
    assert_parts_belong_together(model, model.explain(city[:, None]), before, city[:, None])


@pytest.mark.parametrize("name", ["AMFClassifier", "AdaptiveAMFClassifier"])
def test_a_class_that_comes_between_two_chunks_is_unknown_in_the_first(name):
    """The core handles signals between chunks, where any thread may learn."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    queries = np.resize(X, (60_000, 2))
    previous = signal.getsignal(signal.SIGALRM)
    try:
        for _ in range(50):  # the signal may come too early on a busy machine
            model = new(name).fit(X, y)
            model.partial_fit(X[:2], [2, 3])
            before = model.predict_proba(queries[:1])[0]
            signal.signal(signal.SIGALRM, lambda *_, learn=model.partial_fit: learn(X[:1], [4]))
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            explanation = model.explain(queries)
            if explanation.shape[-1] == 5 and (explanation.values[0, :, 4] == 0).all():
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert_parts_belong_together(model, explanation, before, queries)


def assert_parts_belong_together(model, explanation, before, X):
    """The first row is that of the time before class 4, the last one that of now."""
    sums = explanation.base_values + explanation.values.sum(axis=1)
    predictions = softmax(sums, axis=1) if model.is_adaptive else sums
    assert before.shape == (4,)
    np.testing.assert_allclose(predictions[0], [*before, 0.0], rtol=1e-9)
    np.testing.assert_allclose(predictions[-1], model.predict_proba(X[-1:])[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["AMFClassifier", "AdaptiveAMFClassifier", "AdaptiveAMFRegressor"])
def test_explanations_are_of_one_moment_while_another_thread_learns(name):
    """A class comes in between: base values and contributions still belong together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 4))
    y = np.arange(3_000) // 1_000
    model = new(name).partial_fit(X[:200], y[:200])
    learner = threading.Thread(target=model.partial_fit, args=(X, y))
    learner.start()
    sums = []
    while learner.is_alive() or len(sums) < 3:
        explanation: Explanation = model.explain(X[:64])
        sums.append(explanation.base_values + explanation.values.sum(axis=1))
    learner.join()
    if name == "AMFClassifier":
        for sum_ in sums:
            np.testing.assert_allclose(sum_.sum(axis=1), 1, rtol=1e-12)
    assert np.isfinite(sums[-1]).all()
    assert_adds_up(model, X[:64])
