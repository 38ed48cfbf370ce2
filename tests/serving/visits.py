"""Rows for servers: visits of a shop, with numbers, text, dates, bools and gaps."""

from __future__ import annotations

import random
from typing import Any


def visits(n_rows: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    """Return rows and labels."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    labels = []
    for i in range(n_rows):
        row: dict[str, Any] = {
            "page": draw.choice(["shoes", "books", "toys"]),
            "basket": round(draw.expovariate(0.05), 2),
            "returning": draw.random() < 0.4,
            "time": f"2026-03-{1 + i // 500 % 28:02}T{i % 24:02}:30:00",
        }
        if draw.random() < 0.1:
            row["basket"] = None
        labels.append("yes" if (row["basket"] or 0) > 20 and row["page"] != "toys" else "no")
        rows.append(row)
    return rows, labels


def numbers(n_rows: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[float]]:
    """Return rows of numbers, and numbers to predict."""
    draw = random.Random(seed)
    rows = [{"a": draw.uniform(-1, 1), "b": draw.uniform(0, 1e6)} for _ in range(n_rows)]
    return rows, [3 * row["a"] + draw.gauss(0, 0.1) for row in rows]
