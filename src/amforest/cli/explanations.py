"""``amforest explain``: what features contribute to the predictions of a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from rich.console import Console
from sklearn.base import is_classifier

from amforest.cli.console import CommandError, Notes, Status, choose_view
from amforest.cli.outputs import check_distinct, check_file, list_inputs
from amforest.cli.prediction_rows import ids_of
from amforest.cli.reject_summary import RejectSummary
from amforest.cli.row_file import FORMATS, PARQUET, ParquetRowFile, RowFile, RowWriter, is_parquet
from amforest.cli.saved_model import load_with_scheme
from amforest.cli.settings import ROWS_PER_BLOCK, find_source
from amforest.inspection import Explanation
from amforest.inspection.terms import describe_output, list_terms, select_output
from amforest.reading import Batch, Scheme, open_stream
from amforest.reading.sources import suggest

IMAGES = (".png", ".svg", ".pdf", ".jpg")
MOST_DRAWN = 2_000  # rows of a plot
WIDTH, INCHES = 8.0, 0.38  # of a plot, and for each of its lines


@dataclass(frozen=True)
class Wanted:
    """What `explain` is to write.

    Attributes
    ----------
    output : str or None
        A file of contributions; ``-`` is standard output.
    top : int or None
        Print a list of so many features for each row.
    plot : str or None
        An image file.
    row : int or None
        Only this row; the first is 1.
    label : str or None
        The class whose prediction is explained.
    id_column : str or None
        A column of the stream that is passed through.
    """

    output: str | None
    top: int | None
    plot: str | None
    row: int | None
    label: str | None
    id_column: str | None

    def __post_init__(self) -> None:
        """Refuse files that cannot be written, before the first row is read."""
        if self.output != "-":
            check_file("--output", self.output)
        check_file("--plot", self.plot)
        if self.plot is not None and Path(self.plot).suffix.lower() not in IMAGES:
            raise CommandError(f"--plot is {self.plot}; the name must end in {', '.join(IMAGES)}")


def explain(
    path: str,
    source: list[str],
    wanted: Wanted,
    *,
    reading: dict[str, Any],
    console: Console,
    listing: Console,
    quiet: bool,
) -> int:
    """Explain the prediction of each row that can be read; return their number.

    Parameters
    ----------
    path : str
        A model file.
    source : list of str
    wanted : Wanted
    reading : dict
        Options of `open_stream`.
    console, listing : Console
        For the progress, and for the list of features.
    quiet : bool
    """
    inputs = [path, *list_inputs(source, reading.get("format"))]
    check_distinct(inputs, {"--output": wanted.output, "--plot": wanted.plot})
    model, _, scheme = load_with_scheme(path)
    if scheme.key is not None:
        raise CommandError(
            f"{path} holds a model for each {scheme.key!r}, and explain needs one of them: "
            "save it with KeyedForests.load(…).model(key).save(…)"
        )
    label = None if wanted.label is None else _find_class(model, wanted.label)
    kinds = {name: kind for name, kind in scheme.kinds.items() if name != scheme.target}
    features = list(kinds)
    if wanted.id_column is not None:
        kinds.setdefault(wanted.id_column, "category")
    stream = open_stream(
        find_source(source), types=kinds, columns=list(kinds), may_be_absent=features, **reading
    )
    status, rejects, notes = Status(), RejectSummary(), Notes(console)
    with ExitStack() as stack:
        stack.enter_context(stream)
        notes.show(stream.notes)
        outputs = _open_outputs(model, wanted, listing, stack)
        view = stack.enter_context(choose_view(console, "Explaining", quiet=quiet))
        for batch in stream:
            rejects.add(batch.rejects)
            for piece in batch.pieces(ROWS_PER_BLOCK):
                first = status.rows + 1
                status = replace(status, rows=status.rows + len(piece))
                part = _select(piece, first, wanted.row)
                if part is None:
                    continue
                some = _explain(*(model, scheme, *part), label=label, id_column=wanted.id_column)
                for one in outputs:
                    one.add(some)
            read, total = stream.bytes_read, stream.bytes_total
            status = replace(status, bytes_read=read, bytes_total=total)
            view.show(replace(status, rejected=stream.n_rejected))
        rejects.check_not_all(status.rows)
        if wanted.row is not None and wanted.row > status.rows:
            raise CommandError(f"--row is {wanted.row}; there are {status.rows:,} rows")
    for one in outputs:
        one.finish()
    notes.show(stream.notes)
    rejects.show(console)
    return status.rows


class Output(Protocol):
    """What gets the contributions."""

    def add(self, some: Explained) -> None:
        """Take some rows."""

    def finish(self) -> None:
        """End, after the last row."""


def _open_outputs(model: Any, wanted: Wanted, listing: Console, stack: ExitStack) -> list[Output]:
    """Return the outputs; their files are closed with the stack, also after an error."""
    outputs: list[Output] = []
    if wanted.output is not None:
        names, id_column = model.feature_names_.tolist(), wanted.id_column
        how = {"has_classes": is_classifier(model), "id_column": id_column}
        file = ContributionFile(wanted.output, names, **how)
        stack.callback(file.close)
        outputs.append(file)
    if wanted.top is not None:
        outputs.append(ContributionList(listing, wanted.top))
    if wanted.plot is not None:
        outputs.append(ContributionPlot(wanted.plot))
    return outputs


@dataclass(frozen=True)
class Explained:
    """Some rows: the number of the first, what explains them, and their IDs."""

    first: int
    explanation: Explanation
    ids: list[str | None] | None
    label: Any

    def rows(self) -> Iterator[tuple[int, Explanation]]:
        """Yield the number of each row, and its contributions to one class or to a number."""
        for i in range(len(self.explanation)):
            yield self.first + i, select_output(self.explanation[i], self.label)


def _select(piece: Batch, first: int, row: int | None) -> tuple[Batch, int] | None:
    """Return the rows to explain, and the number of the first; None if there are none."""
    if row is None:
        return (piece, first) if len(piece) else None
    i = row - first
    return (piece.slice(i, i + 1), row) if 0 <= i < len(piece) else None


def _explain(
    model: Any, scheme: Scheme, piece: Batch, first: int, *, label: Any, id_column: str | None
) -> Explained:
    explanation = model.explain(scheme.features(piece.X, piece.file, learn=False))
    if scheme.scale is not None:  # show values as they were read
        columns = [piece.X.column(name).to_pylist() for name in explanation.feature_names]
        data = np.empty(explanation.data.shape, dtype=object)
        for j, column in enumerate(columns):
            data[:, j] = column
        explanation = replace(explanation, data=data)
    return Explained(first, explanation, ids_of(piece, id_column) if id_column else None, label)


def _find_class(model: Any, words: str) -> Any:
    """Return the class of this name, if the model explains it."""
    if not is_classifier(model):
        raise CommandError(f"--class is {words}, but the model predicts numbers: drop --class")
    labels = {str(label): label for label in model.classes_.tolist()}
    if words not in labels:
        raise CommandError(
            f"--class is {words!r}, which is not a class; {suggest(words, list(labels))}"
        )
    if model.is_adaptive and len(labels) == 2 and words == next(iter(labels)):
        other = list(labels)[1]
        raise CommandError(
            f"--class is {words!r}, but the log-odds of {other!r} are explained, and "
            f"those of {words!r} are their negatives: drop --class"
        )
    return labels[words]


# Outputs


class ContributionFile:
    """A file with a row for each prediction, and a column for each feature.

    Parameters
    ----------
    path : str
        ``-`` is standard output.
    names : list of str
        The features.
    has_classes : bool
    id_column : str or None
    """

    def __init__(
        self, path: str, names: list[str], *, has_classes: bool, id_column: str | None
    ) -> None:
        numbers = pa.float64()
        columns = [("row", pa.int64())]
        columns += [(id_column, pa.string())] if id_column is not None else []
        columns += [("class", pa.string())] if has_classes else []
        columns += [("base", numbers), *((f"contribution_{name}", numbers) for name in names)]
        columns.append(("prediction", numbers))
        self._has_classes, kinds = has_classes, dict(columns)
        if len(kinds) < len(columns):
            raise CommandError(
                f"--id-column is {id_column!r}, which is the name of a column of contributions; "
                "rename it"
            )
        self._file: RowWriter = (
            ParquetRowFile(path, kinds)
            if is_parquet(path)
            else RowFile(path, list(kinds), endings=(*FORMATS, PARQUET))
        )

    def add(self, some: Explained) -> None:
        """Write some rows."""
        self._file.write(self._values(some))

    def _values(self, some: Explained) -> Iterator[tuple[Any, ...]]:
        for i, (row, one) in enumerate(some.rows()):
            base, values = float(one.base_values), one.values.tolist()
            own = () if some.ids is None else (some.ids[i],)
            names = (str(one.output_names),) if self._has_classes else ()
            yield row, *own, *names, base, *values, base + float(one.values.sum())

    def finish(self) -> None:
        """Do nothing: everything is written."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ContributionList:
    """A list of the largest contributions to each prediction, for people.

    Parameters
    ----------
    console : Console
    n_features : int
        How many features are listed; the rest are summed.
    """

    def __init__(self, console: Console, n_features: int) -> None:
        self._n_features = n_features
        self._print: Callable[[str], None] = lambda line: console.print(
            line, highlight=False, markup=False, soft_wrap=True
        )

    def add(self, some: Explained) -> None:
        """Print some rows."""
        for i, (row, one) in enumerate(some.rows()):
            sums = list_terms(one, self._n_features)
            of_id = "" if some.ids is None else f" ({some.ids[i]})"
            self._print(f"row {row:,}{of_id}: {describe_output(one)} {sums.prediction:.4g}")
            lines = [("base value", f"{sums.base:.4g}")]
            lines += [(term.words, f"{term.value:+.4g}") for term in sums.terms]
            width = max(len(words) for words, _ in lines)
            for words, value in lines:
                self._print(f"  {words:{width}}  {value:>10}")

    def finish(self) -> None:
        """Do nothing: everything is printed."""


