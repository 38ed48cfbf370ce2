"""MondrianForestClassifier: its predictions are those of the slow transcription, tree by tree."""

import copy
import pickle

import numpy as np
import pytest
import slow_mondrian_forest as slow
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.utils import shuffle
from sklearn.utils.estimator_checks import parametrize_with_checks

from amforest import AMFClassifier
from amforest.baselines import MondrianForestClassifier
from helpers import tables

ORDER_MATTERS = {
    "check_sample_weight_equivalence_on_dense_data": "order matters",
    "check_sample_weight_equivalence_on_sparse_data": "order matters",
}


@parametrize_with_checks(
    [MondrianForestClassifier(3), MondrianForestClassifier(2, lifetime=1.0, split_pure=True)],
    expected_failed_checks=lambda _: ORDER_MATTERS,
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def on_grid(seed, n_rows, n_classes):
    """Points and queries on a grid of 1/64, on which sums of extensions are exact."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 65, size=(n_rows, 2)) / 64
    queries = np.vstack([X[:20], rng.integers(-40, 105, size=(20, 2)) / 64])
    return X, rng.integers(0, n_classes, size=n_rows), queries


@pytest.mark.parametrize("lifetime", [np.inf, 1.5])
@pytest.mark.parametrize("split_pure", [False, True])
@pytest.mark.parametrize(
    ("seed", "n_rows", "n_classes"),
    [*((seed, 6, 3) for seed in range(15)), (15, 300, 2), (16, 300, 5)],
)
def test_predictions_equal_the_slow_transcription(seed, n_rows, n_classes, split_pure, lifetime):
    X, y, queries = on_grid(seed, n_rows, n_classes)
    gamma = [0.1, 1.0, 20.0][seed % 3]
    model = MondrianForestClassifier(
        8, discount=gamma, lifetime=lifetime, split_pure=split_pure, classes=range(n_classes),
        random_state=seed,
    ).fit(X, y)  # fmt: skip
    predictions = model.predict_proba_by_tree(queries)
    for i in range(8 if n_rows < 10 else 1):
        root = slow.from_table(model.tree_table(i), lifetime)
        expected = [slow.predict(root, x, gamma) for x in queries.tolist()]
        np.testing.assert_allclose(predictions[:, i], expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(predictions.sum(axis=2), 1, rtol=0, atol=1e-12)
    assert (predictions >= 0).all()


def test_the_partition_is_that_of_amf():
    X, y, _ = on_grid(0, 300, 3)
    ours = MondrianForestClassifier(3, random_state=0).fit(X, y)
    amf = AMFClassifier(3, random_state=0).fit(X, y)
    for i in range(3):
        a, b = ours.tree_table(i), amf.tree_table(i)
        for name in ("feature", "threshold", "birth_time", "lower", "upper", "counts"):
            np.testing.assert_array_equal(a[name], b[name])


def test_no_split_is_made_after_the_lifetime():
    X, y, _ = on_grid(0, 300, 3)
    sizes = []
    for lifetime in (0.5, 2.0, 8.0):
        table = (
            MondrianForestClassifier(1, lifetime=lifetime, random_state=0).fit(X, y).tree_table(0)
        )
        assert table["birth_time"].max() < lifetime
        sizes.append(len(table))
    assert 1 < sizes[0] < sizes[1] < sizes[2]


def test_the_discount_is_ten_times_the_number_of_features_by_default():
    X, y, queries = on_grid(1, 100, 2)
    default = MondrianForestClassifier(2, random_state=0).fit(X, y).predict_proba(queries)
    given = MondrianForestClassifier(2, discount=20, random_state=0).fit(X, y)
    assert default.tobytes() == given.predict_proba(queries).tobytes()


def test_it_classifies_iris():
    X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    assert cross_val_score(MondrianForestClassifier(random_state=0), X, y).mean() > 0.9


def test_copies_and_batches_change_nothing():
    X, y, _ = on_grid(2, 200, 3)
    whole = tables(MondrianForestClassifier(3, classes=range(3), random_state=0).partial_fit(X, y))
    model = MondrianForestClassifier(3, classes=range(3), random_state=0).partial_fit(
        X[:70], y[:70]
    )
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for x, label in zip(X[70:], y[70:], strict=True):
            other.learn_one(x, label)
        assert tables(other) == whole
        assert other.predict_proba_one(X[0]).tobytes() == other.predict_proba(X[:1])[0].tobytes()


def test_gaps_weights_categories_and_late_classes_are_learned():
    X, y, queries = on_grid(3, 200, 2)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = MondrianForestClassifier(3, random_state=0).partial_fit(X, y)
    model.partial_fit(X[:1], [7], sample_weight=[0.5])
    assert model.classes_.tolist() == [0, 1, 7]
    np.testing.assert_allclose(model.predict_proba(queries).sum(axis=1), 1)
    words = np.array([["red", 0.5], ["blue", 0.1], ["red", 0.3]], dtype=object)
    model = MondrianForestClassifier(3, categorical_features=[0], random_state=0)
    predictions = model.fit(words, [1, 0, 1]).predict_proba(words)
    np.testing.assert_allclose(predictions.sum(axis=1), 1)


@pytest.mark.parametrize("params", [{"discount": -1.0}, {"lifetime": 0}, {"lifetime": "long"}])
def test_bad_parameters_are_named(params):
    with pytest.raises(ValueError, match=f"{next(iter(params))}"):
        MondrianForestClassifier(**params).fit([[0.0], [1.0]], [0, 1])
