"""Generated data have the properties that their names say, and depend on the seed only."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression

from amforest import datasets

MAKERS = {
    **{
        name: lambda seed, name=name: datasets.make_toy(name, random_state=seed)
        for name in datasets.TOYS
    },
    **{
        name: lambda seed, name=name: datasets.make_signal(name, random_state=seed)
        for name in datasets.SIGNALS
    },
    **{
        f"{task}, {drift}": lambda seed, task=task, drift=drift: datasets.make_drift(
            task=task, drift=drift, random_state=seed
        )
        for task in ("classification", "regression")
        for drift in ("abrupt", "gradual")
    },
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_the_same_seed_gives_the_same_rows(maker):
    (X, y), (again, labels), (other, _) = maker(1), maker(1), maker(2)
    assert np.array_equal(X, again)
    assert np.array_equal(y, labels)
    assert not np.array_equal(X, other)
    assert X.shape == (len(y), X.shape[1])
    assert np.isfinite(X).all()


@pytest.mark.parametrize("name", datasets.TOYS)
def test_toys_are_two_balanced_classes_that_noise_blurs(name):
    def score(noise):
        X, y = datasets.make_toy(name, 1000, noise=noise, random_state=0)
        assert X.shape == (1000, 2)
        assert np.bincount(y).tolist() == [500, 500]
        forest = ExtraTreesClassifier(random_state=0).fit(X[::2], y[::2])
        return forest.score(X[1::2], y[1::2])

    assert score(0.02) > 0.99
    assert score(None) > 0.94
    assert score(2.0) < 0.75


def test_only_the_clouds_are_linearly_separable():
    scores = {}
    for name in datasets.TOYS:
        X, y = datasets.make_toy(name, 1000, noise=0.05, random_state=0)
        scores[name] = LogisticRegression().fit(X, y).score(X, y)
    assert scores["linear"] == 1
    assert scores["moons"] < 0.95
    assert scores["circles"] < 0.7


@pytest.mark.parametrize("name", datasets.SIGNALS)
def test_signals_span_the_unit_interval_and_noise_is_added(name):
    x = np.linspace(0, 1, 10_001)
    clean = datasets.signal(x, name)
    assert clean.min() == pytest.approx(0, abs=1e-4)
    assert clean.max() == pytest.approx(1, abs=1e-4)
    X, y = datasets.make_signal(name, 5000, noise=0.1, random_state=0)
    residuals = y - datasets.signal(X[:, 0], name)
    assert residuals.mean() == pytest.approx(0, abs=0.01)
    assert residuals.std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("name", datasets.SIGNALS)
def test_roughness_is_the_mean_absolute_slope(name):
    x = np.linspace(0, 1, 200_001)
    slopes = np.abs(np.diff(datasets.signal(x, name)))
    for point, low, high in ((0.5, 0.45, 0.55), (0.02, 0.0, 0.07), (1.0, 0.95, 1.0)):
        inside = (x[:-1] >= low - 1e-9) & (x[1:] <= high + 1e-9)
        expected = slopes[inside].sum() / (high - low)
        assert datasets.roughness([point], name, width=0.1)[0] == pytest.approx(expected, rel=1e-3)


def test_roughness_is_larger_at_peaks_and_fast_waves():
    assert datasets.roughness([0.5], "blocks")[0] == 0
    assert datasets.roughness([0.78], "bumps")[0] > 50 * datasets.roughness([0.55], "bumps")[0]
    assert (np.diff(datasets.roughness([0.1, 0.3, 0.9], "doppler", width=0.2)) < 0).all()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_an_abrupt_change_makes_a_fitted_model_worse(task):
    X, y = datasets.make_drift(3000, task=task, n_changes=1, noise=0.05, random_state=0)
    Forest = ExtraTreesClassifier if task == "classification" else ExtraTreesRegressor
    forest = Forest(random_state=0).fit(X[:1000], y[:1000])
    assert forest.score(X[1000:1500], y[1000:1500]) > 0.75
    assert forest.score(X[1500:], y[1500:]) < 0.6


def test_a_gradual_change_makes_a_fitted_model_worse_and_worse():
    X, y = datasets.make_drift(8000, drift="gradual", n_changes=2, noise=0.0, random_state=0)
    forest = ExtraTreesClassifier(random_state=0).fit(X[:500], y[:500])
    scores = [forest.score(X[i : i + 1500], y[i : i + 1500]) for i in (500, 3000, 6500)]
    assert scores[0] > scores[1] + 0.1 > scores[2] + 0.2


def test_without_changes_nothing_drifts():
    for drift in ("abrupt", "gradual"):
        X, y = datasets.make_drift(2000, drift=drift, n_changes=0, noise=0.0, random_state=3)
        assert LogisticRegression(C=1e6).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.97


def test_noise_is_the_fraction_of_flipped_classes():
    X, y = datasets.make_drift(4000, n_changes=0, noise=0.3, random_state=0)
    assert LogisticRegression().fit(X, y).score(X, y) == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_simulated_data_have_the_shape_of_the_data_set(name):
    n_rows, n_features, n_classes = datasets.SHAPES[name]
    data = datasets.make_simulated(name)
    assert data.name == name
    assert data.X.shape == (n_rows, n_features)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert 0 <= data.X.min() < data.X.max() <= 1
    assert data.y.dtype == np.int64
    assert len(data.classes) == n_classes
    assert len(data.feature_names) == len(data.categories) == n_features
    assert data.categorical_features == []
    sizes = np.bincount(data.y, minlength=n_classes)
    assert sizes.max() - sizes.min() <= 1


def test_simulated_data_are_fixed_learnable_and_not_trivial():
    data, again = (datasets.make_simulated("satimage", 1000) for _ in range(2))
    assert np.array_equal(data.X, again.X)
    assert np.array_equal(data.y, again.y)
    assert data.X.shape == (1000, 36)
    forest = ExtraTreesClassifier(random_state=0).fit(data.X[:500], data.y[:500])
    assert 0.8 < forest.score(data.X[500:], data.y[500:]) < 0.95


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.make_toy("squares"), "unknown toy 'squares'; expected one of moons"),
        (lambda: datasets.make_toy("moons", 1), "n_samples == 1, must be >= 2"),
        (lambda: datasets.make_toy("moons", noise=-1.0), "noise == -1.0, must be >= 0"),
        (lambda: datasets.make_signal("siren"), "unknown signal 'siren'; expected one of blocks"),
        (lambda: datasets.make_signal("bumps", 0), "n_samples == 0, must be >= 1"),
        (lambda: datasets.signal([0.5], "siren"), "unknown signal 'siren'"),
        (lambda: datasets.signal([1.5], "bumps"), r"outside of \[0, 1\]"),
        (lambda: datasets.signal([[0.5]], "bumps"), r"x has shape \(1, 1\)"),
        (lambda: datasets.roughness([0.5], "bumps", width=0), "width == 0, must be >= 0.001"),
        (lambda: datasets.make_drift(task="ranking"), "unknown task 'ranking'"),
        (
            lambda: datasets.make_drift(drift="sudden"),
            "unknown drift 'sudden'; expected one of abrupt",
        ),
        (lambda: datasets.make_drift(n_features=1), "n_features == 1, must be >= 2"),
        (lambda: datasets.make_drift(noise=0.6), "noise == 0.6, must be <= 0.5"),
        (lambda: datasets.make_drift(n_changes=-1), "n_changes == -1, must be >= 0"),
        (lambda: datasets.make_simulated("iris"), "unknown data set 'iris'; expected one of adult"),
        (lambda: datasets.make_simulated("car", 0), "n_samples == 0, must be >= 1"),
    ],
)
def test_an_invalid_argument_is_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_types_are_checked():
    with pytest.raises(TypeError, match="n_samples must be an instance of"):
        datasets.make_toy("moons", 10.5)
