"""Splits in words: categories by name, thresholds in the units of X."""

import numpy as np
import pandas as pd
import pytest

from amforest import AdaptiveAMFClassifier, AdaptiveAMFRegressor, AMFClassifier
from amforest.inspection import SplitWords

rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "size": rng.normal(size=300),
        "town": rng.choice(["Rome", "Oslo", "Bern", "Lyon", "Kiev", "Bonn"], 300),
        "colour": rng.choice(["red", "blue"], 300),
    }
)
Y = ((X["size"] > 0) ^ X["town"].isin(["Rome", "Bern"])).astype(int)


def is_true(words, row):
    """Evaluate words such as "town is Rome or Oslo" for a row."""
    name, verb, rest = words.split(" ", 2)
    if verb in "≤>":
        return row[name] <= float(rest) if verb == "≤" else row[name] > float(rest)
    if rest.startswith("not "):
        return row[name] != rest.removeprefix("not ")
    return row[name] in rest.replace(" or ", ", ").split(", ")


@pytest.mark.parametrize("cls", [AMFClassifier, AdaptiveAMFClassifier, AdaptiveAMFRegressor])
def test_the_words_of_splits_lead_each_row_to_its_leaf(cls, monkeypatch):
    monkeypatch.setattr("amforest.inspection.splits.MOST_NAMED", 99)
    model = cls(1, random_state=0).fit(X, Y)
    leaves = model.apply(X[:40])
    for tree in range(leaves.shape[1]):  # those never regrown, too
        table, splits = model.tree_table(tree), SplitWords(model, tree)
        for (_, row), leaf in zip(X[:40].iterrows(), leaves[:, tree], strict=True):
            node = 0
            while table["left"][node] >= 0:
                left, right = splits.sides(table[node])
                if "≤" in left and abs(row["size"] - table["threshold"][node]) < 1e-3:
                    assert table["feature"][node] == 0
                    node = -1  # four digits do not tell
                    break
                assert is_true(left, row) != is_true(right, row)
                node = table["left" if is_true(left, row) else "right"][node]
            assert node in (-1, leaf)


def test_of_many_categories_some_are_named():
    rows = pd.DataFrame({"town": [f"t{k}" for k in range(40)] * 5})
    model = AdaptiveAMFClassifier(1, random_state=0).fit(rows, [k % 40 > 5 for k in range(200)])
    table = model.tree_table(0)
    left, right = SplitWords(model, 0).sides(table[0])
    assert {left.endswith("more"), right.endswith("more")} & {True}


def test_thresholds_are_converted_and_categories_are_not():
    model = AMFClassifier(3, random_state=0).fit(X, Y)
    words = [
        SplitWords(model, 0, lambda j, value: 1000 + j).sides(node)[0]
        for node in model.tree_table(0)
        if node["left"] >= 0
    ]
    assert {text for text in words if "≤" in text} == {"size ≤ 1000"}
    assert any(text.startswith("town is not ") for text in words)
