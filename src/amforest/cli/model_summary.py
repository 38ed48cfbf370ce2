"""``amforest inspect``: a saved model, its features and its trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.tree import Tree

from amforest.cli.console import CommandError
from amforest.inspection import SplitWords, count_trees, learns_residuals
from amforest.model_io import atomic_write, model_file
from amforest.reading import Scheme

MOST_CLASSES, MOST_FEATURES = 20, 30


@dataclass(frozen=True)
class FeatureUse:
    """The splits on one feature, in all trees of the forest.

    Attributes
    ----------
    name : str
    n_splits : int
    first_depth : int or None
        The least depth of a split.
    mean_depth : float or None
    reach : float
        The number of splits on it on the path of a row down a tree, averaged over the rows that the
        trees hold.
    """

    name: str
    n_splits: int
    first_depth: int | None
    mean_depth: float | None
    reach: float


def summarize_features(model: Any) -> list[FeatureUse]:
    """Return the use of each feature of a fitted forest, by falling reach."""
    n_features = len(model.is_categorical_)
    n_splits, depths, weights = np.zeros((3, n_features))
    first, total = np.full(n_features, np.inf), 0.0
    for i in range(count_trees(model)):
        table = model.tree_table(i)
        inner = table[table["left"] >= 0]
        features, depth = inner["feature"], inner["depth"]
        n_splits += np.bincount(features, minlength=n_features)
        depths += np.bincount(features, depth, minlength=n_features)
        weights += np.bincount(features, inner["n_samples"], minlength=n_features)
        np.minimum.at(first, features, depth)
        total += float(table["n_samples"][0])
    uses = [
        FeatureUse(
            str(name),
            int(n_splits[j]),
            int(first[j]) if n_splits[j] else None,
            float(depths[j] / n_splits[j]) if n_splits[j] else None,
            float(weights[j] / total),
        )
        for j, name in enumerate(_feature_names(model))
    ]
    return sorted(uses, key=lambda use: -use.reach)


def summarize_memories(model: Any) -> list[dict[str, Any]]:
    """Return what the mixer of a fitted adaptive forest combines: names, weights and regrows.

    The number of regrows is None for a linear regression, which has no trees.
    """
    regrows = model.stats()["regrows"]
    columns = model.memory_names_, model.memory_weights_.tolist()
    return [
        {"memory": name, "weight": weight, "regrows": regrows.get(name)}
        for name, weight in zip(*columns, strict=True)
    ]


def _feature_names(model: Any) -> Any:
    return getattr(model, "feature_names_", range(len(model.is_categorical_)))


def load_forest(path: str) -> tuple[Any, Any]:
    """Load a model, as an estimator of scikit-learn, and the state saved with it."""
    data = atomic_write.read_all(path)
    model = model_file.from_bytes(data)
    to_sklearn = getattr(model, "to_sklearn", None)
    return (model if to_sklearn is None else to_sklearn()), model_file.extra_of(data)


def describe_model(model: Any, extra: Any) -> dict[str, Any]:
    """Return a description of a model in values of JSON."""
    params = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    described: dict[str, Any] = {"model": type(model).__name__, "parameters": params}
    hidden = "rejected_rows", "regrows"  # not saved; listed with the memories
    described |= {name: v for name, v in model.stats().items() if name not in hidden}
    if isinstance(extra, dict) and isinstance(extra.get("scheme"), dict):
        described["target"] = extra["scheme"].get("target")
    if not model.__sklearn_is_fitted__():
        return described
    described["trees"] = count_trees(model)
    if hasattr(model, "classes_"):
        described["classes"] = [_plain(label) for label in model.classes_.tolist()]
    if model.is_adaptive:
        described["memories"] = summarize_memories(model)
    described["features"] = [vars(use) for use in summarize_features(model)]
    return described


def show_model(described: dict[str, Any], console: Console) -> None:
    """Print a description."""
    console.print(_facts(described))
    if described.get("memories"):
        console.print(_memories_table(described["memories"]))
    if described.get("features"):
        console.print(_features_table(described["features"]))


def _facts(described: dict[str, Any]) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    params = described["parameters"]
    table.add_row("model", described["model"])
    for name in ("target", "samples", "remembered_rows", "trees", "nodes", "depth"):
        if described.get(name) is not None:
            value, words = described[name], name.replace("_", " ")
            table.add_row(words, f"{value:,}" if isinstance(value, int) else str(value))
    table.add_row("size", f"{described['bytes'] / 1e6:,.1f} MB")
    if described["progressive_loss"] is not None:
        table.add_row("progressive loss", f"{described['progressive_loss']:.4g}")
    if (classes := described.get("classes")) is not None:
        more = f" and {len(classes) - MOST_CLASSES} more" if len(classes) > MOST_CLASSES else ""
        table.add_row("classes", ", ".join(map(str, classes[:MOST_CLASSES])) + more)
    table.add_row("parameters", ", ".join(f"{k}={v!r}" for k, v in params.items() if v is not None))
    return table


def _memories_table(memories: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("memory")
    for name in ("weight", "regrows"):
        table.add_column(name, justify="right")
    for row in memories:
        regrows = "" if row["regrows"] is None else f"{row['regrows']:,}"
        table.add_row(row["memory"], f"{row['weight']:.3f}", regrows)
    return table


def _features_table(uses: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("feature")
    for name in ("splits", "first depth", "mean depth", "splits per path"):
        table.add_column(name, justify="right")
    for use in uses[:MOST_FEATURES]:
        depth = "" if use["mean_depth"] is None else f"{use['mean_depth']:.1f}"
        first = "" if use["first_depth"] is None else str(use["first_depth"])
        table.add_row(use["name"], f"{use['n_splits']:,}", first, depth, f"{use['reach']:.2f}")
    n_more = len(uses) - MOST_FEATURES
    return Group(table, f"and {n_more} more features") if n_more > 0 else table


def build_tree(model: Any, number: int, max_depth: int, extra: Any = None) -> Tree:
    """Return a tree for printing, down to some depth; `extra` is the state saved with the model."""
    if not model.__sklearn_is_fitted__():
        raise CommandError("the model has learned nothing yet: it has no trees")
    n_trees = count_trees(model)
    if not 0 <= number < n_trees:
        raise CommandError(f"--tree is {number}; the model has trees 0 to {n_trees - 1}")
    table, splits = model.tree_table(number), SplitWords(model, number, _to_raw(extra))
    memory = ""
    if model.is_adaptive:  # the trees of a memory follow each other
        memory = f"memory {model.memory_names_[number // model.n_estimators]}: "
    mean = "mean residual" if learns_residuals(model, number) else "mean"
    root = Tree(memory + _node(table, 0, mean))
    stack = [(0, root)]
    while stack:
        row, branch = stack.pop()
        if table["left"][row] < 0:
            continue
        if table["depth"][row] >= max_depth:
            branch.add("…")
            continue
        for words, child in zip(splits.sides(table[row]), ("left", "right"), strict=True):
            below = int(table[child][row])
            stack.append((below, branch.add(f"{words}: {_node(table, below, mean)}")))
    return root


def draw_tree(model: Any, number: int, max_depth: int, path: str, extra: Any = None) -> None:
    """Draw a tree to an image file."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # slow to import

    from amforest.plotting import plot_tree  # noqa: PLC0415

    figure = Figure(figsize=(9, 6), layout="constrained")
    plot_tree(model, number, max_depth=max_depth, to_raw=_to_raw(extra), ax=figure.subplots())
    figure.savefig(path, dpi=150)


def _node(table: Any, row: int, mean: str) -> str:
    n = f"{table['n_samples'][row]:g} samples"
    if "mean" in table.dtype.names:
        return f"{n}, {mean} {table['mean'][row]:.4g}"
    counts = table["counts"][row]
    return f"{n}, counts {' '.join(f'{c:g}' for c in counts[:MOST_CLASSES])}"


def _to_raw(extra: Any) -> Callable[[int, float], float] | None:
    """Return what converts thresholds to the units of the stream, if its numbers were scaled."""
    if not isinstance(extra, dict) or "scheme" not in extra:
        return None
    scale = Scheme.from_json(extra["scheme"]).scale
    return None if scale is None else scale.restore  # numbers are the first features


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