class ContributionPlot:
    """A picture: a waterfall of one row, or a swarm of many.

    Parameters
    ----------
    path : str
        An image file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._label: Any = None
        self._parts: list[Explanation] = []

    def add(self, some: Explained) -> None:
        """Keep some rows, if there is room."""
        n_kept = sum(map(len, self._parts))
        self._label = some.label
        if n_kept < MOST_DRAWN:
            self._parts.append(some.explanation[: MOST_DRAWN - n_kept])

    def finish(self) -> None:
        """Draw."""
        if not self._parts:
            raise CommandError(f"--plot is {self._path}, but there is no row to draw")
        from matplotlib.figure import Figure  # noqa: PLC0415  # slow to import

        from amforest.plotting import (  # noqa: PLC0415
            plot_contribution_swarm,
            plot_contributions,
        )

        whole = _join(self._parts)
        draw = plot_contributions if len(whole) == 1 else plot_contribution_swarm
        figure = Figure(layout="constrained")
        ax = draw(whole, positive=self._label, ax=figure.subplots())
        figure.set_size_inches(WIDTH, INCHES * len(ax.get_yticks()) + 1)
        figure.savefig(self._path, dpi=150)


def _join(parts: list[Explanation]) -> Explanation:
    """Return the explanation of all rows."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("values", "base_values", "data")
    }
    return replace(parts[-1], **columns)
