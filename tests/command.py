"""The command line, run in the process of the test."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from amforest.cli.app import app


def amf(*args: Any, code: int = 0) -> Result:
    """Run the command in this process; errors that are not exit status are raised."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def rows_of(path: str | Path) -> list[dict[str, str]]:
    """Return the rows of a file of CSV."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
