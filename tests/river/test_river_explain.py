"""`explain_one` of the models for river adds up to predictions, by the names of features."""

import math

import numpy as np
import pandas as pd
import pytest

from amforest import river

MEMORIES = {"memories": (None, 60, 15), "n_estimators": 2}
MODELS = {
    "AMFClassifier": lambda: river.AMFClassifier(3, seed=1),
    "AMFRegressor": lambda: river.AMFRegressor(3, seed=1),
    "AdaptiveAMFClassifier": lambda: river.AdaptiveAMFClassifier(seed=1, **MEMORIES),
    "AdaptiveAMFRegressor": lambda: river.AdaptiveAMFRegressor(seed=1, **MEMORIES),
}


def rows(rng, n_rows):
    """Features come later, and go."""
    for i in range(n_rows):
        x = {"b": rng.normal(), "city": str(rng.choice(["Oslo", "Rome"])), "a": rng.uniform()}
        if i > n_rows // 2:
            x["late"] = rng.normal()
        if i % 7 == 0:
            del x["b"]
        yield x


@pytest.mark.parametrize("labels", [("no", "yes"), ("x", "y", "z")])
@pytest.mark.parametrize("name", MODELS)
def test_contributions_by_name_add_up(name, labels):
    rng, model = np.random.default_rng(0), MODELS[name]()
    is_number = "Regressor" in name
    for x in rows(rng, 150):
        score = x["a"] + (x["city"] == "Rome")
        model.learn_one(x, score if is_number else labels[int(score * len(labels) / 2)])
    for x in ({"b": 1.0, "city": "Rome", "a": 0.3, "late": -1.0}, {"city": "Lima"}, {"new": 1.0}):
        base, contributions = model.explain_one(x)
        if is_number:
            assert set(contributions) == {"a", "b", "city", "late"}
            assert base + sum(contributions.values()) == pytest.approx(model.predict_one(x))
            continue
        expected = model.predict_proba_one(x)
        if name.startswith("Adaptive") and len(labels) == 2:
            score = base + sum(contributions.values())
            assert 1 / (1 + math.exp(-score)) == pytest.approx(expected["yes"])
            continue
        assert list(base) == list(contributions) == list(labels)
        sums = {label: base[label] + sum(contributions[label].values()) for label in labels}
        if name.startswith("Adaptive"):
            total = sum(math.exp(score) for score in sums.values())
            sums = {label: math.exp(score) / total for label, score in sums.items()}
        assert sums == pytest.approx(expected)


def test_the_contributions_are_those_of_the_twin():
    rng, model = np.random.default_rng(0), MODELS["AMFRegressor"]()
    for x in rows(rng, 100):
        model.learn_one(x, x["a"])
    x = {"city": "Rome", "b": 0.5, "a": 0.25, "late": 0.0}
    twin = model.to_sklearn()
    explanation = twin.explain(pd.DataFrame([x])[list(twin.feature_names_in_)])
    base, contributions = model.explain_one(x)
    assert base == explanation.base_values[0]
    assert contributions == dict(
        zip(explanation.feature_names, explanation.values[0].tolist(), strict=True)
    )


def test_before_any_data_there_is_no_explanation():
    for new in MODELS.values():
        assert new().explain_one({"a": 1.0}) is None
