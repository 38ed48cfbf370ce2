"""Labels and classes: announced, or added with the first row of a class."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from amforest import AdaptiveAMFClassifier, AMFClassifier, reference
from helpers import assert_equal_tables, preorder, reference_table, reference_trees, tables


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 3)).astype(np.float32)
    # Later rows have more classes, and not in their order.
    labels = np.array([3, 1, 4, 15, 9, 2, 6, 5])
    y = labels[np.minimum(rng.integers(0, 8, size=600), np.arange(600) // 60)]
    return X, y


SMALL = {"n_estimators": 1, "memories": (None, 60, 15), "honest_memories": ()}
BOTH = pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier])


def new(cls, **params):
    size = SMALL if cls is AdaptiveAMFClassifier else {"n_estimators": 3}
    return cls(**size, random_state=0, **params)


def learned_in_batches(X, y, size, cls=AMFClassifier, **params):
    model = new(cls, **params)
    for start in range(0, len(y), size):
        model.partial_fit(X[start : start + size], y[start : start + size])
    return model


@pytest.mark.parametrize("size", [7, 100, 600])
@pytest.mark.parametrize("n_jobs", [1, 2, 7])
@BOTH
def test_the_forest_does_not_depend_on_the_batches(stream, size, n_jobs, cls):
    X, y = stream
    model = new(cls)
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(x, label)
    batches = learned_in_batches(X, y, size, cls, n_jobs=n_jobs)
    assert tables(model) == tables(batches)
    np.testing.assert_array_equal(model.predict_proba(X), batches.predict_proba(X))


@pytest.mark.parametrize("dirichlet", [None, 0.7])
def test_the_forest_equals_the_reference_that_learns_its_classes(stream, dirichlet):
    """K is the number of classes known so far, that of the row included."""
    X, y = stream
    model = learned_in_batches(X, y, 600, dirichlet=dirichlet)
    order = list(dict.fromkeys(y.tolist()))
    trees = reference_trees(AMFClassifier(3, classes=order, random_state=0))
    for tree in trees:
        known: set[int] = set()
        for x, label in zip(X, y.tolist(), strict=True):
            if label not in known:
                known.add(label)
                set_prior(tree, dirichlet or (0.5 if len(known) <= 2 else 0.01), len(known))
            tree.learn(x, order.index(label))
    for i, tree in enumerate(trees):
        for v, _ in preorder(tree):
            v.labels.counts = [v.labels.counts[k] for k in np.argsort(order)]
        table = model.tree_table(i)
        assert_equal_tables(table, reference_table(tree, table.dtype))


def set_prior(tree, alpha, n_classes):
    """Let all nodes, old and new, have α and K."""
    room = len(tree.new_labels().counts)

    def new_labels():
        labels = reference.ClassCounts(room, alpha)
        labels.total_alpha = alpha * n_classes
        return labels

    tree.new_labels = new_labels
    for v, _ in preorder(tree):
        v.labels.alpha, v.labels.total_alpha = alpha, alpha * n_classes


@BOTH
def test_classes_are_sorted_and_so_are_the_columns(stream, cls):
    X, y = stream
    model = learned_in_batches(X, y, 50, cls)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    predictions = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[predictions.argmax(axis=1)])
    np.testing.assert_allclose(predictions.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict_proba_one(X[7]), predictions[7])
    counts = model.tree_table(0)["counts"][0]
    np.testing.assert_array_equal(counts, np.unique(y, return_counts=True)[1])


@BOTH
def test_announced_classes_are_known_from_the_start(stream, cls):
    X, y = stream
    announced = new(cls, classes=np.unique(y)).partial_fit(X, y)
    in_call = new(cls).partial_fit(X, y, classes=np.unique(y))
    fitted = new(cls).fit(X, y)
    assert tables(announced) == tables(in_call) == tables(fitted)
    assert tables(announced) != tables(new(cls).partial_fit(X, y))


def test_a_class_beyond_the_announced_ones_extends_the_model(stream):
    X, _ = stream
    model = AMFClassifier(classes=[0, 1], random_state=0).partial_fit(X[:50], np.arange(50) % 2)
    model.partial_fit(X[50:52], [0, 7])
    np.testing.assert_array_equal(model.classes_, [0, 1, 7])
    assert model.predict_proba(X).shape == (600, 3)


@BOTH
def test_testing_then_training_gives_unknown_classes_no_probability(stream, cls):
    X, y = stream
    model = new(cls)
    predictions = model.partial_fit_predict_proba(X, y)
    one_by_one = new(cls).learn_one(X[0], y[0])
    assert not predictions[0].any()
    for i in range(1, len(y)):
        known = np.isin(model.classes_, y[:i])
        np.testing.assert_array_equal(predictions[i, known], one_by_one.predict_proba_one(X[i]))
        assert not predictions[i, ~known].any()
        one_by_one.learn_one(X[i], y[i])


@BOTH
def test_strings_and_bools_are_labels_too(stream, cls):
    X, _ = stream
    names = np.array(["b", "a", "long name"])[np.minimum(np.arange(600) // 200, 2)]
    model = learned_in_batches(X, names, 100, cls)
    assert model.classes_.tolist() == ["a", "b", "long name"]
    assert model.predict_one(X[0]) in names
    flags = learned_in_batches(X, np.arange(600) > 300, 100, cls)
    assert flags.classes_.tolist() == [False, True]
    assert flags.predict_one(X[599]) in (False, True)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint64, np.float32, np.float64, object])
def test_equal_labels_of_other_types_are_the_same_classes(stream, dtype):
    X, y = stream
    of_int, of_other = (AMFClassifier(3, random_state=0).fit(X[:300], y[:300]) for _ in range(2))
    of_int.partial_fit(X[300:], y[300:])
    of_other.partial_fit(X[300:], y[300:].astype(dtype))
    assert tables(of_other) == tables(of_int)
    assert of_other.classes_.tolist() == of_int.classes_.tolist()


def test_a_label_that_rounding_would_make_a_known_one_is_new():
    large = 2**53
    model = AMFClassifier(1, random_state=0).fit([[0.0], [1.0]], [0.0, float(large)])
    model.partial_fit(np.ones((1, 1)), np.array([large + 1]))
    assert len(model.classes_) == 3


@BOTH
def test_copies_go_on_alike(stream, cls):
    X, y = stream
    model = learned_in_batches(X[:300], y[:300], 50, cls)
    copy = pickle.loads(pickle.dumps(model))
    assert tables(model.partial_fit(X[300:], y[300:])) == tables(copy.partial_fit(X[300:], y[300:]))


def test_there_are_at_most_65535_classes():
    model = AMFClassifier(1, classes=range(65_534), random_state=0)
    model.partial_fit([[0.0], [1.0]], [3, 65_534])
    assert len(model.classes_) == 65_535
    with pytest.raises(ValueError, match="number of classes to 65536"):
        model.partial_fit([[0.5]], [70_000])
    assert model.n_samples_seen_ == 2
    with pytest.raises(ValueError, match="65535"):
        AMFClassifier(classes=range(65_536)).partial_fit([[0.5]], [1])


@BOTH
def test_others_predict_while_a_class_is_being_learned(cls):
    """Each prediction is a distribution over the classes known at some moment."""
    rng, n = np.random.default_rng(0), 3_000 if cls is AMFClassifier else 900
    X = rng.uniform(size=(n, 3)).astype(np.float32)
    y = rng.permutation(200)[np.arange(n) // 15]  # a new class every 15 rows
    model = new(cls, split_pure=True).partial_fit(X[:15], y[:15])
    done = threading.Event()

    def predict():
        while not done.is_set():
            np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1, rtol=1e-9)
            assert model.predict_proba_one(X[0]).sum() == pytest.approx(1)
            assert set(model.predict(X[:5])) <= set(y)
        return True

    with ThreadPoolExecutor(2) as pool:
        predictions = [pool.submit(predict) for _ in range(2)]
        try:
            for start in range(15, n, 10):
                model.partial_fit(X[start : start + 10], y[start : start + 10])
        finally:
            done.set()
    assert all(future.result() for future in predictions)
    assert len(model.classes_) == n // 15


@pytest.mark.parametrize("kind", [int, str, object])
def test_many_labels_at_once_are_learned_as_in_small_batches(kind):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(9_500, 2)), rng.integers(0, 3, size=9_500)
    y[5_000:] += rng.integers(0, 2, size=4_500)  # labels are encoded in blocks of 4,096
    weights = rng.integers(0, 2, size=9_500)
    labels = y.astype(kind)
    for how in ({}, {"sample_weight": weights}):
        at_once, again = AMFClassifier(1, random_state=0), AMFClassifier(1, random_state=0)
        for start in range(0, 9_500, 500):
            part = slice(start, start + 500)
            again.partial_fit(X[part], labels[part], **{k: w[part] for k, w in how.items()})
        at_once.partial_fit(X, labels, **how).partial_fit(X, labels)  # all are known by then
        assert tables(at_once) == tables(
            again.partial_fit(X[:5_000], labels[:5_000]).partial_fit(X[5_000:], labels[5_000:])
        )
