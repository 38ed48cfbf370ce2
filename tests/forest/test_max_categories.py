"""max_categories: the first categories have a column each, all later ones share one."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest._forest.categories import OTHERS
from amforest.baselines import MondrianForestClassifier
from amforest.cli.model_summary import build_tree
from amforest.model_io import from_bytes
from helpers import state_of, tables

LIMIT = 5
CLASSES = [
    AMFClassifier,
    AdaptiveAMFClassifier,
    AMFRegressor,
    AdaptiveAMFRegressor,
    MondrianForestClassifier,
]


def new(cls=AMFClassifier, limit=LIMIT, **params):
    params = {"categorical_features": ["town"], "random_state": 0} | params
    return cls(3, max_categories=limit, **params)


def stream(n_rows=300, n_towns=30):
    rng = np.random.default_rng(0)
    towns = [f"town {k}" for k in rng.integers(n_towns, size=n_rows)]
    X = pd.DataFrame({"size": rng.uniform(size=n_rows), "town": towns})
    return X, (X["size"] > 0.5).to_numpy() ^ X["town"].isin(towns[:3]).to_numpy()


def shared(X, limit=LIMIT):
    """The same rows, with one word for all categories after the first ones."""
    first = X["town"].dropna().unique()[:limit]
    return X.assign(town=X["town"].where(X["town"].isin(first), "elsewhere"))


X, Y = stream()
FIRST = X["town"].unique()[:LIMIT].tolist()


@pytest.mark.parametrize("cls", CLASSES)
def test_the_forest_is_that_on_one_word_for_all_later_categories(cls):
    model = new(cls).fit(X, Y)
    explicit = new(cls, limit=None).fit(shared(X), Y)
    assert tables(model) == tables(explicit)
    assert model.predict(X).tolist() == explicit.predict(shared(X)).tolist()
    assert model.categories_ == {"town": [*FIRST, OTHERS]}
    assert explicit.categories_ == {"town": [*FIRST, "elsewhere"]}


@settings(deadline=None)
@given(st.lists(st.integers(0, 300)), st.sampled_from([1, 5, 29, 30, 31]))
def test_however_the_stream_is_cut_the_forest_is_the_same(cuts, limit):
    model = new(limit=limit, classes=[False, True])
    for part in np.split(np.arange(len(X)), sorted(cuts)):
        if len(part) % 2:
            model.partial_fit(X.iloc[part], Y[part])
        elif len(part):
            model.partial_fit_predict_proba(X.iloc[part], Y[part])
    expected = new(limit=limit).fit(X, Y)
    assert tables(model) == tables(expected)
    assert model.categories_ == expected.categories_


def test_one_row_at_a_time_gives_the_same_forest_and_the_same_predictions():
    model = new(categorical_features=[1], classes=[False, True])
    predictions = []
    for x, y in zip(X.to_numpy(dtype=object).tolist(), Y.tolist(), strict=True):
        predictions.append(model.predict_proba_one(x))
        model.learn_one(x, y)
    assert tables(model) == tables(new().fit(X, Y))
    tested = new(classes=[False, True]).partial_fit_predict_proba(X, Y)
    np.testing.assert_array_equal(tested, predictions)


def test_blocks_of_rows_do_not_change_the_codes():
    rng = np.random.default_rng(0)
    towns = rng.integers(2_000, size=20_000) ** 2 // 2_000  # more rows than are listed at once
    rows = np.column_stack([towns, rng.uniform(size=20_000)])
    model = AMFRegressor(1, categorical_features=[0], random_state=0).fit(rows, rows[:, 1])
    assert model.categories_[0] == [*pd.unique(rows[:, 0])[:256].tolist(), OTHERS]


def test_unique_categories_take_no_more_memory_than_the_limit():
    def fitted(n_rows):
        ids = np.arange(n_rows)[:, None]
        return AMFClassifier(1, categorical_features=[0], random_state=0).fit(ids, ids[:, 0] % 2)

    models = [fitted(2_000), fitted(4_000)]
    for model in models:
        assert model._core.categories == [257]
        assert len(model._handle.fitted.encoder.categories.codes[0]) == 258  # with None
    bytes_per_row = [m.stats()["bytes"] / m.n_samples_seen_ for m in models]
    assert bytes_per_row[1] <= bytes_per_row[0]
    one_by_one = AMFClassifier(1, categorical_features=[0], random_state=0)
    for i in range(2_000):
        one_by_one.learn_one([i], i % 2)
    assert one_by_one._core.categories == [257]
    assert tables(one_by_one) == tables(models[0])


def test_a_new_category_is_unknown_until_categories_share_a_column():
    model = new().fit(X[X["town"].isin(FIRST)], Y[X["town"].isin(FIRST)])
    query = X[:20].assign(town="nowhere")
    twin = new(limit=None).fit(X[X["town"].isin(FIRST)], Y[X["town"].isin(FIRST)])
    assert model.categories_ == {"town": FIRST}
    assert model.predict_proba(query).tobytes() == twin.predict_proba(query).tobytes()
    model.partial_fit(X, Y)
    other = X[:20].assign(town=X["town"].unique()[-1])
    assert model.predict_proba(query).tobytes() == model.predict_proba(other).tobytes()
    assert "nowhere" not in model.categories_["town"]


def test_rows_of_weight_zero_use_up_no_columns():
    rows = pd.concat([X.assign(town=[f"far {i}" for i in range(len(X))]), X])
    weights = np.repeat([0.0, 1.0], len(X))
    model = new().fit(rows, np.append(Y, Y), sample_weight=weights)
    assert tables(model) == tables(new().fit(X, Y))
    few = new(limit=40).fit(X, Y)  # 30 categories: a row of weight 0 brings no others
    few.partial_fit(rows[:100], Y[:100], sample_weight=np.zeros(100))
    assert OTHERS not in few.categories_["town"]


@pytest.mark.parametrize("n_learned", [3, 150])
def test_copies_go_on_as_the_model_does(n_learned):
    model = new().fit(X[:n_learned], Y[:n_learned])
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model)), from_bytes(model.to_bytes())
    model.partial_fit(X[n_learned:], Y[n_learned:])
    for other in copies:
        other.partial_fit(X[n_learned:], Y[n_learned:])
        assert tables(other) == tables(model)
        assert other.categories_["town"][-1] is OTHERS
        assert other.to_bytes() == model.to_bytes()


def test_missing_categories_are_missing_and_not_others():
    rows = X.assign(town=X["town"].where(np.arange(len(X)) % 3 > 0, None))
    expected = new(limit=None).fit(shared(rows).where(rows.notna(), None), Y)
    assert tables(new().fit(rows, Y)) == tables(expected)
    for missing in (np.nan, pd.NA):
        given = rows.assign(town=rows["town"].where(rows["town"].notna(), missing))
        assert tables(new().fit(given, Y)) == tables(expected)


@pytest.mark.parametrize("method", ["learn_one", "predict_one"])
def test_nan_is_refused_also_where_all_new_categories_are_others(method):
    model = new(categorical_features=[1]).fit(X.to_numpy(object), Y)
    before, attributes = tables(model), state_of(model)
    labels = [True] if method == "learn_one" else []
    with pytest.raises(ValueError, match="X's column 1 holds NaN as a category"):
        getattr(model, method)([0.5, float("nan")], *labels)
    with pytest.raises(TypeError, match="cannot be a category"):
        getattr(model, method)([0.5, []], *labels)
    assert tables(model) == before
    assert state_of(model) == attributes


def test_the_value_that_stands_for_others_is_no_category():
    with pytest.raises(ValueError, match="'town' holds <others>, which is not a category"):
        new().fit(X.assign(town=[OTHERS] * len(X)), Y)
    model = new().fit(X, Y)
    query = [X[:9].assign(town=[town] * 9) for town in ("nowhere", OTHERS)]
    assert model.predict_proba(query[0]).tobytes() == model.predict_proba(query[1]).tobytes()


def test_the_table_and_the_printed_tree_show_the_others():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"town": [f"town {k}" for k in range(200)]})
    model = new(limit=1, split_pure=True).fit(rows, rng.integers(2, size=200))
    table = model.tree_table(0)
    assert table["seen"].shape[1] == 2
    assert table["n_samples"][table["category"] >= 0].tolist() == [200]
    text = str(build_tree(model, 0, 3).children[0].label)
    assert text.startswith(("town is not <others>: ", "town is not town 0: "))


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("limit", [0, -1, 65_535, 2.0, "all"])
def test_impossible_limits_are_refused(cls, limit):
    model = new(cls, limit=limit)
    with pytest.raises(ValueError, match=r"'max_categories' parameter .* must be an int in the"):
        model.fit(X, Y)


def test_a_limit_that_is_changed_later_holds_for_new_categories():
    towns = X["town"][:40].unique().tolist()
    lower = new(limit=None).fit(X[:40], Y[:40]).set_params(max_categories=2)
    assert lower.partial_fit(X, Y).categories_["town"] == [*towns, OTHERS]
    higher = new(limit=2).fit(X[:40], Y[:40]).set_params(max_categories=None)
    assert higher.partial_fit(X, Y).categories_["town"] == [*towns[:2], OTHERS]
