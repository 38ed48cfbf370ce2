"""AMFClassifier and AMFRegressor for river: rows are dicts, and features come and go.

Each holds the scikit-learn estimator of its name, and with it the same core.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from amforest import estimators
from amforest._forest.base import Forest, Turn
from amforest._forest.features import Floats
from amforest._forest.named_columns import Columns, Features, Wish

try:
    from river import base
except ImportError as error:
    raise ImportError("amforest.river needs river: pip install amforest[river]") from error

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


class _River(base.Estimator):
    """What both estimators share: all but the forecasts."""

    _estimator: ClassVar[type[Forest]]
    _model: Forest

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        step: float = 1.0,
        use_aggregation: bool = True,
        split_pure: bool = False,
        charge_first: bool = False,
        predict_extends: bool = False,
        split_prior: tuple[float, float] = (0.5, 0.0),
        categorical_features: Wish = "from_dtype",
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
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self.n_jobs = n_jobs
        self.seed = seed
        if isinstance(categorical_features, str | bytes | bytearray):  # no names of features
            is_known = categorical_features == "from_dtype"
        else:
            is_known = categorical_features is None or isinstance(categorical_features, Collection)
        if not is_known:
            raise ValueError(
                f"categorical_features is {categorical_features!r}; it must be 'from_dtype', None "
                "or a collection of names"
            )
        # To the model, codes are numbers like others; only its core knows better.
        params = self._get_params() | {"categorical_features": None}
        self._model = self._estimator(random_state=params.pop("seed"), **params)
        self._columns = Columns()

    def learn_one(self, x: Features, y: Any, w: float = 1.0) -> None:
        """Learn one row.

        Parameters
        ----------
        x
            The features: name -> number or category. One that is absent or None is missing, and so
            is a number that is NaN; a new one has been missing so far.
        y
            The label.
        w
            The weight: a row of weight w counts as w rows; one of weight 0 is not learnt.
        """
        if w == 0:
            return
        with self._model._lock:
            if (row := self._columns.full_row(x)) is None:
                self._learn_any(x, y, w)
            else:
                self._model.learn_one(row, y, w)

    def _learn_any(self, x: Features, y: Any, w: float) -> None:
        """Learn a row that may have features or categories that are new, or lack some."""
        with Turn(self._model, [x]):
            columns = self._columns.joined_by_row(x, self.categorical_features)
            row = columns.row(x)
            with nullcontext() if columns is self._columns else self._keeping(columns):
                self._model._learn_one(row, y, w)

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
            raise ValueError(f"X has several columns of one name: {X.columns.tolist()}")
        labels, weights = np.asarray(y), None
        if w is not None:
            weights = np.broadcast_to(np.asarray(w, dtype=np.float64), len(X))
            learnt = weights != 0
            X, labels, weights = X[learnt], labels[learnt], weights[learnt]
        if not len(X):
            return
        with Turn(self._model, X):
            columns = self._columns.joined_by_frame(X, self.categorical_features)
            rows = columns.rows(X)
            with self._keeping(columns):
                self._model._learn_batch(rows, labels, sample_weight=weights)

    @contextmanager
    def _keeping(self, columns: Columns) -> Iterator[None]:
        """Make room for the columns and keep them, unless there is an error.

        Ctrl-C is none: it keeps what was learnt.
        """
        before = self._columns
        with self._model._unchanged_on_error(Exception):
            _make_room(self._model, columns)
            self._columns = columns
            try:
                yield
            except Exception:
                self._columns = before
                raise

    def _ask(self, ask: Callable[[Any], T], rows: Callable[[Columns], Any]) -> T:
        """Put rows to the model. If they do not fit it, it may just be learning new columns."""
        try:
            return ask(rows(self._columns))
        except ValueError:
            with self._model._lock:
                return ask(rows(self._columns))

    @property
    def n_samples_seen_(self) -> int:
        """How many rows were learnt."""
        return self._model.n_samples_seen_ if self._model._has_learnt() else 0

    def stats(self) -> dict[str, Any]:
        """Return how large the model is; see `amforest.AMFClassifier.stats`."""
        return self._model.stats()

    def to_bytes(self) -> bytes:
        """Return the model as the bytes of a model file; see `amforest.model_io.model_file`."""
        from amforest.model_io import model_file  # noqa: PLC0415

        return model_file.to_bytes(self)

    def to_sklearn(self) -> Any:
        """Return the same forest as the scikit-learn estimator; the two share nothing.

        The features' names become `feature_names_in_` if all are strings.
        """
        model, columns = copy.deepcopy(self._model), self._columns
        names, categorical = list(columns.of), columns.categorical
        have_names = bool(names) and all(isinstance(name, str) for name in names)
        if categorical:
            numbers = list(range(len(categorical)))
            model.categorical_features = categorical if have_names else numbers
        else:
            model.categorical_features = self.categorical_features
        if model._has_learnt():
            model._resize(len(columns.numbers) or int(not categorical), model._room)
            model.n_features_in_ = max(len(names), 1)
            model.is_categorical_ = np.arange(model.n_features_in_) < len(categorical)
            model._categories = columns.categories if categorical else None
            if have_names:
                model.feature_names_in_ = np.array(names, dtype=object)
        return model

    @classmethod
    def from_sklearn(cls, model: Any) -> Self:
        """Return the same forest as the scikit-learn estimator `model`; the two share nothing.

        The features have the names `feature_names_in_` or else 0, 1, 2, …
        """
        if not isinstance(model, cls._estimator):
            raise TypeError(f"model is {model!r}; it must be an amforest.{cls.__name__}")
        params = model.get_params(deep=False)
        if params.pop("partition") != "restricted":
            raise ValueError(
                "model has partition='unrestricted': features cannot come and go there"
            )
        params["step"] = model._eta()
        for name in ("classes", "bounds", "bound"):  # what was announced stays in the copy
            params.pop(name, None)
        wish = params["categorical_features"]
        if not (wish is None or isinstance(wish, str)):
            params["categorical_features"] = list(model.categories_)
        new = cls(seed=params.pop("random_state"), **params)
        new._model = copy.deepcopy(model)
        new._model.categorical_features = None
        if model._has_learnt():
            # scikit-learn would warn of rows without names, and those given to the copy have none.
            names = new._model.__dict__.pop("feature_names_in_", np.arange(model.n_features_in_))
            codes = model._categories.codes if model._categories else ()
            new._columns = Columns(
                names[~model.is_categorical_].tolist(),
                dict(zip(names[model.is_categorical_].tolist(), codes, strict=True)),
            )
            new._model._categories = None
            _make_room(new._model, new._columns)
        return new

    @property
    def _raw_memory_usage(self) -> int:
        core = self._model._core.n_bytes if self._model._has_learnt() else 0
        return int(super()._raw_memory_usage) + core  # river counts Python's objects only

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"n_estimators": 3, "seed": 1}
        yield {"n_estimators": 2, "charge_first": True, "predict_extends": True}
        yield {"n_estimators": 2, "use_aggregation": False, "split_pure": True, "n_jobs": 2}


class AMFClassifier(_River, base.MiniBatchClassifier):
    """Aggregated Mondrian forest for classification, for river.

    New labels and new features may come at any time. Labels are strings, or numbers and bools.

    Parameters
    ----------
    n_estimators, step, use_aggregation, dirichlet, split_pure
        As in `amforest.AMFClassifier`.
    charge_first, predict_extends, split_prior, max_nodes, max_bytes, n_jobs
        As in `amforest.AMFClassifier`.
    categorical_features
        The names of features that hold categories, of any hashable kind. "from_dtype" means those
        whose first value is text.
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

    _estimator = estimators.AMFClassifier
    _model: estimators.AMFClassifier

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
        categorical_features: Wish = "from_dtype",
        max_nodes: int | None = None,
        max_bytes: int | None = None,
        n_jobs: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.dirichlet = dirichlet
        super().__init__(
            n_estimators,
            step=step,
            use_aggregation=use_aggregation,
            split_pure=split_pure,
            charge_first=charge_first,
            predict_extends=predict_extends,
            split_prior=split_prior,
            categorical_features=categorical_features,
            max_nodes=max_nodes,
            max_bytes=max_bytes,
            n_jobs=n_jobs,
            seed=seed,
        )

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Any, float]:
        """Forecast the probabilities of the labels known so far: {} before any data."""
        if not self._model._has_learnt():
            return {}
        return self._ask(
            lambda row: self._by_label(self._model.predict_proba_one(row)), lambda c: c.row(x)
        )

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Forecast the probabilities of the labels known so far, a column for each."""
        import pandas as pd  # noqa: PLC0415  # only for those who have frames

        if not (self._model._has_learnt() and len(X)):
            return pd.DataFrame(index=X.index)

        def frame(rows: Floats) -> pd.DataFrame:
            probabilities = self._model.predict_proba(rows)
            # As objects, labels keep their types.
            return pd.DataFrame(probabilities, X.index, pd.Index(self._labels(), dtype=object))

        return self._ask(frame, lambda c: c.rows(X))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Forecast the most probable label of each row: None before any data."""
        import pandas as pd  # noqa: PLC0415

        probabilities = self.predict_proba_many(X)
        if probabilities.empty:
            return pd.Series([None] * len(X), X.index, dtype=object)
        labels = probabilities.columns.tolist()
        return pd.Series([labels[k] for k in probabilities.to_numpy().argmax(axis=1)], X.index)

    def _by_label(self, probabilities: Floats) -> dict[Any, float]:
        return dict(zip(self._labels(), probabilities.tolist(), strict=True))

    def _labels(self) -> list[Any]:
        """Return the labels as they were learnt, in the order of `classes_`."""
        labels, order = list(self._model._index_of), self._model._sorted[1]
        return labels if order is None else [labels[k] for k in order.tolist()]


