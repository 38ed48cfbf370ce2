"""Forests beyond one process: `RayForest`, whose trees live on many machines.

Importing this package does not import Ray.
"""

from amforest.distributed.ray_forest import QuorumPrediction, RayForest
from amforest.distributed.ray_shards import ShardError

__all__ = ["QuorumPrediction", "RayForest", "ShardError"]
