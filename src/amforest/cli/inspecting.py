"""``amforest inspect``: what a saved model is, and what its trees look like."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.tree import Tree

from amforest.cli.errors import CommandError
from amforest.cli.features import feature_uses
from amforest.inspection import count_trees
from amforest.model_io import atomic_write, model_file

MOST_CLASSES, MOST_FEATURES = 20, 30


def load_forest(path: str) -> tuple[Any, Any]:
    """Return a saved model, as the estimator of scikit-learn, and what belongs to it."""
    data = atomic_write.read_all(path)
    model = model_file.from_bytes(data)
    to_sklearn = getattr(model, "to_sklearn", None)
    return (model if to_sklearn is None else to_sklearn()), model_file.extra_of(data)


def description(model: Any, extra: Any) -> dict[str, Any]:
    """Return what there is to say of a model in values of JSON."""
    params = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    described: dict[str, Any] = {"model": type(model).__name__, "parameters": params}
    described |= {name: v for name, v in model.stats().items() if name != "rejected_rows"}
    if isinstance(extra, dict) and isinstance(extra.get("scheme"), dict):
        described["target"] = extra["scheme"].get("target")
    if not model.__sklearn_is_fitted__():
        return described
    described["trees"] = count_trees(model)
    if hasattr(model, "classes_"):
        described["classes"] = [_plain(label) for label in model.classes_.tolist()]
    described["features"] = [vars(use) for use in feature_uses(model)]
    return described


def show(described: dict[str, Any], console: Console) -> None:
    """Print a description."""
    console.print(_facts(described))
    if described.get("features"):
        console.print(_features(described["features"]))


def _facts(described: dict[str, Any]) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    params = described["parameters"]
    table.add_row("model", described["model"])
    for name in ("target", "samples", "trees", "nodes", "depth"):
        if described.get(name) is not None:
            value = described[name]
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    table.add_row("memory", f"{described['bytes'] / 1e6:,.1f} MB")
    if described["progressive_loss"] is not None:
        table.add_row("progressive loss", f"{described['progressive_loss']:.4g}")
    if (classes := described.get("classes")) is not None:
        more = f" and {len(classes) - MOST_CLASSES} more" if len(classes) > MOST_CLASSES else ""
        table.add_row("classes", ", ".join(map(str, classes[:MOST_CLASSES])) + more)
    table.add_row("parameters", ", ".join(f"{k}={v!r}" for k, v in params.items() if v is not None))
    return table


def _features(uses: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("feature")
    for name in ("splits", "first depth", "mean depth", "splits a row meets"):
        table.add_column(name, justify="right")
    for use in uses[:MOST_FEATURES]:
        depth = "" if use["mean_depth"] is None else f"{use['mean_depth']:.1f}"
        first = "" if use["first_depth"] is None else str(use["first_depth"])
        table.add_row(use["name"], f"{use['n_splits']:,}", first, depth, f"{use['reach']:.2f}")
    left = len(uses) - MOST_FEATURES
    return Group(table, f"and {left} more features") if left > 0 else table


def tree_of(model: Any, number: int, max_depth: int) -> Tree:
    """Return a tree to be printed, down to some depth."""
    if not model.__sklearn_is_fitted__():
        raise CommandError("the model has learnt nothing yet: it has no trees")
    n_trees = count_trees(model)
    if not 0 <= number < n_trees:
        raise CommandError(f"--tree is {number}; the model has trees 0 to {n_trees - 1}")
    table = model.tree_table(number)
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    root = Tree(_node(table, 0))
    waiting = [(0, root)]
    while waiting:
        row, branch = waiting.pop()
        if table["left"][row] < 0:
            continue
        if table["depth"][row] >= max_depth:
            branch.add("…")
            continue
        for words, child in zip(_sides(model, table, row, names), ("left", "right"), strict=True):
            below = int(table[child][row])
            waiting.append((below, branch.add(f"{words}: {_node(table, below)}")))
    return root


def draw(model: Any, number: int, max_depth: int, path: str) -> None:
    """Draw a tree to a picture."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # slow to import

    from amforest.plotting import plot_tree  # noqa: PLC0415

    figure = Figure(figsize=(9, 6), layout="constrained")
    plot_tree(model, number, max_depth=max_depth, ax=figure.subplots())
    figure.savefig(path, dpi=150)


def _node(table: Any, row: int) -> str:
    n = f"{table['n_samples'][row]:g} samples"
    if "mean" in table.dtype.names:
        return f"{n}, mean {table['mean'][row]:.4g}"
    counts = table["counts"][row]
    return f"{n}, counts {' '.join(f'{c:g}' for c in counts[:MOST_CLASSES])}"


def _sides(model: Any, table: Any, row: int, names: Any) -> tuple[str, str]:
    feature = int(table["feature"][row])
    name = names[feature]
    if "category" in table.dtype.names and table["category"][row] >= 0:
        value = list(model.categories_[name])[int(table["category"][row])]
        return f"{name} is not {value}", f"{name} is {value}"
    threshold = f"{table['threshold'][row]:.4g}"
    return f"{name} ≤ {threshold}", f"{name} > {threshold}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
