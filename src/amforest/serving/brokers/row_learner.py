"""Rows of messages: predicted, and learned if they have a label.

The result is the same however the messages are cut into blocks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest._forest.limits import LARGEST_LABEL
from amforest.evaluation import Block, Evaluator
from amforest.evaluation.adapters import Prediction, adapt
from amforest.reading import CLASSIFICATION, Batch, Column, Scheme, StreamError, drop_unique_text
from amforest.reading.batches import RawBlock, convert_block
from amforest.reading.ndjson_parser import JsonObject, Literal, to_text
from amforest.reading.schema import infer_column
from amforest.serving.brokers.messages import Message, RejectedMessage

Texts: TypeAlias = list[str | None]  # the values of a row
Builder: TypeAlias = Callable[[Batch, dict[str, str]], tuple[Any, Scheme]]

MOST_HELD = 10_000  # messages before the model is built
MOST_CLASSES = 1_000
METRICS = {CLASSIFICATION: ("log_loss", "accuracy"), "regression": ("rmse", "mae")}


@dataclass(frozen=True)
class RowOptions:
    """How rows are read.

    Attributes
    ----------
    target : str
        The field of the label; a row without it is only predicted.
    id_field : str or None
        The field that identifies rows.
    use, drop : tuple of str
        The fields to use as features, if not all; and not to use.
    types : dict of str to str
        The kinds of some fields.
    first : int
        How many labels are awaited before a new model is built.
    most_pending : int
        How many rows wait for their label.
    most_remembered : int
        How many ids of learned rows are remembered.
    coverage : float
        Of intervals, for models that predict them.
    """

    target: str
    id_field: str | None = None
    use: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    first: int = 100
    most_pending: int = 10_000
    most_remembered: int = 10_000
    coverage: float = 0.9


@dataclass
class Results:
    """What becomes of some messages.

    Attributes
    ----------
    predictions : list of dict
        With the id and the prediction of each row, in values of JSON.
    rejects : list of RejectedMessage
    """

    predictions: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[RejectedMessage] = field(default_factory=list)


@dataclass(frozen=True)
class _Step:
    """A row to predict or to learn."""

    id: str
    texts: Texts  # the features, then the label
    learns: bool
    is_shown: bool  # whether its prediction is published


class RowLearner:
    """A model that predicts and learns the rows of messages.

    Parameters
    ----------
    options : RowOptions
    build : callable
        Builds a model and its scheme from the first rows with labels, and the kinds of columns.
    note : callable
        Called with what the user should know.

    Attributes
    ----------
    model : estimator or None
        None until enough rows have come to build it.
    scheme : Scheme
        Its columns.
    n_rows, n_rejected, n_repeated : int
        The rows that were predicted or learned, the messages that were rejected, and those with the
        id of a row that was learned before.
    """

    def __init__(
        self, options: RowOptions, build: Builder, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self._options, self._build, self._note = options, build, note
        self.model: Any = None
        self.scheme: Scheme
        self.n_rows = self.n_rejected = self.n_repeated = 0
        self._held: list[Message] = []  # until the model is built
        self._pending: OrderedDict[str, Texts] = OrderedDict()  # features of rows without a label
        self._learned: OrderedDict[str, None] = OrderedDict()  # ids
        self._classes: set[Any] = set()

    # The model

    def attach(self, model: Any, scheme: Scheme) -> None:
        """Take a model."""
        if scheme.target != self._options.target:
            raise ValueError(
                f"--target is {self._options.target!r}, but the model predicts {scheme.target!r}"
            )
        self.model, self.scheme = model, scheme
        features = [name for name in scheme.kinds if name != scheme.target]
        self._columns = [Column(name, scheme.kinds[name]) for name in [*features, scheme.target]]
        self._is_class = scheme.task == CLASSIFICATION
        has_intervals = hasattr(model, "predict_interval")
        coverage = self._options.coverage if has_intervals else None
        self._adapter = adapt(model, scheme.task, coverage=coverage)
        self.evaluator = Evaluator(scheme.task, METRICS[scheme.task])
        self._classes = set(self._known_classes().tolist())

    def _known_classes(self) -> NDArray[Any]:
        known: NDArray[Any] = getattr(self.model, "classes_", np.empty(0))
        return known

    def to_json(self) -> dict[str, Any]:
        """Return what `restore` needs beside the model and its scheme."""
        return {
            "counts": [self.n_rows, self.n_rejected, self.n_repeated],
            "pending": [[id_, texts] for id_, texts in self._pending.items()],
            "learned": list(self._learned),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `to_json`."""
        self.n_rows, self.n_rejected, self.n_repeated = state["counts"]
        self._pending = OrderedDict((id_, texts) for id_, texts in state["pending"])
        self._learned = OrderedDict.fromkeys(state["learned"])

    # Messages

    def process(self, messages: Sequence[Message]) -> Results:
        """Predict the rows of messages, and learn those with labels, in their order.

        Before the model is built, messages are held, and the result is empty.
        """
        results = Results()
        if self.model is None:
            if not self._held:
                n_first = self._options.first
                self._note(f"the model is built once there are {n_first:,} labels: messages wait")
            self._held += messages
            if not self._is_enough():
                return results
            messages, self._held = self._held, []
            self.attach(*self._build_model(messages))
        steps = self._plan(messages, results)
        if steps:
            self._predict_and_learn(steps, results)
        self.n_rows += len(steps)
        self.n_rejected += len(results.rejects)
        return results

    def _plan(self, messages: Sequence[Message], results: Results) -> list[_Step]:
        """Return the rows to predict or learn; what cannot be is rejected."""
        reasons: dict[int, str] = {}  # by the number of the message
        given: list[Texts] = []
        for k, message in enumerate(messages):
            texts: Texts = [None] * len(self._columns)
            try:
                row = self._row_of(message)
                texts = [to_text(row.get(column.name), column.name) for column in self._columns]
            except ValueError as error:
                reasons[k] = str(error)
            given.append(texts)
        batch = convert_block(_raw_block(given), self._columns, None)
        reasons |= {r.line: r.reason for r in batch.rejects if r.line not in reasons}
        labels = batch.table.column(self.scheme.target)
        has_label = np.zeros(len(messages), dtype=bool)
        has_label[batch.lines] = ~np.asarray(labels.is_null())
        reasons |= {k: text for k, text in self._check_labels(batch) if k not in reasons}
        steps = []
        for k, message in enumerate(messages):
            reason = reasons.get(k)
            if reason is None:
                found = self._plan_row(message, given[k], has_label=bool(has_label[k]))
                reason = found if isinstance(found, str) else None
                if isinstance(found, _Step):
                    steps.append(found)
            if reason is not None:
                results.rejects.append(RejectedMessage(message, reason))
        return steps

    def _row_of(self, message: Message) -> JsonObject:
        """Return the row of a message; ValueError if it has none, or no id."""
        if message.row is None:
            raise ValueError(message.reason)
        name = self._options.id_field
        if name is not None and to_text(message.row.get(name), name) in (None, ""):
            raise ValueError(f"the field {name!r}, which holds the id of a row, is missing")
        return message.row

    def _check_labels(self, batch: Batch) -> Iterable[tuple[int, str]]:
        """Yield the number of each message whose label cannot be learned, and the reason."""
        target, whole = self.scheme.target, self.scheme.whole
        values = batch.table.column(target).to_pylist()
        for k, value in zip(batch.lines.tolist(), values, strict=True):
            if value is None:
                continue
            if not self._is_class:
                if abs(value) > LARGEST_LABEL:
                    yield k, f"column {target!r}: {value!r} is too large"
            elif whole and (value != round(value) or abs(value) > 2**53):
                yield k, f"column {target!r}: {value!r} is not a whole number, as classes are"
            elif value not in self._classes:
                if len(self._classes) >= MOST_CLASSES:
                    yield k, f"column {target!r}: {value!r} is a class beyond {MOST_CLASSES:,}"
                else:
                    self._classes.add(value)

    def _plan_row(self, message: Message, texts: Texts, *, has_label: bool) -> _Step | str | None:
        """Return what to do with a valid row, or why it is rejected; None for a repeated one."""
        options, row = self._options, message.row
        assert row is not None
        if options.id_field is None:
            return _Step(message.id, texts, learns=has_label, is_shown=True)
        id_ = str(to_text(row[options.id_field], options.id_field))
        is_learned = id_ in self._learned
        if not has_label:
            if not is_learned:
                self._pending.setdefault(id_, texts[:-1])
                _limit(self._pending, options.most_pending)
            return _Step(id_, texts, learns=False, is_shown=True)
        if is_learned:
            self.n_repeated += 1
            return None
        waiting = self._pending.pop(id_, None)
        is_late = row.keys() <= {options.id_field, options.target}
        if is_late:
            if waiting is None:
                return (
                    f"no row {id_[:100]!r} waits for a label: it did not come, or is older than "
                    f"the last {options.most_pending:,} that wait"
                )
            texts = [*waiting, texts[-1]]
        self._learned[id_] = None
        _limit(self._learned, options.most_remembered)
        return _Step(id_, texts, learns=True, is_shown=not is_late)

    # Predictions

    def _predict_and_learn(self, steps: list[_Step], results: Results) -> None:
        batch = convert_block(_raw_block([step.texts for step in steps]), self._columns, None)
        batch = Batch(batch.table, batch.file, batch.lines, target=self.scheme.target)
        table = self.scheme.features(batch.X, "the message")
        learns = np.array([step.learns for step in steps])
        weights = None if learns.all() else learns.astype(np.float64)
        block = Block(table, self._fill_labels(batch, learns), weights)
        start = 0
        if weights is None or weights.any():
            parts = self._adapter.test_then_train(block)
        else:
            parts = iter([(block, self._adapter.predict(block))])
        for part, prediction in parts:
            stop = start + len(part.y)
            shown = steps[start:stop]
            self._measure(part.y, prediction, learns[start:stop])
            values = self._describe(prediction, len(shown))
            results.predictions += [
                {"id": step.id, **some}
                for step, some in zip(shown, values, strict=True)
                if step.is_shown
            ]
            start = stop

    def _fill_labels(self, batch: Batch, learns: NDArray[np.bool_]) -> NDArray[Any]:
        """Return labels; rows that are only predicted get one that adds no class."""
        column = batch.table.column(self.scheme.target)
        given = [
            value for value, has_one in zip(column.to_pylist(), learns, strict=True) if has_one
        ]
        if not given:
            return np.zeros(len(learns))
        labels = self.scheme.labels(given)
        known = self._known_classes()
        filler = known[0] if self._is_class and len(known) else labels[0]
        filled = np.full(len(learns), filler, dtype=np.result_type(labels, np.asarray(filler)))
        filled[learns] = labels
        return filled

    def _measure(
        self, labels: NDArray[Any], prediction: Prediction | None, learns: NDArray[np.bool_]
    ) -> None:
        if not learns.any():
            return
        if prediction is None:
            self.evaluator.update(labels[learns], None)
        else:
            values, classes, _ = prediction
            self.evaluator.update(labels[learns], values[learns], classes)

    def _describe(self, prediction: Prediction | None, n_rows: int) -> list[dict[str, Any]]:
        """Return predictions in values of JSON."""
        if prediction is None:
            return [{"prediction": None}] * n_rows
        values, classes, intervals = prediction
        if classes is None:
            numbers = values.tolist()
            if intervals is None:
                return [{"prediction": number} for number in numbers]
            return [
                {"prediction": number, "lower": low, "upper": high}
                for number, (low, high) in zip(numbers, intervals.tolist(), strict=True)
            ]
        shown = classes.tolist()
        if self.scheme.kinds[self.scheme.target] == "bool":
            shown = [bool(value) for value in shown]
        names = [str(value).lower() if isinstance(value, bool) else str(value) for value in shown]
        best = values.argmax(axis=1).tolist()
        return [
            {
                "prediction": shown[k],
                "probabilities": {
                    name: value for name, value in zip(names, row, strict=True) if value > 0
                },
            }
            for k, row in zip(best, values.tolist(), strict=True)
        ]

    # The first rows

    def _is_enough(self) -> bool:
        """Return whether a model can be built from the messages that are held."""
        target = self._options.target
        n_labels = sum(1 for m in self._held if m.row and m.row.get(target) not in (None, ""))
        if n_labels >= self._options.first:
            return True
        if len(self._held) < MOST_HELD:
            return False
        if not n_labels:
            raise ValueError(f"the first {MOST_HELD:,} messages have no label in {target!r}")
        return True

    def _build_model(self, messages: Sequence[Message]) -> tuple[Any, Scheme]:
        """Infer the columns of the first messages, and build a model for them."""
        rows = self._join_labels([m.row for m in messages if m.row is not None])
        columns = self._infer_columns(rows)
        options = self._options
        kept = {options.target, *options.use, *options.types}
        kinds, notes = drop_unique_text(columns, kept)
        for text in notes:
            self._note(text)
        chosen = [column for column in columns if column.name in kinds]
        given = [[_text_or_none(row.get(c.name), c.name) for c in chosen] for row in rows]
        batch = convert_block(_raw_block(given), chosen, options.target)
        if not len(batch):
            reason = batch.rejects[0].reason if batch.rejects else "there are no rows"
            raise StreamError(f"none of the first {len(messages):,} messages fits: {reason}")
        return self._build(batch, kinds)

    def _join_labels(self, rows: list[JsonObject]) -> list[JsonObject]:
        """Join late labels with their rows."""
        name, target = self._options.id_field, self._options.target
        if name is None:
            return rows
        late = {str(row[name]): row[target] for row in rows if row.keys() == {name, target}}
        joined = []
        for row in rows:
            if row.keys() == {name, target}:
                continue
            label = row.get(target)
            joined.append({**row, target: late.get(str(row.get(name))) if label is None else label})
        return joined

    def _infer_columns(self, rows: list[JsonObject]) -> list[Column]:
        options = self._options
        names = list(dict.fromkeys(name for row in rows for name in row))
        wanted = {*options.use, options.target} if options.use else set(names)
        columns = []
        for name in names:
            values = [row.get(name) for row in rows]
            is_nested = all(isinstance(v, list | dict) for v in values if v is not None)
            if name in options.drop or name == options.id_field or name not in wanted:
                continue
            if is_nested and any(v is not None for v in values):
                self._note(f"field {name!r} is nested and is dropped")
                continue
            texts = pa.array([_text_or_none(v, name) for v in values], pa.string())
            quoted = np.array([isinstance(v, str) and not isinstance(v, Literal) for v in values])
            column = infer_column(name, texts, options.types.get(name), quoted)
            columns.append(column)
            if column.doubt:
                self._note(column.doubt)
        for name in (*options.use, *options.types):
            if name not in names:
                raise StreamError(f"the first {len(rows):,} rows have no field {name!r}")
        return columns


def _raw_block(rows: Sequence[Texts]) -> RawBlock:
    columns = zip(*rows, strict=True)
    values = [pa.array(column, pa.string()) for column in columns]
    lines = np.arange(len(rows), dtype=np.int64)
    return RawBlock("the message", lines, values, lambda k: "", [], 0)


def _text_or_none(value: Any, name: str) -> str | None:
    """Return a value as text; None for one that its row is rejected for later."""
    try:
        return to_text(value, name)
    except ValueError:
        return None


def _limit(kept: OrderedDict[str, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
