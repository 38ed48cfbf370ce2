"""The dummies predict from the labels alone: exactly, however the stream is cut."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from amforest import AMFClassifier, AMFRegressor
from amforest.baselines import OnlineDummyClassifier, OnlineDummyRegressor

LABELS = np.array(["eel", "cat", "dog", "ant"])


@parametrize_with_checks(
    [OnlineDummyClassifier(), OnlineDummyClassifier(dirichlet=0.3), OnlineDummyRegressor()]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(params=[OnlineDummyClassifier, OnlineDummyRegressor])
def stream(request):
    """A dummy's class with data for it. Later rows have more classes, and not in their order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = LABELS[np.minimum(rng.integers(0, 4, size=200), np.arange(200) // 20)]
    return request.param, X, y if request.param is OnlineDummyClassifier else X[:, 0] + 5


def predictions_of(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def test_then_train(model, X, y, **how):
    if isinstance(model, OnlineDummyClassifier | AMFClassifier):
        return model.partial_fit_predict_proba(X, y, **how)
    return model.partial_fit_predict(X, y, **how)


test_then_train.__test__ = False


def state(model):
    """All that a model has learned, to be compared."""
    return {name: np.asarray(value).tolist() for name, value in vars(model).items()}


# Predictions


def krichevsky_trofimov(y, classes, alpha):
    """(n_k + α) / (n + αK) before each label, exactly."""
    return [
        [
            (np.count_nonzero(y[:i] == k) + Fraction(alpha)) / (i + Fraction(alpha) * len(classes))
            for k in classes
        ]
        for i in range(len(y) + 1)
    ]


@pytest.mark.parametrize("alpha", [0.5, 0.25, 3.0])
@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_the_predictor_is_that_of_krichevsky_and_trofimov(alpha, n_classes):
    y = np.random.default_rng(0).integers(0, n_classes, size=50)
    model = OnlineDummyClassifier(dirichlet=alpha, classes=range(n_classes))
    predictions = model.partial_fit_predict_proba(np.zeros((50, 2)), y)
    exact = krichevsky_trofimov(y, range(n_classes), alpha)
    assert predictions.tolist() == [[float(p) for p in row] for row in exact[:-1]]
    assert model.predict_proba_one([0.0, 0.0]).tolist() == [float(p) for p in exact[-1]]


@pytest.mark.parametrize(("n_classes", "alpha"), [(2, 0.5), (3, 0.01)])
def test_dirichlet_defaults_to_a_half_for_two_classes_and_a_hundredth_for_more(n_classes, alpha):
    y = np.random.default_rng(0).integers(0, n_classes, size=50)
    model = OnlineDummyClassifier(classes=range(n_classes))
    predictions = model.partial_fit_predict_proba(np.zeros((50, 2)), y)
    exact = np.array(krichevsky_trofimov(y, range(n_classes), alpha)[:-1], dtype=float)
    np.testing.assert_allclose(predictions, exact, rtol=1e-15)


def test_the_regressor_predictions_the_mean_so_far():
    y = np.random.default_rng(0).integers(-9, 10, size=50).astype(float)
    model = OnlineDummyRegressor()
    predictions = model.partial_fit_predict(np.zeros((50, 2)), y)
    exact = [Fraction(0)] + [sum(map(Fraction, y[:i])) / i for i in range(1, 51)]
    assert predictions.tolist() == [float(mean) for mean in exact[:-1]]
    assert model.predict_one([0.0, 0.0]) == float(exact[-1])


@pytest.mark.parametrize("dirichlet", [None, 0.7])
def test_a_dummy_is_a_forest_that_cannot_tell_rows_apart(stream, dirichlet):
    """Also where classes appear that nobody announced."""
    cls, X, y = stream
    if cls is OnlineDummyClassifier:
        model, forest = cls(dirichlet=dirichlet), AMFClassifier(1, dirichlet=dirichlet)
    else:
        model, forest = cls(), AMFRegressor(1)
    expected = test_then_train(forest, np.ones_like(X), y)
    np.testing.assert_allclose(test_then_train(model, X, y), expected, rtol=1e-12)
    np.testing.assert_allclose(
        predictions_of(model, X), predictions_of(forest, np.ones_like(X)), rtol=1e-12
    )


def test_rows_and_their_values_do_not_matter(stream):
    cls, X, y = stream
    model = cls().fit(X, y)
    predictions = predictions_of(model, [["a", None, np.nan], [1.0, "b", np.inf]])
    np.testing.assert_array_equal(predictions, predictions_of(model, X)[:2])
    assert model.predict_one(X[0]) == model.predict(X)[5]
    assert model.score(X, y) <= 0.5


def test_probabilities_their_logs_and_the_most_probable_class_agree():
    model = OnlineDummyClassifier().fit([[0.0]] * 4, ["b", "a", "b", "c"])
    probabilities = model.predict_proba([[1.0], [2.0]])
    np.testing.assert_array_equal(model.predict_log_proba([[1.0], [2.0]]), np.log(probabilities))
    np.testing.assert_array_equal(model.predict_proba_one([1.0]), probabilities[0])
    assert model.predict([[1.0], [2.0]]).tolist() == ["b", "b"]
    assert model.predict_one([1.0]) == "b"


# How it is fed


@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [20, 21, 90], range(7, 200, 7), range(1, 200)])
def test_batches_never_change_a_bit(stream, cuts):
    cls, X, y = stream
    weights = np.random.default_rng(1).uniform(size=200)
    weights[5::9] = 0
    at_once, in_batches, silent = cls(), cls(), cls()
    expected = test_then_train(at_once, X, y, sample_weight=weights)
    parts = [np.split(array, list(cuts)) for array in (X, y, weights)]
    seen = 0
    for rows, labels, part in zip(*parts, strict=True):
        silent.partial_fit(rows, labels, sample_weight=part)
        predictions = test_then_train(in_batches, rows, labels, sample_weight=part)
        if cls is OnlineDummyClassifier:
            known = np.isin(at_once.classes_, in_batches.classes_)
            assert not expected[seen : seen + len(rows), ~known].any()
            np.testing.assert_array_equal(predictions, expected[seen : seen + len(rows), known])
        else:
            np.testing.assert_array_equal(predictions, expected[seen : seen + len(rows)])
        seen += len(rows)
    assert state(in_batches) == state(silent) == state(at_once)
    assert at_once.n_samples_seen_ == np.count_nonzero(weights)


