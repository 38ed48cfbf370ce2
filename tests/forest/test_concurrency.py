"""Threads predict while one learns; learners wait for each other; child processes."""

import multiprocessing
import os
import pickle
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from amforest.model_io.model_file import from_bytes
from amforest.river import AdaptiveAMFClassifier as AdaptiveRiverClassifier
from amforest.river import AMFClassifier as RiverClassifier
from helpers import tables

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(3000, 4)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(int)
PROBE = X[:1] + np.float32(0.01)


def while_it_learns(learn, query, n_threads=4):
    """What `query` returns in several threads, as long as `learn` runs in another."""
    done = threading.Event()

    def keep_querying():
        answers = []
        while not done.is_set():
            answers.append(query())
        return answers

    with ThreadPoolExecutor(n_threads) as pool:
        futures = [pool.submit(keep_querying) for _ in range(n_threads)]
        try:
            learn()
        finally:
            done.set()
        answers = [answer for future in futures for answer in future.result()]
    return answers


ADAPTIVE = {"memories": (None, 60, 15), "n_candidates": 200}


@pytest.mark.parametrize(
    "cls", [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
)
@pytest.mark.parametrize("way", ["rows", "batches"])
def test_each_prediction_is_that_of_a_moment_between_two_rows(cls, way):
    params = {"n_estimators": 2, **ADAPTIVE} if cls.is_adaptive else {"n_estimators": 5}
    model, twin = (cls(**params, random_state=0).partial_fit(X[:5], Y[:5]) for _ in range(2))
    method = "predict_proba" if hasattr(cls, "predict_proba") else "predict"
    n_rows = 1_000 if cls.is_adaptive else len(X)
    moments = {getattr(twin, method)(PROBE).tobytes()}
    for x, y in zip(X[5:n_rows], Y[5:n_rows], strict=True):
        twin.learn_one(x, y)
        moments.add(getattr(twin, method)(PROBE).tobytes())

    def learn():
        size = 1 if way == "rows" else 100
        for first in range(5, n_rows, size):
            part = slice(first, min(first + size, n_rows))
            if size == 1:
                model.learn_one(X[first], Y[first])
            else:
                model.partial_fit(X[part], Y[part])

    answers = while_it_learns(learn, lambda: getattr(model, method)(PROBE).tobytes())
    assert len(answers) > 10
    assert set(answers) <= moments
    assert tables(model) == tables(twin)


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_new_classes_and_categories_do_not_disturb_those_who_predict(cls):
    words = np.array([f"w{i // 20}" for i in range(len(X))])
    frame = pd.DataFrame({"size": X[:, 0], "word": words})
    params = {"n_estimators": 1, **ADAPTIVE} if cls.is_adaptive else {"n_estimators": 3}
    model = cls(**params, categorical_features=["word"], random_state=0)
    model.partial_fit(frame[:10], words[:10])

    def learn():
        for first in range(10, 1500, 10):
            model.partial_fit(frame[first : first + 10], words[first : first + 10])

    answers = while_it_learns(learn, lambda: model.predict_proba(frame[:3]))
    assert all(np.allclose(answer.sum(axis=1), 1) for answer in answers)
    assert len(model.classes_) == 75


@pytest.mark.parametrize("cls", [RiverClassifier, AdaptiveRiverClassifier])
def test_new_features_do_not_disturb_those_who_predict_in_river(cls):
    model = cls(3, seed=0)
    model.learn_one({"f0": 1.0}, True)

    def learn():
        for i in range(300):
            features = {f"f{j}": float(X[i, j % 4]) for j in range(i // 6 + 1)}
            model.learn_one(features | {f"word{i // 50}": f"w{i}"}, bool(Y[i]))

    answers = while_it_learns(learn, lambda: model.predict_proba_one({"f0": 0.5, "word0": "w3"}))
    assert all(sum(answer.values()) == pytest.approx(1) for answer in answers)


QUERIES = {
    "n_samples": lambda core: core.n_samples,
    "n_nodes": lambda core: core.n_nodes,
    "prediction_size": lambda core: core.prediction_size,
    "label_parameters": lambda core: core.label_parameters,
    "predict": lambda core: core.predict(X[:1], 1),
    "predict_row": lambda core: core.predict_row(X[0]),
    "weighted_depth": lambda core: core.weighted_depth(X[:1], 1),
    "reserve": lambda core: core.reserve(capacity=9),
    "learn": lambda core: core.learn(X[:1], np.zeros(1, np.uint32), 1),
}


@pytest.mark.parametrize("name", QUERIES)
def test_who_waits_for_a_learner_keeps_no_other_thread_waiting(name):
    core = AMFClassifier(1, split_pure=True, random_state=0).partial_fit(X, Y)._core
    rows = np.random.default_rng(1).random((150_000, 4), dtype=np.float32)
    labels = (rows[:, 0] > 0.5).astype(np.uint32)
    done, ticks, most = threading.Event(), 0, 0

    def tick():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0)

    def query():
        nonlocal most
        while not done.is_set():
            before = ticks
            QUERIES[name](core)
            most = max(most, ticks - before)
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # so that nobody but those who wait give way
    try:
        with ThreadPoolExecutor(2) as pool:
            pool.submit(tick), pool.submit(query)
            core.learn(rows, labels, 1)
            done.set()
    finally:
        sys.setswitchinterval(interval)
    assert most > 0


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_learners_wait_for_each_other(cls):
    model = cls(1, random_state=0, classes=[0, 1])
    parts = [slice(first, first + 50) for first in range(0, len(X), 50)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: model.partial_fit(X[part], Y[part]), parts))
    assert model.n_samples_seen_ == len(X)
    assert model.tree_table(0)["counts"][0].tolist() == np.bincount(Y).tolist()


def test_learners_of_one_adaptive_core_wait_for_each_other():
    """Between two chunks of a batch another may use up the room that was made for it."""
    model = AdaptiveAMFClassifier(1, **ADAPTIVE, random_state=0).partial_fit(X[:10], Y[:10])
    core, labels = model._core, Y.astype(np.uint32)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: core.learn(X, labels, 1), range(4)))
    assert core.n_samples == 10 + 4 * len(X)
    assert len(from_bytes(model.to_bytes()).classes_) == 2


