"""The result of a run: measurements, environment and figures."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.figures import Figure, Tables
from benchmarks.plan import Plan


@dataclass(frozen=True)
class Result:
    """The content of the documents."""

    plan: Plan
    real_data: bool
    minutes: float
    machine: dict[str, str]
    figures: list[Figure]
    tables: Tables

    def write_json(self, path: Path) -> None:
        """Write everything; costs are CPU seconds or bytes per row, unless their module differs."""
        content = asdict(self)
        content["figures"] = [asdict(f) | {"verdict": f.verdict} for f in self.figures]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
