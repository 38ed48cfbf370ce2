"""Forests as models of ONNX."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

import amforest
from amforest._forest.losses import Floats
from amforest.export.plain_forest import (
    SMOOTHING,
    Feature,
    LinearBase,
    NumberMixer,
    PlainForest,
    plain_forest,
)

MOST_LEAVES = 2**24  # of a tree: its leaves are numbered in float32
_LABEL_KINDS = {
    "U": "string",
    "O": "string",
    "i": "int64",
    "u": "int64",
    "b": "bool",
    "f": "double",
}


def to_onnx(model: Any) -> Any:
    """Convert a fitted forest to a model of ONNX, with its mixer.

    The model needs the operators of ai.onnx 17 and ai.onnx.ml 3 (IR version 8), which onnxruntime
    has from version 1.12 on. It has the predictions of the forest to about 1e-7: a tree gives each
    row the number of its leaf, and all that follows is computed in double precision.

    Parameters
    ----------
    model : AMFClassifier, AMFRegressor, AdaptiveAMFClassifier, AdaptiveAMFRegressor, \
            a model of amforest.river, or a frozen copy of one of them
        Fitted. Of `AMFClassifier` and `AMFRegressor` with ``predict_extends=False`` and
        ``partition="restricted"``.

    Returns
    -------
    onnx.ModelProto
        If all features are numbers, it has the input `X`: float, of shape (rows, features). If some
        hold categories, each feature is an input of its name, of shape (rows, 1): string, int64
        or float for categories, as they are, and float for numbers. Features without names are X0,
        X1, …. NaN is a missing number, an empty string a missing category, unless it is a category
        itself. Parts of dates are features, such as "when.hour".

        A classifier has the outputs `label`, of shape (rows,), and `probabilities`: float, of shape
        (rows, classes). A regressor has `variable`: double, of shape (rows, 1).

    Raises
    ------
    ImportError
        Without the package onnx: ``pip install 'amforest[onnx]'``.
    ValueError
        If predictions differ within a leaf, or categories are neither all text nor all numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> from amforest.export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> onnx_model = to_onnx(AMFClassifier(random_state=0).fit(X, y))
    >>> [(value.name) for value in onnx_model.graph.output]
    ['label', 'probabilities']
    """
    return _Converter(plain_forest(model)).convert()


class _Converter:
    """Converts one forest."""

    def __init__(self, forest: PlainForest) -> None:
        from amforest.export.onnx_graph import Graph  # noqa: PLC0415  # which needs onnx

        self.forest, self.graph = forest, Graph()

    def convert(self) -> Any:
        forest, graph = self.forest, self.graph
        codes, numbers = self._inputs()
        matrix, columns_of = self._matrix(codes, numbers)
        groups = self._leaves(matrix, columns_of)
        if forest.mixer is not None:
            means = self._add_bases(groups, matrix, columns_of)
            means += self._experts(means, numbers)
            self._regressor(self._mix_numbers(means, forest.mixer))
        elif forest.classes is not None:
            self._classifier(self._mix_classes(groups) if forest.is_adaptive else groups[0])
        else:
            self._regressor(groups[0])
        about = {"model": forest.name, "amforest": amforest.__version__}
        about["features"] = json.dumps([_input_name(f, j) for j, f in enumerate(forest.features)])
        return graph.to_model(forest.name, about)

    # Rows

    def _inputs(self) -> tuple[list[str], str | None]:
        """Return the codes of each categorical feature, and a matrix of all numbers."""
        graph, features = self.graph, self.forest.features
        in_order = sorted(enumerate(features), key=lambda item: item[1].column)
        if not self.forest.n_codes:
            x = graph.input("X", "float", len(features))
            wanted = np.array([j for j, _ in in_order])
            is_sorted = np.array_equal(wanted, np.arange(len(wanted)))
            return [], x if is_sorted else graph.columns(x, wanted)
        names = [_input_name(feature, j) for j, feature in enumerate(features)]
        values = {}
        for name, feature in zip(names, features, strict=True):
            kind = "float" if feature.categories is None else _kind_of(feature, name)
            values[name] = graph.input(name, kind, 1), kind
        codes = [
            self._encode(feature, *values[names[j]])
            for j, feature in in_order
            if feature.categories is not None
        ]
        numbers = [values[names[j]][0] for j, feature in in_order if feature.categories is None]
        return codes, graph.concat(numbers) if numbers else None

    def _encode(self, feature: Feature, x: str, kind: str) -> str:
        """Return the codes of categories: -1 where one is unknown, NaN where it is missing."""
        graph, known = self.graph, feature.categories or []
        key = {"string": "keys_strings", "int64": "keys_int64s", "float": "keys_floats"}[kind]
        default = float(len(known)) if feature.has_others else -1.0
        codes = [float(k) for k in range(len(known))]
        keys: list[Any] = list(known)
        if kind == "string" and "" not in known:
            keys, codes = [*keys, ""], [*codes, float("nan")]
        how: dict[str, Any] = {key: keys, "values_floats": codes, "default_float": default}
        if not keys:  # nothing was seen: all values are unknown
            how |= {key: [""] if kind == "string" else [0], "values_floats": [default]}
        encoded = graph.add("LabelEncoder", x, domain="ai.onnx.ml", **how)
        if kind != "float":
            return encoded
        return graph.add("Where", graph.add("IsNaN", x), x, encoded)

    def _matrix(self, codes: list[str], numbers: str | None) -> tuple[str, NDArray[np.int64]]:
        """Return the rows as the trees see them, and the column of each tree's columns there."""
        graph, forest = self.graph, self.forest
        n_trees, n_codes = len(forest.trees), len(codes)
        if not forest.is_adaptive or not codes:
            parts = [*codes, *([] if numbers is None else [numbers])]
            return graph.concat(parts), np.tile(forest.columns, (n_trees, 1))
        n_numbers = len(forest.features) - n_codes
        wide = [] if numbers is None else [numbers]
        for code, table in zip(codes, forest.numbers, strict=True):
            missing = np.full((1, n_trees), np.nan, dtype=np.float32)
            lookup = graph.constant(np.concatenate([table, missing]))
            place = graph.add("Add", code, graph.constant([1.0], np.float32))
            is_missing = graph.add("IsNaN", code)
            end = graph.constant([float(len(table))], np.float32)
            row = graph.cast(graph.add("Where", is_missing, end, place), "int64")
            row = graph.add("Squeeze", row, graph.constant([1], np.int64))
            wide.append(graph.add("Gather", lookup, row, axis=0))
        of_code = n_numbers + forest.columns * n_trees
        places = np.where(forest.columns < n_codes, of_code, forest.columns - n_codes)
        own = np.arange(n_trees)[:, None] * (forest.columns < n_codes)
        return graph.concat(wide), places + own

    # Trees

    def _leaves(self, matrix: str, columns_of: NDArray[np.int64]) -> list[str]:
        """Return the mean of each group of trees: (rows, outputs), or (rows, trees) with bases."""
        graph, forest = self.graph, self.forest
        leaves = graph.cast(self._ensemble(matrix, columns_of), "int64")
        groups = []
        for g in range(forest.n_groups):
            part = forest.group(g)
            trees = forest.trees[part]
            own = leaves
            if forest.n_groups > 1:
                own = graph.columns(leaves, np.arange(part.start, part.stop))
            starts = np.cumsum([0, *(len(tree.values) for tree in trees[:-1])])
            rows = graph.add("Add", own, graph.constant(starts[None], np.int64))
            values = np.concatenate([tree.values for tree in trees])
            if forest.mixer is not None:
                groups.append(graph.add("Gather", graph.constant(values[:, 0]), rows, axis=0))
                continue
            of_trees = graph.add("Gather", graph.constant(values), rows, axis=0)
            groups.append(graph.add("ReduceMean", of_trees, axes=[1], keepdims=0))
        return groups

    def _ensemble(self, matrix: str, columns_of: NDArray[np.int64]) -> str:
        """Return the number of the leaf in each tree, as float32."""
        trees = self.forest.trees
        n_codes = 0 if self.forest.is_adaptive else self.forest.n_codes
        how: dict[str, list[Any]] = {}
        for t, tree in enumerate(trees):
            if len(tree.values) > MOST_LEAVES:
                raise ValueError(
                    f"tree {t} has {len(tree.values)} leaves; ONNX distinguishes {MOST_LEAVES}: "
                    "fit a forest with max_nodes"
                )
            n, is_leaf = len(tree.feature), tree.feature < 0
            is_category = ~is_leaf & (tree.feature < n_codes)
            left, right = np.where(is_leaf, 0, tree.left), np.where(is_leaf, 0, tree.right)
            modes = np.where(is_leaf, "LEAF", np.where(is_category, "BRANCH_EQ", "BRANCH_LEQ"))
            own = {
                "nodes_treeids": np.full(n, t),
                "nodes_nodeids": np.arange(n),
                "nodes_featureids": np.where(is_leaf, 0, columns_of[t][tree.feature]),
                "nodes_values": tree.threshold,
                "nodes_modes": modes,
                # A category with the code of the split goes right, so there right is true.
                "nodes_truenodeids": np.where(is_category, right, left),
                "nodes_falsenodeids": np.where(is_category, left, right),
                "nodes_missing_value_tracks_true": np.where(
                    is_leaf, 0, tree.missing_goes_right == is_category
                ),
                "target_treeids": np.full(is_leaf.sum(), t),
                "target_nodeids": np.flatnonzero(is_leaf),
                "target_ids": np.full(is_leaf.sum(), t),
                "target_weights": tree.leaf[is_leaf].astype(np.float32),
            }
            for name, values in own.items():
                how.setdefault(name, []).extend(values.tolist())
        return self.graph.add(
            "TreeEnsembleRegressor",
            matrix,
            domain="ai.onnx.ml",
            n_targets=len(trees),
            aggregate_function="SUM",
            post_transform="NONE",
            **how,
        )

    # Mixers

    def _mix_classes(self, groups: list[str]) -> str:
        """Return p(k) ~ exp(Σ_g u_g log((1 - ε) p_g(k) + ε / K)), before it is normalised."""
        graph, weights = self.graph, self.forest.group_weights
        assert weights is not None
        assert self.forest.classes is not None
        scale = graph.constant(1 - SMOOTHING)
        floor = graph.constant(SMOOTHING / len(self.forest.classes))
        terms = []
        for group, weight in zip(groups, weights.tolist(), strict=True):
            smooth = graph.add("Add", graph.add("Mul", group, scale), floor)
            terms.append(graph.add("Mul", graph.add("Log", smooth), graph.constant(weight)))
        total = terms[0] if len(terms) == 1 else graph.add("Sum", *terms)
        return graph.add("Softmax", total, axis=1)

    def _add_bases(
        self, groups: list[str], matrix: str, columns_of: NDArray[np.int64]
    ) -> list[str]:
        """Return the mean of each group, (rows, 1), of trees on linear bases."""
        graph, bases = self.graph, self.forest.bases or []
        means = []
        for g, of_trees in enumerate(groups):
            own = list(enumerate(bases))[self.forest.group(g)]
            sums = of_trees
            if any(len(base.columns) or base.intercept for _, base in own):
                of_bases = [self._base(matrix, columns_of[t], base) for t, base in own]
                sums = graph.add("Add", of_trees, graph.concat(of_bases))
            means.append(graph.add("ReduceMean", sums, axes=[1], keepdims=1))
        return means

    def _base(self, matrix: str, columns: NDArray[np.int64], base: LinearBase) -> str:
        graph = self.graph
        ones = np.ones(len(base.columns))
        x = graph.columns(matrix, columns[base.columns])
        z = self._standardise(x, base.center, ones, base.lower, base.upper)
        sums = graph.add("MatMul", z, graph.constant(base.slope[:, None]))
        return graph.add("Add", sums, graph.constant([[base.intercept]]))

    def _standardise(self, x: str, center: Any, scale: Any, lower: Any, upper: Any) -> str:
        """Return (clip(x) - center) scale, and 0 where x is missing."""
        graph = self.graph
        is_missing, x = graph.add("IsNaN", x), graph.cast(x, "double")
        x = graph.add("Where", is_missing, graph.constant(center[None]), x)
        x = graph.add(
            "Min", graph.add("Max", x, graph.constant(lower[None])), graph.constant(upper[None])
        )
        z = graph.add(
            "Mul", graph.add("Sub", x, graph.constant(center[None])), graph.constant(scale[None])
        )
        return graph.add("Where", is_missing, graph.constant(0.0), z)

    def _experts(self, means: list[str], numbers: str | None) -> list[str]:
        """Return the predictions of linear experts, (rows, 3), and the mean of all labels."""
        graph, experts = self.graph, self.forest.experts
        assert experts is not None
        zero = graph.add("Mul", means[0], graph.constant(0.0))  # of each row
        linear = graph.add("Add", zero, graph.constant(experts.intercepts[None]))
        if numbers is not None:
            x = graph.columns(numbers, np.arange(len(experts.center)))
            bounds = experts.lower, experts.upper
            z = self._standardise(x, experts.center, experts.scale, *bounds)
            of_slopes = graph.add("MatMul", z, graph.constant(experts.slopes.T))
            linear = graph.add("Add", linear, of_slopes)
        return [linear, graph.add("Add", zero, graph.constant(experts.mean))]

    def _mix_numbers(self, means: list[str], mixer: NumberMixer) -> str:
        """Return the mean of two levels: see number_mixer.hpp."""
        graph = self.graph
        experts = graph.concat(means)
        first = self._least_squares(experts, mixer.first)
        if mixer.shared is None or mixer.second is None:
            return first
        start = graph.columns(experts, np.array([0]))
        distances = graph.add("Sub", experts, start)
        moved = graph.add("MatMul", distances, graph.constant(mixer.shared[:, None]))
        shared = graph.add("Add", start, moved)
        return self._least_squares(graph.concat([first, shared, means[-1]]), mixer.second)

    def _least_squares(self, means: str, weights: Floats) -> str:
        """Return m + Σ u_g (m_g - m), clipped: see least_squares_mixer.hpp."""
        graph = self.graph
        center, lower, upper = (
            graph.add(operator, means, axes=[1], keepdims=1)
            for operator in ("ReduceMean", "ReduceMin", "ReduceMax")
        )
        distances = graph.add("Sub", means, center)
        moved = graph.add("MatMul", distances, graph.constant(weights[:, None]))
        margin = graph.add("Mul", graph.add("Sub", upper, lower), graph.constant(0.5))
        mixed = graph.add("Max", graph.add("Add", center, moved), graph.add("Sub", lower, margin))
        return graph.add("Min", mixed, graph.add("Add", upper, margin))

    # Outputs

    def _classifier(self, probabilities: str) -> None:
        graph, forest = self.graph, self.forest
        classes = forest.classes
        assert classes is not None
        if forest.threshold is not None and len(classes) == 2:
            second = graph.add("Gather", probabilities, graph.constant(1, np.int64), axis=1)
            limit = graph.constant(float(forest.threshold))
            best = graph.cast(graph.add("GreaterOrEqual", second, limit), "int64")
        else:
            best = graph.add("ArgMax", probabilities, axis=1, keepdims=0)
        kind = _LABEL_KINDS[classes.dtype.kind]
        if classes.dtype.kind == "O" and not all(isinstance(c, str) for c in classes.tolist()):
            raise ValueError(
                f"the classes are {classes.tolist()}; ONNX has labels that are all text or all "
                "numbers"
            )
        of_kind = {"int64": np.int64, "double": np.float64}.get(kind)
        labels = graph.add("Gather", graph.constant(classes, of_kind), best, axis=0)
        graph.output(labels, "label", kind, [None])
        single = graph.cast(probabilities, "float")
        graph.output(single, "probabilities", "float", [None, len(classes)])

    def _regressor(self, mean: str) -> None:
        self.graph.output(mean, "variable", "double", [None, 1])


def _input_name(feature: Feature, j: int) -> str:
    return f"X{j}" if feature.name is None else str(feature.name)


def _kind_of(feature: Feature, name: str) -> str:
    """Return the type of an input of categories."""
    known: list[Any] = feature.categories or []
    types = {type(value) for value in known}
    if types <= {str}:
        return "string"
    if types == {int} and all(abs(value) < 2**63 for value in known):
        return "int64"
    if types == {float} and all(float(np.float32(value)) == value for value in known):
        return "float"
    raise ValueError(
        f"the categories of {name} are of the types {sorted(t.__name__ for t in types)}; ONNX has "
        "categories that are all text, all int, or all numbers of float32: convert them to text "
        "before you fit"
    )
