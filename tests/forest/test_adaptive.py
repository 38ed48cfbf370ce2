"""AdaptiveAMFClassifier keeps its promises while trees are regrown."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier
from amforest.model_io.model_file import from_bytes
from amforest.river import AdaptiveAMFClassifier as RiverClassifier
from helpers import tables

SMALL = {"n_estimators": 2, "memories": (None, 60, 15), "honest_memories": (40,)}
N = 400
RNG = np.random.default_rng(0)
TOWNS = np.array([f"town {k}" for k in RNG.integers(40, size=N) ** 2 // 60])
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "town": TOWNS, "b": 1e6 * RNG.normal(size=N)})
FRAME.loc[RNG.random(N) < 0.2, "b"] = np.nan
FRAME.loc[RNG.random(N) < 0.2, "town"] = None
LABELS = np.where(FRAME["a"] > 0, "x", np.where(np.arange(N) > 150, "late", "y"))
LABELS[::5] = np.where(FRAME["town"][::5] > "town 2", "x", "y")
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 3.0], N)
WEIGHTS[0] = 1


def new(**params):
    how = {**SMALL, "categorical_features": ["town"], "random_state": 0}
    return AdaptiveAMFClassifier(**how | params)


def learn(model, *cuts, weights=WEIGHTS):
    """Learn the stream, cut into batches, every other one by test-then-train."""
    for k, part in enumerate(np.split(np.arange(N), cuts)):
        call = model.partial_fit_predict_proba if k % 2 else model.partial_fit
        call(FRAME.iloc[part], LABELS[part], sample_weight=weights[part])
    return model


def bits(model):
    """All that makes the forest, but for the sums of losses of test-then-train."""
    state = model._core.state()
    for room in ("categories", "capacity"):
        del state[room]
    arrays = {name: array.tobytes() for name, array in state.pop("trees").items()}
    return {"state": repr(sorted(state.items())), **arrays}


# Batches, threads, SIMD


@pytest.fixture(scope="module")
def row_by_row():
    return bits(learn(new(), *range(1, N)))


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [100, 101, 350], list(range(7, N, 7))])
def test_batches_and_threads_never_change_the_forest(cuts, n_jobs, row_by_row):
    model = learn(new(n_jobs=n_jobs), *cuts)
    assert bits(model) == row_by_row
    assert min(model.stats()["regrows"].values()) > 0


def test_one_row_at_a_time_gives_the_same_forest_and_the_same_predictions():
    names = np.array([1])
    model, expected = new(categorical_features=names), new(categorical_features=names)
    X = FRAME.to_numpy(dtype=object)
    X[pd.isna(X)] = None
    predictions = expected.partial_fit_predict_proba(X, LABELS)
    for i, (x, y, p) in enumerate(zip(X.tolist(), LABELS, predictions, strict=True)):
        if x[1] is None or x[1] in X[:i, 1]:  # a batch knows its new categories
            known = np.isin(expected.classes_, LABELS[:i])
            assert not i or model.predict_proba_one(x).tolist() == p[known].tolist()
        model.learn_one(x, y)
    assert bits(model) == bits(expected)


def test_the_processor_never_changes_the_forest():
    program = "import test_adaptive as t; print(hash(str(t.bits(t.learn(t.new(), 50, 300)))))"
    answers = set()
    for level in ("plain", ""):
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        environment |= {"AMFOREST_SIMD": level} if level else {}
        run = [sys.executable, "-W", "ignore", "-c", program]
        folders = {"cwd": os.path.dirname(__file__), "env": environment}
        path = os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), *sys.path[1:]])
        environment["PYTHONPATH"] = path
        answers.add(subprocess.run(run, capture_output=True, check=True, **folders).stdout)
    assert len(answers) == 1


# Saving


def by_file(model):
    return from_bytes(model.to_bytes())


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("n_candidates", [30, 2_000])
def test_a_model_is_saved_and_continues_at_any_row(n_candidates):
    """With many candidates a regrowth takes many rows."""
    params = {"n_candidates": n_candidates, "row_limit": 100, "memories": (None, 50, 8)}
    model, moved, in_regrowths = new(**params), new(**params), 0
    for i in range(N):
        row = FRAME.iloc[i : i + 1], LABELS[i : i + 1]
        model.partial_fit(*row)
        moved.partial_fit(*row)
        if i % 3 == 0:
            in_regrowths += moved._core.state()["trees"]["is_regrown"].any()
            moved = (by_file, by_pickle, copy.deepcopy)[i // 3 % 3](moved)
    assert moved.to_bytes() == model.to_bytes()
    assert in_regrowths > (20 if n_candidates > 30 else 0)


def test_a_river_model_continues_at_any_row_while_features_come_and_go():
    model, moved = (RiverClassifier(**SMALL, n_candidates=500, seed=0) for _ in range(2))
    for i in range(N):
        x = {name: value for name, value in FRAME.iloc[i].items() if not pd.isna(value)}
        x |= {f"late {j}": float(i % (j + 2)) for j in range(i // 30)}
        x |= {f"word {j}": f"w{i % 3}" for j in range(i // 130)}
        for one in (model, moved):
            one.learn_one(x, LABELS[i])
        if i % 7 == 0:
            moved = (by_file, by_pickle, copy.deepcopy)[i // 7 % 3](moved)
    assert moved.to_bytes() == model.to_bytes()
    assert tables(moved.to_sklearn()) == tables(model.to_sklearn())
    assert model.memory_names_ == ["all", "60", "15", "40, honest", "plain"]


def named(i):
    """Words and numbers that come late."""
    x = {"a": float(FRAME["a"][i])} | ({"town": TOWNS[i]} if i > 40 else {})
    return x | ({"b": float(i % 7)} if i > 41 else {}) | ({"c": "uv"[i % 2]} if i > 90 else {})


@pytest.mark.parametrize("cut", [60, 200])
def test_many_rows_in_which_categories_come_late_are_learned_as_one_after_the_other(cut):
    one, many = (RiverClassifier(**SMALL, n_candidates=500, seed=0) for _ in range(2))
    rows = [named(i) for i in range(200)]
    for x, y in zip(rows, LABELS, strict=False):
        one.learn_one(x, y)
    for first in range(0, 200, cut):
        part = slice(first, min(first + cut, 200))
        many.learn_many(pd.DataFrame(rows[part]), pd.Series(LABELS[part]))
    assert bits(many._model) == bits(one._model)


def test_an_error_after_a_late_category_leaves_the_model_as_it_was():
    model = RiverClassifier(**SMALL, seed=0)
    X = pd.DataFrame([named(i) for i in range(200)])
    for first in (0, 30):
        before = model.to_bytes()
        with pytest.raises((TypeError, ValueError)):
            model.learn_many(X[first:], pd.Series([*LABELS[first:199], 3.5], dtype=object))
        assert model.to_bytes() == before
        model.learn_many(X[:30], pd.Series(LABELS[:30]))


# Failed calls


@pytest.mark.parametrize(
    ("X", "y", "weights", "message"),
    [
        (FRAME[:2].assign(a=2.0**101), ["x", "y"], None, "X"),
        (FRAME[:2].assign(a=np.inf), ["x", "y"], None, "infinity"),
        (FRAME[["a", "b"]][:2], ["x", "y"], None, "missing"),
        (FRAME[:2], ["x"], None, "inconsistent"),
        (FRAME[:2], ["new", 3.5], None, "y|label"),
        (FRAME[:2], ["x", "new"], [1, -1], "weight"),
        (FRAME[:2], ["x", "new"], [1, np.nan], "weight"),
        (FRAME[:2], ["x", "new"], [1, 1e300], "too much"),
        (FRAME[:2], ["x", "y"], [1, 1e-300], "weight"),
    ],
)
def test_a_failed_call_leaves_the_model_as_it_was(X, y, weights, message):
    model = learn(new(n_candidates=500), 200)
    before = model.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        model.partial_fit(X, np.array(y, dtype=object), sample_weight=weights)
    assert model.to_bytes() == before
    assert bits(learn(model)) == bits(learn(from_bytes(before)))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"memories": (3,)}, "memories holds 3; a memory must be None or .*, at least 8"),
        ({"memories": 5}, "'memories' parameter .* must be .*tuple.*list.* Got 5"),
        ({"memories": ("long",)}, "memories holds 'long'"),
        ({"honest_memories": (7.5,)}, "honest_memories holds 7.5"),
        ({"honest_memories": None}, "'honest_memories' parameter"),
        ({"n_candidates": 0}, r"'n_candidates' parameter .* \[1, 10000\]. Got 0"),
        ({"mixer_rate": 2}, r"'mixer_rate' parameter .* \[0.*, 1.*\]. Got 2"),
        ({"row_limit": 1}, r"'row_limit' parameter .* \[16, .*\]. Got 1"),
        ({"n_estimators": 20_000}, "n_estimators is 20000; 5 groups .* 100000 trees.* 65535"),
        ({"max_nodes": 10}, r"max_nodes is 10; for 10 trees .* must be at least \d+"),
        ({"max_bytes": 9_999}, r"max_bytes is 9999; for 10 trees .* must be at least \d+"),
    ],
)
def test_bad_parameters_are_named_with_what_would_be_right(params, message):
    model = new(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(FRAME, LABELS)
    assert not model.__sklearn_is_fitted__()


# Limits


@pytest.mark.parametrize("limit", ["max_nodes", "max_bytes"])
@pytest.mark.parametrize("factor", [1, 1.5, 10])
def test_limits_are_kept_and_the_least_is_the_one_that_the_error_names(limit, factor):
    with pytest.raises(ValueError, match="must be at least") as error:
        new(**{limit: 1}).fit(FRAME, LABELS)
    most = int(factor * int(str(error.value).split()[-1]))
    if factor == 1:
        with pytest.raises(ValueError, match="must be at least"):
            new(**{limit: most - 1}).fit(FRAME, LABELS)
    model = new(**{limit: most, "classes": np.unique(LABELS)})
    model.partial_fit(FRAME, LABELS)  # with all categories: more of them need more room
    for first in range(0, N, 23):
        part = slice(first, first + 23)
        model.partial_fit(FRAME[part], LABELS[part])
        assert model.stats()[limit.removeprefix("max_")] <= most
    assert min(model.stats()["regrows"].values()) > 0


@pytest.mark.parametrize("size", [7, 1_000])
def test_a_full_forest_goes_on_learning(size):
    """Its labels are flipped long after it is full."""
    rng = np.random.default_rng(1)
    X, most = rng.normal(size=(8_000, 4)).astype(np.float32), 600_000
    y = (X[:, 0] + X[:, 1] > 0) ^ (np.arange(8_000) >= 5_000)
    model = AdaptiveAMFClassifier(**SMALL, classes=[False, True], max_bytes=most, random_state=0)
    is_right = np.empty(8_000, dtype=bool)
    for first in range(0, 8_000, size):
        part = slice(first, first + size)
        is_right[part] = model.partial_fit_predict_proba(X[part], y[part]).argmax(axis=1) == y[part]
        assert model.stats()["bytes"] <= most
    assert model.stats()["remembered_rows"] < 5_000
    assert is_right[4_500:5_000].mean() > 0.85
    assert is_right[5_400:6_000].mean() > is_right[4_500:5_000].mean() - 0.05
    assert model.stats()["regrows"]["all"] > 10  # when it was full, again and again


def test_wider_rows_make_memories_smaller_and_columns_without_values_can_be_dropped():
    model = RiverClassifier(**SMALL, max_bytes=1_500_000, seed=0)
    rng = np.random.default_rng(2)
    for i in range(900):
        x = {f"x{j}": float(rng.random()) for j in range(1 + i // 60)}
        model.learn_one(x, x["x0"] > 0.5)
        if i % 100 == 0:
            assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
            other = model.to_sklearn()
            assert other.n_samples_seen_ == i + 1
            X = pd.DataFrame(rng.random((300, len(x))), columns=list(x))
            assert other.predict_proba(X[:1])[0].tolist() == [
                *model.predict_proba_one(X.iloc[0].to_dict()).values()
            ]
            other.partial_fit(X, rng.random(300) > 0.5)
