"""Random adaptive forests that learn, grow, are saved and damaged, with ASan: cpp/adaptive.cpp."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from result import Report, Result

TITLE = "adaptive forests"
HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "cpp" / "include"
FLAGS = [
    *("-std=c++20", "-O1", "-g", "-ffp-contract=off"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "-Wl,--wrap=mmap,--wrap=mremap",
]
AT_ONCE = 20  # forests of one process


def build(folder: Path) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("needs g++ or clang++, with its AddressSanitizer")
    program = folder / "adaptive"
    source = HERE / "cpp" / "adaptive.cpp"
    subprocess.run([compiler, *FLAGS, "-I", INCLUDE, "-o", program, source], check=True)
    return program


def run(report: Report, quick: bool) -> list[Result]:
    count, seed = 200 if quick else 10_000, int(os.environ.get("TORTURE_SEED", "0"))
    totals: dict[str, int] = {}
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for first in range(0, count, AT_ONCE):
            command = [program, str(AT_ONCE), str(seed * count + first)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                problems.append(f"from seed {seed * count + first} on: {done.stderr[-1500:]}")
            else:
                for name, number in json.loads(done.stdout).items():
                    totals[name] = totals.get(name, 0) + number
            report("forests", first + AT_ONCE, count)
    details = ", ".join(f"{number:,} {name}" for name, number in totals.items())
    bar = "nothing is allocated while it learns; the same bits however cut, saved and copied"
    passed = not problems and totals["regrows"] > 0 and totals["restored"] > 0
    return [Result(TITLE, count, bar, passed, "\n".join(problems[:3]) or details)]
