"""Test-then-train: forecast each row of a stream, then learn it, and measure the forecasts.

`progressive_validation` does it for models of ours, of scikit-learn and of river; `Evaluator` is
the measuring alone.
"""

from amforest.evaluation.evaluator import Evaluator
from amforest.evaluation.loop import progressive_validation
from amforest.evaluation.progress import Progress

__all__ = ["Evaluator", "Progress", "progressive_validation"]