def test_row_by_row_is_the_same_as_in_one_call(stream):
    cls, X, y = stream
    model, one_by_one = cls(), cls()
    expected = test_then_train(model, X, y)
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        if i > 0:
            known = np.isin(model.classes_, one_by_one.classes_) if expected.ndim > 1 else ...
            np.testing.assert_array_equal(predictions_of(one_by_one, [x])[0], expected[i][known])
        assert one_by_one.learn_one(x, label) is one_by_one
    assert state(one_by_one) == state(model)


def test_fit_starts_afresh_and_does_not_depend_on_the_order(stream):
    cls, X, y = stream
    model = cls().fit(X[:50], y[:50]).fit(X[:, :2], y)
    assert model.n_features_in_ == 2
    expected = cls().fit(X[::-1, :2], y[::-1])
    np.testing.assert_allclose(
        predictions_of(model, X[:, :2]), predictions_of(expected, X[:, :2]), rtol=1e-14
    )


def test_a_whole_weight_equals_as_many_rows(stream):
    cls, X, y = stream
    times = np.random.default_rng(0).integers(0, 4, size=200)
    model = cls().fit(X, y, sample_weight=times)
    repeated = cls().fit(X.repeat(times, axis=0), y.repeat(times))
    np.testing.assert_allclose(predictions_of(model, X), predictions_of(repeated, X), rtol=1e-14)
    assert model.n_samples_seen_ == np.count_nonzero(times)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_goes_on_alike_with_memory_of_its_own(stream, copier):
    cls, X, y = stream
    model = cls().partial_fit(X[:100], y[:100])
    twin = copier(model)
    assert state(model.partial_fit(X[100:], y[100:])) != state(twin)
    assert state(twin.partial_fit(X[100:], y[100:])) == state(model)


