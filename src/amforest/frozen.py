"""Frozen copies of forests: small, immutable, and fast to predict with.

Without `predict_extends` the mixture of a tree is the same for all rows of a leaf, so a frozen copy
keeps one prediction for each leaf, and nothing that only learning needs. It holds a model of the
class that was frozen, whose core no longer learns, and calls it: rows are validated and encoded as
by the live model.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal, Self, cast, overload

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from amforest._core import freeze as freeze_core
from amforest._forest.core_handle import (
    CoreHandle,
    Fitted,
    FreezableCore,
    FrozenCore,
    handle_of,
    is_frozen_core,
)
from amforest._forest.given_labels import as_labels
from amforest._forest.losses import Floats
from amforest.distribution import PredictiveDistribution

__all__ = [
    "FrozenAdaptiveRegressor",
    "FrozenClassifier",
    "FrozenModel",
    "FrozenRegressor",
]


class FrozenModel:
    """What frozen copies have in common. An estimator's method `freeze` returns one."""

    __slots__ = ("_model",)
    _model: Any

    def __init__(self) -> None:
        raise TypeError(f"a {type(self).__name__} is the result of an estimator's method freeze()")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{name} cannot be set: a {type(self).__name__} never changes; change the live model, "
            "and freeze it again"
        )

    def __repr__(self) -> str:
        return f"{self._model!r}.freeze()"

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self._model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "_model", state["model"])

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def stats(self) -> dict[str, Any]:
        """Return the size of the copy.

        Returns
        -------
        dict
            `samples`: the rows that the live model had learned. `nodes` and `bytes` of the trees,
            and of what predicting needs beside them.
        """
        core = self._frozen_core()
        return {"samples": core.n_samples, "nodes": core.n_nodes, "bytes": core.n_bytes}

    def to_bytes(self) -> bytes:
        """Return the copy as the bytes of a model file; see `amforest.model_io`."""
        from amforest.model_io import model_file  # noqa: PLC0415  # which loads estimators

        return model_file.to_bytes(self)

    def _frozen_core(self) -> FrozenCore:
        return cast(FrozenCore, cast(Fitted, self._handle.fitted).core)

    @property
    def _handle(self) -> CoreHandle:
        return handle_of(self._model)


