"""Forests beyond one process: trees on many machines, and one model for each of many keys.

Importing this package does not import Ray.
"""

from amforest.distributed.keyed_forests import KeyedForests
from amforest.distributed.ray_forest import QuorumPrediction, RayForest
from amforest.distributed.ray_shards import ShardError

__all__ = ["KeyedForests", "QuorumPrediction", "RayForest", "ShardError"]
