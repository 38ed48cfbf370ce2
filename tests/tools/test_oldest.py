"""Lower bounds of requirements, and those that could not be tested."""

import pytest

from tools import oldest

REQUIREMENTS = ["numpy>=1.26", "rich>=13", "uvloop>=0.19; sys_platform != 'win32'"]
REQUIREMENTS += ["sp-repo-review[cli]>=2025.5", "amforest[cli,plot]"]


def test_every_requirement_has_a_lower_bound_but_those_of_extras():
    found = dict(oldest.lower_bounds(REQUIREMENTS))
    assert found == {"numpy": "1.26", "rich": "13", "uvloop": "0.19", "sp-repo-review": "2025.5"}


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy==1.26", "amforest"])
def test_a_requirement_without_one_is_an_error(requirement):
    with pytest.raises(ValueError, match="has no lower bound; expected NAME>=VERSION"):
        list(oldest.lower_bounds([requirement]))


def test_bounds_that_are_installed_are_tested():
    assert not list(oldest.untested("numpy==1.26.0\nrich==13.0.0\nother==5\n", REQUIREMENTS))


@pytest.mark.parametrize("installed", ["1.26.1", "1.3", "2.26", "1.260"])
def test_a_bound_that_is_not_installed_is_told(installed):
    (line,) = oldest.untested(f"numpy=={installed}\nrich==13.0.0\n", REQUIREMENTS)
    assert line == f"numpy>=1.26 is not tested: the other requirements need {installed}"
