"""Compile the core for other platforms, and compare small forests on those that run here.

    python tools/platforms.py

Needs `ziglang`, a compiler from the package index with the headers of all platforms. What it has
compiled for ARM is run by `qemu-aarch64-static`, and what for Windows by `wine`, where they are
installed: predictions must be those of this machine, to what the libraries of the platforms differ
in the last bits of logarithms.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests" / "torture" / "cpp" / "platforms.cpp"
FLAGS = ["-std=c++20", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
ZIG = [sys.executable, "-m", "ziglang", "c++"]
TOLERANCE = 1e-12
# What runs its programs here, if anything.
TARGETS = {
    "aarch64-linux-gnu.2.28": None,  # needs the libraries of that platform
    "aarch64-linux-musl": "qemu-aarch64-static",
    "x86_64-windows-gnu": "wine",
    "aarch64-macos": None,
    "x86_64-macos": None,
}
Forests = dict[str, list[float]]


def compile_for(target: str, folder: Path) -> Path:
    """Compile the program for a platform."""
    program = folder / f"platforms-{target}.exe"
    command = [*ZIG, "-target", target, *FLAGS, f"-I{ROOT / 'cpp' / 'include'}"]
    _run([*command, str(SOURCE), "-o", str(program)])
    return program


def forests_of(command: Sequence[str]) -> Forests:
    """Return the predictions that a program prints, by forest, without the hash of its arrays."""
    lines = _run(command).splitlines()
    return {name: [float(x) for x in rest] for name, _, *rest in map(str.split, lines)}


def largest_difference(found: Forests, expected: Forests) -> float:
    """Return by how much predictions differ at most, relatively where they are above 1."""
    pairs = [(a, b) for name in expected for a, b in zip(found[name], expected[name], strict=True)]
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in pairs)


def main() -> None:
    """Compile, run and compare; fail if one differs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = folder / "platforms"
        compiler = os.environ.get("CXX", "c++")
        _run(
            [
                compiler,
                *FLAGS,
                "-pthread",
                f"-I{ROOT / 'cpp' / 'include'}",
                str(SOURCE),
                "-o",
                str(own),
            ]
        )
        expected = forests_of([str(own)])
        failed = False
        for target, runner in TARGETS.items():
            program = compile_for(target, folder)
            if runner is None or shutil.which(runner) is None:
                print(f"{target}: compiled without a warning; nothing here runs it")
                continue
            gap = largest_difference(forests_of([runner, str(program)]), expected)
            failed |= not gap <= TOLERANCE or not math.isfinite(gap)
            print(f"{target}: predictions differ by {gap:.1e} at most")
    raise SystemExit(1 if failed else 0)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "WINEDEBUG": "-all"},
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])} … failed:\n{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