class AMFRegressor(_River, base.MiniBatchRegressor):
    """Aggregated Mondrian forest for regression, for river.

    New features may come at any time.

    Parameters
    ----------
    n_estimators, step, use_aggregation, split_pure, charge_first, predict_extends
        As in `amforest.AMFRegressor`.
    split_prior, max_nodes, max_bytes, n_jobs
        As in `amforest.AMFRegressor`.
    categorical_features
        The names of features that hold categories, of any hashable kind. "from_dtype" means those
        whose first value is text.
    seed
        The same number gives the same forest.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from amforest.river import AMFRegressor
    >>> model = AMFRegressor(seed=1)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.28944
    """

    _estimator = estimators.AMFRegressor
    _model: estimators.AMFRegressor

    def predict_one(self, x: Features, **kwargs: Any) -> float:
        """Forecast the label: 0 before any data."""
        if not self._model._has_learnt():
            return 0.0
        return self._ask(self._model.predict_one, lambda c: c.row(x))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Forecast the label of each row: 0 before any data."""
        import pandas as pd  # noqa: PLC0415

        if not (self._model._has_learnt() and len(X)):
            return pd.Series(0.0, X.index)
        return pd.Series(self._ask(self._model.predict, lambda c: c.rows(X)), X.index)


def _make_room(model: Forest, columns: Columns) -> None:
    room = columns.categories.room(model._room)
    if not model._has_learnt():
        model._room = room
        return
    if (columns.n_numbers, room) != (model._core.n_numbers, model._room):
        model._resize(columns.n_numbers, room)
    model.n_features_in_ = columns.width
    model.is_categorical_ = np.zeros(columns.width, dtype=bool)
