"""Measures how much longer `amforest run` takes with --delay: python -m benchmarks.delayed_labels.

Runs with and without it alternate; the ratio is that of the medians of their CPU times, without
starting Python. The target is 1.3. It takes half a minute.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from sklearn.datasets import load_digits

from amforest.cli.run import run
from amforest.cli.settings import Settings, demo_stream

DELAY, PAIRS, TARGET = 100, 5, 1.3


def write_streams(folder: Path) -> dict[str, Settings]:
    """Write streams of two classes, of numbers and of ten classes; return how they are run."""
    visits = folder / "visits.csv"
    visits.write_bytes(demo_stream(8_000).getvalue())
    table = load_digits(as_frame=True).frame
    table.sample(frac=1, random_state=0).to_csv(folder / "digits.csv", index=False)
    shop, digits = (str(visits),), (str(folder / "digits.csv"),)
    quiet = Settings(quiet=True, as_json=True)
    return {
        "two classes": replace(quiet, source=shop, target="buys"),
        "two classes, amf": replace(quiet, source=shop, target="buys", model="amf"),
        "numbers": replace(quiet, source=shop, target="basket"),
        "ten classes": replace(quiet, source=digits, target="target"),
        "ten classes, amf": replace(quiet, source=digits, target="target", model="amf"),
    }


def measure(settings: Settings) -> float:
    """Return the CPU time of a run."""
    start = time.process_time()
    run(settings, Console(quiet=True))
    return time.process_time() - start


def main() -> None:
    """Print a line for each stream."""
    with tempfile.TemporaryDirectory() as folder:
        for name, at_once in write_streams(Path(folder)).items():
            delayed = replace(at_once, delay=DELAY)
            measure(delayed)  # what is imported late is imported now
            pairs = [(measure(at_once), measure(delayed)) for _ in range(PAIRS)]
            before, after = (statistics.median(times) for times in zip(*pairs, strict=True))
            verdict = "met" if after < TARGET * before else "missed"
            print(f"{name}: {before:.2f} s, with --delay {DELAY} {after:.2f} s, ratio "
                  f"{after / before:.2f}, target {TARGET}: {verdict}")  # fmt: skip


if __name__ == "__main__":
    main()
