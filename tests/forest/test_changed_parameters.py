"""Parameters that shape a forest cannot change while it grows, unless `fit` starts again."""

import numpy as np
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor

X = np.random.default_rng(0).normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)
MODELS = [AMFClassifier, AMFRegressor, AdaptiveAMFClassifier, AdaptiveAMFRegressor]


@pytest.mark.parametrize("Model", MODELS)
def test_a_changed_number_of_trees_is_refused_until_fit(Model):
    model = Model(2, random_state=0).partial_fit(X, Y)
    before = model.to_bytes()
    model.set_params(n_estimators=3)
    message = r"n_estimators was changed from 2 to 3 .* call fit to start again"
    for call in (model.partial_fit, lambda X, y: model.learn_one(X[0], y[0])):
        with pytest.raises(ValueError, match=message):
            call(X, Y)
    model.set_params(n_estimators=2)
    assert model.to_bytes() == before
    model.partial_fit(X, Y)
    model.n_estimators = 3
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, Y)
    assert model.fit(X, Y).to_bytes() == Model(3, random_state=0).fit(X, Y).to_bytes()
    model.partial_fit(X, Y)


def test_test_then_train_is_refused_too():
    model = AMFClassifier(2).fit(X, Y).set_params(use_aggregation=False)
    with pytest.raises(ValueError, match="use_aggregation was changed from True to False"):
        model.partial_fit_predict_proba(X, Y)


def test_all_changes_are_named():
    model = AdaptiveAMFClassifier(2).fit(X, Y).set_params(memories=(30,), mixer_rate=0.5)
    with pytest.raises(ValueError, match=r"memories was .*, and mixer_rate was changed"):
        model.partial_fit(X, Y)


def test_parameters_of_calls_may_change():
    model = AMFClassifier(2, random_state=0).fit(X, Y)
    model.set_params(n_jobs=2, max_categories=9, n_estimators=2)
    model.partial_fit(X, Y)
    model.set_params(n_estimators=4)
    assert model.predict(X).shape == (60,)  # predicting is of what was learned
