"""Learning, predicting, copying and refusing: what both estimators have in common."""

import copy
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_friedman1
from sklearn.exceptions import NotFittedError

from amforest import AMFClassifier, AMFRegressor
from helpers import state_of, tables

PAPER = {"charge_first": True, "predict_extends": True}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order].astype(np.float32), y[order]


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(1000, random_state=0)
    return X.astype(np.float32), (y - y.mean()) / y.std()


@pytest.fixture(params=[AMFClassifier, AMFRegressor])
def stream(request, digits, friedman):
    """An estimator class with data for it."""
    X, y = digits if request.param is AMFClassifier else friedman
    return request.param, X[:600], y[:600]


def predictions_of(model, X):
    return model.predict_proba(X) if isinstance(model, AMFClassifier) else model.predict(X)


def test_then_train(model, X, y):
    if isinstance(model, AMFClassifier):
        return model.partial_fit_predict_proba(X, y)
    return model.partial_fit_predict(X, y)


test_then_train.__test__ = False


# The forest does not depend on batches and threads


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [100, 101, 350], list(range(7, 600, 7))])
def test_batches_and_threads_never_change_the_forest(stream, n_jobs, cuts):
    cls, X, y = stream
    expected = cls(random_state=3).fit(X, y)
    model = cls(random_state=3, n_jobs=n_jobs)
    classes = {"classes": np.unique(y)} if cls is AMFClassifier else {}
    for rows, labels in zip(np.split(X, cuts), np.split(y, cuts), strict=True):
        model.partial_fit(rows, labels, **classes)
    assert tables(model) == tables(expected)
    np.testing.assert_array_equal(predictions_of(model, X), predictions_of(expected, X))
    assert model.n_samples_seen_ == len(X)


@pytest.mark.parametrize("n_jobs", [2, 7])
def test_threads_never_change_the_result_of_a_method(stream, n_jobs):
    cls, X, y = stream
    model = cls(random_state=3).fit(X, y)
    by_tree = "predict_proba_by_tree" if cls is AMFClassifier else "predict_by_tree"
    for method in ("weighted_depth", "apply", by_tree):
        expected = getattr(model.set_params(n_jobs=1), method)(X)
        seen = getattr(model.set_params(n_jobs=n_jobs), method)(X)
        np.testing.assert_array_equal(seen, expected)


def test_a_forest_beyond_the_caches_learns_the_same():
    rng = np.random.default_rng(0)
    X, y = rng.random((140_000, 2), dtype=np.float32), rng.integers(2, size=140_000)
    params = {"split_pure": True, "classes": [0, 1], "random_state": 0}
    at_once, in_two = (AMFClassifier(1, **params) for _ in range(2))
    at_once.partial_fit(X, y)
    assert at_once.stats()["nodes"] > 2**18  # from here on, learning prefetches
    for part in (slice(139_000), slice(139_000, None)):
        in_two.partial_fit(X[part], y[part])
    assert in_two.to_bytes() == at_once.to_bytes()
    for x, label in zip(X[:20], y[:20], strict=True):
        in_two.learn_one(x, label)
    assert at_once.partial_fit(X[:20], y[:20]).to_bytes() == in_two.to_bytes()


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
@pytest.mark.parametrize("cuts", [[], [250], list(range(40, 600, 40))])
def test_row_by_row_equals_test_then_train_in_one_call_or_in_some(stream, n_jobs, cuts):
    cls, X, y = stream
    params = {"classes": np.unique(y)} if cls is AMFClassifier else {}
    one_by_one, at_once = (
        cls(random_state=0, **params),
        cls(random_state=0, n_jobs=n_jobs, **params),
    )
    parts = zip(np.split(X, cuts), np.split(y, cuts), strict=True)
    predictions = np.concatenate([test_then_train(at_once, *part) for part in parts])
    one_by_one.learn_one(X[0], y[0])
    for x, label, expected in zip(X[1:], y[1:], predictions[1:], strict=True):
        np.testing.assert_array_equal(predictions_of(one_by_one, x[None])[0], expected)
        one_by_one.learn_one(x, label)
    assert tables(one_by_one) == tables(at_once)


