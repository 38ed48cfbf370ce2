"""The forests for river: rows are dicts, and features come and go.

Each holds the scikit-learn estimator of its name, and so the same core.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from amforest import classifier, regressor
from amforest._forest.class_labels import ClassLabels, decide
from amforest._forest.class_weights import ClassWeight
from amforest._forest.column_kinds import Schema
from amforest._forest.core_handle import (
    CoreHandle,
    Fitted,
    count_threads,
    drop_numbers,
    handle_of,
    predict_row,
    reserve_columns,
)
from amforest._forest.core_options import learning_rate
from amforest._forest.encoder import Encoder, NamedColumns, NamedValues, Requested
from amforest._forest.estimator import Estimator, learn_named_row, learn_named_rows
from amforest._forest.explanation import RowExplanation
from amforest._forest.importances import importances_of
from amforest._forest.inputs import as_rows, lists_columns
from amforest._forest.losses import Floats
from amforest.distribution import PredictiveDistribution
from amforest.frozen import freeze_forest, wrap
from amforest.frozen_river import (
    FrozenRiverAdaptiveRegressor,
    FrozenRiverClassifier,
    FrozenRiverRegressor,
)

try:
    from river import base
except ImportError as error:
    raise ImportError("amforest.river needs river: pip install 'amforest[river]'") from error

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AMFClassifier", "AMFRegressor", "AdaptiveAMFClassifier", "AdaptiveAMFRegressor"]

_NO_COLUMNS = NamedColumns()


class _River(base.Estimator):
    """The base of all: it holds the scikit-learn estimator, and does all but predictions.

    A subclass stores its parameters, which are the estimator's, and calls `_build_forest`.
    """

    _estimator: ClassVar[type[Estimator]]
    _model: Estimator
    n_jobs: int | None
    categorical_features: Requested
    max_categories: int | None

    def _build_forest(self) -> None:
        requested = self.categorical_features
        if isinstance(requested, str | bytes | bytearray):  # not a list of names
            is_valid = requested in ("auto", "from_dtype")
        else:
            is_valid = requested is None or isinstance(requested, Collection)
        if not is_valid:
            raise ValueError(
                f"categorical_features is {requested!r}; it must be 'auto', 'from_dtype', None "
                "or a collection of names"
            )
        # The rows that the model learns are encoded: its X has no categories.
        params = self._get_params() | {"categorical_features": None}
        replace_forest(self, self._estimator(random_state=params.pop("seed"), **params))

    def learn_one(self, x: NamedValues, y: Any, w: float = 1.0) -> None:
        """Learn one row.

        Parameters
        ----------
        x
            The features: name -> number, category or date. A feature that is absent or None is
            missing, and so is a number that is NaN. New features may appear at any time.
        y
            The label.
        w
            The weight: a row of weight w counts as w rows; a row of weight 0 is not learned.
        """
        if w == 0:
            return
        handle = handle_of(self._model)
        with handle.lock:
            columns = columns_of(handle.fitted)
            if (row := columns.full_row(x)) is not None:
                self._model.learn_one(row, y, w)
                return
            with handle.learning([x]):  # features or categories may be new, or missing
                columns = columns.extend_by_row(x, self.categorical_features, self.max_categories)
                learn_named_row(self._model, columns, columns.row(x), y, w)

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: float | pd.Series | None = None) -> None:
        """Learn the rows of X, in their order: the same, bit for bit, as `learn_one` for each.

        Parameters
        ----------
        X
            The features: a column for each.
        y
            The labels.
        w
            The weights: one for each row or one for all. None means 1.
        """
        if not X.columns.is_unique:
            raise ValueError(
                f"X has the columns {X.columns.tolist()}; each column must have a name of its own"
            )
        labels, weights = np.asarray(y), None
        if w is not None:
            weights = np.broadcast_to(np.asarray(w, dtype=np.float64), len(X))
            learned = weights != 0
            X, labels, weights = X[learned], labels[learned], weights[learned]
        if not len(X):
            return
        handle, known = self._handle, columns_of(self._handle.fitted)
        with handle.learning(X):
            starts = []
            if self._model.is_adaptive:  # its random numbers depend on whether there are categories
                starts = known.starts_of_categories(X, self.categorical_features)
            if not starts:
                self._learn_frame(X, labels, weights)
                return
            with handle.restored_on_error():
                for start, end in pairwise([0, *starts, len(X)]):
                    part = slice(start, end)
                    self._learn_frame(
                        X[part], labels[part], None if weights is None else weights[part]
                    )

    def _learn_frame(self, X: pd.DataFrame, labels: Any, weights: Floats | None) -> None:
        columns = columns_of(self._handle.fitted).extend_by_frame(
            X, self.categorical_features, self.max_categories
        )
        learn_named_rows(self._model, columns, columns.rows(X), labels, weights)

    @property
    def n_samples_seen_(self) -> int:
        """How many rows were learned."""
        fitted = self._handle.fitted
        return 0 if fitted is None else fitted.core.n_samples

    @property
    def feature_importances_(self) -> dict[Hashable, float]:
        """Name -> the part of the feature in what splits save of the loss: {} before any data.

        They add up to 1, or are all 0 while nothing is known; see
        `amforest.inspection.importances`.
        """
        fitted = self._handle.fitted
        if fitted is None:
            return {}
        found = importances_of(fitted)
        return dict(zip(found.names, found.normalised().tolist(), strict=True))

    @property
    def _handle(self) -> CoreHandle:
        return handle_of(self._model)

    def _predict_row(self, fitted: Fitted, x: NamedValues) -> Floats:
        return predict_row(fitted, columns_of(fitted).row(x))

    def _predict_rows(self, fitted: Fitted, X: pd.DataFrame) -> Floats:
        rows = as_rows(columns_of(fitted).rows(X))
        with fitted.encoder.columns_named():
            return fitted.core.predict(rows, count_threads(self._model.n_jobs))

    def _explain_row(self, fitted: Fitted, x: NamedValues) -> Floats:
        """Return the base value and the contributions of the core's columns, for each output."""
        row = columns_of(fitted).row(x)[None]
        with fitted.encoder.columns_named():
            terms: Floats = fitted.core.explain(as_rows(row), 1)[0]
        return terms

    def stats(self) -> dict[str, Any]:
        """Return how large the model is; see `amforest.AMFClassifier.stats`."""
        return self._model.stats()

    def to_bytes(self) -> bytes:
        """Return the model as the bytes of a model file; see `amforest.model_io`."""
        from amforest.model_io import model_file  # noqa: PLC0415  # which loads estimators

        return model_file.to_bytes(self)

    def freeze(self) -> Any:
        """Return a frozen copy: small, immutable, with the same predictions, bit for bit.

        See `amforest.AMFClassifier.freeze`; rows are dicts, as here.
        """
        twin = copy.copy(self)
        twin._model = freeze_forest(self._model)
        return wrap(twin)

    def to_sklearn(self) -> Any:
        """Return the same forest as the scikit-learn estimator; the two share nothing.

        The features' names become `feature_names_in_` if all are strings.
        """
        model = copy.deepcopy(self._model)
        handle = handle_of(model)
        columns = columns_of(handle.fitted)
        names, n_categorical = list(columns.of), len(columns.categorical)
        have_names = bool(names) and all(isinstance(name, str) for name in names)
        if n_categorical:
            indices = list(range(n_categorical))
            model.categorical_features = columns.categorical if have_names else indices
        else:
            model.categorical_features = self.categorical_features
        if handle.fitted is not None:
            core = handle.fitted.core
            n_numbers = len(columns.numbers) or int(not n_categorical)
            is_categorical = np.arange(n_categorical + n_numbers) < n_categorical
            schema = Schema(is_categorical, np.array(names, dtype=object) if have_names else None)
            encoder = Encoder(schema, columns.categories if n_categorical else None)
            core = drop_numbers(core, n_numbers)
            handle.fitted = replace(handle.fitted, encoder=encoder, core=core)
            handle.changes.clear()
        return model

    @classmethod
    def from_sklearn(cls, model: Any) -> Self:
        """Return the same forest as the scikit-learn estimator `model`; the two share nothing.

        The features have the names `feature_names_in_` or else 0, 1, 2, …
        """
        if not isinstance(model, cls._estimator):
            raise TypeError(f"model is {model!r}; it must be an amforest.{cls.__name__}")
        params = model.get_params(deep=False)
        if params.pop("partition", "restricted") != "restricted":
            raise ValueError(
                "model has partition='unrestricted'; it must be 'restricted', because features "
                "come and go in river"
            )
        if params.get("step", 1.0) is None:
            params["step"] = learning_rate(model)
        for name in ("classes", "bounds", "bound", "strict"):  # the copy keeps the classes it has
            params.pop(name, None)
        if lists_columns(params["categorical_features"]):
            params["categorical_features"] = list(getattr(model, "categories_", ()))
        new: Self = cast(Any, cls)(seed=params.pop("random_state"), **params)
        replace_forest(new, copy.deepcopy(model))
        new._model.categorical_features = None
        if (fitted := new._handle.fitted) is not None:
            encoder = Encoder.of_named(_named_columns(fitted.encoder))
            core = reserve_columns(fitted.core, encoder)
            new._handle.fitted = replace(fitted, encoder=encoder, core=core)
            new._handle.changes.clear()
        return new

    @property
    def _raw_memory_usage(self) -> int:
        fitted = self._handle.fitted
        n_bytes = 0 if fitted is None else fitted.core.n_bytes
        return int(super()._raw_memory_usage) + n_bytes  # river counts Python's objects only


