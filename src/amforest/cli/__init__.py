"""The command line: ``amforest run``, ``predict``, ``inspect`` and ``compare``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; what it needs beyond the library is the extra ``cli``."""
    try:
        from amforest.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.exit(f"amforest: {error.name} is missing: pip install 'amforest[cli]'")
    app()