def test_of_arrays_and_of_lists_test_then_train_makes_the_same(stream):
    cls, X, y = stream
    of_arrays, of_lists = (cls(random_state=0).fit(X[:300], y[:300]) for _ in range(2))
    predictions = test_then_train(of_arrays, X[300:], y[300:])
    expected = test_then_train(of_lists, X[300:].tolist(), y[300:].tolist())
    np.testing.assert_array_equal(predictions, expected)
    assert of_arrays.to_bytes() == of_lists.to_bytes()
    assert of_arrays.stats() == of_lists.stats()


def test_before_the_first_row_the_prediction_is_the_default(digits, friedman):
    X, y = digits
    first = AMFClassifier(classes=range(10)).partial_fit_predict_proba(X[:50], y[:50])[0]
    np.testing.assert_allclose(first, 0.1, rtol=1e-15)
    X, y = friedman
    assert AMFRegressor().partial_fit_predict(X[:50], y[:50])[0] == 0.0


def test_fit_starts_afresh(stream):
    cls, X, y = stream
    model = cls(random_state=1).fit(X[:300], y[:300])
    assert tables(model.fit(X, y)) == tables(cls(random_state=1).fit(X, y))


def test_the_seed_makes_the_forest(stream):
    cls, X, y = stream
    assert tables(cls(random_state=1).fit(X, y)) == tables(cls(random_state=1).fit(X, y))
    assert tables(cls(random_state=1).fit(X, y)) != tables(cls(random_state=2).fit(X, y))
    first = cls(n_estimators=2, random_state=np.random.RandomState(5)).fit(X, y)
    again = cls(n_estimators=2, random_state=np.random.RandomState(5)).fit(X, y)
    assert tables(first) == tables(again)


def test_more_trees_do_not_change_the_first_ones(stream):
    cls, X, y = stream
    few, many = (cls(n_estimators=n, random_state=1).fit(X, y) for n in (2, 5))
    assert tables(few) == tables(many)[:2]


# Predictions


def test_it_learns_digits(digits):
    X, y = digits
    predictions = AMFClassifier(classes=range(10), random_state=0).partial_fit_predict_proba(X, y)
    np.testing.assert_allclose(predictions.sum(axis=1), 1, rtol=1e-12)
    assert (predictions.argmax(axis=1) == y).mean() > 0.87
    assert -np.log(predictions[np.arange(len(y)), y]).mean() < 0.75


def test_it_learns_friedman(friedman):
    X, y = friedman
    predictions = AMFRegressor(random_state=0).partial_fit_predict(X, y)
    assert np.mean((predictions[500:] - y[500:]) ** 2) < 0.6 * np.var(y[500:])


def test_the_forest_is_the_mean_of_its_trees(stream):
    cls, X, y = stream
    model = cls(random_state=0).fit(X, y)
    name = "predict_proba_by_tree" if cls is AMFClassifier else "predict_by_tree"
    by_tree = getattr(model, name)(X)
    assert by_tree.shape[:2] == (len(X), 10)
    np.testing.assert_allclose(by_tree.mean(axis=1), predictions_of(model, X), rtol=1e-12)


def test_one_row_predictions_are_the_batch_ones(digits, friedman):
    X, y = digits
    model = AMFClassifier(random_state=0).fit(X[:300], y[:300])
    for x in (X[0], X[0].tolist(), tuple(X[0]), X[0].astype(np.float64), X[::2][0]):
        np.testing.assert_array_equal(model.predict_proba_one(x), model.predict_proba(X[:1])[0])
        assert model.predict_one(x) == model.predict(X[:1])[0]
    X, y = friedman
    model = AMFRegressor(random_state=0).fit(X, y)
    assert model.predict_one(X[0].tolist()) == model.predict(X[:1])[0]


def test_log_probabilities_are_logs(digits):
    X, y = digits
    model = AMFClassifier(random_state=0).fit(X[:300], y[:300])
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", "dog", "eel"],
        [b"c", b"d", b"e"],
        [False, True, True],
        [-7, 10**12, 3],
        [1.0, 2.0, 5.0],
        np.array(["x", "y", "z"], dtype=object),
    ],
    ids=str,
)
def test_labels_may_have_any_dtype(digits, labels):
    X, y = digits[0][:200], np.asarray(labels)[digits[1][:200] % 3]
    model = AMFClassifier(random_state=0).fit(X, y)
    assert model.classes_.tolist() == sorted(set(y.tolist()))
    assert (model.predict(X) == y).mean() > 0.9
    assert model.learn_one(X[0], y[0]).predict_one(X[0]) in model.classes_


