"""Schemathesis against a server: do its answers keep to its own OpenAPI?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from result import Report, Result
from server_rows import MODEL, SEED, batch

from running_server import RunningServer

TITLE = "described servers"


def run(report: Report, quick: bool) -> list[Result]:
    """Run all checks; but no schema says that there are as many labels as rows or ids."""
    found = shutil.which("schemathesis", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        text = "schemathesis is missing: pip install schemathesis"
        return [Result("schemathesis", 0, "no failure", False, text)]
    labelled = "^/(learn|label)$"
    return [
        run_schemathesis(found, quick, "all but /learn, /label", "--exclude-path-regex", labelled),
        run_schemathesis(
            *(found, quick, "/learn, /label: all but positive_data_acceptance"),
            *("--include-path-regex", labelled),
            *("--exclude-checks", "positive_data_acceptance"),
        ),
    ]


def run_schemathesis(found: str, quick: bool, what: str, *options: str) -> Result:
    with RunningServer(*MODEL, "--most-bytes", 200_000) as server:
        server.client.learn(*batch(3))
        command = [found, "run", f"{server.url}/openapi.json", "--seed", str(SEED + 1), *options]
        done = subprocess.run(
            [*command, "--max-examples", "20" if quick else "200", "--no-color"],
            capture_output=True,
            text=True,
            check=False,
        )
        errors = server.errors()
    passed = done.returncode == 0 and "Traceback" not in errors
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    count = re.search(r"([\d,]+) generated", done.stdout)
    n_cases = int(count[1].replace(",", "")) if count else 0
    details = lines[-2:] if passed else lines[-200:]
    return Result(f"schemathesis, {what}", n_cases, "no failure", passed, "\n".join(details))
