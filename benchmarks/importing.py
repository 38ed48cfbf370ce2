"""Importing a library by its name, onelearn with the help it needs; loads nothing by itself."""

import warnings
from importlib import import_module
from types import ModuleType


def import_library(name: str) -> ModuleType:
    """Import a library without its warnings of what will be deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "onelearn":
            _help_onelearn()
        return import_module(name)


def _help_onelearn() -> None:
    """Put back a name that onelearn 0.3.0 looks for and numpy 2 has moved."""
    numeric = import_module("numpy.core.numeric")
    vars(numeric)["ComplexWarning"] = import_module("numpy.exceptions").ComplexWarning
