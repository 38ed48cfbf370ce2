"""The warning where the spreads of features differ by more than 10⁴."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from amforest import AMFClassifier, AMFRegressor, ScaleWarning
from amforest._forest.scales import ScaleCheck
from amforest.baselines import MondrianForestClassifier
from amforest.model_io import from_bytes

N_ROWS = 150
CLASSES = [AMFClassifier, AMFRegressor]
PATTERN = (
    r"differ by a factor of .*e\+06 in the first 100 rows: .*e\+03 in {wide}, but 0\.00.* in "
    r"{narrow}\. Splits are drawn .*: {advice}"
)


def stream(*scales, n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, len(scales))) * scales
    return X, (X[:, 0] > scales[0] / 2).astype(int)


X, Y = stream(1.0, 1e-3, 1e3)
Y[:2] = 0, 1


def caught(call):
    """The scale warnings that a call issues."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert {warning.category for warning in found} <= {ScaleWarning}
    return found


def new(cls=AMFClassifier, **params):
    return cls(**{"n_estimators": 2, "random_state": 0} | params)


def learn_rows(model, X, y, part=slice(None)):
    for x, label in zip(X[part], y[part], strict=True):
        model.learn_one(x, label)


def learn_batches(model, X, y, size=30):
    for start in range(0, len(X), size):
        model.partial_fit(X[start : start + size], y[start : start + size])


def predict_then_learn(model, X, y):
    is_classifier = isinstance(model, AMFClassifier)
    (model.partial_fit_predict_proba if is_classifier else model.partial_fit_predict)(X, y)


WAYS = {
    "fit": lambda model, X, y: model.fit(X, y),
    "partial_fit": learn_batches,
    "learn_one": learn_rows,
    "test-then-train": predict_then_learn,
    "lists": lambda model, X, y: model.fit(X.tolist(), y.tolist()),
    "a sparse matrix": lambda model, X, y: model.fit(sp.csr_array(X), y),
    "weights": lambda model, X, y: model.partial_fit(X, y, sample_weight=np.full(len(y), 0.5)),
}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("way", WAYS)
def test_the_warning_names_the_columns_and_says_what_to_do(cls, way):
    model = new(cls)
    (warning,) = caught(lambda: WAYS[way](model, X, Y))
    has_twin = cls in (AMFClassifier, AMFRegressor)
    advice = f"use Adaptive{cls.__name__}, .* or scale" if has_twin else "scale"
    expected = PATTERN.format(wide="column 2", narrow="column 1", advice=advice)
    assert re.search(expected, str(warning.message))
    assert warning.filename == __file__  # the line of the caller
    assert not caught(lambda: model.partial_fit(X, Y))


def test_columns_have_their_names():
    frame = pd.DataFrame(X, columns=["size", "rate", "income"])
    frame.insert(1, "town", pd.Categorical(["Rome", "Oslo", "Lima"] * 50))
    with pytest.warns(
        ScaleWarning, match=PATTERN.format(wide="'income'", narrow="'rate'", advice="")
    ):
        new().fit(frame, Y)


def test_of_many_narrow_columns_some_are_named():
    many, y = stream(1e6, *[1.0] * 8)
    with pytest.warns(ScaleWarning, match=r"but (.* in column \d, ){4}.* in column \d and 3 more"):
        new().fit(many, y)


@settings(deadline=None)
@given(st.lists(st.integers(0, N_ROWS), max_size=8), st.sampled_from([99, 100]), st.booleans())
def test_the_first_100_rows_decide_however_the_stream_is_cut(cuts, first_wide, one_by_one):
    rows, y = stream(1.0, 1.0)
    rows[first_wide:] *= 1e6, 1  # row 100 is the last that counts

    def learn(model):
        for part in np.split(np.arange(N_ROWS), sorted(cuts)):
            if one_by_one and len(part) < 20:
                learn_rows(model, rows, y, part)
            elif len(part):
                model.partial_fit(rows[part], y[part])

    assert len(caught(lambda: learn(new(classes=[0, 1])))) == (first_wide == 99)


SILENT = {
    "similar scales": stream(1.0, 1e-3, 9.0),
    "less than 100 rows": (X[:99], Y[:99]),
    "constant columns": (np.column_stack([X[:, 0], np.full(N_ROWS, 1e9)]), Y),
    "missing columns": (np.column_stack([X[:, 0], np.full(N_ROWS, np.nan)]), Y),
    "one column": (X[:, :1], Y),
}


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("way", ["fit", "learn_one"])
def test_other_streams_are_learned_without_a_warning(name, way):
    assert not caught(lambda: WAYS[way](new(), *SILENT[name]))


