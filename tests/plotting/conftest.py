"""Figures are drawn without a screen, and closed after each test."""

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _no_traces():
    """Figures are closed after a test, and no test may change matplotlib's settings."""
    before = mpl.rcParams.copy()
    yield
    plt.close("all")
    assert mpl.rcParams == before
