"""The adaptive forests keep their promises while trees are regrown."""

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, river
from amforest.model_io.model_file import from_bytes
from helpers import tables

N = 400
RNG = np.random.default_rng(0)
TOWNS = np.array([f"town {k}" for k in RNG.integers(40, size=N) ** 2 // 60])
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "town": TOWNS, "b": 1e6 * RNG.normal(size=N)})
FRAME.loc[RNG.random(N) < 0.2, "b"] = np.nan
FRAME.loc[RNG.random(N) < 0.2, "town"] = None
CLASSES = np.where(FRAME["a"] > 0, "x", np.where(np.arange(N) > 150, "late", "y"))
CLASSES[::5] = np.where(FRAME["town"][::5] > "town 2", "x", "y")
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 3.0], N)
WEIGHTS[0] = 1
NUMBERS = (
    1e3 + np.abs(FRAME["a"].to_numpy()) + (FRAME["town"] > "town 2") + 0.1 * RNG.normal(size=N)
)


@dataclass(frozen=True)
class Kind:
    """What differs between the two."""

    estimator: Any
    twin: Any  # of river
    small: dict[str, Any]
    labels: Any
    test_then_train: str
    groups: list[str]  # of a small one

    def new(self, **params):
        how = {**self.small, "categorical_features": ["town"], "random_state": 0}
        return self.estimator(**how | params)

    def learn(self, model, *cuts, weights=WEIGHTS):
        """Learn the stream, cut into batches, every other one by test-then-train."""
        for k, part in enumerate(np.split(np.arange(N), cuts)):
            call = getattr(model, self.test_then_train) if k % 2 else model.partial_fit
            call(FRAME.iloc[part], self.labels[part], sample_weight=weights[part])
        return model


SMALL = {"n_estimators": 2, "memories": (None, 60, 15)}
KINDS = {
    "classes": Kind(
        AdaptiveAMFClassifier,
        river.AdaptiveAMFClassifier,
        {**SMALL, "honest_memories": (40,)},
        CLASSES,
        "partial_fit_predict_proba",
        ["all", "60", "15", "40, honest", "plain"],
    ),
    "numbers": Kind(
        AdaptiveAMFRegressor,
        river.AdaptiveAMFRegressor,
        SMALL,
        NUMBERS.to_numpy(),
        "partial_fit_predict",
        [
            *("all", "60", "15", "all, linear", "60, linear", "15, linear"),
            *("linear", "linear, 0.999", "linear, 0.98", "mean"),
        ],
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return KINDS[request.param]


def bits(model):
    """All that makes the forest, but for the sums of losses of test-then-train."""
    state = model._core.state()
    for room in ("categories", "capacity"):
        state.pop(room, None)
    arrays = {name: array.tobytes() for name, array in state.pop("trees").items()}
    return {"state": repr(sorted(state.items())), **arrays}


# Batches, threads, SIMD


@pytest.fixture(scope="module")
def row_by_row(kind):
    return bits(kind.learn(kind.new(), *range(1, N)))


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [100, 101, 350], list(range(7, N, 7))])
def test_batches_and_threads_never_change_the_forest(kind, cuts, n_jobs, row_by_row):
    model = kind.learn(kind.new(n_jobs=n_jobs), *cuts)
    assert bits(model) == row_by_row
    assert min(model.stats()["regrows"].values()) > 0


def test_one_row_at_a_time_gives_the_same_forest_and_the_same_predictions(kind):
    names = np.array([1])
    model, expected = kind.new(categorical_features=names), kind.new(categorical_features=names)
    X = FRAME.to_numpy(dtype=object)
    X[pd.isna(X)] = None
    predictions = getattr(expected, kind.test_then_train)(X, kind.labels)
    for i, (x, y, p) in enumerate(zip(X.tolist(), kind.labels, predictions, strict=True)):
        if i and (x[1] is None or x[1] in X[:i, 1]):  # a batch knows its new categories
            if p.ndim:
                known = np.isin(expected.classes_, kind.labels[:i])
                assert model.predict_proba_one(x).tolist() == p[known].tolist()
            else:
                assert model.predict_one(x) == p
        model.learn_one(x, y)
    assert bits(model) == bits(expected)


