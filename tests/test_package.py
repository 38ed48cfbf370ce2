"""The package as a whole: what importing it imports, its version, and its public names."""

import pickle
import subprocess
import sys
from importlib.metadata import version

import pytest

import amforest

# They take longer to import than all of amforest.
HEAVY = {"joblib", "matplotlib", "narwhals", "numpy", "pandas", "polars", "pyarrow", "river"}
HEAVY |= {"scipy", "sklearn"}


def imported_by(code):
    """Return which of the heavy packages a new process has after the code."""
    code = f"import sys\n{code}\nprint(*{HEAVY!r}.intersection(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_that_takes_long():
    assert imported_by("import amforest") == set()


def test_an_estimator_imports_what_scikit_learn_does_and_no_plots():
    found = imported_by("from amforest import AdaptiveAMFClassifier")
    assert "sklearn" in found
    assert found <= imported_by("import sklearn.base") | {"narwhals"}


def test_the_version_is_that_of_the_installed_package():
    assert amforest.__version__ == version("amforest")


@pytest.mark.parametrize("name", amforest.__all__)
def test_every_public_name_is_listed_imported_and_pickled(name):
    assert name in dir(amforest)
    thing = getattr(amforest, name)
    assert pickle.loads(pickle.dumps(thing)) is thing


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'amforest' has no attribute 'Forest'"):
        amforest.Forest  # noqa: B018
