"""Test-then-train: predict each row of a stream, then learn it, and measure the predictions.

`progressive_validation` does it for models of ours, of scikit-learn and of river. `Evaluator`
computes the metrics alone; `Loop` is the loop itself, with hooks. `watch_drift` calls a function
when the losses of an adaptive forest rise.
"""

from amforest.evaluation.blocks import Block
from amforest.evaluation.drift import Drift, DriftDetector
from amforest.evaluation.drift_watch import DriftWatch, watch_drift
from amforest.evaluation.evaluator import Evaluator
from amforest.evaluation.loop import Loop, progressive_validation
from amforest.evaluation.result import Progress

__all__ = [
    "Block",
    "Drift",
    "DriftDetector",
    "DriftWatch",
    "Evaluator",
    "Loop",
    "Progress",
    "progressive_validation",
    "watch_drift",
]