def test_the_processor_never_changes_the_forest(kind):
    name = next(name for name, value in KINDS.items() if value is kind)
    program = (
        f"import test_adaptive as t; kind = t.KINDS[{name!r}]; "
        "print(hash(str(t.bits(kind.learn(kind.new(), 50, 300)))))"
    )
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
def test_a_model_is_saved_and_continues_at_any_row(kind, n_candidates):
    """With many candidates a regrowth takes many rows."""
    params = {"n_candidates": n_candidates, "row_limit": 100, "memories": (None, 50, 8)}
    model, moved, in_regrowths = kind.new(**params), kind.new(**params), 0
    for i in range(N):
        row = FRAME.iloc[i : i + 1], kind.labels[i : i + 1]
        model.partial_fit(*row)
        moved.partial_fit(*row)
        if i % 3 == 0:
            in_regrowths += moved._core.state()["trees"]["is_regrown"].any()
            moved = (by_file, by_pickle, copy.deepcopy)[i // 3 % 3](moved)
    assert moved.to_bytes() == model.to_bytes()
    assert in_regrowths > (20 if n_candidates > 30 else 0)


def test_a_river_model_continues_at_any_row_while_features_come_and_go(kind):
    model, moved = (kind.twin(**kind.small, n_candidates=500, seed=0) for _ in range(2))
    for i in range(N):
        x = {name: value for name, value in FRAME.iloc[i].items() if not pd.isna(value)}
        x |= {f"late {j}": float(i % (j + 2)) for j in range(i // 30)}
        x |= {f"word {j}": f"w{i % 3}" for j in range(i // 130)}
        for one in (model, moved):
            one.learn_one(x, kind.labels[i])
        if i % 7 == 0:
            moved = (by_file, by_pickle, copy.deepcopy)[i // 7 % 3](moved)
    assert moved.to_bytes() == model.to_bytes()
    assert tables(moved.to_sklearn()) == tables(model.to_sklearn())
    assert model.memory_names_ == kind.groups


def named(i):
    """Words and numbers that come late."""
    x = {"a": float(FRAME["a"][i])} | ({"town": TOWNS[i]} if i > 40 else {})
    return x | ({"b": float(i % 7)} if i > 41 else {}) | ({"c": "uv"[i % 2]} if i > 90 else {})


@pytest.mark.parametrize("cut", [60, 200])
def test_many_rows_in_which_categories_come_late_are_learned_as_one_after_the_other(kind, cut):
    one, many = (kind.twin(**kind.small, n_candidates=500, seed=0) for _ in range(2))
    rows = [named(i) for i in range(200)]
    for x, y in zip(rows, kind.labels, strict=False):
        one.learn_one(x, y)
    for first in range(0, 200, cut):
        part = slice(first, min(first + cut, 200))
        many.learn_many(pd.DataFrame(rows[part]), pd.Series(kind.labels[part]))
    assert bits(many._model) == bits(one._model)


def test_an_error_after_a_late_category_leaves_the_model_as_it_was(kind):
    model = kind.twin(**kind.small, seed=0)
    X = pd.DataFrame([named(i) for i in range(200)])
    for first in (0, 30):
        before = model.to_bytes()
        with pytest.raises((TypeError, ValueError)):
            model.learn_many(X[first:], pd.Series([*kind.labels[first:199], ()], dtype=object))
        assert model.to_bytes() == before
        model.learn_many(X[:30], pd.Series(kind.labels[:30]))


# Failed calls


@pytest.mark.parametrize(
    ("X", "n_labels", "weights", "message"),
    [
        (FRAME[:2].assign(a=2.0**101), 2, None, "X"),
        (FRAME[:2].assign(a=np.inf), 2, None, "is inf; features must be finite"),
        (FRAME[["a", "b"]][:2], 2, None, "missing"),
        (FRAME[:2], 1, None, "inconsistent"),
        (FRAME[:2], 2, [1, -1], "weight"),
        (FRAME[:2], 2, [1, np.nan], "weight"),
        (FRAME[:2], 2, [1, 1e300], "too much"),
        (FRAME[:2], 2, [1, 1e-300], "weight"),
    ],
)
def test_a_failed_call_leaves_the_model_as_it_was(kind, X, n_labels, weights, message):
    model = kind.learn(kind.new(n_candidates=500), 200)
    before = model.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        model.partial_fit(X, kind.labels[:n_labels], sample_weight=weights)
    assert model.to_bytes() == before
    assert bits(kind.learn(model)) == bits(kind.learn(from_bytes(before)))


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("classes", ["new", 3.5], "y|label"),
        ("numbers", [1.0, np.nan], "y"),
        ("numbers", [1.0, 1e76], r"y\[1\] is 1e\+76; labels must be finite and lie within"),
        ("numbers", [1.0, "many"], "y"),
        ("numbers", [[1.0, 2.0], [3.0, 4.0]], "y has shape .2, 2.; .* MultiOutputRegressor"),
    ],
)
def test_labels_that_cannot_be_learned_leave_the_model_as_it_was(name, y, message):
    kind = KINDS[name]
    model = kind.learn(kind.new(), 200)
    before = model.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        model.partial_fit(FRAME[:2], np.array(y, dtype=object))
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"memories": (3,)}, "memories holds 3; a memory must be None or .*, at least 8"),
        ({"memories": 5}, "'memories' parameter .* must be .*tuple.*list.* Got 5"),
        ({"memories": ("long",)}, "memories holds 'long'"),
        ({"n_candidates": 0}, r"'n_candidates' parameter .* \[1, 10000\]. Got 0"),
        ({"row_limit": 1}, r"'row_limit' parameter .* \[16, .*\]. Got 1"),
        ({"n_estimators": 20_000}, r"n_estimators is 20000; \d groups .* trees.* 65535"),
        ({"max_nodes": 10}, r"max_nodes is 10; for 1\d trees .* must be at least \d+"),
        ({"max_bytes": 9_999}, r"max_bytes is 9999; for 1\d trees .* must be at least \d+"),
    ],
)
def test_bad_parameters_are_named_with_what_would_be_right(kind, params, message):
    model = kind.new(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(FRAME, kind.labels)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"honest_memories": (7.5,)}, "honest_memories holds 7.5"),
        ({"honest_memories": None}, "'honest_memories' parameter"),
        ({"mixer_rate": 2}, r"'mixer_rate' parameter .* \[0.*, 1.*\]. Got 2"),
    ],
)
def test_bad_parameters_of_a_classifier_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        KINDS["classes"].new(**params).fit(FRAME, CLASSES)


