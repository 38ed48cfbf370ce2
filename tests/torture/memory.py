"""The n-th allocation fails, n = 1, 2, …, over learning, predicting, saving and loading."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from faulty_calls import build, every_fault
from result import Report, Result

TITLE = "memory"


def run(report: Report, quick: bool) -> list[Result]:
    compiler = shutil.which("g++")
    if compiler is None:
        raise RuntimeError("needs g++, for the library that makes allocations fail")
    faults, sites, wrong = 0, set(), []
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder), compiler)
        for done, record in enumerate(every_fault(library, quick), start=1):
            report("calls", done, record["of"])
            faults += record["faults"]
            sites.update(record["sites"])
            wrong += [f"{record['call']}: {what}" for what in record["wrong"]]
    return [
        Result(
            "the N-th allocation of the core fails",
            faults,
            "MemoryError, model unchanged",
            not wrong and faults > 0,
            "\n".join(wrong[:10]) or f"{done} calls, {len(sites)} places in the code",
        )
    ]
