"""libFuzzer on load → predict → learn → copy → save, with ASan and UBSan: cpp/fuzz_load.cpp.

Forests of the paper with each model of labels, and adaptive ones of classes and of numbers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from result import Report, Result

TITLE = "fuzzing"
HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "cpp" / "include"
FOUND = HERE.parents[1] / "build" / "fuzzing"  # inputs that broke something
FLAGS = [
    *("-std=c++20", "-O2", "-g", "-fno-omit-frame-pointer", "-ffp-contract=off"),
    *("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"),
    "-fno-sanitize-coverage=trace-cmp",  # costs a quarter of the time; there are own mutations
    "-Wl,--wrap=mmap,--wrap=mremap",
]
LIMITS = ["-rss_limit_mb=512", "-malloc_limit_mb=512", "-timeout=30", "-max_len=8192"]
# Entropic scheduling, long stack traces and a large quarantine take most of the time.
QUICK = ["-entropic=0", "-print_final_stats=1"]
ASAN_OPTIONS = "malloc_context_size=4:max_malloc_fill_size=0:quarantine_size_mb=8"
PROCESSES = 2


def build(folder: Path) -> Path:
    compiler = os.environ.get("CLANGXX") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("needs clang++ with libFuzzer (Debian: clang and libclang-rt-*-dev)")
    program = folder / "fuzz_load"
    source = HERE / "cpp" / "fuzz_load.cpp"
    subprocess.run([compiler, *FLAGS, "-I", INCLUDE, "-o", program, source], check=True)
    return program


class Fuzzer:
    """A process that runs some executions, and what it prints on its standard error."""

    def __init__(self, program: Path, folder: Path, seed: int, executions: int) -> None:
        corpus = folder / "corpus"
        corpus.mkdir(parents=True)
        subprocess.run([program, "--make-corpus", corpus], check=True, timeout=300)
        self.log = folder / "log"
        options = [*LIMITS, *QUICK, f"-seed={seed}", f"-runs={executions}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program, *options, f"-artifact_prefix={folder}/", corpus],
                stderr=log,
                env={**os.environ, "ASAN_OPTIONS": ASAN_OPTIONS},
            )

    def output(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def done(self) -> int:
        """Return how many executions there were so far."""
        numbers = re.findall(r"^#(\d+)\s", self.output(), re.MULTILINE)
        return max(map(int, numbers), default=0)

    def number(self, pattern: str) -> int:
        found = re.search(pattern, self.output())
        return int(found[1]) if found else 0

    def problem(self) -> str:
        """Return what was found, and keep the input, which can be given to the program."""
        if self.process.returncode == 0:
            return ""
        FOUND.mkdir(parents=True, exist_ok=True)
        lines = self.output().splitlines()
        marks = ("ERROR", "VIOLATED", "runtime error", "SUMMARY")
        found = [line for line in lines if any(mark in line for mark in marks)]
        inputs = [f"kept: {shutil.copy(path, FOUND)}" for path in self.log.parent.glob("*-*")]
        return "\n".join([*found[:4], *inputs]) or f"ended with {self.process.returncode}"


def run(report: Report, quick: bool) -> list[Result]:
    executions = 200_000 if quick else 10_000_000
    seed = int(os.environ.get("TORTURE_SEED", "0"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, start = build(folder), time.monotonic()
        fuzzers = [
            Fuzzer(program, folder / str(k), PROCESSES * seed + k + 1, executions // PROCESSES)
            for k in range(PROCESSES)
        ]
        try:
            while any(fuzzer.process.poll() is None for fuzzer in fuzzers):
                time.sleep(1)
                report("executions", sum(fuzzer.done() for fuzzer in fuzzers), executions)
        finally:
            for fuzzer in fuzzers:
                fuzzer.process.kill()
        took = time.monotonic() - start
        done = sum(fuzzer.number(r"number_of_executed_units: (\d+)") for fuzzer in fuzzers)
        accepted = sum(fuzzer.number(r"accepted: (\d+) of") for fuzzer in fuzzers)
        peak = max(fuzzer.number(r"peak_rss_mb:\s+(\d+)") for fuzzer in fuzzers)
        problems = [problem for fuzzer in fuzzers if (problem := fuzzer.problem())]
    details = f"{accepted:,} were valid forests; {done / took:,.0f} a second; {peak} MB at the most"
    return [
        Result(
            "libFuzzer on load → predict → learn → copy → save, ASan and UBSan",
            done,
            "no crash, no leak, memory ≤ 512 MB",
            not problems and done >= executions,
            "\n".join(problems) or details,
        )
    ]