def test_classes_known_before_any_data_are_equally_likely(digits):
    model = AMFClassifier(classes=["b", "a", "c", "a"])
    np.testing.assert_array_equal(model.predict_proba([[1.0, 2.0]] * 5), np.full((5, 3), 1 / 3))
    np.testing.assert_array_equal(model.predict_proba_one([1.0, 2.0]), [1 / 3] * 3)
    assert model.predict_one([1.0]) == "a"


@pytest.mark.parametrize("method", ["predict", "apply", "weighted_depth"])
def test_without_data_there_is_a_clear_error(method):
    for model in (AMFClassifier(), AMFRegressor()):
        with pytest.raises(NotFittedError, match="is not fitted: call fit"):
            getattr(model, method)([[1.0]])
    with pytest.raises(NotFittedError, match="is not fitted"):
        AMFClassifier().predict_proba([[1.0]])


@pytest.mark.parametrize("dirichlet", [None, 0.25])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_dirichlet_defaults_to_a_half_for_two_classes_and_a_hundredth_for_more(
    dirichlet, n_classes
):
    model = AMFClassifier(1, dirichlet=dirichlet, classes=range(n_classes)).fit([[0.0]], [1])
    alpha = dirichlet or (0.5 if n_classes == 2 else 0.01)
    expected = (1 + alpha) / (1 + alpha * n_classes)
    assert model.predict_proba([[0.0]])[0, 1] == pytest.approx(expected, rel=1e-15)


# Inspection


def test_tables_link_parents_and_children(stream):
    cls, X, y = stream
    table = cls(random_state=0).fit(X, y).tree_table(-1)
    inner = np.flatnonzero(table["left"] >= 0)
    assert table["parent"][0] == -1
    for side in ("left", "right"):
        np.testing.assert_array_equal(table["parent"][table[side][inner]], inner)
        np.testing.assert_array_equal(table["depth"][table[side][inner]], table["depth"][inner] + 1)
    np.testing.assert_array_equal(table["left"][inner], inner + 1)  # preorder
    leaves = table["left"] < 0
    assert (table["feature"][leaves] == -1).all()
    assert (table["share"][leaves] == 1).all()
    odds = np.ldexp(table["odds"], 256 * table["odds_scale"].astype(int))
    np.testing.assert_allclose(table["share"][inner], (odds / (1 + odds))[inner], atol=2**-64)


def test_apply_names_the_leaf_whose_range_holds_the_row(stream):
    cls, X, y = stream
    model = cls(random_state=0).fit(X, y)
    for i, leaves in enumerate(model.apply(X).T):
        table = model.tree_table(i)
        assert (table["left"][leaves] == -1).all()
        assert (table["lower"][leaves] <= X).all()
        assert (table["upper"][leaves] >= X).all()


def test_without_aggregation_the_leaf_alone_predictions(digits):
    X, y = digits
    model = AMFClassifier(3, use_aggregation=False, random_state=0).fit(X, y)
    leaves = model.apply(X)
    for i in range(3):
        table = model.tree_table(i)
        counts = table["counts"][leaves[:, i]]
        expected = (counts + 0.01) / (counts.sum(axis=1, keepdims=True) + 0.1)
        np.testing.assert_allclose(model.predict_proba_by_tree(X)[:, i], expected, rtol=1e-12)
        np.testing.assert_array_equal(model.weighted_depth(X)[:, i], table["depth"][leaves[:, i]])


@pytest.mark.parametrize("i", [10, -11])
def test_a_tree_that_is_not_there_is_an_index_error(digits, i):
    model = AMFClassifier().fit(digits[0][:20], digits[1][:20])
    with pytest.raises(IndexError, match=f"i is {i}"):
        model.tree_table(i)


# Copies


