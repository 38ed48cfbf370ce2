"""The handle on a core: the lock of learners, growth, and what an error restores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from amforest._core import (
    FORGETTING,
    MOST_LINEAR,
    AdaptiveClassifierForest,
    AdaptiveRegressorForest,
    ClassifierForest,
    FrozenAdaptiveClassifierForest,
    FrozenAdaptiveRegressorForest,
    FrozenForest,
    Options,
    RegressorForest,
    UnrestrictedClassifierForest,
    UnrestrictedRegressorForest,
    UnrestrictedWeightedClassifierForest,
    WeightedClassifierForest,
)
from amforest._forest.class_labels import ClassLabels, NumberLabels
from amforest._forest.encoder import Encoder, Part
from amforest._forest.limits import MOST_ADDED_UP, MOST_CLASSES, MOST_COUNTED, MOST_THREADS
from amforest._forest.losses import Floats
from amforest._forest.scales import ScaleCheck

if TYPE_CHECKING:
    from amforest._forest.early_rows import EarlyRows

WholeCountsCore = ClassifierForest | UnrestrictedClassifierForest
RealCountsCore = WeightedClassifierForest | UnrestrictedWeightedClassifierForest
AdaptiveCore = AdaptiveClassifierForest | AdaptiveRegressorForest
Core = (
    WholeCountsCore | RealCountsCore | RegressorForest | UnrestrictedRegressorForest | AdaptiveCore
)
FrozenCore = FrozenForest | FrozenAdaptiveClassifierForest | FrozenAdaptiveRegressorForest
# Of forests with one prediction for each leaf, whose trees are in this process.
FreezableCore = ClassifierForest | WeightedClassifierForest | RegressorForest | AdaptiveCore
Place = Callable[[Core], Core]
Labels = ClassLabels | NumberLabels
Prior = Callable[[int], float]
# Columns of a core's state: what splits on each feature saved, of which weight of rows, and when it
# is the turn of a tree to be credited.
IMPORTANCES = ("importance", "importance_weight", "importance_turn")
Result = TypeVar("Result")
# Called with the number of a row, and the losses of the rows from there on: of the predictions that
# an adaptive forest made before it learned them.
Listener = Callable[[int, Floats], object]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What was learned: parts that belong together, replaced as one value.

    Other threads read it once per prediction, and so see rows that fit the core.
    """

    encoder: Encoder
    labels: Labels
    core: Core
    early: EarlyRows | None = None  # before a regressor's step is settled

    def may_learn(self, labels: Any) -> bool:
        """Return whether the core may learn such labels with the step that it has."""
        return self.early is None or bool(np.all(labels == self.early.constant))


