"""The environment of a run: versions, processor, date."""

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("amforest", "onelearn", "river", "numba", "numpy", "scikit-learn")


def describe() -> dict[str, str]:
    """Return what is needed to judge the figures; nothing identifies the machine."""
    versions = {name: installed for name in _PACKAGES if (installed := _version(name))}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "system": platform.system(),
        "python": platform.python_version(),
        **versions,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    match = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()
