"""Settings that apply to all tests: Hypothesis profiles and signal handling.

Hypothesis runs the profile ``ci`` unless ``--hypothesis-profile`` or the environment variable
``HYPOTHESIS_PROFILE`` names another one. Tests leave ``max_examples`` and ``deadline`` to the
profile.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Let one process run all that needs Ray: a cluster and its actors take seconds to start."""
    for item in items:
        if "distributed" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("ray"))