class _AMF(_River):
    """The parameters of the paper's forests."""

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float | str = 1.0,
        use_aggregation: bool = True,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
        split_prior: tuple[float, float] = (0.5, 0.0),
        categorical_features: Requested = "auto",
        max_categories: int | None = 256,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        n_jobs: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.step = step
        self.use_aggregation = use_aggregation
        self.split_pure = split_pure
        self.charge_first = charge_first
        self.predict_extends = predict_extends
        self.split_prior = split_prior
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.seed = seed
        self._build_forest()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"n_estimators": 3, "seed": 1}
        yield {"n_estimators": 2, "charge_first": True, "predict_extends": True}
        yield {"n_estimators": 2, "use_aggregation": False, "split_pure": True, "n_jobs": 2}


class _Classifier(_River, base.MiniBatchClassifier):
    """The predictions of classifiers."""

    _frozen_type = FrozenRiverClassifier
    class_weight: ClassWeight = None  # of models that earlier versions have pickled
    threshold: float | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: NamedValues, **kwargs: Any) -> dict[Any, float]:
        """Predict the probabilities of the labels known so far: {} before any data."""
        fitted = self._handle.fitted
        if fitted is None:
            return {}
        return cast(ClassLabels, fitted.labels).by_label(self._predict_row(fitted, x))

    def predict_one(self, x: NamedValues, **kwargs: Any) -> Any:
        """Predict the most probable label, or that of `threshold`: None before any data."""
        probabilities = self.predict_proba_one(x)
        if self.threshold is None or not probabilities:
            return max(probabilities, key=probabilities.__getitem__, default=None)
        best = decide(np.array(list(probabilities.values())), self.threshold)
        return list(probabilities)[best]

    def explain_one(self, x: NamedValues) -> RowExplanation | None:
        """Return what each feature contributes to the prediction of a row: None before any data.

        Parameters
        ----------
        x
            The features.

        Returns
        -------
        RowExplanation
            A pair of the base value and the contributions by feature. Each is a dict by label, of
            probabilities; `AdaptiveAMFClassifier` explains logarithms of probabilities (softmax
            makes these of the sums), and of two labels only the log-odds of the second, without a
            dict by label.
        """
        fitted = self._handle.fitted
        if fitted is None:
            return None
        terms, columns = self._explain_row(fitted, x), columns_of(fitted)
        base, *rest = map(cast(ClassLabels, fitted.labels).by_label, terms)
        labels = list(base)
        if self._model.is_adaptive and len(labels) == 2:
            first, second = labels
            odds = [values[second] - values[first] for values in (base, *rest)]
            return RowExplanation(odds[0], _by_feature(columns, odds[1:]))
        by_label = {
            label: _by_feature(columns, [values[label] for values in rest]) for label in labels
        }
        return RowExplanation(base, by_label)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Predict the probabilities of the labels known so far, a column for each."""
        import pandas as pd  # noqa: PLC0415  # only for those who have frames

        fitted = self._handle.fitted
        if fitted is None or not len(X):
            return pd.DataFrame(index=X.index)
        by_index, labels = self._predict_rows(fitted, X), cast(ClassLabels, fitted.labels)
        # As objects, labels keep their types.
        columns = pd.Index(labels.names(by_index.shape[1]), dtype=object)
        return pd.DataFrame(labels.sort_columns(by_index), X.index, columns)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predict the most probable label of each row, or that of `threshold`.

        Before any data it is None.
        """
        import pandas as pd  # noqa: PLC0415

        probabilities = self.predict_proba_many(X)
        if probabilities.empty:
            return pd.Series([None] * len(X), X.index, dtype=object)
        labels = probabilities.columns.tolist()
        best = decide(probabilities.to_numpy(), self.threshold)
        return pd.Series([labels[k] for k in best.tolist()], X.index)


