"""Aggregated Mondrian forests: exact, fast online random forests for streams."""

from importlib.metadata import version

from amforest.estimators import AMFClassifier, AMFRegressor

__version__ = version("amforest")
__all__ = ["AMFClassifier", "AMFRegressor"]