class _FrozenEstimator(FrozenModel, BaseEstimator):
    """A frozen copy for scikit-learn: fitted, without parameters, and its own clone."""

    __slots__ = ()

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return []

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **kwargs: Any) -> Self:
        """Return the copy as it is, which pipelines expect, as of scikit-learn's FrozenEstimator.

        Nothing is learned.
        """
        return self

    @property
    def n_features_in_(self) -> int:
        """The number of columns of X."""
        return int(self._model.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns of X, if it had names."""
        names: NDArray[Any] = self._model.feature_names_in_
        return names

    @property
    def feature_names_(self) -> NDArray[Any]:
        """The names of the features: X's columns, but parts of dates, and no dropped columns."""
        names: NDArray[Any] = self._model.feature_names_
        return names

    @property
    def categories_(self) -> dict[Any, list[Any]]:
        """The categories of each categorical feature that were known when the copy was made."""
        categories: dict[Any, list[Any]] = self._model.categories_
        return categories


class FrozenClassifier(ClassifierMixin, _FrozenEstimator):
    """A frozen copy of a classifier, with its predictions, bit for bit.

    It is the result of `AMFClassifier.freeze` or `AdaptiveAMFClassifier.freeze`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    n_features_in_, feature_names_in_, feature_names_, categories_
        As in `AMFClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from amforest import AMFClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = AMFClassifier(random_state=0).fit(X, y)
    >>> frozen = forest.freeze()
    >>> frozen.predict([[5.0, 3.4, 1.5, 0.2], [6.5, 3.0, 5.5, 2.0]])
    array([0, 2])
    >>> bool((frozen.predict_proba(X) == forest.predict_proba(X)).all())
    True
    >>> frozen.stats()["bytes"] < forest.stats()["bytes"]
    True
    """

    __slots__ = ()

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted."""
        classes: NDArray[Any] = self._model.classes_
        return classes

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns are in the order of `classes_`.
        """
        probabilities: Floats = self._model.predict_proba(X)
        return probabilities

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            The true labels.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        return float(super().score(X, as_labels(y), sample_weight))

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Predict the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        logarithms: Floats = self._model.predict_log_proba(X)
        return logarithms

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class, or the class that the model's `threshold` selects.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        labels: NDArray[Any] = self._model.predict(X)
        return labels

    def predict_proba_one(self, x: Sequence[float] | NDArray[Any]) -> Floats:
        """Predict the probabilities of the classes for one row, fast.

        Parameters
        ----------
        x : sequence of n_features numbers, dict or Series

        Returns
        -------
        ndarray of shape (n_classes,)
        """
        probabilities: Floats = self._model.predict_proba_one(x)
        return probabilities

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> Any:
        """Predict the most probable class of one row, or that of the model's `threshold`.

        Parameters
        ----------
        x : sequence of n_features numbers, dict or Series

        Returns
        -------
        An element of `classes_`.
        """
        return self._model.predict_one(x)


class FrozenRegressor(RegressorMixin, _FrozenEstimator):
    """A frozen copy of a regressor, with its predictions, bit for bit.

    It is the result of `AMFRegressor.freeze`.

    Attributes
    ----------
    n_features_in_, feature_names_in_, feature_names_, categories_
        As in `AMFRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AMFRegressor
    >>> X = np.random.default_rng(0).uniform(size=(500, 1))
    >>> frozen = AMFRegressor(random_state=0).fit(X, np.sin(6 * X[:, 0])).freeze()
    >>> frozen.predict([[0.25], [0.75]]).round(2)
    array([ 0.94, -0.91])
    """

    __slots__ = ()

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        labels: Floats = self._model.predict(X)
        return labels

    def predict_one(self, x: Sequence[float] | NDArray[Any]) -> float:
        """Predict the label of one row, fast.

        Parameters
        ----------
        x : sequence of n_features numbers, dict or Series

        Returns
        -------
        float
        """
        return float(self._model.predict_one(x))


class FrozenAdaptiveRegressor(FrozenRegressor):
    """A frozen copy of an adaptive regressor, with its predicted distributions, bit for bit.

    It is the result of `AdaptiveAMFRegressor.freeze`.

    Attributes
    ----------
    n_features_in_, feature_names_in_, feature_names_, categories_
        As in `AdaptiveAMFRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from amforest import AdaptiveAMFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=1000)
    >>> frozen = AdaptiveAMFRegressor(random_state=0).fit(X, y).freeze()
    >>> low, high = frozen.predict_interval([[0.25]])[0]
    >>> bool(low < np.sin(1.5) < high)
    True
    """

    __slots__ = ()

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = ...) -> Floats: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...
    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Predict the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the standard deviations of the predicted distributions, too.

        Returns
        -------
        ndarray of shape (n_samples,), or a pair of them
        """
        result: Floats | tuple[Floats, Floats] = self._model.predict(X, return_std)
        return result

    def predict_dist(self, X: ArrayLike) -> PredictiveDistribution:
        """Predict the distributions of the labels; see `AdaptiveAMFRegressor.predict_dist`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        PredictiveDistribution
        """
        distribution: PredictiveDistribution = self._model.predict_dist(X)
        return distribution

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike) -> Floats:
        """Predict quantiles of the labels; see `AdaptiveAMFRegressor.predict_quantiles`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,), within (0, 1)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_quantiles)
        """
        quantiles: Floats = self._model.predict_quantiles(X, q)
        return quantiles

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Floats:
        """Predict intervals that hold a part `coverage` of the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Within (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        intervals: Floats = self._model.predict_interval(X, coverage)
        return intervals


def freeze_forest(forest: Any) -> Any:
    """Return a copy of one of our estimators whose core no longer learns.

    ValueError if its predictions differ within a leaf.
    """
    handle = handle_of(forest)
    with handle.lock:
        fitted: Fitted = forest._fitted()
        _check_constant(forest, handle.changes)
        if not isinstance(fitted.core, FreezableCore):
            raise TypeError(
                "the trees of this forest are not in this process: freeze what "
                "RayForest.to_local() returns"
            )
        frozen = Fitted(fitted.encoder, copy(fitted.labels), cast(Any, freeze_core(fitted.core)))
    cls: Any = type(forest)
    inner = cls.__new__(cls)
    inner.__dict__.update(forest.__dict__)
    handle_of(inner).fitted = frozen
    return inner


def wrap(model: Any) -> Any:
    """Return the frozen copy that holds a model, whose core no longer learns."""
    fitted = handle_of(model).fitted
    if fitted is None or not is_frozen_core(fitted.core):
        raise ValueError("the model is not frozen")
    cls: type[FrozenModel] = model._frozen_type
    frozen = object.__new__(cls)
    frozen.__setstate__({"model": model})
    return frozen


def model_of(frozen: FrozenModel) -> Any:
    """Return the model that a frozen copy holds: nobody else may have it learn."""
    return frozen._model


def _check_constant(forest: Any, changes: dict[str, Any]) -> None:
    """Refuse a forest whose predictions differ within a leaf."""
    name = type(forest).__name__
    built_with = {**forest.__dict__, **changes}
    if "discount" in built_with:
        raise ValueError(
            f"a {name} smooths its predictions by how far a row lies outside of each node, so they "
            "differ within a leaf: only forests with one prediction for each leaf can be frozen, "
            "such as AMFClassifier"
        )
    if built_with.get("predict_extends"):
        raise ValueError(
            "predict_extends is True, so predictions differ within a leaf; a frozen copy has one "
            "for each leaf: fit a forest with predict_extends=False"
        )
    if (partition := built_with.get("partition", "restricted")) != "restricted":
        raise ValueError(
            f"partition is {partition!r}, which is for theory and is not frozen: fit a forest with "
            "partition='restricted'"
        )
