"""`class_weight` multiplies the weights of rows; `threshold` decides between two classes."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import check_class_weight_classifiers

from amforest import AdaptiveAMFClassifier, AMFClassifier, load, save
from amforest.model_io import from_bytes, model_file
from helpers import state_of, tables

MODELS = [AMFClassifier, AdaptiveAMFClassifier]
WEIGHTS = ["balanced", {0: 0.25, 2: 3}]


def stream(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, np.select([X[:, 0] > 1.5, X[:, 1] > 1], [2, 1], 0)


def rare(n=4000):
    """One row in a hundred is positive."""
    how = {"n_features": 8, "n_informative": 4, "n_redundant": 0, "weights": [0.99], "flip_y": 0}
    X, y = make_classification(10_000, **how, random_state=0)
    return X[:n], y[:n]


def online_weights(y):
    """The factor of each row: scikit-learn's of the rows up to it."""
    return [compute_sample_weight("balanced", y[: i + 1])[-1] for i in range(len(y))]


@pytest.mark.parametrize("Model", MODELS)
def test_balanced_is_the_online_form_of_scikit_learns_weights(Model):
    X, y = stream(120)
    balanced = Model(2, class_weight="balanced", random_state=0).partial_fit(X, y)
    given = Model(2, random_state=0).partial_fit(X, y, sample_weight=online_weights(y))
    assert tables(balanced) == tables(given)


@pytest.mark.parametrize("Model", MODELS)
def test_a_dict_multiplies_sample_weights_and_other_classes_have_the_factor_1(Model):
    X, y = stream(120)
    weights = np.arange(120) % 3.0
    weighed = Model(2, class_weight={0: 0.25, 2: 3}, random_state=0)
    weighed.partial_fit(X, y, sample_weight=weights)
    factors = np.array([0.25, 1, 3])[y]
    given = Model(2, random_state=0).partial_fit(X, y, sample_weight=weights * factors)
    assert tables(weighed) == tables(given)


@pytest.mark.parametrize("class_weight", WEIGHTS)
@pytest.mark.parametrize("Model", MODELS)
def test_the_forest_does_not_depend_on_how_rows_are_cut_into_batches(Model, class_weight):
    X, y = stream()
    weights = np.arange(len(y)) % 4 / 2
    models = [Model(2, class_weight=class_weight, random_state=0) for _ in range(3)]
    models[0].partial_fit(X, y, sample_weight=weights)
    for part in np.array_split(np.arange(len(y)), 7):
        models[1].partial_fit_predict_proba(X[part], y[part], sample_weight=weights[part])
    for x, label, weight in zip(X[1:], y[1:], weights[1:], strict=True):  # the first has weight 0
        models[2].learn_one(x, label, weight)
    expected = tables(models[0])
    assert [tables(model) for model in models[1:]] == [expected, expected]


@pytest.mark.parametrize("Model", MODELS)
def test_classes_that_are_known_but_not_seen_do_not_count(Model):
    X, y = stream(100)
    model = Model(2, classes=[0, 1, 2, 3], class_weight="balanced", random_state=0)
    given = Model(2, classes=[0, 1, 2, 3], random_state=0)
    given.partial_fit(X, y, sample_weight=online_weights(y))
    assert tables(model.partial_fit(X, y)) == tables(given)


def continued(model, X, y):
    return tables(model.partial_fit(X, y))


