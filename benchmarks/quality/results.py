"""The results of all sections, as one JSON file from which the page is written."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Table = dict[str, dict[str, Any]]
"""By stream (or another case), then by contender."""


@dataclass
class Results:
    """The last result of each section, with its date."""

    sections: dict[str, Any] = field(default_factory=dict)
    dates: dict[str, str] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def table(self, section: str) -> Table:
        """Return a section; empty if it was not measured."""
        result: Table = self.sections.get(section, {})
        return result

    def update(self, section: str, content: Table, *, is_partial: bool = False) -> None:
        """Replace a section; or only some cases, contender by contender."""
        kept = self.sections.get(section, {}) if is_partial else {}
        self.sections[section] = kept | {
            case: kept.get(case, {}) | row for case, row in content.items()
        }
        self.dates[section] = datetime.now(UTC).date().isoformat()

    def write(self, path: Path) -> None:
        """Write a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(vars(self), indent=1) + "\n", encoding="utf-8")


def read_results(path: Path) -> Results:
    """Return the results in a file; empty ones if there is none."""
    if not path.exists():
        return Results()
    return Results(**json.loads(path.read_text(encoding="utf-8")))