# Limits


@pytest.mark.parametrize("limit", ["max_nodes", "max_bytes"])
@pytest.mark.parametrize("factor", [1, 1.5, 10])
def test_limits_are_kept_and_the_least_is_the_one_that_the_error_names(kind, limit, factor):
    with pytest.raises(ValueError, match="must be at least") as error:
        kind.new(**{limit: 1}).fit(FRAME, kind.labels)
    most = int(factor * int(str(error.value).split()[-1]))
    if factor == 1:
        with pytest.raises(ValueError, match="must be at least"):
            kind.new(**{limit: most - 1}).fit(FRAME, kind.labels)
    model = kind.new(**{limit: most})
    if kind.estimator is AdaptiveAMFClassifier:
        model.set_params(classes=np.unique(kind.labels))
    model.partial_fit(FRAME, kind.labels)  # with all categories: more of them need more room
    for first in range(0, N, 23):
        part = slice(first, first + 23)
        model.partial_fit(FRAME[part], kind.labels[part])
        assert model.stats()[limit.removeprefix("max_")] <= most
    assert min(model.stats()["regrows"].values()) > 0


@pytest.mark.parametrize("size", [7, 1_000])
def test_a_full_forest_goes_on_learning(size):
    """Its labels are flipped long after it is full."""
    rng = np.random.default_rng(1)
    X, most = rng.normal(size=(8_000, 4)).astype(np.float32), 600_000
    y = (X[:, 0] + X[:, 1] > 0) ^ (np.arange(8_000) >= 5_000)
    model = KINDS["classes"].new(categorical_features=None, classes=[False, True], max_bytes=most)
    is_right = np.empty(8_000, dtype=bool)
    for first in range(0, 8_000, size):
        part = slice(first, first + size)
        is_right[part] = model.partial_fit_predict_proba(X[part], y[part]).argmax(axis=1) == y[part]
        assert model.stats()["bytes"] <= most
    assert model.stats()["remembered_rows"] < 5_000
    assert is_right[4_500:5_000].mean() > 0.85
    assert is_right[5_400:6_000].mean() > is_right[4_500:5_000].mean() - 0.05
    assert model.stats()["regrows"]["all"] > 10  # when it was full, again and again


def test_wider_rows_make_memories_smaller_and_columns_without_values_can_be_dropped(kind):
    model = kind.twin(**kind.small, max_bytes=1_500_000, seed=0)
    rng = np.random.default_rng(2)
    for i in range(900):
        x = {f"x{j}": float(rng.random()) for j in range(1 + i // 60)}
        model.learn_one(x, float(x["x0"] > 0.5))
        if i % 100 == 0:
            assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
            other = model.to_sklearn()
            assert other.n_samples_seen_ == i + 1
            X = pd.DataFrame(rng.random((300, len(x))), columns=list(x))
            if kind.estimator is AdaptiveAMFClassifier:
                by_class = model.predict_proba_one(X.iloc[0].to_dict()).values()
                assert other.predict_proba(X[:1])[0].tolist() == [*by_class]
            else:
                assert other.predict(X[:1])[0] == model.predict_one(X.iloc[0].to_dict())
            other.partial_fit(X, (rng.random(300) > 0.5).astype(float))
