"""Forests beyond one process, and many forests, one for each key. Ray is imported on use only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amforest.distributed.keyed_forests import KeyedForests

__all__ = ["KeyedForests"]
_MODULES = {"KeyedForests": "keyed_forests"}


def __getattr__(name: str) -> Any:
    """Import a name on first access."""
    if name not in _MODULES:
        raise AttributeError(f"module 'amforest.distributed' has no attribute {name!r}")
    return getattr(import_module(f"amforest.distributed.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
