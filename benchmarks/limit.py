"""The machine's limit: learning time divided by the time in which a core reads the visited nodes.

`limit.cpp` learns a stream with counters compiled in. In the same process it measures the read
bandwidth for a block of the forest's size, and how much of the time is spent waiting for memory.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.data import Stream
from benchmarks.timing import Table

FLOOR = "the machine's floor"
PAPER_FLOOR = "the floor of reading every range"
VISITS, BYTES, WORKING_SET, BANDWIDTH = "visits", "bytes", "working set", "bandwidth"
AS_THEY_COME, IN_CACHE, ONCE_MORE = "as they come", "in the cache", "once more"
WALK = "walk"
HEADER = 64  # bytes
HERE = Path(__file__).parent
# As in CMakeLists.txt, with counters.
FLAGS = "-std=c++20 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -DAMFOREST_COUNT"


def is_possible() -> bool:
    """Return whether a compiler is installed."""
    return _compiler() is not None


def measure(streams: Iterable[Stream], n_timed: int) -> Table:
    """Return seconds per sample, their parts, the floors, and the counts."""
    with tempfile.TemporaryDirectory() as folder:
        program = _compile(Path(folder))
        return {stream.name: _learn(program, stream, n_timed, Path(folder)) for stream in streams}


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "c++"))


def _compile(folder: Path) -> Path:
    program = folder / "limit"
    include = HERE.parent / "cpp" / "include"
    command = [str(_compiler()), *FLAGS.split(), f"-I{include}", str(HERE / "limit.cpp")]
    subprocess.run([*command, "-pthread", "-o", str(program)], check=True)
    return program


def _learn(program: Path, stream: Stream, n_timed: int, folder: Path) -> dict[str, float]:
    """Run the program on the stream, given as a file of features followed by labels."""
    path = folder / "stream"
    with path.open("wb") as file:
        stream.X.astype(np.float32).tofile(file)
        stream.y.astype(np.uint32).tofile(file)
    numbers = [*stream.X.shape, stream.n_classes, n_timed]
    output = subprocess.run(
        [program, path, *map(str, numbers)], check=True, capture_output=True, text=True
    ).stdout
    measured: dict[str, float] = json.loads(output)
    # Algorithm 5 in the paper reads the header and both corners of the range of each visited node.
    every_range = measured[VISITS] * (HEADER + 8 * stream.X.shape[1])
    return measured | {
        WALK: measured["amforest"] * measured[ONCE_MORE] / measured[AS_THEY_COME],
        FLOOR: measured[BYTES] / measured[BANDWIDTH],
        PAPER_FLOOR: every_range / measured[BANDWIDTH],
    }