def test_learners_that_bring_classes_wait_for_each_other():
    model = AMFClassifier(2, random_state=0).partial_fit(X[:1], ["c0"])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: model.learn_one(X[i], f"c{i}"), range(1, 300)))
    assert sorted(model.classes_) == sorted(f"c{i}" for i in range(300))
    assert (model.tree_table(0)["counts"][0] == 1).all()


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])
def test_a_model_is_saved_while_it_learns(cls):
    model = cls(1, random_state=0, classes=[0, 1]).partial_fit(X[:1], Y[:1])
    data = while_it_learns(lambda: model.partial_fit(X[1:], Y[1:]), model.to_bytes, 2)
    pickles = while_it_learns(lambda: model.partial_fit(X, Y), lambda: pickle.dumps(model), 2)
    for saved in (*(pickle.loads(p) for p in pickles), model):
        assert saved.stats()["samples"] >= 1
    assert data


def child(model, queue):
    queue.put(model.partial_fit(X[1500:], Y[1500:]).to_bytes())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # pytest's own threads
@pytest.mark.parametrize(
    "method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)]
)
def test_a_child_process_goes_on_with_its_own_copy(method):
    model = AMFClassifier(3, random_state=0, n_jobs=2).fit(X[:1500], Y[:1500])
    before = model.to_bytes()
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=child, args=(model, queue))
    process.start()
    learned = queue.get(timeout=60)
    process.join()
    assert model.to_bytes() == before
    assert learned == model.partial_fit(X[1500:], Y[1500:]).to_bytes()


def test_a_fork_between_two_rows_leaves_both_usable():
    model = AMFRegressor(3, random_state=0).fit(X[:100], Y[:100])
    if (pid := os.fork()) == 0:
        os._exit(0 if model.learn_one(X[0], 1.0).n_samples_seen_ == 101 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert model.learn_one(X[0], 1.0).n_samples_seen_ == 101
