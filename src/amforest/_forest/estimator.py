"""The base of all forests: learning, inspection, pickling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from amforest._core import Options
from amforest._forest.class_labels import ClassLabels, warn_of_many_classes
from amforest._forest.class_weights import ClassWeight, weigh_row
from amforest._forest.core_handle import (
    Core,
    CoreHandle,
    Fitted,
    Labels,
    can_count,
    count_exactly,
    count_threads,
    join_parts,
    join_terms,
    reserve_columns,
)
from amforest._forest.core_options import check_in_box, tree_seeds
from amforest._forest.early_rows import EarlyRows
from amforest._forest.encoder import (
    Batch,
    Encoder,
    NamedColumns,
    Part,
    row_of_numbers,
)
from amforest._forest.explanation import Explanation, explanation_of
from amforest._forest.given_labels import as_labels, word_label_error
from amforest._forest.importances import importances_of
from amforest._forest.inputs import (
    Features,
    Table,
    as_rows,
    check_least_weight,
    check_magnitudes,
    first_row,
    is_plain,
    read_given,
    validate_labels,
    validate_weights,
)
from amforest._forest.limits import LEAST_WEIGHT, MOST_CATEGORIES, MOST_TREES
from amforest._forest.losses import Floats
from amforest._forest.tree_table import build_table, table_columns

_FREE = {"n_jobs", "max_categories", "strict", "threshold"}  # parameters that each call reads


class Estimator(BaseEstimator):
    """A forest for scikit-learn. It holds parameters, and a handle on all that was learned.

    A subclass stores its parameters and defines how labels are encoded (`_new_labels`) and how a
    core is built (`_new_core`).
    """

    # No part of `__dict__`: a constructor of scikit-learn's may set nothing but parameters.
    __slots__ = ("_handle",)
    _handle: CoreHandle
    is_adaptive: ClassVar[bool] = False  # whether the core is an adaptive forest

    n_estimators: int
    step: float | str | None
    use_aggregation: bool
    split_pure: bool
    charge_first: bool
    predict_extends: bool
    split_prior: tuple[float, float]
    partition: str
    bounds: Any
    categorical_features: Any
    max_categories: int | None
    strict: bool = True  # of forests without this parameter, and of earlier versions' pickles
    max_nodes: int | None
    max_bytes: int | None
    n_jobs: int | None
    random_state: Any
    class_weight: ClassWeight = None  # which only classifiers have

    # What to do if the spreads of features differ much; None: they may.
    _scale_advice: ClassVar[str | None] = None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [Interval(Integral, 1, MOST_TREES, closed="both")],
        "step": [Interval(Real, 0, 1e100, closed="right")],
        "use_aggregation": ["boolean"],
        "split_pure": ["boolean"],
        "charge_first": ["boolean"],
        "predict_extends": ["boolean"],
        "split_prior": [tuple],
        "partition": [StrOptions({"restricted", "unrestricted"})],
        "bounds": ["array-like", None],
        "categorical_features": ["array-like", StrOptions({"auto", "from_dtype"}), None],
        # One less than the core can have: the others have a code, too.
        "max_categories": [Interval(Integral, 1, MOST_CATEGORIES - 1, closed="both"), None],
        "strict": ["boolean"],
        "max_nodes": [Interval(Integral, 1, 2**63 - 1, closed="both"), None],
        "max_bytes": [Interval(Integral, 1, 2**63 - 1, closed="both"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Add the handle."""
        model: Self = super().__new__(cls)
        model._handle = CoreHandle(cls._scale_advice)
        return model

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters: scikit-learn inspects the constructor each time."""
        names: list[str] = super()._get_param_names()
        return names

    def __setattr__(self, name: str, value: Any) -> None:
        """Note parameters that change after the forest was built from them."""
        handle = getattr(self, "_handle", None)
        is_fitted = handle is not None and handle.fitted is not None
        if is_fitted and name in self.__dict__.keys() - _FREE and not name.startswith("_"):
            built_with = self._handle.changes.pop(name, self.__dict__[name])
            if not _are_same(built_with, value):
                self._handle.changes[name] = built_with
        super().__setattr__(name, value)

    def _refuse_changes(self) -> None:
        changes = [
            f"{name} was changed from {old!r} to {getattr(self, name)!r}"
            for name, old in self._handle.changes.items()
        ]
        if changes:
            raise ValueError(
                f"{', and '.join(changes)} after the forest was built: call fit to start again, or "
                "set the parameters back"
            )

    # What a subclass defines

    def _validate_labels(self, y: ArrayLike) -> ArrayLike:
        """Check the type of labels before scikit-learn does."""
        return y

    def _new_labels(self, labels: NDArray[Any], classes: Any) -> Labels:
        """Return the labels that are known before the first row: those given, or `classes`."""
        raise NotImplementedError

    def _new_core(self, labels: Any, **features: Any) -> Core:
        """Build a core that has learned nothing."""
        raise NotImplementedError

    def _dirichlet(self, n_classes: int) -> float:
        """Return α for a number of classes."""
        raise NotImplementedError

    def _options(self, n_features: int) -> Options:
        """Return the options of a core."""
        raise NotImplementedError

    def _settles_step(self) -> bool:
        """Return whether the first rows settle the step."""
        return False

    def _n_trees(self) -> int:
        """Return the number of trees."""
        return int(self.n_estimators)

    def _box(self, encoder: Encoder) -> Features | None:
        """Return the corners of the box that an unrestricted partition splits."""
        return None

    # Learning

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn the rows of X once, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features. They are stored as float32; NaN is a missing value.
        y : array-like of shape (n_samples,)
            The labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows; a row of weight 0 is not learned.

        Returns
        -------
        self
        """
        return self._learn(X, y, afresh=True, sample_weight=sample_weight)

    def learn_one(
        self, x: Sequence[float] | NDArray[Any], y: Any, sample_weight: float | None = 1.0
    ) -> Self:
        """Learn one row: a fast ``partial_fit([x], [y])``.

        Parameters
        ----------
        x : sequence of n_features numbers, dict or Series
            Fastest as a contiguous array of float32 or float64. Values with names are matched with
            the columns of X by name.
        y : label
        sample_weight : float, default=1.0
            None means 1.

        Returns
        -------
        self
        """
        handle = self._handle
        with handle.lock:
            try:
                fitted = handle.fitted
                if not (
                    fitted is not None
                    and not handle.changes
                    and sample_weight == 1
                    and self.class_weight is None
                    and fitted.encoder.categories is None
                    and (label := fitted.labels.encode_one(y)) is not None
                    and (fitted.early is None or fitted.early.constant == label)
                    and fitted.core.learn_row(x, label, 1.0)  # type: ignore[arg-type]
                ):
                    self._learn_any_row(x, y, sample_weight)
            except Exception as error:
                handle.n_rejected += 1
                self._word_error(error, y, sample_weight)
                raise
            if handle.listeners:
                handle.pass_losses()
        if not handle.scales.is_over and sample_weight != 0:
            handle.scales.look_back(self._fitted())
        return self

    def _word_error(self, error: Exception, y: Any, sample_weight: Any) -> None:
        """Name what was given in the core's error about one row."""
        if isinstance(error, ValueError) and self._handle.fitted is not None:
            self._handle.fitted.encoder.name_column(error)
            word_label_error(error, [y])
            if str(error).startswith("weights must not be negative"):
                error.args = (
                    f"sample_weight is {sample_weight}; it must be finite and not negative",
                )

    def _learn_any_row(
        self, x: Sequence[float] | NDArray[Any], y: Any, weight: float | None
    ) -> None:
        weight = 1.0 if weight is None else weight
        fitted = self._handle.fitted
        if fitted is None:
            rows = first_row(x, self.categorical_features)
            rows = row_of_numbers(x)[None] if rows is None else rows
            self._learn_batch(rows, [y], sample_weight=[weight])
            return
        self._refuse_changes()
        encoder, labels, core = fitted.encoder, fitted.labels, fitted.core
        label = labels.encode_one(y) if can_count(core, weight) else None
        if label is not None and isinstance(labels, ClassLabels) and self.class_weight is not None:
            self._learn_weighed_row(fitted, x, y, weight)
            return
        row = None if label is None else encoder.row(x, self)
        if row is not None and not fitted.may_learn(label) and not encoder.has_unknown(row):
            part = Part([], as_rows(row[None]), np.array([label], np.float64), np.array([weight]))
            self._handle.learn_parts([part], 1, self._dirichlet)
        elif row is None or encoder.has_unknown(row) or not core.learn_row(row, label, weight):  # type: ignore[arg-type]
            self._learn_batch(encoder.row_table(x, self), [y], sample_weight=[weight])

    def _learn_weighed_row(self, fitted: Fitted, x: Any, y: Any, weight: float) -> None:
        """Learn a row of a known class, with `class_weight`."""
        encoder, labels, core = fitted.encoder, cast(ClassLabels, fitted.labels), fitted.core
        k, row = labels.index_of[y], encoder.row(x, self)
        weighed = weigh_row(self.class_weight, labels.counts, y, k, weight)
        is_simple = weight >= LEAST_WEIGHT and can_count(core, weighed)
        if is_simple and not encoder.has_unknown(row) and core.learn_row(row, k, weighed):
            if self.class_weight == "balanced":
                labels.counts.add(k)
        else:
            self._learn_batch(encoder.row_table(x, self), [y], sample_weight=[weight])

    def _learn(self, X: ArrayLike | Table, y: ArrayLike, **how: Any) -> Self:
        handle = self._handle
        with handle.learning(X):
            plain = self._encode_plain(X, y, **how)
            if plain is None:
                self._learn_batch(X, y, **how)
            else:
                try:
                    self._core.learn(*plain, count_threads(self.n_jobs))
                except ValueError as error:
                    word_label_error(error, y)
                    raise
        return self

    def _learn_batch(self, X: ArrayLike | Table, y: ArrayLike, **how: Any) -> None:
        with self._handle.unchanged_unless_learned():
            batch = self._prepare(X, y, **how)
            with self._counting(batch):
                self._handle.learn_parts(batch.parts(), count_threads(self.n_jobs), self._dirichlet)

    @contextmanager
    def _counting(self, batch: Batch) -> Iterator[None]:
        """Count the rows of each class that are learned, also before Ctrl-C; word errors."""
        n_before = self._core.n_samples
        try:
            yield
        except ValueError as error:
            batch.encoder.name_column(error)
            raise
        finally:
            fitted = self._handle.fitted
            if self.class_weight == "balanced" and fitted is not None:
                classes = batch.encoded.labels[cast(Floats, batch.weights) != 0]
                n_learned = fitted.core.n_samples - n_before
                cast(ClassLabels, fitted.labels).counts.add_all(classes[:n_learned])

    def _encode_plain(
        self, X: ArrayLike | Table, y: ArrayLike, **how: Any
    ) -> tuple[Features, NDArray[Any]] | None:
        """Encode arrays that need only the core's checks; None if X and y are others."""
        fitted = self._handle.fitted
        if fitted is None or self._handle.changes:
            return None
        if self.class_weight is not None or any(value is not None for value in how.values()):
            return None
        encoder, labels, core = fitted.encoder, fitted.labels, fitted.core
        if not (encoder.accepts(X) and is_plain(y, 1) and len(X) == len(y)):
            return None
        if not can_count(core, len(y)) or (encoded := labels.encode_plain(y)) is None:
            return None
        if not fitted.may_learn(encoded):
            return None
        rows = as_rows(X)
        if not self._handle.scales.is_over:
            self._handle.scales.look_ahead(core, encoder, rows, np.arange(len(rows)))
        return rows, encoded

    def _predict_then_learn(
        self, X: ArrayLike, y: ArrayLike, n_unknown: int = 0, **how: Any
    ) -> list[Floats]:
        """Return the predictions part by part: later ones may have more classes.

        The first `n_unknown` rows come before any class is known, and have no loss.
        """
        handle, n_threads = self._handle, count_threads(self.n_jobs)
        with handle.learning(X), handle.unchanged_unless_learned():
            plain = self._encode_plain(X, y, **how)
            if plain is not None:
                parts = iter([Part([], *plain, None)])
                try:
                    return handle.predict_then_learn(parts, n_threads, self._dirichlet, n_unknown)
                except ValueError as error:
                    word_label_error(error, y)
                    raise
            batch = self._prepare(X, y, **how)
            with self._counting(batch):
                parts = batch.parts()
                return handle.predict_then_learn(parts, n_threads, self._dirichlet, n_unknown)

    def _prepare(
        self,
        X: ArrayLike | Table,
        y: ArrayLike,
        *,
        afresh: bool | None = None,
        classes: Any = None,
        sample_weight: ArrayLike | None = None,
        named: NamedColumns | None = None,
    ) -> Batch:
        """Validate and encode X and y, and grow the core, or build the first one.

        Nothing changes until all is validated; then the new parts are published as one.
        """
        handle = self._handle
        fitted = None if afresh else handle.fitted
        if fitted is None:
            self._validate_params()
        else:
            self._refuse_changes()
        count_threads(self.n_jobs)
        y = self._validate_labels(as_labels(y))
        encoder, table, y = self._encode_features(X, y, fitted, named)
        weights = None if sample_weight is None else validate_weights(sample_weight, len(y))
        learned = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
        if fitted is None:
            if not len(learned):
                raise ValueError("sample_weight is zero for all rows: nothing is left to learn")
            labels, classes = self._new_labels(y if afresh else y[learned[:1]], classes), None
        else:
            labels = fitted.labels
        encoded = labels.encode(y, learned, classes)
        if isinstance(labels, ClassLabels) and encoded.new:
            n_known, n_rows = len(labels.index_of), len(learned)
            n_rows += 0 if fitted is None else fitted.core.n_samples
            warn_of_many_classes(n_known, n_known + len(encoded.new), n_rows)
        weights = labels.weigh(encoded, weights, self.class_weight)
        encoder = encoder.extend(table, learned, self.max_categories)
        batch = Batch(encoder, table, encoded, weights)
        early = None if fitted is None else fitted.early
        settles_step = self._settles_step() if fitted is None else early is not None
        if settles_step or len(batch.slices()) > 1:  # the core checks each part alone
            check_magnitudes(table.numbers, encoder.schema.number_columns)
            check_least_weight(weights)
        if fitted is None:
            core = self._first_core(encoder, labels, table)
            early = EarlyRows.before(core) if settles_step else None
            handle.keep_losses(core)
            core = core if settles_step else handle.place(core)
        else:
            check_in_box(table.numbers, fitted.core.bounds)
            core = reserve_columns(fitted.core, encoder, self.max_categories)
        core = count_exactly(core, len(y) if weights is None else weights)
        handle.fitted = Fitted(encoder, labels, core, early)
        if fitted is None:
            handle.progress = 0.0, 0.0
            handle.scales.restart()
            handle.has_noted_unknown = False
            handle.changes.clear()
        handle.scales.look_ahead(core, encoder, table.numbers, learned)
        return batch

    def _encode_features(
        self, X: Any, y: Any, fitted: Fitted | None, named: NamedColumns | None
    ) -> tuple[Encoder, Table, NDArray[Any]]:
        if named is not None:
            table = Table(as_rows(X), [])
            return Encoder.of_named(named), table, validate_labels(table, y)
        if fitted is None:
            return Encoder.fit(self, X, y)
        if isinstance(X, Table):
            return fitted.encoder, X, validate_labels(X, y)
        return fitted.encoder, *fitted.encoder.validate(self, X, y)

    def _first_core(self, encoder: Encoder, labels: Labels, table: Table) -> Core:
        n_numbers, categories = encoder.layout
        box = self._box(encoder)
        check_in_box(table.numbers, box)
        return self._new_core(
            labels,
            n_numbers=n_numbers,
            categories=list(categories.capacities((), self.max_categories)),
            bounds=box,
            options=self._options(encoder.schema.n_features),
            seeds=tree_seeds(self.random_state, self._n_trees()),
        )

    # Predictions

    def _run(self, fitted: Fitted, method: str, X: ArrayLike) -> NDArray[Any]:
        """Call a method of the core with the rows of X: a sparse X in blocks, others at once."""
        call, encoder = getattr(fitted.core, method), fitted.encoder
        n_threads = count_threads(self.n_jobs)
        if encoder.accepts(X):
            result: NDArray[Any] = call(as_rows(X), n_threads)
            return result
        table, _ = encoder.validate(self, X)
        blocks = table.blocks(0, table.n_rows)
        with encoder.columns_named():
            return join_parts([call(encoder.rows(table, part), n_threads) for part in blocks])

    def _run_explain(self, fitted: Fitted, X: ArrayLike) -> Floats:
        """Return base values and contributions: n_rows × (1 + columns of the core) × outputs."""
        encoder, n_threads = fitted.encoder, count_threads(self.n_jobs)
        if encoder.accepts(X):
            return fitted.core.explain(as_rows(X), n_threads)
        table, _ = encoder.validate(self, X)
        blocks = table.blocks(0, table.n_rows)
        with encoder.columns_named():
            parts = [fitted.core.explain(encoder.rows(table, part), n_threads) for part in blocks]
        return join_terms(parts, fitted.core)

    def _explanation(
        self, fitted: Fitted, X: ArrayLike, terms: Floats, unit: str, classes: Any = None
    ) -> Explanation:
        """Return what `_run_explain` has returned, for those features and classes."""
        encoder = fitted.encoder
        names = None if encoder.schema.names is None else encoder.schema.names.tolist()
        given = read_given(self, X, encoder.schema)
        return explanation_of(terms, encoder.columns(), given, names, classes, unit=unit)

    # Inspection

    @property
    def n_features_in_(self) -> int:
        """The number of columns of X."""
        return self._attributes().schema.n_columns

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns of X, if it had names."""
        names = self._attributes().schema.column_names
        if names is None:
            raise AttributeError("the columns of X have no names")
        return names

    @property
    def feature_names_(self) -> NDArray[Any]:
        """The names of the features: X's columns, but parts of dates, and no dropped columns."""
        names = self._attributes().schema.names
        if names is None:
            raise AttributeError("the features have no names")
        return names

    @property
    def is_categorical_(self) -> NDArray[np.bool_]:
        """Which features hold categories."""
        return self._attributes().schema.is_categorical

    @property
    def categories_(self) -> dict[Any, list[Any]]:
        """The categories of each categorical feature, in the order in which they appeared.

        The first `max_categories`; then, if there were more, one value that stands for all others
        and is printed as ``<others>``.
        """
        encoder = self._attributes()
        if encoder.categories is None:
            return {}
        schema = encoder.schema
        names = np.arange(schema.n_features) if schema.names is None else schema.names
        selected = names[schema.is_categorical].tolist()
        return dict(zip(selected, encoder.categories.lists(), strict=True))

    @property
    def n_samples_seen_(self) -> int:
        """How many rows were learned."""
        return self._core.n_samples

    @property
    def feature_importances_(self) -> Floats:
        """The part of each feature in what splits save of the loss: all 0 while nothing is known.

        They are in the order of `feature_names_`, add up to 1, and are learned online:
        `amforest.inspection.importances` returns how much of the loss that is, in each memory.
        """
        self._attributes()
        return importances_of(self._fitted()).normalised()

    def weighted_depth(self, X: ArrayLike) -> Floats:
        """Return the mean depth of prediction over all prunings, by their weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
            Σ_T w(T) depth_T(x) for each row and tree.
        """
        return self._run(self._fitted(), "weighted_depth", X)

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_estimators)
            Rows of the trees' tables: see `tree_table`. This visits all nodes once.
        """
        return self._run(self._fitted(), "apply", X)

    def tree_table(self, i: int) -> NDArray[Any]:
        """Return the nodes of tree i as a structured array, in preorder.

        Parameters
        ----------
        i : int
            The tree. Negative numbers count from the last one.

        Returns
        -------
        structured ndarray
            With fields `parent`, `left`, `right` (rows of this table, -1 where there is no such
            node), `depth`, `feature` and `threshold` (x[feature] <= threshold goes left; both -1
            in leaves), `category` (the category with this index goes right, all others left; -1
            where numbers are split), `birth_time`, `n_samples` (the sum of their weights; whole
            numbers as long as a classifier's weights are), `counts` (of each class) or `mean`,
            `lower` and `upper` (the range of the features seen, NaN where none was; with
            ``partition="unrestricted"`` the cell), `seen` (whether each category of each
            categorical feature was seen, as `categories_` lists them), `share` (½ w / w̄: the
            weight of the prunings that stop at the node among those that reach it; 1 in leaves),
            and the same as odds w / (w̄₀ w̄₁) = `odds` · 2^(256 `odds_scale`). Without categorical
            features there is no `category` and no `seen`.
        """
        return build_table(table_columns(self._fitted(), i))

    def stats(self) -> dict[str, Any]:
        """Return the size of the model, and its progressive loss.

        Returns
        -------
        dict
            `samples`: the rows that were learned. `nodes`, `depth` (of the deepest leaf) and
            `bytes` of the forest. `progressive_loss`: the mean loss of the predictions that
            test-then-train made before it learned each row (log-loss, or the squared error), None
            without any. `rejected_rows`: the rows that this object refused with an error; they are
            not part of the model, and not saved.
        """
        handle = self._handle
        core = None if handle.fitted is None else handle.fitted.core
        weight, loss = handle.progress
        return {
            "samples": 0 if core is None else core.n_samples,
            "nodes": 0 if core is None else core.n_nodes,
            "depth": 0 if core is None else int(core.depths().max()),
            "bytes": 0 if core is None else core.n_bytes,
            "progressive_loss": loss / weight if weight > 0 else None,
            "rejected_rows": handle.n_rejected,
        }

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._handle.fitted is not None

    def _fitted(self) -> Fitted:
        fitted = self._handle.fitted
        if fitted is None:  # check_is_fitted takes longer than predicting a row
            name = type(self).__name__
            raise NotFittedError(f"{name} is not fitted: call fit, partial_fit or learn_one first")
        return fitted

    @property
    def _core(self) -> Core:
        return self._fitted().core

    def _attributes(self) -> Encoder:
        """Return the encoder; AttributeError before fitting, as scikit-learn expects."""
        if self._handle.fitted is None:
            raise AttributeError(f"{type(self).__name__} is not fitted")
        return self._handle.fitted.encoder

    # Saving, pickling and copying

    def to_bytes(self) -> bytes:
        """Return the model as the bytes of a model file; see `amforest.model_io`."""
        from amforest.model_io import model_file  # noqa: PLC0415  # which loads estimators

        return model_file.to_bytes(self)

    def freeze(self) -> Any:
        """Return a frozen copy: small, immutable, and fast to predict with.

        Its predictions are those of this forest, bit for bit. It keeps no rows and never learns.

        Returns
        -------
        FrozenClassifier, FrozenRegressor or FrozenAdaptiveRegressor
            See `amforest.frozen`.
        """
        from amforest.frozen import freeze_forest, wrap  # noqa: PLC0415  # which wraps estimators

        return wrap(freeze_forest(self))

    def __getstate__(self) -> dict[str, Any]:
        return {"params": self.__dict__.copy(), "model": self._handle.state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["params"])
        self._handle.restore(state["model"])


def _are_same(old: Any, new: Any) -> bool:
    """Return whether two values of a parameter mean the same."""
    return old is new or (type(old) is type(new) and np.array_equal(old, new))


def learn_named_rows(
    model: Estimator, columns: NamedColumns, rows: Floats, y: Any, weights: Any
) -> None:
    """Learn rows that river's columns have encoded; publish the columns unless there is an error.

    The caller holds the lock of the model's handle.
    """
    check_magnitudes(rows, list(columns.of))
    model._learn_batch(rows, y, sample_weight=weights, named=columns)


def learn_named_row(
    model: Estimator, columns: NamedColumns, row: Floats, y: Any, weight: float | None
) -> None:
    """Learn one such row."""
    weight = 1.0 if weight is None else weight
    fitted = model._handle.fitted
    if fitted is not None and fitted.encoder.named is columns:
        model._learn_any_row(row, y, weight)
    else:
        learn_named_rows(model, columns, row[None], [y], [weight])
