"""Settings that apply to all tests: Hypothesis profiles and signal handling.

Hypothesis runs the profile ``ci`` unless ``--hypothesis-profile`` or the environment variable
``HYPOTHESIS_PROFILE`` names another one. Tests leave ``max_examples`` and ``deadline`` to the
profile.
"""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests of what only a checkout has, and what they need of it. They are left out where the rest of
# the tests runs alone, with an installed wheel.
OF_THE_CHECKOUT = {
    "benchmarks": "benchmarks",
    "distributed/test_recipes.py": "examples",
    "experiments": "experiments",
    "serving/test_documented_commands.py": "deploy",
    "tools": "tools",
}
# Parts of the ids of tests that share what takes seconds to start: Ray's cluster and actors, the
# calls in which every allocation fails, the runs that are reported. (Groups of pytest-xdist change
# the ids of tests, which has no effect with pytest 9.2.)
EXPENSIVE_STARTS = ["/distributed/", "test_allocation_faults.py", "test_report.py"]
ROOT = Path(__file__).parents[1]
collect_ignore = [test for test, needed in OF_THE_CHECKOUT.items() if not (ROOT / needed).is_dir()]

# Few examples, the same ones in each run: a failure is the fault of the change under test.
settings.register_profile(
    "ci",
    max_examples=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# Many examples, new ones in each run.
settings.register_profile(
    "thorough",
    max_examples=1_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A background job inherits SIGINT ignored, and so do the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    """Tell which tests are left out."""
    if collect_ignore:
        return f"left out, for they test what only a checkout has: {', '.join(collect_ignore)}"
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run the tests that share an expensive start in one process, and spread all others."""
    from xdist.scheduler import LoadScopeScheduling

    class OneProcessForEachStart(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((start for start in EXPENSIVE_STARTS if start in nodeid), nodeid)

    return OneProcessForEachStart(config, log)