class CoreHandle:
    """What an estimator has beside its parameters."""

    __slots__ = (
        *("changes", "fitted", "has_noted_unknown", "listeners", "lock", "n_rejected", "place"),
        *("progress", "scales"),
    )

    def __init__(self, scale_advice: str | None = None) -> None:
        self.fitted: Fitted | None = None
        # What parameters were when the forest was built, of those that have changed since.
        self.changes: dict[str, Any] = {}
        self.lock = RLock()  # held by the thread that learns
        self.has_noted_unknown = False  # whether a warning has named columns that are ignored
        self.n_rejected = 0  # rows that could not be learned; no part of the model
        self.progress = (0.0, 0.0)  # of test-then-train: the sums of weights and losses
        self.scales = ScaleCheck(scale_advice)
        self.place: Place = _here  # where the trees of a new core live
        self.listeners: tuple[Listener, ...] = ()  # no part of the model

    def state(self) -> dict[str, Any]:
        """Return the model as values that can be pickled; the handle keeps none of them."""
        with self.lock:
            state: dict[str, Any] = {"progress": self.progress, "fitted": None}
            if (fitted := self.fitted) is not None:
                state["fitted"] = fitted.encoder, copy(fitted.labels), fitted.core.state()
                state["early"] = fitted.early
            state["changes"] = dict(self.changes)
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        self.progress = state["progress"]
        self.changes = state.get("changes", {})  # which earlier versions did not have
        if state["fitted"] is not None:
            encoder, labels, core = state["fitted"]
            early = state.get("early")  # which earlier versions did not have
            self.fitted = Fitted(encoder, copy(labels), restore_core(core), early)

    def listen(self, listener: Listener) -> None:
        """Call a function with the losses of all rows that are learned from now on."""
        with self.lock:
            self.listeners += (listener,)
            if self.fitted is not None:
                self.keep_losses(self.fitted.core)

    def stop_listening(self, listener: Listener) -> None:
        """Undo `listen`."""
        with self.lock:
            self.listeners = tuple(other for other in self.listeners if other != listener)
            if self.fitted is not None and is_adaptive_core(self.fitted.core):
                self.fitted.core.keep_losses(bool(self.listeners))

    def keep_losses(self, core: Core) -> None:
        """Let a core keep what listeners are called with."""
        if self.listeners and is_adaptive_core(core):
            core.keep_losses(True)

    def pass_losses(self) -> None:
        """Call the listeners with the losses of the rows just learned; they may raise."""
        if self.listeners and self.fitted is not None and is_adaptive_core(self.fitted.core):
            first_row, losses = self.fitted.core.take_losses()
            if len(losses):
                for listener in self.listeners:
                    listener(first_row, losses)

    def learning(self, rows: Any) -> LearningCall:
        """Return a context that holds the lock, and counts the rows if there is an error."""
        return LearningCall(self, rows)

    def unchanged_unless_learned(self) -> Restoring:
        """Return a context that restores the model on error, unless a row was learned."""
        return Restoring(self)

    @contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """Let a call learn in a copy of the model, which an error drops."""
        fitted, progress = self.fitted, self.progress
        if fitted is not None:
            self.fitted = replace(fitted, labels=copy(fitted.labels), core=fitted.core.reserve())
        try:
            yield
        except BaseException:
            self.fitted, self.progress = fitted, progress
            raise

    def learn_parts(self, parts: Iterable[Part], n_threads: int, prior: Prior) -> None:
        """Learn rows part by part."""
        for part in parts:
            self._learn_part(part, n_threads, prior)

    def predict_then_learn(
        self, parts: Iterable[Part], n_threads: int, prior: Prior, n_unknown: int
    ) -> list[Floats]:
        """Predict each row just before it is learned; the first `n_unknown` have no loss."""
        predictions: list[Floats] = []
        for part in parts:
            if part.new:  # the row that adds a class is predicted without it
                first = part.cut(0, 1)
                predictions.append(self._fitted().core.predict(first.rows, 1))
                self._learn_part(first, n_threads, prior)
                self._record(predictions[-1], first)
            rest = part.cut(len(part.new), None)
            prediction = np.concatenate(
                self._learn_in_cores(
                    rest,
                    lambda core, some: core.predict_then_learn(
                        some.rows, some.labels, n_threads, some.weights
                    ),
                )
            )
            n_free = max(n_unknown - sum(map(len, predictions)), 0)
            predictions.append(prediction)
            self._record(prediction[n_free:], rest.cut(n_free, None))
        return predictions

    def _learn_part(self, part: Part, n_threads: int, prior: Prior) -> None:
        """Learn rows, the first of which may have a new label; `prior` gives α for K classes.

        A new label is published before the core learns it, and removed if the core does not.
        """
        fitted = self._fitted()
        encoder, labels, core = fitted.encoder, fitted.labels, fitted.core
        if not (part.new and isinstance(labels, ClassLabels)):
            self._learn_in_cores(
                part, lambda core, some: core.learn(some.rows, some.labels, n_threads, some.weights)
            )
            return
        known = labels.known
        n_classes = labels.add(part.new[0])
        parameters = {"n_classes": n_classes, "dirichlet": prior(n_classes)}
        try:
            core = reserve_classes(core, n_classes)
            self.fitted = Fitted(encoder, labels, core)
            core.learn(part.rows, part.labels, n_threads, part.weights, parameters)
        except BaseException:
            if core.prediction_size < n_classes:
                self.fitted = fitted
                labels.restore(known)
            raise

    def _learn_in_cores(self, part: Part, learn: Callable[[Core, Part], Result]) -> list[Result]:
        """Let a core learn rows: one after another while the step of a regressor changes.

        These are copies and new ones, so that an error can restore the core before them. Like any
        batch, the rows after the last change keep what was learned before Ctrl-C.
        """
        fitted = self._fitted()
        core, early = fitted.core, fitted.early
        if fitted.may_learn(part.labels):
            return [learn(core, part)]
        results: list[Result] = []
        n_settled = None
        try:
            core = core.reserve()
            while early is not None and len(part.rows):
                some, part = early.cut(part)
                if len(some.rows):
                    results.append(learn(core, some))
                core, early = early.extend(core, some, part)
            n_settled = core.n_samples
            if early is None:
                core = self.place(core)
            self.fitted = replace(fitted, core=core, early=early)
            if len(part.rows):
                results.append(learn(core, part))
        except BaseException:
            if n_settled in (None, core.n_samples):
                self.fitted = fitted
            raise
        return results

    def _record(self, predictions: Floats, part: Part) -> None:
        """Add the losses of predictions that were made before their labels were learned."""
        losses = self._fitted().labels.losses(predictions, part.labels)
        weight, loss = self.progress
        if part.weights is None:
            self.progress = weight + len(losses), _add_in_order(loss, losses)
        else:
            weighted = _add_in_order(loss, losses * part.weights)
            self.progress = _add_in_order(weight, part.weights), weighted

    def _fitted(self) -> Fitted:
        """Return what is fitted, which is published before any part is learned."""
        return cast(Fitted, self.fitted)


