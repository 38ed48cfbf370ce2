"""The compiled core. See cpp/bindings/module.cpp."""

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

_Features = NDArray[np.float32]
_Floats = NDArray[np.float64]
_Row = _Features | _Floats
_Table = dict[str, NDArray[Any]]
_Label = TypeVar("_Label")

class Rng:
    def __init__(self, state: list[int]) -> None: ...
    def uniform(self) -> float: ...
    def exponential(self, rate: float) -> float: ...
    def discrete(self, weights: _Features) -> int: ...

class Options:
    def __init__(
        self,
        *,
        step: float,
        use_aggregation: bool,
        split_pure: bool,
        charge_first: bool,
        predict_extends: bool,
        split_prior: tuple[float, float] = (0.5, 0.0),
        discount: float = 0.0,
        lifetime: float = ...,
        max_nodes: int | None = None,
        max_bytes: int | None = None,
    ) -> None: ...

class _Forest(Generic[_Label]):
    @property
    def n_numbers(self) -> int: ...
    @property
    def categories(self) -> list[int]: ...
    @property
    def bounds(self) -> _Features | None: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def n_samples(self) -> int: ...
    @property
    def total_weight(self) -> float: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def n_nodes(self) -> int: ...
    def depths(self) -> NDArray[np.int64]: ...
    @property
    def forecast_size(self) -> int: ...
    def learn(
        self,
        X: _Features,
        y: NDArray[Any],
        n_threads: int,
        weights: _Floats | None = None,
        classes: tuple[int, float] | None = None,
    ) -> None: ...
    def learn_row(self, x: _Row, y: _Label, weight: float = 1.0) -> None: ...
    def predict_then_learn(
        self, X: _Features, y: NDArray[Any], n_threads: int, weights: _Floats | None = None
    ) -> _Floats: ...
    def predict(self, X: _Features, n_threads: int) -> _Floats: ...
    def predict_row(self, x: _Row, size: int) -> _Floats | None: ...
    def predict_by_tree(self, X: _Features, n_threads: int) -> _Floats: ...
    def weighted_depth(self, X: _Features, n_threads: int) -> _Floats: ...
    def apply(self, X: _Features, n_threads: int) -> NDArray[np.int64]: ...
    def tree_table(self, i: int) -> _Table: ...
    def state(self) -> dict[str, Any]: ...

class _ClassifierForest(_Forest[int]):
    def __init__(
        self,
        *,
        n_numbers: int,
        options: Options,
        n_classes: int,
        dirichlet: float,
        capacity: int,
        seeds: NDArray[np.uint64] | None = None,
        trees: _Table | None = None,
        n_samples: int = 0,
        categories: list[int] = ...,
        bounds: _Features | None = None,
    ) -> None: ...
    @property
    def capacity(self) -> int: ...

class ClassifierForest(_ClassifierForest): ...
class WeightedClassifierForest(_ClassifierForest): ...

class RegressorForest(_Forest[float]):
    def __init__(
        self,
        *,
        n_numbers: int,
        options: Options,
        seeds: NDArray[np.uint64] | None = None,
        trees: _Table | None = None,
        n_samples: int = 0,
        categories: list[int] = ...,
        bounds: _Features | None = None,
    ) -> None: ...