def test_categories_have_no_scale():
    codes = np.column_stack([np.arange(N_ROWS) * 1e6, X[:, 0]])
    assert not caught(lambda: new(categorical_features=[0]).fit(codes, Y))
    assert not caught(lambda: learn_rows(new(categorical_features=[0]), codes, Y))
    assert not caught(lambda: new(categorical_features=[0, 1]).fit(codes, Y))


def test_forests_that_have_bounds_and_others_do_not_warn():
    box = {"partition": "unrestricted", "bounds": [(0, 1), (0, 1e-3), (0, 1e3)]}
    assert not caught(lambda: new(**box).fit(X, Y))
    assert not caught(lambda: learn_rows(new(**box), X, Y))
    assert not caught(lambda: new(MondrianForestClassifier).fit(X, Y))


def test_rows_of_weight_zero_do_not_count():
    rows, weights = (
        np.concatenate([1e9 * X[:60], X[:99] * [1, 1, 1e-3]]),
        np.repeat([0, 1], [60, 99]),
    )
    labels = np.append(Y[:60], Y[:99])
    model = new()
    assert not caught(lambda: model.partial_fit(rows, labels, sample_weight=weights))
    assert not caught(lambda: model.learn_one(1e9 * X[0], 0, 0.0))
    assert len(caught(lambda: model.learn_one(1e9 * X[0], 0))) == 1


@pytest.mark.parametrize(
    "copy", [lambda m: pickle.loads(pickle.dumps(m)), lambda m: from_bytes(m.to_bytes())]
)
@pytest.mark.parametrize("way", ["partial_fit", "learn_one"])
def test_a_copy_warns_at_row_100_and_not_after_it(copy, way):
    half = new().partial_fit(X[:50], Y[:50])
    assert len(caught(lambda: WAYS[way](copy(half), X, Y))) == 1
    caught(lambda: half.partial_fit(X[50:100], Y[50:100]))
    assert not caught(lambda: WAYS[way](copy(half), X, Y))
    assert not caught(lambda: copy(half).learn_one(X[0], Y[0], 0.0))


def test_each_fit_warns_once():
    model = new()
    assert [len(caught(lambda: model.fit(X, Y))) for _ in range(2)] == [1, 1]
    assert not caught(lambda: model.fit(X[:, :1], Y))


@pytest.mark.parametrize("way", ["fit", "learn_one"])
def test_as_an_error_it_comes_after_the_rows_are_learned(way):
    model, n_learned = new(), N_ROWS if way == "fit" else 100
    with pytest.raises(ScaleWarning):
        WAYS[way](model, X, Y)
    assert model.stats()["samples"] == n_learned
    assert model.stats()["rejected_rows"] == 0
    model.partial_fit(X, Y)


def test_a_lack_of_memory_for_the_check_does_not_fail_the_call(monkeypatch):
    def fail(*_):
        raise MemoryError

    model = new().partial_fit(X[:99], Y[:99])
    monkeypatch.setattr(ScaleCheck, "_compare", fail)
    assert not caught(lambda: model.learn_one(X[99], Y[99]))
    assert model.n_samples_seen_ == 100


def test_a_batch_that_fails_does_not_use_up_the_warning():
    model, bad = new().partial_fit(X[:50], Y[:50]), X[50:].copy()
    bad[-1] = np.inf
    with pytest.raises(ValueError, match="finite"):
        model.partial_fit(bad, Y[50:])
    assert len(caught(lambda: model.partial_fit(X[50:], Y[50:]))) == 1


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", ["AMFClassifier", "AMFRegressor"])
def test_the_models_for_river_warn_as_well(name, many):
    river = pytest.importorskip("amforest.river")
    frame = pd.DataFrame(X, columns=["size", "rate", "income"]).assign(town="Rome")
    model = getattr(river, name)(2, seed=0)

    def learn():
        if many:
            model.learn_many(frame[:70], pd.Series(Y[:70]))
            model.learn_many(frame[70:], pd.Series(Y[70:]))
            return
        for x, y in zip(frame.to_dict("records"), Y.tolist(), strict=True):
            model.learn_one(x, y)

    (warning,) = caught(learn)
    assert "in 'income', but" in str(warning.message)
    assert " in 'rate'. Splits" in str(warning.message)
    assert warning.filename == __file__
    assert not caught(learn)
