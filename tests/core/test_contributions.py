"""Contributions of the core equal those of the reference, and add up to predictions."""

import numpy as np
import pytest
from adaptive_forests import GROUPS, NUMBER_GROUPS, adaptive, adaptive_regressor, reference_of
from core_forests import OPTIONS, classifier, rows, seeds
from hypothesis import given
from hypothesis import strategies as st

from amforest import AMFClassifier, AMFRegressor, _core, reference
from amforest.baselines import MondrianForestClassifier
from amforest.reference.contributions import explain_forest, explain_tree
from helpers import SWITCHES, TOLERANCE, learn_all, reference_trees


def explained(model, X):
    """Base values and contributions: n_rows × (1 + n_columns) × n_outputs."""
    return model._core.explain(np.ascontiguousarray(X, dtype=np.float32), 1)


@st.composite
def forests(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_features = draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 3, 9]))
    X = rng.uniform(-1, 3, size=(n_rows, n_features))
    if draw(st.booleans()):
        X = np.round(2 * X) / 2  # ties and duplicates
    params = {name: draw(st.booleans()) for name in SWITCHES}
    params |= {"n_estimators": 2, "random_state": draw(st.integers(0, 1000))}
    if draw(st.booleans()):
        params |= {"partition": "unrestricted", "bounds": (-1, 3)}
    elif draw(st.booleans()):
        X[rng.random(X.shape) < 0.2] = np.nan
    weights = rng.choice([0.3, 1.0, 2.5], size=n_rows) if draw(st.booleans()) else np.ones(n_rows)
    if draw(st.booleans()):
        n_classes = draw(st.integers(2, 5))
        y = rng.integers(0, n_classes, size=n_rows)
        model = AMFClassifier(classes=range(n_classes), **params)
    else:
        y = rng.normal(size=n_rows)
        model = AMFRegressor(step=1.0, **params)
    return X.astype(np.float32), y, weights, model, rng