class AMFClassifier(_AMF, _Classifier):
    """Aggregated Mondrian forest for classification, for river.

    New labels and new features may appear at any time. Labels are strings, or numbers and bools.

    Parameters
    ----------
    n_estimators, step, use_aggregation, dirichlet, split_pure
        As in `amforest.AMFClassifier`.
    charge_first, predict_extends, split_prior, max_nodes, max_bytes, n_jobs
        As in `amforest.AMFClassifier`.
    class_weight, threshold
        As in `amforest.AMFClassifier`. The second of two classes is the larger label.
    categorical_features
        The names of features that hold categories, of any hashable type. "auto" and "from_dtype"
        mean the features whose first value is text. Dates become numbers, but with "from_dtype" and
        None they are an error.
    max_categories
        So many categories of a feature have a column each, the first ones; all later ones share
        one column. None means no limit.
    seed
        The same number gives the same forest.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from amforest.river import AMFClassifier
    >>> model = AMFClassifier(seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 89.75%
    """

    _estimator = classifier.AMFClassifier
    _model: classifier.AMFClassifier

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float = 1.0,
        use_aggregation: bool = True,
        dirichlet: float | None = None,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
        split_prior: tuple[float, float] = (0.5, 0.0),
        categorical_features: Requested = "auto",
        max_categories: int | None = 256,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        class_weight: ClassWeight = None,
        threshold: float | None = None,
        n_jobs: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.dirichlet = dirichlet
        self.class_weight = class_weight
        self.threshold = threshold
        super().__init__(
            n_estimators,
            step=step,
            use_aggregation=use_aggregation,
            split_pure=split_pure,
            charge_first=charge_first,
            predict_extends=predict_extends,
            split_prior=split_prior,
            categorical_features=categorical_features,
            max_categories=max_categories,
            max_nodes=max_nodes,
            max_bytes=max_bytes,
            n_jobs=n_jobs,
            seed=seed,
        )


