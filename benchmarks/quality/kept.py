"""Measurements that are kept as JSON, so that an interrupted run continues."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.quality.regression_contenders import EVERYONE

FOLDER = Path("build/quality")


def slug(text: str) -> str:
    """Return a text that is a file's name."""
    return re.sub(r"[^\w.+-]+", "_", text)


def kept(
    section: str,
    contender: str,
    case: Sequence[object],
    measure: Callable[[], Any],
    *,
    is_again: bool = False,
) -> Any:
    """Return a measurement of a contender: that of a file if there is one, or measured now."""
    owner = EVERYONE[contender]
    folder = FOLDER / section / slug(f"{owner.name} {owner.version}")
    path = folder / f"{slug('-'.join(map(str, case)))}.json"
    if path.exists() and not is_again:
        return json.loads(path.read_text(encoding="utf-8"))
    result = measure()
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result) + "\n", encoding="utf-8")
    partial.replace(path)
    return result
