"""The estimators pass scikit-learn's checks and work with its tools."""

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier, AMFRegressor
from helpers import tables


def expected_failures(estimator):
    """Expected failures: scikit-learn allows them, with a reason."""
    kinds = ("dense", "sparse")
    failures = {
        f"check_sample_weight_equivalence_on_{kind}_data": "order matters" for kind in kinds
    }
    if not getattr(estimator, "use_aggregation", True):
        # The check asks of decision trees for leaves that hold 1 % of the weight at least.
        failures["check_class_weight_classifiers"] = (
            "without aggregation a leaf with rows of one class predicts it, whatever its weight"
        )
    return failures


# Together, the modes switch everything on and off.
MODES = [
    {},
    {"split_pure": True, "charge_first": True, "predict_extends": True},
    {"use_aggregation": False},
]
ADAPTIVE_MODES = [
    {},
    {"n_estimators": 2, "memories": (None, 60, 15), "split_pure": True},
    {"n_estimators": 1, "memories": [15], "n_candidates": 1, "use_aggregation": False},
]


@parametrize_with_checks(
    [
        *(cls(**mode) for cls in (AMFClassifier, AMFRegressor) for mode in MODES),
        *(
            cls(**mode)
            for cls in (AdaptiveAMFClassifier, AdaptiveAMFRegressor)
            for mode in ADAPTIVE_MODES
        ),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def test_it_learns_in_a_pipeline(cancer):
    X, y = cancer
    model = make_pipeline(MinMaxScaler(), AMFClassifier(random_state=0)).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9


def test_a_grid_search_finds_parameters(cancer):
    X, y = cancer
    grid = {"amfclassifier__split_pure": [False, True], "amfclassifier__n_estimators": [2, 5]}
    pipeline = make_pipeline(MinMaxScaler(), AMFClassifier(random_state=0))
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_params_["amfclassifier__n_estimators"] in (2, 5)


def test_cross_validation_scores_a_regressor():
    X, y = load_diabetes(return_X_y=True)
    model = AMFRegressor(step=0.5, random_state=0)
    assert cross_val_score(model, MinMaxScaler().fit_transform(X), y / y.std(), cv=3).mean() > 0.3


def test_predictions_can_be_calibrated(cancer):
    X, y = cancer
    X = MinMaxScaler().fit_transform(X)
    model = CalibratedClassifierCV(AMFClassifier(random_state=0), cv=3).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9


def test_weights_are_routed_through_a_pipeline(cancer):
    X, y = cancer
    weights = np.arange(len(y)) % 3 + 1.0
    with sklearn.config_context(enable_metadata_routing=True):
        forest = AMFClassifier(random_state=0).set_fit_request(sample_weight=True)
        model = make_pipeline(MinMaxScaler(), forest).fit(X, y, sample_weight=weights)
    alone = AMFClassifier(random_state=0).fit(MinMaxScaler().fit_transform(X), y, weights)
    assert tables(model[-1]) == tables(alone)


def test_partial_fit_can_request_weights_and_classes():
    requests = AMFClassifier().get_metadata_routing().partial_fit.requests
    assert set(requests) == {"classes", "sample_weight"}
    assert set(AMFRegressor().get_metadata_routing().partial_fit.requests) == {"sample_weight"}


@pytest.mark.parametrize(
    "cls", [AMFClassifier, AdaptiveAMFClassifier, AMFRegressor, AdaptiveAMFRegressor]
)
def test_the_page_in_a_notebook_names_the_estimator(cls):
    assert cls.__name__ in cls(n_estimators=3)._repr_html_()


def test_names_of_columns_are_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    model = AMFClassifier(random_state=0).fit(frame, [0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"b": "c"}))
