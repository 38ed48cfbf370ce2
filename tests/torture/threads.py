"""Eight threads predict while one learns, with ThreadSanitizer watching: cpp/threads.cpp."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from result import Report, Result

TITLE = "threads"
HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "cpp" / "include"
FLAGS = ["-std=c++20", "-O1", "-g", "-ffp-contract=off", "-fsanitize=thread", "-Wl,--wrap=mremap"]


def build(folder: Path) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("needs g++ or clang++, with its ThreadSanitizer")
    program = folder / "threads"
    source = HERE / "cpp" / "threads.cpp"
    subprocess.run([compiler, *FLAGS, "-I", INCLUDE, "-o", program, source], check=True)
    return program


def run(report: Report, quick: bool) -> list[Result]:
    seconds = 10 if quick else 600
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "errors", "w+") as errors:
        command = [build(Path(folder)), str(seconds)]
        start, rounds = time.monotonic(), []
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            for line in process.stdout or ():
                rounds.append(json.loads(line))
                report("seconds", min(int(time.monotonic() - start), seconds), seconds)
        errors.seek(0)
        problem = errors.read().strip()[:2000]
    return [
        Result(
            "8 predicting threads and one learner, under TSan",
            sum(record["inspections"] for record in rounds),
            "no race; each prediction that of some moment",
            process.returncode == 0 and bool(rounds) and not problem,
            problem or "\n".join(summary(kind, rounds) for kind in kinds(rounds)),
        )
    ]


def kinds(rounds: list[dict]) -> list[str]:
    return list(dict.fromkeys(record["kind"] for record in rounds))


def summary(kind: str, rounds: list[dict]) -> str:
    """How many predictions were compared, and how quickly one learns beside those who predict."""
    own = [record for record in rounds if record["kind"] == kind]
    compared, moments = (sum(record[key] for record in own) for key in ("compared", "moments"))
    speeds = ("alone", "among_others")
    alone, among = (sum(record[key] for record in own) / len(own) for key in speeds)
    return (
        f"{kind}: {compared:,} predictions of {moments:,} moments; learns {alone:,.0f} rows/s "
        f"alone, {among:,.0f} among 8 who predict"
    )