@pytest.mark.parametrize("class_weight", WEIGHTS)
@pytest.mark.parametrize("Model", MODELS)
def test_files_pickles_and_copies_go_on_with_the_same_weights(Model, class_weight, tmp_path):
    X, y = stream()
    model = Model(2, class_weight=class_weight, threshold=0.3, random_state=0)
    model.partial_fit(X[:200], y[:200])
    save(model, tmp_path / "model.amf")
    others = [load(tmp_path / "model.amf"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    assert [other.get_params() for other in others] == [model.get_params()] * 3
    expected = continued(model, X[200:], y[200:])
    assert [continued(other, X[200:], y[200:]) for other in others] == [expected] * 3


def test_a_file_without_these_parameters_is_as_it_was():
    X, y = stream(20)
    data = AMFClassifier(2, random_state=0).fit(X, y).to_bytes()
    assert b"class_weight" not in data
    assert from_bytes(data).class_weight is None


def test_counts_that_no_stream_has_are_refused():
    X, y = stream(20)
    model = AMFClassifier(2, class_weight="balanced", random_state=0).fit(X, y)
    model._handle.fitted.labels.counts.by_class[0] = -1
    with pytest.raises(model_file.ModelFormatError, match="counts"):
        from_bytes(model.to_bytes())


@pytest.mark.parametrize("Model", MODELS)
def test_a_failed_call_counts_nothing(Model):
    X, y = stream()
    model = Model(2, class_weight="balanced", random_state=0).partial_fit(X[:100], y[:100])
    before, state = model.to_bytes(), state_of(model)
    bad = np.where(np.arange(300) == 250, np.inf, X.T).T
    with pytest.raises(ValueError, match="inf"):
        model.partial_fit(bad, y)
    with pytest.raises(ValueError, match="inf"):
        model.learn_one(bad[250], y[250])
    assert model.to_bytes() == before
    assert state_of(model)[1:] == state[1:]


@pytest.mark.parametrize("weight", [0, -1, np.nan, np.inf, "2", None])
def test_weights_of_classes_must_be_positive_numbers(weight):
    X, y = stream(20)
    with pytest.raises(ValueError, match=r"class_weight gives 1 the weight .* from 2\*\*-100"):
        AMFClassifier(class_weight={1: weight}).fit(X, y)


def test_other_values_are_refused():
    X, y = stream(20)
    with pytest.raises(ValueError, match="'class_weight' parameter"):
        AMFClassifier(class_weight="auto").fit(X, y)
    with pytest.raises(ValueError, match="'threshold' parameter"):
        AMFClassifier(threshold=1.5).fit(X, y)


@pytest.mark.parametrize(
    ("Model", "options", "least"),
    [
        (AMFClassifier, {"class_weight": "balanced"}, 0.1),
        (AMFClassifier, {"threshold": 0.02}, 0.4),
        (AdaptiveAMFClassifier, {"class_weight": "balanced"}, 0.5),
        (AdaptiveAMFClassifier, {"threshold": 0.02}, 0.5),
    ],
)
def test_a_rare_class_that_was_never_chosen_is_found(Model, options, least):
    X, y = rare(10_000)
    test = X[7000:][y[7000:] == 1]
    plain, model = (Model(random_state=0, **some).fit(X[:7000], y[:7000]) for some in ({}, options))
    assert plain.predict(test).mean() < 0.05
    assert model.predict(test).mean() > least


@pytest.mark.parametrize("Model", MODELS)
def test_scikit_learns_check_of_class_weight_passes(Model):
    check_class_weight_classifiers(Model.__name__, Model(2))


# The threshold


@pytest.mark.parametrize("Model", MODELS)
def test_the_second_class_is_predicted_from_the_threshold_on(Model):
    X, y = rare()
    model = Model(2, threshold=0.05, random_state=0).fit(X, np.array(["no", "yes"])[y])
    is_yes = model.predict_proba(X)[:, 1] >= 0.05
    assert 0 < is_yes.sum() < len(y)
    assert model.predict(X).tolist() == np.where(is_yes, "yes", "no").tolist()
    assert [model.predict_one(x) for x in X[:50]] == model.predict(X[:50]).tolist()


def test_the_threshold_may_change_after_learning():
    X, y = rare()
    model = AMFClassifier(2, random_state=0).fit(X, y).set_params(threshold=1e-9)
    assert model.predict(X).all()
    assert not model.set_params(threshold=1 - 1e-9).partial_fit(X, y).predict(X).any()
    with pytest.raises(ValueError, match="threshold is 2; it must be a number between 0 and 1"):
        model.set_params(threshold=2).predict(X)


def test_a_threshold_for_three_classes_is_refused_when_predicting():
    X, y = stream(50)
    model = AMFClassifier(2, threshold=0.2).fit(X, y)
    with pytest.raises(ValueError, match=r"between two classes, and there are 3: set threshold"):
        model.predict(X)
    assert model.predict_proba(X).shape == (50, 3)


def test_one_class_is_predicted_whatever_the_threshold():
    model = AMFClassifier(2, threshold=0.9).learn_one([0.0], 5)
    assert model.predict([[1.0]]).tolist() == [5]


@pytest.mark.parametrize("Model", MODELS)
def test_scikit_learns_thresholds_work_as_ours(Model):
    X, y = rare(1000)
    ours = Model(2, threshold=0.05, random_state=0).fit(X, y)
    fixed = FixedThresholdClassifier(Model(2, random_state=0), threshold=0.05).fit(X, y)
    assert fixed.predict(X).tolist() == ours.predict(X).tolist()
    tuned = TunedThresholdClassifierCV(Model(2, random_state=0), cv=2).fit(X, y)
    assert tuned.best_threshold_ < 0.5
