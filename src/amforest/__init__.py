"""Aggregated Mondrian forests: exact, fast online random forests for streams."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amforest.estimators import AMFClassifier, AMFRegressor

__version__ = version("amforest")
__all__ = ["AMFClassifier", "AMFRegressor"]


def __getattr__(name: str) -> Any:
    """Import an estimator when it is first asked for: it needs scikit-learn, which loads pandas."""
    if name not in __all__:
        raise AttributeError(f"module 'amforest' has no attribute {name!r}")
    return getattr(import_module("amforest.estimators"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