def _here(core: Core) -> Core:
    """Let the trees of a core live in this process."""
    return core


def is_adaptive_core(core: Core) -> TypeGuard[AdaptiveCore]:
    """Return whether a core is an adaptive forest, wherever its trees are."""
    return hasattr(core, "groups")


def counts_whole_numbers(core: Core) -> TypeGuard[WholeCountsCore]:
    """Return whether a core counts in whole numbers, wherever its trees are."""
    return hasattr(core, "with_real_counts")


def is_frozen_core(core: Any) -> TypeGuard[FrozenCore]:
    """Return whether a core is a frozen copy, which no longer learns."""
    return isinstance(core, FrozenCore)


def _add_in_order(total: float, values: Floats) -> float:
    """Add values one by one, so that the sum does not depend on how rows are cut into batches."""
    return float(np.cumsum(np.append(total, values))[-1])


def handle_of(model: Any) -> CoreHandle:
    """Return the handle of one of our estimators, or of its twin for river."""
    handle: CoreHandle = model._handle
    return handle


class LearningCall:
    """A call that learns: it holds the lock, and an error counts its rows as rejected."""

    __slots__ = ("handle", "rows")

    def __init__(self, handle: CoreHandle, rows: Any) -> None:
        self.handle, self.rows = handle, rows

    def __enter__(self) -> None:
        self.handle.lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, Exception):
            shape = getattr(self.rows, "shape", None)
            is_sized = hasattr(self.rows, "__len__")
            self.handle.n_rejected += shape[0] if shape else len(self.rows) if is_sized else 1
        try:
            if kind is None:
                self.handle.pass_losses()
        finally:
            self.handle.lock.release()
        if kind is None and self.handle.fitted is not None:
            self.handle.scales.finish(self.handle.fitted)


class Restoring:
    """Restores what was fitted if a call fails before its first row is learned."""

    __slots__ = ("fitted", "handle", "n_samples", "progress")

    def __init__(self, handle: CoreHandle) -> None:
        self.handle, self.fitted, self.progress = handle, handle.fitted, handle.progress
        self.n_samples = 0 if handle.fitted is None else handle.fitted.core.n_samples

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        fitted = self.handle.fitted
        if kind is None or fitted is None or fitted.core.n_samples not in (0, self.n_samples):
            return
        self.handle.fitted, self.handle.progress = self.fitted, self.progress


# Threads


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for the parameter `n_jobs`."""
    return 1 if n_jobs is None else min(int(effective_n_jobs(n_jobs)), MOST_THREADS)


# Predictions


def predict_row(fitted: Fitted, x: Sequence[Any] | NDArray[Any], estimator: Any = None) -> Floats:
    """Return the prediction of one row, with as many columns as the core has classes."""
    encoder, core = fitted.encoder, fitted.core
    try:
        if encoder.categories is None and (prediction := core.predict_row(x)) is not None:
            return prediction
        return cast(Floats, core.predict_row(encoder.row(x, estimator)))
    except ValueError as error:
        encoder.name_column(error)
        raise


def join_parts(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate predictions; earlier ones have probability 0 for classes that came later."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.shape[-1] for part in parts)
    return np.concatenate(
        [part if part.shape[-1] == width else _pad(part, width) for part in parts]
    )


def join_terms(parts: list[Floats], core: Core) -> Floats:
    """Concatenate terms; classes that came after a part have the base value of unknown ones."""
    terms = join_parts(parts)
    row = 0
    for part in parts:
        terms[row : row + len(part), 0, part.shape[-1] :] = core.base_of_unknown
        row += len(part)
    return terms


def _pad(part: NDArray[Any], width: int) -> NDArray[Any]:
    return np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, width - part.shape[-1])])


# Growth


def build_core(**arguments: Any) -> Core:
    """Build a core of the class that its arguments need: a new one from seeds, or from trees."""
    if "groups" in arguments:
        has_classes = "n_classes" in arguments
        return (AdaptiveClassifierForest if has_classes else AdaptiveRegressorForest)(**arguments)
    is_unrestricted = arguments["bounds"] is not None
    if "n_classes" not in arguments:
        return (UnrestrictedRegressorForest if is_unrestricted else RegressorForest)(**arguments)
    trees = arguments.get("trees")
    if trees is None or trees["counts"].dtype == np.uint32:
        return (UnrestrictedClassifierForest if is_unrestricted else ClassifierForest)(**arguments)
    return (UnrestrictedWeightedClassifierForest if is_unrestricted else WeightedClassifierForest)(
        **arguments
    )


def restore_core(state: dict[str, Any]) -> Core:
    """Build a core from what its method `state` returns, or did in earlier versions."""
    if "n_outputs" in state:
        return cast(Core, restore_frozen_core(state))
    trees = newer_columns(state) | state["trees"]
    return build_core(**state | {"options": Options(**state["options"]), "trees": trees})


def newer_columns(state: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return, without rows, the columns that a state did not have before format 4."""
    n_features = state["n_numbers"] + len(state["categories"])
    nothing = np.empty((0, n_features)), np.empty(0), np.empty(0, np.uint8)
    columns: dict[str, NDArray[Any]] = dict(zip(IMPORTANCES, nothing, strict=True))
    return columns | {"weight_history": np.empty(0)} if "groups" in state else columns


