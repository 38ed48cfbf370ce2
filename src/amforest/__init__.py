"""Aggregated Mondrian forests: exact, fast online random forests for streams."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amforest._forest.column_kinds import UnusedColumnWarning
    from amforest._forest.scales import ScaleWarning
    from amforest.classifier import AdaptiveAMFClassifier, AMFClassifier
    from amforest.model_io.checkpoint import Checkpoint
    from amforest.model_io.model_file import load, save
    from amforest.regressor import AdaptiveAMFRegressor, AMFRegressor

__version__ = version("amforest")
__all__ = [
    "AMFClassifier",
    "AMFRegressor",
    "AdaptiveAMFClassifier",
    "AdaptiveAMFRegressor",
    "Checkpoint",
    "ScaleWarning",
    "UnusedColumnWarning",
    "load",
    "save",
]
_MODULES = {
    "AMFClassifier": "classifier",
    "AdaptiveAMFClassifier": "classifier",
    "AMFRegressor": "regressor",
    "AdaptiveAMFRegressor": "regressor",
    "Checkpoint": "model_io",
    "ScaleWarning": "_forest.scales",
    "UnusedColumnWarning": "_forest.column_kinds",
    "load": "model_io",
    "save": "model_io",
}


def __getattr__(name: str) -> Any:
    """Import a name on first access: all need scikit-learn, which loads pandas."""
    if name not in _MODULES:
        raise AttributeError(f"module 'amforest' has no attribute {name!r}")
    return getattr(import_module(f"amforest.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
