"""The machine's limit: learning time over the time in which a core reads the nodes visited.

`limit.cpp` learns a stream with counters compiled in, and measures the read bandwidth at the
forest's size in the same process, and how much of the time is waiting for memory.
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
# As in CMakeLists.txt, and the counters.
FLAGS = "-std=c++20 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -DAMFOREST_COUNT"


def is_possible() -> bool:
    """Return whether there is a compiler."""
    return _compiler() is not None


def measure(streams: Iterable[Stream], n_timed: int) -> Table:
    """Return seconds per sample, their parts, those of the floor, and what was counted."""
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
    found: dict[str, float] = json.loads(output)
    # Algorithm 5 as it is written: the header and both corners of the range of each node visited.
    every_range = found[VISITS] * (HEADER + 8 * stream.X.shape[1])
    return found | {
        WALK: found["amforest"] * found[ONCE_MORE] / found[AS_THEY_COME],
        FLOOR: found[BYTES] / found[BANDWIDTH],
        PAPER_FLOOR: every_range / found[BANDWIDTH],
    }
