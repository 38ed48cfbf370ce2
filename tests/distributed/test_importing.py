"""Ray is an extra: nothing imports it before it is used."""

import subprocess
import sys


def test_importing_the_package_does_not_import_ray():
    code = "import sys, amforest, amforest.distributed; print('ray' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_ray_an_error_says_how_to_install_it():
    code = """
import sys
sys.modules["ray"] = None
from amforest import AMFClassifier
from amforest.distributed import RayForest
try:
    RayForest(AMFClassifier()).fit([[0.0], [1.0]], [0, 1])
except ImportError as error:
    print(error)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "RayForest needs ray: pip install 'amforest[ray]'\n"