@pytest.mark.parametrize("params", [{}, PAPER, {"use_aggregation": False}, {"split_pure": True}])
@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_copy_goes_on_bit_for_bit(stream, copier, params):
    cls, X, y = stream
    classes = {"classes": np.unique(y)} if cls is AMFClassifier else {}
    model = cls(random_state=0, **params, **classes).fit(X[:300], y[:300])
    twin = copier(model)
    assert tables(twin) == tables(model)
    np.testing.assert_array_equal(predictions_of(twin, X), predictions_of(model, X))
    model.partial_fit(X[300:], y[300:])
    assert tables(twin) != tables(model)  # the copy has memory of its own
    assert tables(twin.partial_fit(X[300:], y[300:])) == tables(model)


def test_a_copy_keeps_the_parameters_it_was_grown_with(friedman):
    X, y = friedman
    model = AMFRegressor(random_state=0, step=0.5).fit(X[:500], y[:500])
    twin = copy.deepcopy(model.set_params(step=3.0))
    for each in (model, twin):
        with pytest.raises(ValueError, match=r"step was changed from 0\.5 to 3\.0"):
            each.partial_fit(X[500:], y[500:])
        each.set_params(step=0.5)
    assert tables(twin.partial_fit(X[500:], y[500:])) == tables(model.partial_fit(X[500:], y[500:]))


def test_a_clone_has_the_parameters_and_no_trees(stream):
    cls, X, y = stream
    twin = clone(cls(n_estimators=3, step=0.5, random_state=0).fit(X, y))
    assert (twin.n_estimators, twin.step) == (3, 0.5)
    with pytest.raises(NotFittedError):
        twin.predict(X)


# Other threads, and interruption


@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor])
def test_others_may_predict_and_inspect_while_one_learns(cls):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(20_000, 8)).astype(np.float32), rng.integers(0, 2, size=20_000)
    model = cls(random_state=0).fit(X[:100], y[:100])
    with ThreadPoolExecutor() as pool:
        learning = pool.submit(model.partial_fit, X, y)
        while not learning.done():
            seen = model.n_samples_seen_
            assert np.isfinite(predictions_of(model, X[:20])).all()
            assert model.tree_table(0)["n_samples"][0] >= seen
        learning.result()
    assert tables(model) == tables(cls(random_state=0).fit([*X[:100], *X], [*y[:100], *y]))


@pytest.mark.parametrize("cls", [AMFClassifier, AMFRegressor])
def test_ctrl_c_keeps_what_was_learned(cls):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(400_000, 4)).astype(np.float32), rng.integers(0, 2, size=400_000)
    model = cls(random_state=0).partial_fit(X[:10], y[:10])
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[10:], y[10:])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    n = model.n_samples_seen_
    assert 10 < n < len(X)
    assert tables(model) == tables(cls(random_state=0).fit(X[:n], y[:n]))


# Bad input


