"""``amforest compare``: both forests, simple models and models of river on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from rich.console import Console
from rich.status import Status
from rich.table import Table
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB

from amforest.baselines import OnlineDummyClassifier, OnlineDummyRegressor
from amforest.cli.console import CommandError, Notes
from amforest.cli.model_choice import infer_model
from amforest.cli.run import NUMBER_METRICS
from amforest.cli.run_baselines import hash_categories, stack_numbers
from amforest.cli.settings import ADAPTIVE, AMF, ROWS_PER_BLOCK, Settings, open_source
from amforest.evaluation import Progress, progressive_validation
from amforest.reading import CLASSIFICATION, Scheme

SKLEARN_ROWS = 100  # the batch of models of scikit-learn, which take as long for a single row
ROWS_PER_CHECK = 100  # rows between two checks of the time budget
Convert = Callable[[Scheme, Any], Any]  # from a table of features to those that a model takes


@dataclass
class Budget:
    """The time that a model may take to predict and learn."""

    seconds: float | None
    is_over: bool = False

    def limit(self, batches: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Yield batches until the time is over; that of reading them does not count."""
        used = 0.0
        for i, batch in enumerate(batches):
            if i > 0 and self.seconds is not None and used >= self.seconds:
                self.is_over = True
                return
            start = time.monotonic()
            yield batch
            used += time.monotonic() - start


@dataclass(frozen=True)
class Comparison:
    """The results by model, and the models whose time was over before their last row."""

    results: dict[str, Progress]
    stopped: list[str]
    seconds: float | None


def compare(
    settings: Settings,
    console: Console,
    *,
    max_rows: int | None = None,
    seconds: float | None = None,
) -> Comparison:
    """Test, then train each model on the same rows, each for at most some seconds."""
    if "-" in settings.source:
        raise CommandError("standard input can be read only once: compare needs files")
    notes = Notes(console)
    forests = _forests(settings)
    _, scheme = forests["AMF"]  # others need scaled numbers, too
    others = _others(scheme.task)
    models: dict[str, tuple[Any, Scheme, Convert]]
    models = {name: (model, own, _table) for name, (model, own) in forests.items()}
    models |= {name: (model, scheme, convert) for name, (model, convert) in others.items()}
    compared = Comparison({}, [], seconds)
    results, classes = compared.results, None
    n_rows = ROWS_PER_BLOCK if seconds is None else ROWS_PER_CHECK
    for name, (model, own, convert) in models.items():
        if name not in forests:
            _check_classes(scheme, classes, results)
        budget, is_sklearn = Budget(seconds), type(model).__module__.startswith("sklearn")
        with console.status(f"{name} …") as shown, np.errstate(all="ignore"):
            results[name] = progressive_validation(
                model,
                budget.limit(_batches(settings, own, convert, n_rows, notes)),
                metrics=None if scheme.task == CLASSIFICATION else NUMBER_METRICS,
                classes=None if name in forests else classes,
                batch_size=SKLEARN_ROWS if is_sklearn else n_rows,
                max_rows=max_rows,
                unknown_classes="skip",
                progress=partial(_show_rows, shown, name),
            )
        if budget.is_over:
            compared.stopped.append(name)
        if name in forests:
            classes = results[name].classes  # which models of scikit-learn need before the start
        if results[name].interrupted:
            break
    return compared


def _check_classes(scheme: Scheme, classes: Any, results: dict[str, Progress]) -> None:
    """Refuse labels that are all the same, which models of scikit-learn cannot learn."""
    if classes is None or len(classes) > 1:
        return
    rows = _count_rows(max(result.n_rows for result in results.values()))
    raise CommandError(
        f"--target is {scheme.target!r}, which has a single class in the {rows} that were read, "
        "and compare needs at least two: give more rows, or another target"
    )


def _count_rows(n_rows: int) -> str:
    return f"{n_rows:,} row{'s' * (n_rows != 1)}"


def _show_rows(shown: Status, name: str, progress: Progress) -> None:
    """Show how many rows a model has learned."""
    shown.update(f"{name}: {progress.n_rows:,} rows, {progress.seconds:.1f} s")