def restore_frozen_core(state: dict[str, Any]) -> FrozenCore:
    """Build a frozen core from what its method `state` returns."""
    if "n_groups" not in state:
        return FrozenForest(**state)
    is_regressor = "expert_state" in state["trees"]
    cls = FrozenAdaptiveRegressorForest if is_regressor else FrozenAdaptiveClassifierForest
    return cls(**state)


def reserve_classes(core: Core, n_classes: int) -> Core:
    """Return a core with capacity for so many classes; a new one has capacity for twice as many."""
    if n_classes <= core.label_parameters["capacity"]:
        return core
    return core.reserve(capacity=min(2 * n_classes, MOST_CLASSES))


def reserve_columns(core: Core, encoder: Encoder, max_categories: int | None = None) -> Core:
    """Return a core with capacity for the encoder's numbers and categories."""
    n_numbers, categories = encoder.layout
    capacities = list(categories.capacities(core.categories, max_categories))
    if (n_numbers, capacities) == (core.n_numbers, core.categories):
        return core
    return core.reserve(n_numbers=n_numbers, categories=capacities)


def drop_numbers(core: Core, n_numbers: int) -> Core:
    """Return a core without the last of its numbers, of which no value was seen."""
    state = core.state()
    trees, n_features = state["trees"], len(state["categories"]) + n_numbers
    widths: dict[str, Any] = dict.fromkeys(("lower", "upper"), slice(n_numbers))
    widths |= dict.fromkeys(("feature_weights", "importance"), slice(n_features))
    if is_adaptive_core(core):  # its trees have columns of their own
        kept = trees["columns"] < n_features
        widths |= dict.fromkeys(widths, kept)
        widths["row_features"] = slice(n_features)
        place = np.append(np.cumsum(kept) - 1, -1).astype(np.int32)  # -1 stays in leaves
        trees["feature"], trees["columns"] = place[trees["feature"]], trees["columns"][kept]
        if "expert_state" in trees:
            trees["base_columns"] = place[trees["base_columns"]].astype(np.uint32)
            n_before, n_after = (min(n, MOST_LINEAR) for n in (core.n_numbers, n_numbers))
            trees["expert_state"] = _drop_linear(trees["expert_state"], n_before, n_after)
    for name, width in widths.items():
        trees[name] = np.ascontiguousarray(trees[name][:, width])
    return restore_core(state | {"n_numbers": n_numbers})


def _drop_linear(state: Floats, n_before: int, n_after: int) -> Floats:
    """Drop the last features from the state of linear experts: see linear_experts.hpp."""
    labels, rest = state[:4], state[4:]
    features, rest = np.split(rest, [7 * n_before])
    kept = np.append(np.arange(n_after), n_before)  # the intercept is last
    parts = [labels, features[: 7 * n_after]]
    n = n_before + 1
    for expert in np.split(rest, len(FORGETTING)):
        slopes, inverse, sums = np.split(expert, [n, n + n * n])
        parts += [slopes[kept], inverse.reshape(n, n)[np.ix_(kept, kept)].ravel(), sums]
    return np.concatenate(parts)


def can_count(core: Core, weight: Any) -> bool:
    """Return whether the core, as it is, can count so many rows, or a row of this weight."""
    if not isinstance(weight, (int, float)) or not weight >= 0:
        return False
    if not counts_whole_numbers(core):
        return True
    return weight % 1 == 0 and core.total_weight + weight <= MOST_COUNTED


def count_exactly(core: Core, weights: int | Floats) -> Core:
    """Return a core that counts in real numbers if these weights need it (an int: so many ones).

    It refuses weights that are too much before the first part of a batch is learned.
    """
    remembered = 0.0
    with np.errstate(over="ignore"):  # infinity is too much
        total = core.total_weight + np.sum(weights)
        if is_adaptive_core(core):  # whose trees are regrown from the rows that it remembers
            remembered = core.remembered_weight + np.sum(np.ceil(weights))
    if max(total, remembered) > MOST_ADDED_UP:
        raise ValueError("the weights of all rows add up to too much: more than 2**53")
    if not counts_whole_numbers(core):
        return core
    if total <= MOST_COUNTED and np.array_equal(weights, np.rint(weights)):
        return core
    return core.with_real_counts()
