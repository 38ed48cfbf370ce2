"""One row with names: a dict or a Series of pandas is matched by name, as frames are."""

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(80, 3)) * [1, 10, 100], columns=["a", "b", "c"])
Y = (FRAME["b"] > 0).astype(int)
MODELS = [AMFClassifier, AMFRegressor, AdaptiveAMFClassifier, AdaptiveAMFRegressor]


def fitted(Model):
    return Model(2, random_state=0).fit(FRAME, Y)


def one_row_calls(model):
    names = ["predict_one"] + ["predict_proba_one"] * hasattr(model, "predict_proba_one")
    return [getattr(model, name) for name in names]


@pytest.mark.parametrize("Model", MODELS)
def test_the_order_of_names_does_not_matter(Model):
    model = fitted(Model)
    series = FRAME.iloc[3]
    for call in one_row_calls(model):
        expected = np.asarray(call(series.to_numpy()))
        for x in (series, series[["c", "a", "b"]], dict(series), dict(series[["b", "c", "a"]])):
            assert np.asarray(call(x)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("Model", MODELS)
def test_rows_are_learned_by_name(Model):
    expected, model = fitted(Model), fitted(Model)
    for i in range(20):
        expected.learn_one(FRAME.iloc[i].to_numpy(), Y[i])
        x = FRAME.iloc[i][["c", "b", "a"]]
        model.learn_one(x if i % 2 else x.to_dict(), Y[i])
    assert model.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("Model", MODELS)
def test_the_first_row_gives_the_names(Model):
    model = Model(2, random_state=0)
    for i in range(20):
        model.learn_one(FRAME.iloc[i] if i % 2 else FRAME.iloc[i, ::-1].to_dict(), Y[i])
    assert model.feature_names_in_.tolist() == ["c", "b", "a"]
    expected = Model(2, random_state=0)
    columns = FRAME[["c", "b", "a"]]
    assert model.to_bytes() == expected.partial_fit(columns[:20], Y[:20]).to_bytes()


def test_categories_have_their_names_too():
    frame = FRAME.assign(word=pd.Categorical(["x", "y"] * 40))
    model = AMFClassifier(2, random_state=0).fit(frame, Y)
    expected = model.predict_proba(frame[5:6])[0]
    x = frame.iloc[5]
    assert model.predict_proba_one(x[["word", "c", "a", "b"]]).tolist() == expected.tolist()
    first = AMFClassifier(2, categorical_features=["word"]).learn_one(x.to_dict(), 0)
    assert first.categories_ == {"word": ["y"]}


def test_rows_without_names_may_have_positions():
    model = AMFClassifier(2, random_state=0).fit(FRAME.to_numpy(), Y)
    x = pd.Series(FRAME.iloc[3].to_numpy())
    assert model.predict_one(x[[2, 0, 1]]) == model.predict_one(FRAME.iloc[3].to_numpy())
    with pytest.raises(ValueError, match=r"x has the names 'a', 'b', 'c', but .* without"):
        model.predict_one(FRAME.iloc[3])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"a": 1.0, "b": 2.0}, "x lacks 'c'; .* 'a', 'b', 'c'"),
        ({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, "x has 'd', which the forest does not know"),
        (pd.Series([1.0, 2.0, 3.0], index=["a", "b", "b"]), "x has several values of 'b'"),
    ],
)
def test_other_names_are_refused_and_change_nothing(x, message):
    model = fitted(AMFClassifier)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=message):
        model.learn_one(x, 1)
    with pytest.raises(ValueError, match=message):
        model.predict_proba_one(x)
    assert model.to_bytes() == before
