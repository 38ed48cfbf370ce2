"""Contributions as waterfalls and swarms, importances as bars, weights of memories as areas."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.offsetbox import TextArea
from plotting_helpers import PETALS, SPECIES, classifier, species

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFRegressor, river
from amforest.inspection import Explanation, importances
from amforest.plotting import (
    plot_contribution_swarm,
    plot_contributions,
    plot_importances,
    plot_memory_weights,
)
from amforest.plotting.colours import GREY, LOW_TO_HIGH, get_colour

RNG = np.random.default_rng(0)
N = 240
SHOP = pd.DataFrame(
    {
        "basket": RNG.gamma(2, 20, N),
        "town": RNG.choice(
            ["Lima", "Oslo", "Rome", "Bonn", "Cork"], N, p=[0.4, 0.3, 0.15, 0.1, 0.05]
        ),
        "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(18, 80, N)),
        "$x$": RNG.normal(size=N),
    }
)
BOUGHT = np.where((SHOP["basket"] > 30) ^ (SHOP["town"] == "Oslo"), "yes", "no")


@pytest.fixture(scope="module")
def shop():
    return AdaptiveAMFClassifier(1, random_state=0).fit(SHOP, BOUGHT)


def ticks(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def bars(ax):
    """The beginning and the end of each bar."""
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]


def dots(ax):
    """The dots of each line: places along the axis, and colours."""
    lines = [some for some in ax.collections if isinstance(some, PathCollection)]
    return [
        (some.get_offsets()[:, 0], some.get_facecolors())
        for some in lines
        if len(some.get_offsets())
    ]


# One row


def test_bars_lead_from_the_base_value_to_the_prediction(shop):
    explanation = shop.explain(SHOP[:1])
    ax = plot_contributions(explanation[0])
    values = explanation.values[0]
    order = np.argsort(-np.abs(values))
    starts, ends = np.array(bars(ax)).T
    np.testing.assert_allclose(ends - starts, values[order], atol=1e-12)
    np.testing.assert_allclose(starts[1:], ends[:-1])
    assert starts[0] == explanation.base_values[0]
    p = shop.predict_proba(SHOP[:1])[0, 1]
    assert ends[-1] == pytest.approx(np.log(p / (1 - p)))
    assert f"(probability {p:.3g})" in ax.texts[-1].get_text()
    words = {f"basket = {SHOP['basket'][0]:.4g}", f"town = {SHOP['town'][0]}"}
    assert words < set(ticks(ax))
    assert ax.get_xlabel() == "log-odds of yes"


@pytest.mark.parametrize("sign", [-1, 1])
def test_words_beside_bars_stay_off_the_names_of_features(sign):
    values = sign * np.array([3.4, 0.2, -0.05, 0.02])
    one = Explanation(values, 0.5 * sign, np.ones(4), unit="log-odds", axes=("features",))
    narrow = plt.figure(figsize=(4, 3), layout="constrained").subplots()
    ax = plot_contributions(one, ax=narrow)
    ax.figure.canvas.draw()
    frame = ax.get_window_extent()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert min(box.x0 for box in boxes) >= frame.x0
    assert max(box.x1 for box in boxes) <= ax.figure.bbox.x1


def test_the_rest_has_one_bar_and_a_missing_value_is_named(shop):
    row = int(SHOP["age"].isna().argmax())
    explanation = shop.explain(SHOP)[row]
    ax = plot_contributions(explanation, max_features=2)
    assert ticks(ax)[3:] == ["2 other features", "prediction"]
    assert len(bars(ax)) == 3
    assert "age = missing" in ticks(plot_contributions(explanation))
    assert ticks(plot_contributions(explanation, max_features=3)) == ticks(
        plot_contributions(explanation)
    )


def test_of_more_than_two_classes_the_predicted_one_is_drawn():
    explanation = species().explain(PETALS)
    predicted = species().predict(PETALS)
    for row in (0, 70, 149):
        assert (
            plot_contributions(explanation[row]).get_xlabel() == f"probability of {predicted[row]}"
        )
    ax = plot_contributions(explanation[[0]], positive="virginica", ax=plt.figure().subplots())
    assert ax.get_xlabel() == "probability of virginica"
    assert plot_contributions(explanation[0, :, "virginica"]).get_xlabel() == ax.get_xlabel()


def test_numbers_and_features_without_names_can_be_drawn():
    X = RNG.normal(size=(60, 3))
    model = AMFRegressor(2, random_state=0).fit(X, X[:, 1])
    ax = plot_contributions(model.explain(X[:1]))
    assert ax.get_xlabel() == "prediction"
    assert f"feature 1 = {X[0, 1]:.4g}".replace("-", "−") in ticks(ax)


# Many rows


def test_a_line_has_a_dot_for_each_row_the_largest_feature_first(shop):
    explanation = shop.explain(SHOP)
    ax = plot_contribution_swarm(explanation)
    order = np.argsort(-np.abs(explanation.values).mean(axis=0))
    assert ticks(ax) == [explanation.feature_names[j] for j in order]
    for j, (places, _) in zip(order, dots(ax), strict=True):
        np.testing.assert_array_equal(places, explanation.values[:, j])
    assert ax.get_xlabel() == "contribution to the log-odds of yes"


def test_dots_have_the_colour_of_values_and_of_categories(shop):
    ax = plot_contribution_swarm(shop.explain(SHOP))
    colours = dict(zip(ticks(ax), (colours for _, colours in dots(ax)), strict=True))
    baskets = SHOP["basket"].to_numpy()
    assert to_hex(colours["basket"][baskets.argmin()]) == to_hex(LOW_TO_HIGH(0.0))
    assert to_hex(colours["basket"][baskets.argmax()]) == to_hex(LOW_TO_HIGH(1.0))
    is_missing = SHOP["age"].isna().to_numpy()
    assert {to_hex(colour) for colour in colours["age"][is_missing]} == {to_hex(GREY)}
    frequent = SHOP["town"].value_counts().index
    for k, town in enumerate(frequent):
        of_town = {to_hex(colour) for colour in colours["town"][SHOP["town"] == town]}
        assert of_town == {to_hex(GREY if k == 4 else get_colour(k))}
    named = [area.get_text() for area in ax.figure.findobj(TextArea)]
    assert [word for word in named if word][:5] == [*frequent[:4], "+ 1"]


def test_many_rows_are_thinned_and_the_rest_has_one_line(shop):
    explanation = shop.explain(pd.concat([SHOP] * 9))
    ax = plot_contribution_swarm(explanation, max_features=2, legend=False)
    assert len(dots(ax)[0][0]) == 9 * N / 2
    assert ticks(ax)[2] == "2 other features"
    np.testing.assert_allclose(
        sum(places for places, _ in dots(ax)), explanation.values[::2].sum(axis=1), atol=1e-12
    )


def test_dots_with_equal_contributions_do_not_cover_each_other():
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    explanation = AMFRegressor(1, random_state=0).fit(X, X[:, 0]).explain(X)
    (line,) = plot_contribution_swarm(explanation, legend=False).collections
    assert len(np.unique(np.asarray(line.get_offsets()), axis=0)) == 40


# The model


def test_recent_importances_are_beside_long_term_ones():
    X = np.random.default_rng(0).normal(size=(3_000, 4))
    y = np.where(np.arange(3_000) < 1_800, X[:, 0], X[:, 2]) > 0
    model = AdaptiveAMFClassifier(1, random_state=0).fit(X, y)
    found, ax = importances(model), plot_importances(model, max_features=3)
    lengths = np.array([end - start for start, end in bars(ax)]).reshape(2, 3)
    order = [int(name.removeprefix("feature ")) for name in ticks(ax)]
    np.testing.assert_allclose(lengths, [found.long_term()[order], found.recent()[order]])
    assert set(order[:2]) == {0, 2}
    by_feature = dict(zip(order, lengths.T, strict=True))
    assert by_feature[0][0] > by_feature[0][1]
    assert by_feature[2][0] < by_feature[2][1]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["long-term", "last 1,000 rows"]


def test_forests_without_memories_have_one_bar_for_each_feature():
    ax = plot_importances(classifier())
    lengths = [end - start for start, end in bars(ax)]
    assert sorted(lengths) == pytest.approx(sorted(classifier().feature_importances_))
    assert ax.get_legend() is None


def test_a_model_for_river_has_importances_by_name():
    model = river.AdaptiveAMFClassifier(1, seed=0)
    for x, y in zip(PETALS.to_dict("records"), SPECIES, strict=True):
        model.learn_one(x, y)
    assert set(ticks(plot_importances(model))) == set(PETALS)


def test_weights_of_memories_are_stacked_and_negative_ones_below_zero():
    X = np.random.default_rng(0).uniform(size=(700, 2))
    model = AdaptiveAMFRegressor(1, random_state=0).fit(X, 10 * X[:, 0] + np.sin(9 * X[:, 1]))
    rows, weights = model.memory_weights_history_
    ax = plot_memory_weights(model)
    areas = [some for some in ax.collections if isinstance(some, PolyCollection)]
    corners = [some.get_paths()[0].vertices for some in areas]
    top = max(some[:, 1].max() for some in corners)
    bottom = min(some[:, 1].min() for some in corners)
    assert top == pytest.approx(np.maximum(weights, 0).sum(axis=1).max())
    assert bottom == pytest.approx(np.minimum(weights, 0).sum(axis=1).min())
    assert bottom < 0
    assert ax.get_xlim() == (0, rows[-1])
    named = {text.get_text() for text in ax.texts}
    assert model.memory_names_[int(weights[-1].argmax())] in named <= set(model.memory_names_)


def test_longer_memories_are_darker_and_nearer_to_zero():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    model = AdaptiveAMFRegressor(1, memories=(None, 60, 15), random_state=0).fit(X, X[:, 0])
    _, weights = model.memory_weights_history_
    ax = plot_memory_weights(model)
    areas = [some for some in ax.collections if isinstance(some, PolyCollection)]
    found = [(area.get_alpha(), area.get_paths()[0].vertices) for area in areas[: weights.shape[1]]]
    opacities = [opacity for opacity, _ in found]
    names = ["all", "all, linear", "60", "60, linear", "15", "15, linear"]
    order = [model.memory_names_.index(name) for name in names]
    assert opacities == sorted(opacities, reverse=True)
    assert len(set(opacities)) == 4  # three memories, with and without a base; regressions
    tops = np.maximum(weights[:, order], 0).cumsum(axis=1).max(axis=0)
    np.testing.assert_allclose([corners[:, 1].max() for _, corners in found[:6]], tops)


# Errors


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (plot_contributions, r"explanation has 240 rows; select one"),
        (lambda e: plot_contributions(e[:, "age"]), "has one feature only; slice it by rows"),
        (lambda e: plot_contributions(e[0], positive="no"), "is of the class 'yes' only"),
        (lambda e: plot_contributions(e[0], max_features=0), "max_features is 0; it must be"),
        (lambda e: plot_contribution_swarm(e[0]), "explanation is of one row or feature"),
        (lambda e: plot_contribution_swarm(e[:0]), "explanation has no rows"),
        (lambda e: plot_contribution_swarm(e, positive="maybe"), "positive is 'maybe'; the expl"),
    ],
)
def test_bad_explanations_are_named(draw, says, shop):
    with pytest.raises(ValueError, match=says):
        draw(shop.explain(SHOP))


def test_bad_classes_and_models_are_named():
    explanation = species().explain(PETALS)
    with pytest.raises(ValueError, match=r"positive is 'rose'; the classes are \['setosa'"):
        plot_contributions(explanation[0], positive="rose")
    with pytest.raises(TypeError, match="explanation is 3; it must be what `explain` returns"):
        plot_contributions(3)
    with pytest.raises(TypeError, match="explanation is None"):
        plot_contribution_swarm(None)
    with pytest.raises(ValueError, match="model is AMFClassifier, which has no memories"):
        plot_memory_weights(classifier())
    with pytest.raises(TypeError, match="model is 3; it must be a fitted model"):
        plot_importances(3)
    numbers = AMFRegressor(1, random_state=0).fit([[0.0], [1.0]], [0, 1]).explain([[0.0]])
    with pytest.raises(ValueError, match="positive is 1; the explanation has no classes"):
        plot_contributions(numbers, positive=1)