def _forests(settings: Settings) -> dict[str, tuple[Any, Scheme]]:
    """Return our forests, each with its scheme."""
    families = {"adaptive": ADAPTIVE, "AMF": AMF}
    return {name: infer_model(replace(settings, model=family)) for name, family in families.items()}


def _others(task: str) -> dict[str, tuple[Any, Convert]]:
    is_class = task == CLASSIFICATION
    others: dict[str, tuple[Any, Convert]] = {}
    if is_class:
        others["dummy"] = OnlineDummyClassifier(), _matrix
        sgd = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1, random_state=0)
        others["SGD"] = sgd, _matrix  # the learning rate of the paper
        others["naive Bayes"] = GaussianNB(), _matrix
    else:
        others["dummy"] = OnlineDummyRegressor(), _matrix
        others["SGD"] = SGDRegressor(random_state=0), _matrix
    if find_spec("river") is not None:
        from river import forest, tree  # noqa: PLC0415  # slow to import

        if is_class:
            others["Hoeffding tree"] = tree.HoeffdingTreeClassifier(), _dicts
            others["ARF"] = forest.ARFClassifier(seed=0), _dicts
        else:  # other leaves do not work with categories
            leaves: dict[str, Any] = {"leaf_prediction": "mean"}
            others["Hoeffding tree"] = tree.HoeffdingTreeRegressor(**leaves), _dicts
            others["ARF"] = forest.ARFRegressor(seed=0, **leaves), _dicts
    return others


def _batches(
    settings: Settings, scheme: Scheme, convert: Convert, n_rows: int, notes: Notes
) -> Iterator[tuple[Any, Any]]:
    """Read the stream from its beginning, so many rows at a time."""
    scheme = scheme.restarted()
    with open_source(settings, scheme.kinds) as stream:
        for batch in stream:
            notes.show(stream.notes)
            for piece in batch.pieces(n_rows):
                if len(piece):
                    table = scheme.features(piece.X, piece.file)
                    yield convert(scheme, table), scheme.labels(piece.y)


def _table(scheme: Scheme, table: Any) -> Any:
    return table


def _matrix(scheme: Scheme, table: Any) -> Any:
    """Return numbers, 0 where they are missing, and hashed categories."""
    numbers = np.nan_to_num(stack_numbers(scheme, table))
    return np.hstack([numbers, hash_categories(scheme, table)])


def _dicts(scheme: Scheme, table: Any) -> Any:
    return [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


def show_comparison(compared: Comparison, console: Console) -> None:
    """Print a table with a row for each model."""
    results = compared.results
    first = max(results.values(), key=lambda result: result.n_rows)
    table = Table(
        title=f"Test-then-train over {_count_rows(first.n_rows)}",
        title_justify="left",
        caption=_caption(compared),
    )
    table.add_column("")
    for name in first.metrics:
        table.add_column(name, justify="right")
    table.add_column("rows/s", justify="right")
    if compared.stopped:
        table.add_column("rows", justify="right")
    for name, result in results.items():
        values = [f"{result.metrics.get(metric, np.nan):.4g}" for metric in first.metrics]
        values.append(f"{result.n_rows / max(result.seconds, 1e-9):,.0f}")
        if compared.stopped:
            values.append(f"{result.n_rows:,}" + "*" * (name in compared.stopped))
        table.add_row(name, *values)
    console.print(table)


def _caption(compared: Comparison) -> str | None:
    lines = []
    if compared.stopped:
        lines.append(f"* stopped after {compared.seconds:g} s: its figures are for fewer rows")
    if batched := [name for name in ("SGD", "naive Bayes") if name in compared.results]:
        lines.append(f"{' and '.join(batched)} learned {SKLEARN_ROWS} rows at a time")
    return "\n".join(lines) or None


def draw_comparison(results: dict[str, Progress], path: str) -> None:
    """Draw the progress of all models to an image file."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # slow to import

    from amforest.plotting import plot_progress  # noqa: PLC0415

    metrics = list(next(iter(results.values())).metrics)
    figure = Figure(figsize=(5 * len(metrics), 4.5), layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    plot_progress(results, metrics, ax=panels)
    inside = panels[0].get_legend()  # where it would hide curves
    handles, labels = inside.legend_handles, [text.get_text() for text in inside.get_texts()]
    inside.remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=150)
