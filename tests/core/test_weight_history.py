"""The history of the mixer's weights: bounded, and the same however the stream is cut."""

import pickle

import numpy as np
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor
from amforest._forest.core_handle import restore_core
from amforest.model_io import from_bytes

N_ROWS, MOST_POINTS = 2_600, 256
MODELS = {
    "classifier": AdaptiveAMFClassifier(
        1, memories=(60, 15), honest_memories=(), classes=[False, True], random_state=0
    ),
    "regressor": AdaptiveAMFRegressor(1, memories=(60, 15), random_state=0),
}


def rows(kind):
    X = np.random.default_rng(0).normal(size=(N_ROWS, 2))
    return X, X[:, 0] > 0 if kind == "classifier" else X[:, 0]


def new(kind):
    return MODELS[kind].__class__(**MODELS[kind].get_params())


@pytest.fixture(scope="module", params=list(MODELS))
def learned(request):
    X, y = rows(request.param)
    return request.param, new(request.param).fit(X, y)


def are_same(one, other):
    (rows, weights), (other_rows, others) = one, other
    return rows.tolist() == other_rows.tolist() and weights.tobytes() == others.tobytes()


def test_there_is_a_point_at_equal_distances_and_one_for_now(learned):
    _, model = learned
    rows, weights = model.memory_weights_history_
    assert rows[:-1].tolist() == list(range(16, N_ROWS, 16))
    assert rows[-1] == N_ROWS == model.n_samples_seen_
    assert weights.shape == (len(rows), len(model.memory_names_))
    assert weights[-1].tobytes() == model.memory_weights_.tobytes()


def test_points_are_the_weights_of_their_time_and_never_too_many(learned):
    kind, _ = learned
    (X, y), model, at = rows(kind), new(kind), {}
    for i in range(0, N_ROWS, 4):
        model.partial_fit(X[i : i + 4], y[i : i + 4])
        at[i + 4] = model.memory_weights_
        if i % 100 == 0 or 1_000 < i < 1_050:
            numbers, weights = model.memory_weights_history_
            assert len(numbers) <= MOST_POINTS
            assert all(
                (at[row] == w).all() for row, w in zip(numbers.tolist(), weights, strict=True)
            )


@pytest.mark.parametrize("size", [1, 7, 1_023])
def test_the_history_does_not_depend_on_batches_threads_or_weights_of_zero(learned, size):
    kind, expected = learned
    (X, y), model = rows(kind), new(kind).set_params(n_jobs=2)
    n = 300 if size == 1 else N_ROWS
    for i in range(0, n, size):
        some = slice(i, min(i + size, n))
        if size == 1:
            model.learn_one(X[i], y[i])
        else:  # each row also comes with weight 0
            weights = np.tile([1.0, 0.0], some.stop - i)
            model.partial_fit(X[some].repeat(2, axis=0), y[some].repeat(2), sample_weight=weights)
    if n < N_ROWS:
        expected = new(kind).fit(X[:n], y[:n])
    assert are_same(model.memory_weights_history_, expected.memory_weights_history_)


def test_files_pickles_and_copies_keep_the_history_and_continue_it(learned):
    kind, whole = learned
    X, y = rows(kind)
    half = new(kind).fit(X[:1_500], y[:1_500])
    copies = [from_bytes(half.to_bytes()), pickle.loads(pickle.dumps(half))]
    for copy in copies:
        assert are_same(copy.memory_weights_history_, half.memory_weights_history_)
        copy.partial_fit(X[1_500:], y[1_500:])
        assert are_same(copy.memory_weights_history_, whole.memory_weights_history_)


def test_the_part_that_mixes_has_the_history(learned):
    _kind, model = learned
    core = model._core
    mixer, trees = core.take([]), core.take(list(range(core.n_trees)))
    assert are_same(mixer.weight_history, core.weight_history)
    assert len(trees.weight_history[0]) == 1  # that of now
    assert are_same(mixer.join([trees]).weight_history, core.weight_history)


def test_a_model_without_history_records_from_now_on(learned):
    kind, model = learned
    state = model._core.state()
    state["trees"] = {k: v for k, v in state["trees"].items() if k != "weight_history"}
    core = restore_core(state)
    assert core.weight_history[0].tolist() == [N_ROWS]
    X, y = rows(kind)
    labels = y.astype(np.uint32 if kind == "classifier" else np.float64)
    core.learn(X[:40].astype(np.float32), labels[:40], 1)
    assert core.weight_history[0].tolist() == [2_608, 2_624, 2_640]


def test_a_batch_that_fails_leaves_the_history_as_it_was(learned):
    kind, _ = learned
    (X, y), model = rows(kind), new(kind)
    model.partial_fit(X[:100], y[:100])
    before = model.memory_weights_history_
    with pytest.raises(ValueError, match="finite"):
        model.partial_fit(np.full((50, 2), np.inf), y[:50])
    assert are_same(model.memory_weights_history_, before)
