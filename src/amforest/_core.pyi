"""The compiled core. See cpp/bindings/."""

from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

_Features = NDArray[np.float32]
_Floats = NDArray[np.float64]
_Table = dict[str, NDArray[Any]]
_Label = TypeVar("_Label")

MOST_TREES: int
MOST_CLASSES: int
MOST_CATEGORIES: int
MOST_THREADS: int
MOST_ROWS: int
MOST_ADDED_UP: float
MOST_COUNTED: float
LARGEST_FEATURE: float
LARGEST_LABEL: float
LEAST_WEIGHT: float
LEAST_MEMORY: int
MOST_LINEAR: int
WIDTHS: list[float]
DEGREES: list[float]
LEVELS: list[float]
FORGETTING: list[float]

class Rng:
    def __init__(self, state: list[int]) -> None: ...
    def uniform(self) -> float: ...
    def below(self, count: int) -> int: ...
    def fork(self) -> list[int]: ...
    def exponential(self, rate: float) -> float: ...
    def discrete(self, weights: _Features) -> int: ...

class Mixer:
    def __init__(self, n_groups: int, rate: float) -> None: ...
    @property
    def weights(self) -> _Floats: ...
    def mix(self, by_group: _Floats) -> _Floats: ...
    def learn(self, by_group: _Floats, y: int, weight: float = 1.0) -> None: ...

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