@given(forests())
def test_contributions_equal_the_reference(forest):
    X, y, weights, model, rng = forest
    is_box = model.partition == "unrestricted"
    model.partial_fit(X, y, sample_weight=weights)
    cls = reference.UnrestrictedTree if is_box else reference.Tree
    trees = learn_all(reference_trees(model, cls), X, y, weights)
    outside = X + rng.normal(size=X.shape).astype(np.float32)
    queries = np.concatenate([X[:10], (np.clip(outside, -1, 3) if is_box else outside)[:20]])
    expected = [np.mean([explain_tree(tree, x) for tree in trees], axis=0) for x in queries]
    np.testing.assert_allclose(explained(model, queries), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("partition", ["restricted", "unrestricted"])
def test_where_a_row_branches_off_its_term_has_the_law_of_the_split(partition):
    """The features that split x off, over many trees that really learn x, in the mean."""
    X = np.array([[0.4, 0.5]], dtype=np.float32)
    x = np.array([[0.7, 0.6]], dtype=np.float32)
    how = {"partition": partition, "split_pure": True, "random_state": 0}
    model = AMFRegressor(4_000, step=1e-9, predict_extends=True, **how).partial_fit(X, [1.0])
    mean = explained(model, x)[0, 1:, 0]
    twin = AMFRegressor(4_000, step=1e-9, **how).partial_fit(X, [1.0]).partial_fit(x, [0.0])
    terms = []  # where the fresh leaf predicts 0, and the others 1
    for t in range(4_000):
        table = twin.tree_table(t)
        v, reach, sums = 0, 1.0, np.zeros(2)
        while table["left"][v] >= 0:
            feature = table["feature"][v]
            side = "left" if x[0, feature] <= table["threshold"][v] else "right"
            reach *= 1 - table["share"][v]
            v = table[side][v]
            if table["left"][v] < 0 and table["n_samples"][v] == 1:
                sums[feature] -= reach
        terms.append(sums)
    error = np.std(terms, axis=0) / np.sqrt(len(terms))
    assert (np.abs(np.mean(terms, axis=0) - mean) < 6 * error).all()
    assert mean.max() < -0.01


NUMBERS = {"one memory": NUMBER_GROUPS[:1], "a base": NUMBER_GROUPS[1:2], "all": NUMBER_GROUPS}


@pytest.mark.parametrize("groups", NUMBERS)
@pytest.mark.parametrize("n_codes", [0, 2])
def test_contributions_of_the_adaptive_regressor_equal_the_reference(groups, n_codes):
    rng = np.random.default_rng(len(groups) + n_codes)
    X, y = mixed_rows(rng, 90, n_codes)
    y = y + 0.5 * rng.normal(size=90)
    how = {"categories": [6] * n_codes, "groups": NUMBERS[groups], "n_estimators": 2}
    forest = adaptive_regressor(3, **how)
    assert_equal_on_stream(forest, X, y, lambda by_row: by_row[:, 0])


@pytest.mark.parametrize("n_classes", [1, 2, 3])
@pytest.mark.parametrize("n_codes", [0, 2])
def test_contributions_of_the_adaptive_classifier_equal_the_reference(n_classes, n_codes):
    rng = np.random.default_rng(n_classes + 4 * n_codes)
    X, y = mixed_rows(rng, 90, n_codes)
    y = np.digitize(y, [0.5, 2.0]).clip(0, n_classes - 1).astype(np.uint32)
    forest = adaptive(3, categories=[6] * n_codes, groups=GROUPS, n_classes=n_classes)
    assert_equal_on_stream(forest, X, y, softmax)


def mixed_rows(rng, n_rows, n_codes):
    X = rng.normal(size=(n_rows, n_codes + 3)).astype(np.float32)
    X[:, :n_codes] = rng.integers(0, 6, size=(n_rows, n_codes))
    y = X[:, -1] + 2.0 * (X[:, 0] > 1)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(y)


def assert_equal_on_stream(forest, X, y, predict):
    """Compare with the reference after three parts of a stream, and add up."""
    twin = reference_of(forest)
    queries = np.concatenate([X[:6], 3 * X[:6]]) if not forest.categories else X[:12]
    for part in np.array_split(np.arange(len(X)), 3):
        forest.learn(X[part], y[part], 1)
        for i in part:
            twin.learn(X[i], y[i].item())
        terms = forest.explain(queries, 1)
        np.testing.assert_allclose(
            terms, [explain_forest(twin, x) for x in queries], rtol=0, atol=1e-9
        )
        sums = predict(terms.sum(axis=1))
        expected = forest.predict(queries, 1)
        expected = expected[:, 0] if sums.ndim == 1 else expected
        np.testing.assert_allclose(sums, expected, rtol=1e-9, atol=1e-12)


def softmax(scores):
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("split_pure", [False, True])
@pytest.mark.parametrize("lifetime", [np.inf, 0.5])
def test_contributions_to_smoothed_predictions_add_up(split_pure, lifetime):
    X, y = rows(300, 3)
    how = {"split_pure": split_pure, "lifetime": lifetime, "discount": 2.0, "random_state": 0}
    model = MondrianForestClassifier(3, **how).fit(X, y)
    queries = np.concatenate([X[:50], 3 * X[:50]])
    sums = explained(model, queries).sum(axis=1)
    np.testing.assert_allclose(sums, model.predict_proba(queries), rtol=1e-12, atol=1e-14)


def test_a_smoothed_row_outside_in_one_feature_only_has_its_terms_there():
    X = np.array([[0.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    model = MondrianForestClassifier(20, discount=1.0, split_pure=True, random_state=0)
    model.fit(X, [0, 1])
    base, first, second = explained(model, [[5.0, 0.0]])[0]
    assert (np.abs(second) > 1e-3).all()  # splits between the rows
    assert (np.abs(first) > 1e-6).all()  # where the row leaves the range
    np.testing.assert_allclose(base + first + second, model.predict_proba([[5.0, 0.0]])[0])
    assert (explained(model, [[0.0, 0.0]])[0, 1] == 0).all()


def test_contributions_do_not_depend_on_threads_or_on_how_rows_are_cut():
    X, y = rows(400, 3)
    forests = [classifier(3), adaptive(3), adaptive_regressor(3)]
    for forest, labels in zip(forests, [y, y, y.astype(np.float64)], strict=True):
        forest.learn(X, labels, 1)
        terms = forest.explain(X, 1)
        np.testing.assert_array_equal(terms, forest.explain(X, 3))
        one_by_one = np.concatenate([forest.explain(X[i : i + 1], 1) for i in range(40)])
        np.testing.assert_array_equal(terms[:40], one_by_one)


def test_a_forest_that_has_learned_nothing_has_base_values_only():
    for forest in (classifier(3), adaptive(3), adaptive_regressor(3)):
        terms = forest.explain(np.zeros((2, 3), dtype=np.float32), 1)
        assert (terms[:, 1:] == 0).all()
    extends = classifier(3, predict_extends=True)
    base = extends.explain(np.ones((1, 3), dtype=np.float32), 1)[0, 0]
    np.testing.assert_allclose(base, [0.5, 0.5], rtol=1e-15)


def test_paths_that_are_longer_than_a_walk_add_up():
    X = 2.0 ** (99 - np.arange(220, dtype=np.float32)[:, None])  # most nodes are on one path
    y = np.arange(220) % 3 // 2
    model = AMFClassifier(1, classes=range(2), split_pure=True, random_state=0).partial_fit(X, y)
    assert model.stats()["depth"] > 64
    np.testing.assert_allclose(explained(model, X).sum(axis=1), model.predict_proba(X), rtol=1e-12)


def test_a_part_of_a_forest_and_bad_rows_are_refused():
    X, y = rows(50, 3)
    for forest in (classifier(3), adaptive(3)):
        forest.learn(X, y, 1)
        with pytest.raises(ValueError, match="X has 2 features"):
            forest.explain(np.ascontiguousarray(X[:, :2]), 1)
        with pytest.raises(ValueError, match="a part of a forest has no contributions"):
            forest.take([0]).explain(X, 1)


def test_clipped_means_are_explained_by_the_experts_that_bound_them():
    """A mixer with huge weights is clipped on most rows: sums are the clipped mean."""
    X, _ = rows(300, 3)
    y = X[:, 0].astype(np.float64)
    forest = adaptive_regressor(3)
    forest.learn(X, y, 1)
    state = forest.state()
    arrays = state["trees"]
    arrays["mixer_weights"] = 40.0 * np.resize([1.0, -1.0], arrays["mixer_weights"].shape)
    clipped = _core.AdaptiveRegressorForest(
        **state | {"options": _core.Options(**state["options"])}
    )
    queries = np.concatenate([X[:100], 2 * X[:100]])
    sums = clipped.explain(queries, 1).sum(axis=1)[:, 0]
    means = clipped.predict(queries, 1)[:, 0]
    by_expert = clipped.predict_by_expert(queries, 1)[:, :, 0]
    parts = clipped.mixer_weights  # where nothing is clipped
    assert (np.abs(by_expert @ parts - means) > 1e-3).mean() > 0.5
    np.testing.assert_allclose(sums, means, rtol=1e-9, atol=1e-9)


def test_all_forests_of_the_core_explain():
    box = np.array([[-9.0] * 3, [9.0] * 3], dtype=np.float32)
    X, y = rows(120, 3)
    classes = {"n_classes": 2, "capacity": 2, "dirichlet": 0.5}
    for name in ("Classifier", "WeightedClassifier", "Regressor"):
        for prefix, bounds in (("", {}), ("Unrestricted", {"bounds": box})):
            own = bounds if name == "Regressor" else bounds | classes
            forest = getattr(_core, f"{prefix}{name}Forest")(
                n_numbers=3, options=_core.Options(**OPTIONS), seeds=seeds(3), **own
            )
            forest.learn(X, y.astype(np.float64) if name == "Regressor" else y, 1)
            sums = forest.explain(X, 2).sum(axis=1)
            np.testing.assert_allclose(sums, forest.predict(X, 1), rtol=1e-12, atol=1e-14)
