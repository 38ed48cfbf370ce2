"""Imports a library by its name, with a fix for onelearn; imports no library itself."""

import warnings
from importlib import import_module
from types import ModuleType


def import_library(name: str) -> ModuleType:
    """Import a library without its deprecation warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "onelearn":
            _patch_numpy()
        return import_module(name)


def _patch_numpy() -> None:
    """Restore a name that onelearn 0.3.0 imports and numpy 2 has moved."""
    numeric = import_module("numpy.core.numeric")
    vars(numeric)["ComplexWarning"] = import_module("numpy.exceptions").ComplexWarning
