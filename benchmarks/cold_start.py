"""Cold start: wall seconds from the import to the first prediction, each in a new process."""

import json
import subprocess
import sys
from collections.abc import Iterable

from benchmarks.timing import Medians, Table

TOTAL = "import to first prediction"


def measure(repetitions: Iterable[int], names: Iterable[str]) -> Table:
    names = list(names)
    medians = Medians()
    for _ in repetitions:
        for name in names:
            stages = _first_prediction(name)
            for stage, taken in stages.items():
                medians.add(stage, name, taken)
            medians.add(TOTAL, name, sum(stages.values()))
    return medians.table()


def _first_prediction(name: str) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.first_prediction", name]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    stages: dict[str, float] = json.loads(answer)
    return stages