class AdaptiveAMFClassifier(_Classifier):
    """Adaptive forest for classification, for river: follows drift, and forgets.

    New labels and new features may appear at any time. Labels are strings, or numbers and bools. A
    tree knows nothing of a feature that appears later until it is regrown.

    Parameters
    ----------
    n_estimators, memories, honest_memories, n_candidates, mixer_rate, row_limit
        As in `amforest.AdaptiveAMFClassifier`.
    step, use_aggregation, dirichlet, split_pure, max_nodes, max_bytes, n_jobs
        As in `amforest.AdaptiveAMFClassifier`.
    class_weight, threshold
        As in `amforest.AMFClassifier`. The second of two classes is the larger label.
    categorical_features
        The names of features that hold categories, of any hashable type. "auto" and "from_dtype"
        mean the features whose first value is text. Dates become numbers, but with "from_dtype" and
        None they are an error.
    max_categories
        So many categories of a feature are distinguished; all later ones count as one. None means
        no limit.
    seed
        The same number gives the same forest.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from amforest.river import AdaptiveAMFClassifier
    >>> model = AdaptiveAMFClassifier(seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 91.19%
    >>> model.memory_names_[:3]
    ['all', '4000', '1000']
    """

    _estimator = classifier.AdaptiveAMFClassifier
    _model: classifier.AdaptiveAMFClassifier

    def __init__(
        self,
        n_estimators: int = 5,
        *,
        memories: Sequence[int | None] = (None, 4000, 1000, 250, 60, 15),
        honest_memories: Sequence[int | None] = (None, 4000),
        n_candidates: int = 30,
        mixer_rate: float = 0.01,
        row_limit: int = 65_536,
        step: float = 1.0,
        use_aggregation: bool = True,
        dirichlet: float | None = None,
        split_pure: bool = False,
        categorical_features: Requested = "auto",
        max_categories: int | None = 10_000,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        class_weight: ClassWeight = None,
        threshold: float | None = None,
        n_jobs: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.memories = memories
        self.honest_memories = honest_memories
        self.n_candidates = n_candidates
        self.mixer_rate = mixer_rate
        self.row_limit = row_limit
        self.step = step
        self.use_aggregation = use_aggregation
        self.dirichlet = dirichlet
        self.class_weight = class_weight
        self.threshold = threshold
        self.split_pure = split_pure
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.seed = seed
        self._build_forest()

    @property
    def memory_names_(self) -> list[str]:
        """The names of the groups of trees; AttributeError before any data."""
        return self._model.memory_names_

    @property
    def memory_weights_(self) -> Floats:
        """The weights of the groups in the mixer; AttributeError before any data."""
        return self._model.memory_weights_

    @property
    def memory_weights_history_(self) -> tuple[NDArray[np.int64], Floats]:
        """Numbers of rows learned, and these weights after them."""
        return self._model.memory_weights_history_

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"seed": 1}
        yield {"n_estimators": 2, "memories": (None, 60, 15), "n_jobs": 2}
        # Within river, an empty tuple is an error.
        yield {"n_estimators": 1, "memories": (30,), "honest_memories": [], "n_candidates": 1}


