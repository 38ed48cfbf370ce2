"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    texts = [list(row) for row in rows]
    rule = [_rule(column) for column in zip(*texts, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *texts))


def _rule(column: Sequence[str]) -> str:
    """Return the line beneath a heading: numbers are aligned to the right."""
    is_number = any(cell.lstrip("*-≥≤ ")[:1].isdigit() for cell in column)
    is_text = any(cell[:1].isalpha() for cell in column)
    return "---:" if is_number and not is_text else "---"
