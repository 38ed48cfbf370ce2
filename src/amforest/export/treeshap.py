"""Forests in the form that the package shap reads: exact Shapley values."""

from __future__ import annotations

from typing import Any

import numpy as np

from amforest.export.plain_forest import PlainTree, plain_forest


def to_treeshap(model: Any) -> dict[str, Any]:
    """Convert a fitted forest to the dict from which `shap.TreeExplainer` builds its trees.

    Parameters
    ----------
    model : AMFClassifier, AMFRegressor, one of these of amforest.river, or a frozen copy of one
        Fitted, with ``predict_extends=False`` and ``partition="restricted"``, on features that
        are numbers.

    Returns
    -------
    dict
        Of the trees' `children_left`, `children_right`, `children_default` (where missing values
        go), `features`, `thresholds`, `values` and `node_sample_weight`. The sum over the trees is
        what the forest predicts: of a classifier the probabilities of `classes_`. Columns are in
        the order of X.

    Raises
    ------
    ValueError
        If predictions differ within a leaf, or some features hold categories.
    TypeError
        If the model is adaptive: its mixer is not a mean of trees.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AMFRegressor
    >>> from amforest.export import to_treeshap
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> forest = AMFRegressor(random_state=0).fit(X, X[:, 0])
    >>> trees = to_treeshap(forest)["trees"]
    >>> len(trees), trees[0]["values"].shape[1]
    (10, 1)

    Then ``shap.TreeExplainer(to_treeshap(forest), X[:100])`` gives interventional Shapley values,
    and ``shap.TreeExplainer(to_treeshap(forest))`` path-dependent ones.
    """
    forest = plain_forest(model)
    if forest.is_adaptive:
        raise TypeError(
            f"model is an {forest.name}, whose mixer is not a mean of trees: TreeExplainer cannot "
            "have its predictions; its method explain gives contributions that add up to them"
        )
    if categorical := [f for f in forest.features if f.categories is not None]:
        name = forest.features.index(categorical[0])
        named = name if categorical[0].name is None else repr(categorical[0].name)
        raise ValueError(
            f"feature {named} holds categories, whose splits TreeExplainer does not know: fit on "
            "numbers, such as one-hot columns, or use the method explain"
        )
    of_row = {feature.column: j for j, feature in enumerate(forest.features)}
    places = np.array([of_row.get(column, -1) for column in forest.columns.tolist()])
    return {
        "trees": [_tree(tree, places, len(forest.trees)) for tree in forest.trees],
        "internal_dtype": np.float64,
        "input_dtype": np.float32,
        "tree_output": "probability" if forest.classes is not None else "raw_value",
    }


def _tree(tree: PlainTree, places: Any, n_trees: int) -> dict[str, Any]:
    is_leaf = tree.feature < 0
    values = np.zeros((len(tree.feature), tree.values.shape[1]))
    values[is_leaf] = tree.values / n_trees
    for v in np.flatnonzero(~is_leaf)[::-1].tolist():  # children come behind their parents
        sides = [tree.left[v], tree.right[v]]
        values[v] = np.average(values[sides], axis=0, weights=tree.weight[sides])
    default = np.where(tree.missing_goes_right, tree.right, tree.left)
    return {
        "children_left": tree.left.astype(np.int32),
        "children_right": tree.right.astype(np.int32),
        "children_default": default.astype(np.int32),
        "features": np.where(is_leaf, -2, places[tree.feature]).astype(np.int32),
        "thresholds": tree.threshold.astype(np.float64),
        "values": values,
        "node_sample_weight": tree.weight.copy(),
    }