class _Regressor(_River, base.MiniBatchRegressor):
    """The predictions of regressors."""

    _frozen_type = FrozenRiverRegressor

    def predict_one(self, x: NamedValues, **kwargs: Any) -> float:
        """Predict the label: 0 before any data."""
        fitted = self._handle.fitted
        return 0.0 if fitted is None else float(self._predict_row(fitted, x)[0])

    def explain_one(self, x: NamedValues) -> RowExplanation | None:
        """Return what each feature contributes to the prediction of a row: None before any data.

        Parameters
        ----------
        x
            The features.

        Returns
        -------
        RowExplanation
            A pair of the base value and the contributions by feature, which add up to what
            `predict_one` returns.
        """
        fitted = self._handle.fitted
        if fitted is None:
            return None
        base, *rest = self._explain_row(fitted, x)[:, 0].tolist()
        return RowExplanation(base, _by_feature(columns_of(fitted), rest))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predict the label of each row: 0 before any data."""
        import pandas as pd  # noqa: PLC0415

        fitted = self._handle.fitted
        if fitted is None or not len(X):
            return pd.Series(0.0, X.index)
        return pd.Series(self._predict_rows(fitted, X)[:, 0], X.index)


class AMFRegressor(_AMF, _Regressor):
    """Aggregated Mondrian forest for regression, for river.

    New features may appear at any time.

    Parameters
    ----------
    n_estimators, step, use_aggregation, split_pure, charge_first, predict_extends
        As in `amforest.AMFRegressor`.
    split_prior, max_nodes, max_bytes, n_jobs
        As in `amforest.AMFRegressor`.
    categorical_features
        The names of features that hold categories, of any hashable type. "auto" and "from_dtype"
        mean the features whose first value is text. Dates become numbers, but with "from_dtype" and
        None they are an error.
    max_categories
        So many categories of a feature have a column each, the first ones; all later ones share
        one column. None means no limit.
    seed
        The same number gives the same forest.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from amforest.river import AMFRegressor
    >>> model = AMFRegressor(seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.431375
    """

    _estimator = regressor.AMFRegressor
    _model: regressor.AMFRegressor

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float | str = "auto",
        use_aggregation: bool = True,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
        split_prior: tuple[float, float] = (0.5, 0.0),
        categorical_features: Requested = "auto",
        max_categories: int | None = 256,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        n_jobs: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_estimators,
            step=step,
            use_aggregation=use_aggregation,
            split_pure=split_pure,
            charge_first=charge_first,
            predict_extends=predict_extends,
            split_prior=split_prior,
            categorical_features=categorical_features,
            max_categories=max_categories,
            max_nodes=max_nodes,
            max_bytes=max_bytes,
            n_jobs=n_jobs,
            seed=seed,
        )

    @property
    def step_(self) -> float:
        """The step in use; AttributeError before any data."""
        return self._model.step_


class AdaptiveAMFRegressor(_Regressor):
    """Adaptive forest for regression, for river: follows drift, and predicts intervals.

    New features may appear at any time. A tree knows nothing of a feature that appears later until
    it is regrown.

    Parameters
    ----------
    n_estimators, memories, n_candidates, row_limit
        As in `amforest.AdaptiveAMFRegressor`.
    use_aggregation, split_pure, max_nodes, max_bytes, n_jobs
        As in `amforest.AdaptiveAMFRegressor`.
    categorical_features
        The names of features that hold categories, of any hashable type. "auto" and "from_dtype"
        mean the features whose first value is text. Dates become numbers, but with "from_dtype" and
        None they are an error.
    max_categories
        So many categories of a feature are distinguished; all later ones count as one. None means
        no limit.
    seed
        The same number gives the same forest.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from amforest.river import AdaptiveAMFRegressor
    >>> model = AdaptiveAMFRegressor(seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.253392
    """

    _frozen_type = FrozenRiverAdaptiveRegressor
    _estimator = regressor.AdaptiveAMFRegressor
    _model: regressor.AdaptiveAMFRegressor

    def __init__(
        self,
        n_estimators: int = 3,
        *,
        memories: Sequence[int | None] = (None, 4000, 1000, 250, 60, 15),
        n_candidates: int = 30,
        row_limit: int = 65_536,
        use_aggregation: bool = True,
        split_pure: bool = False,
        categorical_features: Requested = "auto",
        max_categories: int | None = 10_000,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        n_jobs: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.memories = memories
        self.n_candidates = n_candidates
        self.row_limit = row_limit
        self.use_aggregation = use_aggregation
        self.split_pure = split_pure
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.seed = seed
        self._build_forest()

    def predict_dist_one(self, x: NamedValues) -> PredictiveDistribution | None:
        """Predict the distribution of the label: None before any data."""
        fitted = self._handle.fitted
        return (
            None if fitted is None else PredictiveDistribution(self._predict_row(fitted, x)[None])
        )

    def predict_interval_one(
        self, x: NamedValues, coverage: float = 0.9
    ) -> tuple[float, float] | None:
        """Predict an interval that holds a part `coverage` of the labels: None before any data."""
        ends = regressor.ends_of(coverage)
        dist = self.predict_dist_one(x)
        if dist is None:
            return None
        low, high = dist.quantiles(ends)[0].tolist()
        return low, high

    @property
    def memory_names_(self) -> list[str]:
        """The names of what the mixer combines; AttributeError before any data."""
        return self._model.memory_names_

    @property
    def memory_weights_(self) -> Floats:
        """The parts of these in the predicted mean; AttributeError before any data."""
        return self._model.memory_weights_

    @property
    def memory_weights_history_(self) -> tuple[NDArray[np.int64], Floats]:
        """Numbers of rows learned, and these weights after them."""
        return self._model.memory_weights_history_

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"seed": 1}
        yield {"n_estimators": 2, "memories": (None, 60, 15), "n_jobs": 2}
        yield {"n_estimators": 1, "memories": (30,), "n_candidates": 1}


def forest_of(model: Any) -> Estimator:
    """Return the scikit-learn estimator that a model of river holds."""
    forest: Estimator = model._model
    return forest


def replace_forest(model: Any, forest: Estimator) -> None:
    """Let a model of river hold another estimator, which has learned river's columns."""
    model._model = forest


def columns_of(fitted: Fitted | None) -> NamedColumns:
    """Return the features that a model of river has seen so far."""
    columns = None if fitted is None else fitted.encoder.named
    return _NO_COLUMNS if columns is None else columns


def _by_feature(columns: NamedColumns, values: list[float]) -> dict[Any, float]:
    """Return values of the core's columns by the names of the features."""
    return {name: values[column] for name, column in columns.of.items()}


def _named_columns(encoder: Encoder) -> NamedColumns:
    """Return the columns of a scikit-learn estimator by their names, or else by their indices."""
    schema = encoder.schema
    names = np.arange(schema.n_features) if schema.names is None else schema.names
    codes = () if encoder.categories is None else encoder.categories.codes
    return NamedColumns(
        names[~schema.is_categorical].tolist(),
        dict(zip(names[schema.is_categorical].tolist(), codes, strict=True)),
    )