BAD_ROWS = {
    "infinity": (np.inf, r"infinity|X\[17, 3\] is inf"),
    "minus infinity": (-np.inf, r"infinity|X\[17, 3\] is -inf"),
    "too large for float32": (1e300, r"X\[17, 3\] is (1e\+300|inf)"),
    "beyond ±2**100": (1e36, "2\\*\\*100"),
    "a string": ("three", "X.s column 3 must hold numbers"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_features_are_named_and_change_nothing(stream, name, method):
    cls, X, y = stream
    value, message = BAD_ROWS[name]
    model = cls(random_state=0).fit(X, y)
    before, attributes = tables(model), state_of(model)
    bad = X[:50].astype(object if isinstance(value, str) else np.float64)
    bad[17, 3] = value
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(bad, y[:50])
    with pytest.raises(ValueError, match=message):
        model.predict(bad)
    assert tables(model) == before
    assert state_of(model) == attributes


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, 1e36, "three"])
def test_a_bad_row_is_named_and_changes_nothing(stream, value):
    cls, X, y = stream
    model = cls(random_state=0).fit(X, y)
    before = tables(model)
    row = [*X[0].tolist()]
    row[3] = value
    for call in (lambda: model.learn_one(row, y[0]), lambda: model.predict_one(row)):
        with pytest.raises((ValueError, TypeError), match=r"^x(\[3\] is| must hold numbers)"):
            call()
    assert tables(model) == before


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wrong_shapes_are_named_and_change_nothing(stream, method):
    cls, X, y = stream
    model = cls(random_state=0).fit(X, y)
    before = tables(model)
    learn = getattr(model, method)
    for rows, labels, message in [
        (X[:0], y[:0], "0 sample"),
        (X[:5], y[:4], "inconsistent numbers of samples"),
        (X[0], y[:1], "2D array"),
        (X[:3], np.stack([y[:3], y[:3]], axis=1), "y should be a 1d array|y has shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            learn(rows, labels)
    for call in (lambda: model.partial_fit(X[:5, 1:], y[:5]), lambda: model.predict(X[:5, 1:])):
        with pytest.raises(ValueError, match=r"X has \d+ features"):
            call()
    for call in (lambda: model.learn_one(X[0, 1:], y[0]), lambda: model.predict_one(X[:1])):
        with pytest.raises(ValueError, match=r"x has (\d+ features|2 dimensions)"):
            call()
    assert tables(model) == before


def test_labels_that_cannot_be_classes_are_named_and_change_nothing(digits):
    X, y = digits
    model = AMFClassifier(random_state=0).fit(X[:300], y[:300])
    before = tables(model)
    for call in (
        lambda: model.partial_fit(X[:3], [1, 2, "seven"]),
        lambda: model.partial_fit(X[:3], ["five", "six", "seven"]),
        lambda: model.partial_fit_predict_proba(X[:3], [1, 2, 7.5]),
        lambda: model.partial_fit(X[:3], [1, 2, np.nan]),
        lambda: model.partial_fit(X[:2], [[1], [2, 3]]),
        lambda: model.learn_one(X[0], "seven"),
        lambda: model.learn_one(X[0], [7]),
    ):
        with pytest.raises((TypeError, ValueError), match=r"\by\b"):
            call()
    with pytest.raises(ValueError, match="classes is"):
        model.partial_fit(X[:3], y[:3], classes=[1, 2, 3])
    assert tables(model) == before
    assert len(model.classes_) == 10
    with pytest.raises(ValueError, match=r"Unknown label type: y holds fractions such as 0\.5"):
        model.partial_fit(X[:3], [0.5, 1.0, 2.0])
    with pytest.raises(TypeError, match=r"y is \[1\], which cannot be a label"):
        model.learn_one(X[0], [1])
    with pytest.raises(TypeError, match="y mixes labels"):
        model.partial_fit(X[:3], np.array([1, "a", 2], dtype=object))
    with pytest.raises(ValueError, match=r"y\[2\] is None; each row needs a label"):
        model.partial_fit(X[:3], np.array([1, "a", None], dtype=object))
    assert tables(model) == before


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e80, "three", None])
def test_bad_targets_are_named_and_change_nothing(friedman, value):
    X, y = friedman
    model = AMFRegressor(random_state=0).fit(X, y)
    before = tables(model)
    targets = np.array([1.0, value, 2.0], dtype=object)
    calls = [
        lambda: model.partial_fit(X[:3], targets),
        lambda: model.fit(X[:3], targets),
        lambda: model.learn_one(X[0], value),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match=r"\by\b"):
            call()
    assert tables(model) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_estimators", 0), ("n_estimators", 2.5), ("step", -1.0), ("step", 0.0), ("step", "big"),
        ("step", np.inf), ("split_pure", "yes"), ("use_aggregation", None), ("charge_first", 3),
        ("predict_extends", "no"), ("n_jobs", 1.5), ("random_state", "seed"), ("n_jobs", 0),
    ],
)  # fmt: skip
def test_bad_parameters_are_named_and_change_nothing(stream, name, value):
    cls, X, y = stream
    model = cls(random_state=0).fit(X, y)
    before = tables(model)
    model.set_params(**{name: value})
    for learn in (model.fit, cls(**{name: value}).partial_fit):
        with pytest.raises((ValueError, TypeError), match=name):
            learn(X, y)
    assert [model.tree_table(i).tobytes() for i in range(10)] == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dirichlet", 0.0),
        ("dirichlet", -0.5),
        ("classes", []),
        ("classes", 3),
        ("classes", [[1, 2]]),
    ],
)
def test_bad_classifier_parameters_are_named(digits, name, value):
    with pytest.raises((ValueError, TypeError), match=name):
        AMFClassifier(**{name: value}).fit(digits[0][:20], digits[1][:20])