# `label_parameters` are those of the label model: n_classes, capacity and dirichlet of classifiers.
# Rows are codes of categories, then numbers.
class _Forest(Generic[_Label]):
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
        feature_weights: _Features | None = None,
        n_in_all: int | None = None,  # trees of the forest that this is a part of
        **label_parameters: Any,
    ) -> None: ...
    @property
    def n_numbers(self) -> int: ...
    @property
    def categories(self) -> list[int]: ...
    @property
    def bounds(self) -> _Features | None: ...
    @property
    def label_parameters(self) -> dict[str, Any]: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def n_in_all(self) -> int: ...
    @property
    def is_part(self) -> bool: ...
    @property
    def n_samples(self) -> int: ...
    @property
    def total_weight(self) -> float: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def n_nodes(self) -> int: ...
    @property
    def prediction_size(self) -> int: ...
    def depths(self) -> NDArray[np.int64]: ...
    def reserve(
        self,
        *,
        categories: list[int] | None = None,
        n_numbers: int | None = None,
        **label_parameters: Any,
    ) -> Self: ...
    def learn(
        self,
        X: _Features,
        y: NDArray[Any],
        n_threads: int,
        weights: _Floats | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None: ...
    def learn_row(self, x: Any, y: _Label, weight: float = 1.0) -> bool: ...
    def predict_then_learn(
        self, X: _Features, y: NDArray[Any], n_threads: int, weights: _Floats | None = None
    ) -> _Floats: ...
    def predict_then_learn_by_tree(
        self,
        X: _Features,
        y: NDArray[Any],
        n_threads: int,
        weights: _Floats | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> _Floats: ...
    def check_batch(
        self,
        X: _Features,
        y: NDArray[Any],
        weights: _Floats | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None: ...
    def take(self, trees: list[int]) -> Self: ...
    def join(self, parts: list[Self]) -> Self: ...
    def predict(self, X: _Features, n_threads: int) -> _Floats: ...
    def predict_row(self, x: Any) -> _Floats | None: ...
    def predict_by_tree(self, X: _Features, n_threads: int) -> _Floats: ...
    @property
    def base_of_unknown(self) -> float: ...  # the base value of a class that is not known yet
    def explain(self, X: _Features, n_threads: int) -> _Floats: ...  # base values come first
    def weighted_depth(self, X: _Features, n_threads: int) -> _Floats: ...
    def apply(self, X: _Features, n_threads: int) -> NDArray[np.int64]: ...
    def importances(self) -> tuple[_Floats, _Floats]: ...
    def tree_table(self, i: int) -> _Table: ...
    def state(self) -> dict[str, Any]: ...

class WeightedClassifierForest(_Forest[int]): ...

class ClassifierForest(_Forest[int]):
    def with_real_counts(self) -> WeightedClassifierForest: ...

class _AdaptiveForest(_Forest[_Label]):
    def __init__(
        self,
        *,
        n_numbers: int,
        options: Options,
        groups: list[Any],  # memory, is honest, is plain; of a regressor, has a base
        n_estimators: int,
        n_candidates: int,
        row_limit: int,
        mixer_rate: float = 0,
        seeds: NDArray[np.uint64] | None = None,
        trees: _Table | None = None,
        n_samples: int = 0,
        categories: list[int] = ...,
        held: list[int] | None = None,  # the trees that a part of a forest holds
        **label_parameters: Any,
    ) -> None: ...
    @property
    def groups(self) -> list[Any]: ...
    @property
    def tree_columns(self) -> NDArray[np.uint32]: ...
    @property
    def mixer_weights(self) -> _Floats: ...
    @property
    def weight_history(self) -> tuple[NDArray[np.int64], _Floats]: ...
    def keep_losses(self, are_kept: bool) -> None: ...
    def take_losses(self) -> tuple[int, _Floats]: ...
    @property
    def n_regrows(self) -> NDArray[np.int64]: ...
    @property
    def n_remembered(self) -> int: ...
    @property
    def remembered_weight(self) -> float: ...
    def predict_by_expert(self, X: _Features, n_threads: int) -> _Floats: ...
    def mix(self, X: _Features, by_tree: _Floats) -> _Floats: ...
    def mix_by_expert(self, X: _Features, by_tree: _Floats) -> _Floats: ...
    def mix_then_learn(
        self,
        X: _Features,
        y: NDArray[Any],
        by_tree: _Floats,
        weights: _Floats | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> _Floats: ...

class AdaptiveClassifierForest(_AdaptiveForest[int]): ...
class AdaptiveRegressorForest(_AdaptiveForest[float]): ...

class RegressorForest(_Forest[float]):
    @property
    def step(self) -> float: ...

# A copy that no longer learns. `trees` are plain columns: see cpp/include/amforest/frozen.
class _Frozen:
    @property
    def n_numbers(self) -> int: ...
    @property
    def categories(self) -> list[int]: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def n_samples(self) -> int: ...
    @property
    def n_nodes(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def is_part(self) -> bool: ...
    @property
    def prediction_size(self) -> int: ...
    def predict(self, X: _Features, n_threads: int) -> _Floats: ...
    def predict_row(self, x: Any) -> _Floats | None: ...
    def state(self) -> dict[str, Any]: ...

class FrozenForest(_Frozen):
    def __init__(
        self,
        *,
        n_numbers: int,
        categories: list[int],
        n_outputs: int,
        n_samples: int,
        n_trees: int,
        trees: _Table,
    ) -> None: ...

class _FrozenAdaptiveForest(_Frozen):
    def __init__(
        self,
        *,
        n_numbers: int,
        categories: list[int],
        n_outputs: int,  # of a tree
        n_samples: int,
        n_groups: int,
        n_estimators: int,
        trees: _Table,
    ) -> None: ...

class FrozenAdaptiveClassifierForest(_FrozenAdaptiveForest): ...
class FrozenAdaptiveRegressorForest(_FrozenAdaptiveForest): ...

@overload
def freeze(forest: AdaptiveClassifierForest) -> FrozenAdaptiveClassifierForest: ...
@overload
def freeze(forest: AdaptiveRegressorForest) -> FrozenAdaptiveRegressorForest: ...
@overload
def freeze(
    forest: ClassifierForest | WeightedClassifierForest | RegressorForest,
) -> FrozenForest: ...

class UnrestrictedWeightedClassifierForest(_Forest[int]): ...

class UnrestrictedClassifierForest(_Forest[int]):
    def with_real_counts(self) -> UnrestrictedWeightedClassifierForest: ...

class UnrestrictedRegressorForest(_Forest[float]):
    @property
    def step(self) -> float: ...