# Classes


def test_a_class_is_known_from_the_row_after_its_first():
    model = OnlineDummyClassifier(dirichlet=0.5)
    predictions = model.partial_fit_predict_proba([[0.0]] * 4, ["b", "b", "a", "c"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    expected = [[0, 0, 0], [0, 1, 0], [0, 1, 0], [1.5 / 4, 2.5 / 4, 0]]
    assert predictions.tolist() == expected
    model.learn_one([0.0], "B")
    assert model.classes_.tolist() == ["B", "a", "b", "c"]
    assert model.predict_proba_one([0.0]).tolist() == [1.5 / 7, 1.5 / 7, 2.5 / 7, 1.5 / 7]


def test_classes_may_be_announced_to_the_constructor_or_to_the_first_call():
    X, y = [[0.0]] * 3, ["b", "b", "z"]
    first = OnlineDummyClassifier(classes=["c", "b"])
    second = OnlineDummyClassifier()
    predictions = first.partial_fit_predict_proba(X, y)
    again = second.partial_fit_predict_proba(X, y, classes=["b", "c"])
    np.testing.assert_array_equal(predictions, again)
    assert predictions.tolist() == [[0.5, 0.5, 0], [0.75, 0.25, 0], [2.5 / 3, 0.5 / 3, 0]]
    second.partial_fit(X, y, classes=["z", "b", "c"])
    assert second.n_samples_seen_ == 6


def test_before_any_data_announced_classes_are_equally_likely():
    model = OnlineDummyClassifier(classes=["b", "a", "c", "a"])
    np.testing.assert_array_equal(model.predict_proba([[1.0]] * 5), np.full((5, 3), 1 / 3))
    np.testing.assert_array_equal(model.predict_proba_one([1.0]), [1 / 3] * 3)
    assert model.predict_one([1.0]) == "a"


def test_a_row_of_weight_zero_brings_no_class_unless_it_is_fitted():
    X, y, weights = [[0.0]] * 3, [0, 5, 1], [1, 0, 1]
    model = OnlineDummyClassifier()
    predictions = model.partial_fit_predict_proba(X, y, sample_weight=weights)
    assert model.classes_.tolist() == [0, 1]
    assert predictions.tolist() == [[0, 0], [1, 0], [1, 0]]
    forest = AMFClassifier(1).fit(X, y, sample_weight=weights)
    assert model.fit(X, y, sample_weight=weights).classes_.tolist() == forest.classes_.tolist()


@pytest.mark.parametrize(
    "labels",
    [[b"c", b"d"], [False, True], [-7, 10**12], [1.0, 5.0], np.array(["x", "y"], dtype=object)],
    ids=str,
)
def test_labels_may_have_any_dtype(labels):
    y = np.asarray(labels)[[0, 1, 1, 0, 1]]
    model = OnlineDummyClassifier().partial_fit(np.zeros((5, 1)), y)
    assert model.classes_.tolist() == np.asarray(labels).tolist()
    assert model.predict_one([0.0]) == labels[1]
    assert model.learn_one([0.0], labels[0]).n_samples_seen_ == 6


# Bad input


def unchanged(model, call, error, message):
    before = state(model)
    with pytest.raises(error, match=message):
        call()
    assert state(model) == before


def test_without_data_there_is_a_clear_error(stream):
    cls, X, _ = stream
    with pytest.raises(NotFittedError, match=f"{cls.__name__} is not fitted: call fit"):
        cls().predict(X)
    with pytest.raises(NotFittedError, match="is not fitted"):
        clone(cls().fit(*stream[1:])).predict_one(X[0])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wrong_shapes_are_named_and_change_nothing(stream, method):
    cls, X, y = stream
    model = cls().fit(X, y)
    learn = getattr(model, method)
    for rows, labels, message in [
        (X[:0], y[:0], "0 sample"),
        (X[:5], y[:4], "inconsistent numbers of samples"),
        (X[0], y[:1], "2D array"),
        (X[:3], np.stack([y[:3], y[:3]], axis=1), "y should be a 1d array"),
    ]:
        unchanged(model, lambda r=rows, t=labels: learn(r, t), ValueError, message)
    for call in (
        lambda: model.partial_fit(X[:5, 1:], y[:5]),
        lambda: model.learn_one(X[0, 1:], y[0]),
        lambda: model.predict(X[:5, 1:]),
        lambda: model.predict_one(X[0, 1:]),
    ):
        unchanged(model, call, ValueError, "X has 2 features, .* expecting 3")
    unchanged(model, lambda: model.learn_one(X[:1], y[0]), ValueError, "dim 3")


@pytest.mark.parametrize("value", [np.nan, np.inf, "three", None])
def test_bad_targets_are_named_and_change_nothing(value):
    model = OnlineDummyRegressor().fit([[0.0]], [3.0])
    bad = [1.0, value]
    for learn in (model.fit, model.partial_fit):
        unchanged(model, lambda f=learn: f([[0.0]] * 2, bad), (ValueError, TypeError), r"\by\b")
    unchanged(model, lambda: model.learn_one([0.0], value), (ValueError, TypeError), r"\by\b")
    unchanged(model, lambda: model.fit([[0.0]] * 2, [1e308] * 2), ValueError, "y .* overflow")


def test_labels_that_cannot_be_classes_are_named_and_change_nothing():
    model = OnlineDummyClassifier().fit([[0.0]] * 2, [1, 2])
    for labels, error, message in [
        ([1, "seven"], TypeError, "y holds .* classes so far are"),
        ([1, 7.5], ValueError, "Unknown label type: y holds fractions such as 7.5"),
        ([1, np.nan], ValueError, r"y\[1\] is nan"),
        (np.array([1, "a"], dtype=object), TypeError, "y mixes labels"),
        ([[1], [2, 3]], ValueError, "inhomogeneous"),
        (None, ValueError, "requires y"),
    ]:
        for learn in (model.fit, model.partial_fit, model.partial_fit_predict_proba):
            if learn != model.fit or "so far" not in message:
                unchanged(model, lambda f=learn, y=labels: f([[0.0]] * 2, y), error, message)
    unchanged(model, lambda: model.learn_one([0.0], "seven"), TypeError, "y holds 'seven'|np.str_")
    again = {"classes": [1, 2, 3]}
    unchanged(model, lambda: model.partial_fit([[0.0]], [1], **again), ValueError, "classes is")


@pytest.mark.parametrize(
    "weights", [[-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0], [1.0], ["heavy", 1.0], [0.0, 0.0]]
)
def test_bad_weights_are_named_and_change_nothing(stream, weights):
    cls, X, y = stream
    model = cls().fit(X, y)
    call = lambda: model.fit(X[:2], y[:2], sample_weight=weights)  # noqa: E731
    unchanged(model, call, ValueError, "sample_weight")


@pytest.mark.parametrize(
    ("name", "value"),
    [("dirichlet", 0.0), ("dirichlet", "big"), ("classes", []), ("classes", 3)],
)
def test_bad_parameters_are_named_and_change_nothing(name, value):
    model = OnlineDummyClassifier().fit([[0.0]] * 2, [1, 2]).set_params(**{name: value})
    unchanged(model, lambda: model.fit([[0.0]] * 2, [1, 2]), (ValueError, TypeError), name)
    with pytest.raises((ValueError, TypeError), match=name):
        OnlineDummyClassifier(**{name: value}).partial_fit([[0.0]] * 2, [1, 2])
