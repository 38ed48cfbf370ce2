"""`KeyedForests`: one model for each key, such as a sensor, a shop or a user."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import partial
from inspect import signature
from numbers import Integral
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from amforest._forest.class_labels import decide, distinct_classes, distinct_labels
from amforest._forest.inputs import validate_weights
from amforest._forest.losses import Floats
from amforest.distributed.key_rows import Indices, group_rows, validate_key
from amforest.distributed.keyed_inputs import check_width, read_features, read_labels
from amforest.distributed.keyed_models import Predicted, join_classes, widen
from amforest.distributed.keyed_state import KeyedState, holds_models, move_to_shards
from amforest.distributed.opened_forests import OpenedForests
from amforest.distributed.segment_store import Key
from amforest.distributed.store_folder import Directory
from amforest.model_io import document, from_bytes, to_bytes


class KeyedForests(BaseEstimator):
    """One forest for each key: many small models behind the methods of one estimator.

    Each key (a sensor, a shop, a user) has its own model, which is created with its first row
    and learns the rows of this key only. Models that were not used for long are saved and removed
    from memory, and loaded when their key appears again. The models do not depend on this, on the
    number of processes, on the order of the keys, or on how the stream is cut into batches.

    Parameters
    ----------
    estimator : AMFClassifier, AMFRegressor, AdaptiveAMFClassifier or AdaptiveAMFRegressor
        All models are copies of it, before it learns. The seed of each is computed from its
        `random_state` and the key.
    key : str, default="key"
        The column of a data frame that holds the keys: text, or whole numbers. It is not a feature.
        For arrays, give `keys` with each call.
    max_bytes : int or None, default=None
        The memory for models, in each process. About 300 bytes for each key that was ever seen
        are not part of it. None means no limit.
    directory : str, path-like or None, default=None
        Where models are saved: an empty or new folder, or a URL of fsspec such as
        ``s3://bucket/models``. None means a temporary folder, which `close` removes. Only one
        process may use it at a time.
    n_shards : int or None, default=None
        The number of Ray actors that hold the models; keys are hashed over them. None means one
        process without Ray. It never changes the result.
    flush_rows : int, default=100_000
        With `n_shards`, the number of rows after which all shards save their models. Until then
        this process keeps the rows, and has a shard that dies learn them again.
    unseen : {"prior", "error"}, default="prior"
        The prediction for a key that has no model. "prior": all known classes have the same
        probability, and a number is NaN. "error": a KeyError.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes of all keys, sorted. A model that does not know one of them predicts 0 for it.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X was a data frame. The models themselves have no names, unless there are
        categories.
    n_samples_seen_ : int
        How many rows were given to learn.

    See Also
    --------
    amforest.AdaptiveAMFClassifier : The model of a key, by default of the command line.

    Notes
    -----
    If the rows of one key are refused with an error, that key's model is unchanged, but those of
    other keys in the same batch may have learned. What can be validated for all rows together is
    validated before any model learns.

    Examples
    --------
    Two sensors with opposite labels, which one model could not distinguish:

    >>> import numpy as np
    >>> from amforest import AMFClassifier
    >>> from amforest.distributed import KeyedForests
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> sensors = ["north", "south"] * 100
    >>> y = (x[:, 0] > 0) ^ (np.arange(200) % 2 == 1)
    >>> with KeyedForests(AMFClassifier(random_state=0), key="sensor") as forests:
    ...     forests = forests.partial_fit(x, y, keys=sensors)
    ...     print(forests.keys(), forests.predict([[1.0], [1.0]], keys=["north", "south"]))
    ['north', 'south'] [ True False]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["partial_fit"])],
        "key": [str],
        "max_bytes": [Interval(Integral, 1, None, closed="left"), None],
        "directory": [str, os.PathLike, None],
        "n_shards": [Interval(Integral, 1, None, closed="left"), None],
        "flush_rows": [Interval(Integral, 1, None, closed="left")],
        "unseen": [StrOptions({"prior", "error"})],
    }

    def __init__(
        self,
        estimator: Any,
        key: str = "key",
        *,
        max_bytes: int | None = None,
        directory: Directory | None = None,
        n_shards: int | None = None,
        flush_rows: int = 100_000,
        unseen: str = "prior",
    ) -> None:
        self.estimator = estimator
        self.key = key
        self.max_bytes = max_bytes
        self.directory = directory
        self.n_shards = n_shards
        self.flush_rows = flush_rows
        self.unseen = unseen

    # Without it, `help` would show the parameters of `__new__`.
    __signature__ = signature(partial(__init__, None))  # type: ignore[arg-type]  # no self

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Add what is not a parameter: scikit-learn's constructors may only set parameters."""
        forests: Self = super().__new__(cls)
        forests._lock = threading.RLock()
        return forests

    _opened: OpenedForests | None = None
    _is_closed = False

    # Learning

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        keys: Any = None,
    ) -> Self:
        """Forget all models, then learn the rows of X once, in their order.

        Parameters
        ----------
        X, y, sample_weight, keys
            As in `partial_fit`.

        Returns
        -------
        self
        """
        with self._lock:
            if self._opened is not None:
                self._opened.remove()
                self._opened = None
            return self.partial_fit(X, y, sample_weight=sample_weight, keys=keys)

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        keys: Any = None,
    ) -> Self:
        """Learn the rows of X, each with the model of its key, in their order.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The features, and in a data frame the column of keys.
        y : array-like of shape (n_samples,)
            The labels.
        classes : array-like, default=None
            Classes that all models know before they appear; with the first rows only.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows; a row of weight 0 is not learned.
        keys : array-like of shape (n_samples,), default=None
            The key of each row, if X has no column of them.

        Returns
        -------
        self
        """
        how = {"classes": classes, "sample_weight": sample_weight, "keys": keys}
        self._learn("partial_fit", X, y, **how)
        return self

    def partial_fit_predict_proba(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        keys: Any = None,
    ) -> Floats:
        """Test, then train: predict each row just before its key's model learns it.

        Parameters
        ----------
        X, y, classes, sample_weight, keys
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            A column for each of `classes_`. A row whose model knows no class yet is predicted
            uniformly.
        """
        self._needs_classes("partial_fit_predict_proba")
        how = {"classes": classes, "sample_weight": sample_weight, "keys": keys}
        predicted, order = self._learn("partial_fit_predict_proba", X, y, **how)
        return _in_order(self._probabilities(predicted), order)

    def partial_fit_predict(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        keys: Any = None,
    ) -> NDArray[Any]:
        """Test, then train: predict the label of each row just before its key's model learns it.

        Parameters
        ----------
        X, y, classes, sample_weight, keys
            As in `partial_fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            A number is 0 before the first row of its key.
        """
        how = {"classes": classes, "sample_weight": sample_weight, "keys": keys}
        if self._has_classes():
            probabilities = self.partial_fit_predict_proba(X, y, **how)
            labels: NDArray[Any] = self.classes_[self._decide(probabilities)]
            return labels
        predicted, order = self._learn("partial_fit_predict", X, y, **how)
        return _in_order(predicted.values, order)

    def learn_one(
        self, x: Sequence[float] | NDArray[Any], y: Any, sample_weight: float = 1.0, *, key: Key
    ) -> Self:
        """Learn one row.

        Parameters
        ----------
        x : sequence of n_features numbers
        y : label
        sample_weight : float, default=1.0
        key : str or int
            The key of the row.

        Returns
        -------
        self
        """
        key = validate_key(key)
        with self._lock:
            opened = self._open()
            state = opened.state
            check_width(len(x), state.n_features)
            if not sample_weight and opened.models.model_bytes(key) is None:
                return self
            classes = opened.models.learn_one(key, x, y, sample_weight)
            state.n_features = len(x)
            state.n_rows += 1
            if classes is not None:
                self._add_classes(classes)
            opened.end_of_learning(1)
        return self

    # Predictions

    def predict_proba(self, X: Any, *, keys: Any = None) -> Floats:
        """Predict the probabilities of the classes, each row with the model of its key.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        keys : array-like of shape (n_samples,), default=None
            The key of each row, if X has no column of them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            A column for each of `classes_`.
        """
        self._needs_classes("predict_proba")
        predicted, order = self._predict("predict_proba", X, keys)
        return _in_order(self._probabilities(predicted), order)

    def predict(self, X: Any, *, keys: Any = None) -> NDArray[Any]:
        """Predict the labels, each row with the model of its key.

        Parameters
        ----------
        X, keys
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if self._has_classes():
            labels: NDArray[Any] = self.classes_[self._decide(self.predict_proba(X, keys=keys))]
            return labels
        predicted, order = self._predict("predict", X, keys)
        return _in_order(predicted.values, order)

    def predict_proba_one(self, x: Sequence[float] | NDArray[Any], *, key: Key) -> Floats:
        """Predict the probabilities of the classes for one row.

        Parameters
        ----------
        x : sequence of n_features numbers
        key : str or int
            The key of the row.

        Returns
        -------
        ndarray of shape (n_classes,)
        """
        self._needs_classes("predict_proba_one")
        key = validate_key(key)
        with self._lock:
            predicted = self._known().models.predict_one("predict_proba_one", key, x)
            if predicted is None:
                self._refuse_unseen([key])
                return np.full(len(self.classes_), 1 / len(self.classes_))
            return widen(predicted.values, predicted.classes, self.classes_)

    def predict_one(self, x: Sequence[float] | NDArray[Any], *, key: Key) -> Any:
        """Predict the label of one row.

        Parameters
        ----------
        x : sequence of n_features numbers
        key : str or int
            The key of the row.

        Returns
        -------
        A label.
        """
        if self._has_classes():
            return self.classes_[self._decide(self.predict_proba_one(x, key=key))]
        key = validate_key(key)
        with self._lock:
            predicted = self._known().models.predict_one("predict_one", key, x)
            if predicted is None:
                self._refuse_unseen([key])
                return np.nan
            return float(predicted.values)

    # The models

    def model(self, key: Key) -> Any:
        """Return a copy of the model of a key.

        Parameters
        ----------
        key : str or int

        Returns
        -------
        The estimator; what it learns is not learned here.
        """
        key = validate_key(key)
        with self._lock:
            data = self._known().models.model_bytes(key)
        if data is None:
            raise KeyError(f"key is {key!r}, which has no model: it has learned no row")
        return from_bytes(data)

    def keys(self) -> list[Key]:
        """Return all keys that have a model: first numbers, then texts, both sorted."""
        with self._lock:
            found = [] if self._opened is None else self._opened.models.keys()
        return sorted(found, key=lambda key: (isinstance(key, str), key))

    def __len__(self) -> int:
        return self.stats()["keys"]

    def stats(self) -> dict[str, int]:
        """Return the numbers of models and bytes.

        Returns
        -------
        dict
            `samples`: the rows that were given to learn. `keys`: how many models there are.
            `models_in_memory` and `bytes_in_memory`; `models_saved` and `bytes_saved`, which may be
            older states of models in memory; `loads` and `evictions` of models so far.
        """
        with self._lock:
            if self._opened is None:
                return dict.fromkeys(("samples", *_STATS), 0)
            numbers = self._opened.models.stats()
            return {"samples": self._opened.state.n_rows} | {name: numbers[name] for name in _STATS}

    # Saving

    def save(self, directory: Directory | None = None, *, extra: Any = None) -> None:
        """Save all models. After any failure, those of the last time can be loaded.

        Parameters
        ----------
        directory : str, path-like or None, default=None
            An empty or new folder, or a URL. None means the parameter `directory`.
        extra : object, default=None
            Values of JSON to save with the models; `load` sets `extra_` to them.
        """
        with self._lock:
            opened = self._open()
            opened.state.extra = extra
            if directory is None:
                if opened.is_temporary:
                    raise ValueError(
                        "directory is None; the parameter directory is None, too, so that there is "
                        "no folder to save the models to: give one"
                    )
                opened.flush()
            else:
                _refuse_used(directory)
                opened.copy_to(directory)

    @classmethod
    def load(
        cls,
        directory: Directory,
        *,
        max_bytes: int | None = None,
        n_shards: int | None = None,
        flush_rows: int = 100_000,
    ) -> Self:
        """Open the models that were saved last in a folder, and continue to use this folder.

        Parameters
        ----------
        directory : str or path-like
            The folder or URL.
        max_bytes, n_shards, flush_rows
            As for the class. They may differ from those before.

        Returns
        -------
        KeyedForests
        """
        state, generation = KeyedState.read(directory)
        forests = cls(
            from_bytes(state.estimator),
            state.key,
            max_bytes=max_bytes,
            directory=directory,
            n_shards=n_shards,
            flush_rows=flush_rows,
            unseen=state.unseen,
        )
        forests._validate_params()
        if state.n_shards != (n_shards or 1):
            generation = move_to_shards(directory, state, generation, n_shards or 1)
        forests._opened = forests._open_models(state, generation)
        return forests

    def close(self) -> None:
        """Save all models, if there is a `directory`, and stop all actors."""
        with self._lock:
            self._is_closed = True
            if self._opened is not None:
                opened, self._opened = self._opened, None
                opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Attributes

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of all keys, sorted."""
        if self._opened is not None and self._opened.state.classes is not None:
            return self._opened.state.classes
        if getattr(self.estimator, "classes", None) is not None:
            return distinct_classes(self.estimator.classes)
        raise AttributeError("KeyedForests knows no classes: it is not fitted, or predicts numbers")

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        if self._opened is None or self._opened.state.n_features is None:
            raise AttributeError("KeyedForests is not fitted")
        return self._opened.state.n_features

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the features, if X was a data frame."""
        if self._opened is None or self._opened.state.names is None:
            raise AttributeError("the features have no names")
        return np.array(self._opened.state.names, dtype=object)

    @property
    def n_samples_seen_(self) -> int:
        """How many rows were given to learn."""
        return 0 if self._opened is None else self._opened.state.n_rows

    @property
    def extra_(self) -> Any:
        """What was given to `save` with the models."""
        return None if self._opened is None else self._opened.state.extra

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = self.estimator.__sklearn_tags__()
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._opened is not None and self._opened.state.n_rows > 0

    # Parts

    def _has_classes(self) -> bool:
        return bool(is_classifier(self.estimator))

    def _decide(self, probabilities: Floats) -> Indices:
        """Return the indices of the predicted classes: the estimator's threshold applies."""
        return decide(probabilities, getattr(self.estimator, "threshold", None))

    def _needs_classes(self, method: str) -> None:
        if not self._has_classes():
            raise AttributeError(
                f"{method} is for classes; estimator is a {type(self.estimator).__name__}, which "
                "predicts numbers"
            )

    def _open(self, classes: ArrayLike | None = None) -> OpenedForests:
        """Return the models; at first there are none."""
        if self._is_closed:
            raise ValueError(
                "these KeyedForests are closed"
                + ("" if self.directory is None else ": continue with KeyedForests.load(directory)")
            )
        if self._opened is not None:
            if classes is not None and set(distinct_classes(classes)) - set(self.classes_):
                raise ValueError(
                    f"classes is {classes!r}, but the classes so far are {self.classes_.tolist()}: "
                    "give classes with the first rows only"
                )
            return self._opened
        self._validate_params()
        document.name_of(self.estimator)  # refuses what cannot be saved
        estimator = clone(self.estimator)
        random_state = estimator.random_state
        if not isinstance(random_state, Integral):
            random_state = check_random_state(random_state).randint(2**32, dtype=np.uint32)
        if self._has_classes():
            announced = estimator.classes if classes is None else distinct_classes(classes)
            estimator.set_params(classes=announced)
        elif classes is not None:
            raise ValueError(f"classes is {classes!r}; {type(estimator).__name__} predicts numbers")
        state = KeyedState(
            to_bytes(estimator.set_params(random_state=int(random_state))),
            int(random_state),
            self.key,
            self.unseen,
            self.n_shards or 1,
        )
        if self._has_classes() and estimator.classes is not None:
            state.classes = distinct_classes(estimator.classes)
        if self.directory is not None:
            _refuse_used(self.directory)
        self._opened = self._open_models(state, None)
        return self._opened

    def _open_models(self, state: KeyedState, generation: int | None) -> OpenedForests:
        return OpenedForests(
            state,
            generation,
            directory=self.directory,
            max_bytes=self.max_bytes,
            flush_rows=None if self.n_shards is None else int(self.flush_rows),
        )

    def _known(self) -> OpenedForests:
        """Return the models, to predict with them."""
        if self.__sklearn_is_fitted__() or hasattr(self, "classes_"):
            return self._open()
        raise NotFittedError("KeyedForests is not fitted: call partial_fit or learn_one first")

    def _learn(
        self, method: str, X: Any, y: Any, *, classes: Any, sample_weight: Any, keys: Any
    ) -> tuple[Predicted, Indices]:
        with self._lock:
            opened = self._open(classes)
            state = opened.state
            given = read_features(self.estimator, X, keys, state)
            labels = read_labels(self.estimator, y, len(given.keys), state.classes)
            weights = None
            if sample_weight is not None:
                weights = validate_weights(sample_weight, len(given.keys))
            rows, order = group_rows(given.keys, given.rows, labels, weights)
            state.n_features, state.names = given.rows.shape[1], given.names or state.names
            if self._has_classes():
                learned = labels if weights is None else labels[weights > 0]
                self._add_classes(distinct_labels(learned)[0])
            predicted = opened.models.learn(method, rows)
            state.n_rows += len(rows)
            opened.end_of_learning(len(rows))
            return predicted, order

    def _predict(self, method: str, X: Any, keys: Any) -> tuple[Predicted, Indices]:
        with self._lock:
            opened = self._known()
            given = read_features(self.estimator, X, keys, opened.state)
            rows, order = group_rows(given.keys, given.rows)
            predicted = opened.models.predict(method, rows)
            self._refuse_unseen(predicted.unseen)
            return predicted, order

    def _refuse_unseen(self, keys: list[Key]) -> None:
        if keys and self.unseen == "error":
            more = f" and {len(keys) - 3:,} more" if len(keys) > 3 else ""
            raise KeyError(
                f"{', '.join(map(repr, keys[:3]))}{more}: keys that have no model; learn rows of "
                "them first, or use unseen='prior'"
            )

    def _add_classes(self, classes: NDArray[Any]) -> None:
        assert self._opened is not None
        state = self._opened.state
        lists = [classes] if state.classes is None else [state.classes, classes]
        if len(classes):
            state.classes = join_classes(lists)

    def _probabilities(self, predicted: Predicted) -> Floats:
        """Return a column for each class; rows without any probability become uniform."""
        classes = self.classes_
        if predicted.classes is None:  # no key has a model
            return np.full((len(predicted.values), len(classes)), 1 / len(classes))
        values = widen(predicted.values, predicted.classes, classes)
        values[~(values.sum(axis=1) > 0)] = 1 / len(classes)
        return values


_STATS = (
    "keys",
    "models_in_memory",
    "bytes_in_memory",
    "models_saved",
    "bytes_saved",
    "loads",
    "evictions",
)


def _refuse_used(directory: Directory) -> None:
    if holds_models(directory):
        raise FileExistsError(
            f"directory is {str(directory)!r}, which holds models already: continue with "
            "KeyedForests.load(directory), or give an empty folder"
        )


def _in_order(values: NDArray[Any], order: Indices) -> NDArray[Any]:
    """Return predictions in the order of the rows."""
    result = np.empty_like(values)
    result[order] = values
    return result
